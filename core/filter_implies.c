/*
 * Does whatever matches one filter match another, that of a partial index?
 *
 * Each condition of the partial filter must follow from one condition of the query. Both speak of
 * some value at a path: what follows for that value, follows for the document.
 */
#include "core/compare.h"
#include "core/filter_impl.h"
#include "core/filter_plan.h"
#include "core/number.h"

#include <string.h>

static bool implies(const struct filter_node *query, const struct filter_node *wanted);

/* Can a comparison with this value only be met by a value of its own bracket? */
static bool is_ordinary(const bson_iter_t *value)
{
    switch (bson_iter_type(value)) {
    case BSON_TYPE_NULL:
    case BSON_TYPE_UNDEFINED:
    case BSON_TYPE_MINKEY:
    case BSON_TYPE_MAXKEY:
    case BSON_TYPE_REGEX:
    case BSON_TYPE_ARRAY:
        return false;
    default:
        return !number_is_nan(value);
    }
}

/* Does x <query> a imply x <wanted> b? */
static bool comparison_implies(const struct filter_node *query, const struct filter_node *wanted)
{
    const bson_iter_t *a = &query->operand, *b = &wanted->operand;
    if (!is_ordinary(a) || !is_ordinary(b) ||
        compare_bracket(bson_iter_type(a)) != compare_bracket(bson_iter_type(b)))
        return false;
    int order = compare_values(a, b);
    bool strict = query->op == FILTER_GT || query->op == FILTER_LT;
    bool low = query->op == FILTER_GT || query->op == FILTER_GTE || query->op == FILTER_EQ;
    bool high = query->op == FILTER_LT || query->op == FILTER_LTE || query->op == FILTER_EQ;
    switch (wanted->op) {
    case FILTER_EQ:
        return query->op == FILTER_EQ && order == 0;
    case FILTER_GT:
        return low && (order > 0 || (order == 0 && strict));
    case FILTER_GTE:
        return low && order >= 0;
    case FILTER_LT:
        return high && (order < 0 || (order == 0 && strict));
    case FILTER_LTE:
        return high && order <= 0;
    default:
        return false;
    }
}

/* A condition that is {path: value} for one value of a list. */
static struct filter_node equal_to(const struct filter_node *in, const bson_iter_t *value)
{
    return (struct filter_node){.op = FILTER_EQ, .path = in->path, .operand = *value};
}

/* Each value of the query's list. */
static bool each_implies(const struct filter_node *query, const struct filter_node *wanted)
{
    bson_iter_t element;
    if (query->child || !bson_iter_recurse(&query->operand, &element))
        return false;
    while (bson_iter_next(&element)) {
        struct filter_node one = equal_to(query, &element);
        if (!implies(&one, wanted))
            return false;
    }
    return true;
}

/* Some value of the wanted list. */
static bool implies_one_of(const struct filter_node *query, const struct filter_node *wanted)
{
    bson_iter_t element;
    if (!bson_iter_recurse(&wanted->operand, &element))
        return false;
    while (bson_iter_next(&element)) {
        struct filter_node one = equal_to(wanted, &element);
        if (implies(query, &one))
            return true;
    }
    return false;
}

static bool is_comparison(const struct filter_node *node)
{
    return node->op >= FILTER_EQ && node->op <= FILTER_LTE;
}

static bool leaf_implies(const struct filter_node *query, const struct filter_node *wanted)
{
    if (!query->path || !wanted->path || strcmp(query->path, wanted->path) != 0)
        return false;
    if (query->op == FILTER_IN)
        return each_implies(query, wanted);
    if (wanted->op == FILTER_IN)
        return implies_one_of(query, wanted);
    if (wanted->op == FILTER_EXISTS)
        return query->op == FILTER_EXISTS || query->op == FILTER_REGEX ||
               query->op == FILTER_TYPE || (is_comparison(query) && is_ordinary(&query->operand));
    if (wanted->op == FILTER_TYPE && query->op == FILTER_TYPE)
        return (query->types & ~wanted->types) == 0;
    return is_comparison(query) && is_comparison(wanted) && comparison_implies(query, wanted);
}

/* One condition of the query, and one that is wanted. */
static bool implies(const struct filter_node *query, const struct filter_node *wanted)
{
    const struct filter_node *node;
    switch (wanted->op) {
    case FILTER_AND:
        for (node = wanted->child; node; node = node->next)
            if (!implies(query, node))
                return false;
        return true;
    case FILTER_OR:
        for (node = wanted->child; node; node = node->next)
            if (implies(query, node))
                return true;
        break;
    default:
        break;
    }
    switch (query->op) {
    case FILTER_AND:
        for (node = query->child; node; node = node->next)
            if (implies(node, wanted))
                return true;
        return false;
    case FILTER_OR:
        for (node = query->child; node; node = node->next)
            if (!implies(node, wanted))
                return false;
        return query->child != NULL;
    case FILTER_NOT:
    case FILTER_NOR:
        return false;
    default:
        return leaf_implies(query, wanted);
    }
}

bool filter_implies(const struct filter *filter, const struct filter *partial)
{
    return !partial || implies(filter->root, partial->root);
}

static bool node_reads_other(const struct filter_node *node, bool (*known)(const char *path))
{
    for (; node; node = node->next) {
        if ((node->path && !known(node->path)) || node_reads_other(node->child, known))
            return true;
    }
    return false;
}

bool filter_reads_other(const struct filter *filter, bool (*known)(const char *path))
{
    return node_reads_other(filter->root, known);
}
