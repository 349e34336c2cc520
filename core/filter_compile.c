/*
 * From an expression to nodes: the tree. What is asked of one field is in filter_operators.c.
 */
#include "core/filter_impl.h"

#include "core/bsonx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void node_free(struct filter_node *node)
{
    while (node) {
        struct filter_node *next = node->next;
        node_free(node->child);
        regex_free(node->regex);
        free(node);
        node = next;
    }
}

static struct filter_node *node_new(enum filter_op op, const char *path)
{
    /* An iterator is aligned more strictly than what malloc gives. */
    struct filter_node *node = aligned_alloc(_Alignof(struct filter_node), sizeof *node);
    if (!node)
        return NULL;
    memset(node, 0, sizeof *node);
    node->op = op;
    node->path = path;
    return node;
}

int filter_add_node(
    struct filter_node *parent, enum filter_op op, const char *path, struct filter_node **ret_node)
{
    struct filter_node *node = node_new(op, path);
    if (!node)
        return -ENOMEM;
    if (parent->last)
        parent->last->next = node;
    else
        parent->child = node;
    parent->last = node;
    *ret_node = node;
    return 0;
}

int filter_refuse_in_partial(const struct filter_compiler *compiler, const char *what)
{
    if (compiler->flags & FILTER_QUERY)
        return 0;
    return reason_set(
        compiler->why, EINVAL, "%s is not allowed in a partialFilterExpression", what);
}

static int check_path(const struct filter_compiler *compiler, const char *path)
{
    for (const char *component = path;; component++) {
        size_t len = strcspn(component, ".");
        if (len == 0)
            return reason_set(compiler->why, EINVAL, "an empty name in the path \"%s\"", path);
        if (*component == '$')
            return reason_set(
                compiler->why, EINVAL, "a name that begins with $ in the path \"%s\"", path);
        component += len;
        if (*component == '\0')
            return 0;
    }
}

static int compile_expression(
    const struct filter_compiler *compiler, struct filter_node *parent, bson_iter_t *iter);

/* $and, $or, $nor: an array of at least one expression. */
static int compile_branches(const struct filter_compiler *compiler, struct filter_node *parent,
    enum filter_op op, const bson_iter_t *value)
{
    struct filter_node *node, *branch;
    bson_iter_t element, inner;
    const char *name = bson_iter_key(value);
    int rc = filter_add_node(parent, op, NULL, &node);
    if (rc != 0)
        return rc;
    if (!BSON_ITER_HOLDS_ARRAY(value) || !bson_iter_recurse(value, &element))
        return reason_set(compiler->why, EINVAL, "%s needs an array", name);
    while (rc == 0 && bson_iter_next(&element)) {
        if (!BSON_ITER_HOLDS_DOCUMENT(&element) || !bson_iter_recurse(&element, &inner))
            return reason_set(compiler->why, EINVAL, "%s needs an array of objects", name);
        rc = filter_add_node(node, FILTER_AND, NULL, &branch);
        if (rc == 0)
            rc = compile_expression(compiler, branch, &inner);
    }
    if (rc == 0 && !node->child)
        rc = reason_set(compiler->why, EINVAL, "%s needs a non-empty array", name);
    return rc;
}

static int compile_top_operator(
    const struct filter_compiler *compiler, struct filter_node *parent, const bson_iter_t *value)
{
    const char *name = bson_iter_key(value);
    if (strcmp(name, "$and") == 0)
        return compile_branches(compiler, parent, FILTER_AND, value);
    if (strcmp(name, "$or") == 0)
        return compile_branches(compiler, parent, FILTER_OR, value);
    if (strcmp(name, "$nor") == 0) {
        int rc = filter_refuse_in_partial(compiler, name);
        return rc != 0 ? rc : compile_branches(compiler, parent, FILTER_NOR, value);
    }
    return reason_set(compiler->why, EINVAL, "unknown top-level operator %s", name);
}

/* `iter` is in front of the first element of an expression. */
static int compile_expression(
    const struct filter_compiler *compiler, struct filter_node *parent, bson_iter_t *iter)
{
    int rc = 0;
    while (rc == 0 && bson_iter_next(iter)) {
        const char *name = bson_iter_key(iter);
        if (*name == '$') {
            rc = compile_top_operator(compiler, parent, iter);
        } else {
            rc = check_path(compiler, name);
            if (rc == 0)
                rc = filter_compile_field(compiler, parent, name, iter);
        }
    }
    return rc;
}

static int compile(struct filter *filter, unsigned int flags, struct reason *why)
{
    const struct filter_compiler compiler = {.flags = flags, .why = why};
    bson_iter_t iter;
    filter->root = node_new(FILTER_AND, NULL);
    if (!filter->root || !bson_iter_init(&iter, filter->expression))
        return -ENOMEM;
    return compile_expression(&compiler, filter->root, &iter);
}

int filter_new(
    const bson_t *expression, unsigned int flags, struct filter **ret_filter, struct reason *why)
{
    /* This bounds every descent into the expression from here on. */
    if (!bsonx_is_valid(bson_get_data(expression), expression->len, FILTER_MAX_DEPTH))
        return reason_set(why, EINVAL,
            "a filter that is nested more than %d deep, or is no valid BSON", FILTER_MAX_DEPTH);
    int rc = bsonx_check_memory(expression->len + sizeof *expression);
    if (rc != 0)
        return rc;
    struct filter *filter = calloc(1, sizeof *filter);
    if (!filter)
        return -ENOMEM;
    filter->expression = bson_copy(expression);
    rc = filter->expression ? compile(filter, flags, why) : -ENOMEM;
    if (rc != 0) {
        filter_free(filter);
        return rc;
    }
    *ret_filter = filter;
    return 0;
}

void filter_free(struct filter *filter)
{
    if (!filter)
        return;
    node_free(filter->root);
    bson_destroy(filter->expression);
    free(filter);
}

const bson_t *filter_expression(const struct filter *filter)
{
    return filter->expression;
}

static bool same_operand(const struct filter_node *a, const struct filter_node *b)
{
    bson_t x = BSON_INITIALIZER, y = BSON_INITIALIZER;
    bool same = bson_append_iter(&x, "", 0, &a->operand) &&
                bson_append_iter(&y, "", 0, &b->operand) && bson_equal(&x, &y);
    bson_destroy(&x);
    bson_destroy(&y);
    return same;
}

static bool same_node(const struct filter_node *a, const struct filter_node *b)
{
    if (a->op != b->op || a->types != b->types || a->regex || b->regex ||
        (a->path == NULL) != (b->path == NULL) || (a->path && strcmp(a->path, b->path) != 0))
        return false;
    bool leaf = a->op >= FILTER_EQ && a->op <= FILTER_IN;
    if (leaf && !same_operand(a, b))
        return false;
    const struct filter_node *x = a->child, *y = b->child;
    for (; x && y; x = x->next, y = y->next)
        if (!same_node(x, y))
            return false;
    return x == y;
}

bool filter_equal(const struct filter *a, const struct filter *b)
{
    if (!a || !b)
        return a == b;
    return bson_equal(a->expression, b->expression) || same_node(a->root, b->root);
}

/* Is one path the other, or a path below it? */
static bool paths_overlap(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return (*a == '\0' && (*b == '\0' || *b == '.')) || (*b == '\0' && *a == '.');
}

static bool node_reads(const struct filter_node *node, const char *name)
{
    for (; node; node = node->next) {
        if ((node->path && paths_overlap(node->path, name)) || node_reads(node->child, name))
            return true;
    }
    return false;
}

bool filter_reads(const struct filter *filter, const char *name)
{
    return node_reads(filter->root, name);
}
