/*
 * Columns as wide as their widest cell. The last one is not padded.
 */
#include "mount-helpers/ttlctl.h"

#include <stdlib.h>
#include <string.h>

void ctl_table_add(struct ctl_table *table, const char *text)
{
    if (table->n == table->size) {
        table->size = table->size ? 2 * table->size : 64;
        table->cells = realloc(table->cells, table->size * sizeof *table->cells);
        if (!table->cells)
            abort();
    }
    table->cells[table->n++] = ctl_escape(text);
}

void ctl_table_add_number(struct ctl_table *table, int64_t number)
{
    char text[32];
    (void) snprintf(text, sizeof text, "%lld", (long long) number);
    ctl_table_add(table, text);
}

static void print_cell(
    const struct ctl_table *table, FILE *out, size_t column, const char *cell, size_t width)
{
    size_t own = ctl_width(cell);
    int padding = own < width ? (int) (width - own) : 0;
    const char *gap = column > 0 ? "  " : "";
    if (table->right >> column & 1)
        fprintf(out, "%s%*s%s", gap, padding, "", cell);
    else if (column + 1 < table->columns)
        fprintf(out, "%s%s%*s", gap, cell, padding, "");
    else
        fprintf(out, "%s%s", gap, cell);
}

void ctl_table_print(struct ctl_table *table, FILE *out, bool with_heads, size_t max_rows)
{
    size_t widths[CTL_TABLE_COLUMNS] = {0};
    size_t shown = table->n / table->columns;
    if (shown > max_rows)
        shown = max_rows;
    for (size_t i = 0; i < table->columns && with_heads; i++)
        widths[i] = strlen(table->heads[i]);
    for (size_t i = 0; i < shown * table->columns; i++) {
        size_t width = ctl_width(table->cells[i]);
        if (width > widths[i % table->columns])
            widths[i % table->columns] = width;
    }
    for (size_t i = 0; i < table->columns && with_heads; i++)
        print_cell(table, out, i, table->heads[i], widths[i]);
    if (with_heads)
        putc('\n', out);
    for (size_t i = 0; i < shown * table->columns; i++) {
        size_t column = i % table->columns;
        print_cell(table, out, column, table->cells[i], widths[column]);
        if (column + 1 == table->columns)
            putc('\n', out);
    }
    for (size_t i = 0; i < table->n; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->n = table->size = 0;
}
