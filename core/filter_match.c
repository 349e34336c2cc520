/*
 * Does a document match?
 */
#include "core/filter_impl.h"

#include "core/compare.h"
#include "core/number.h"
#include "core/path.h"

/* Comparisons as bits: does the operator accept less, equal, greater? */
#define ACCEPTS_LESS 1u
#define ACCEPTS_EQUAL 2u
#define ACCEPTS_GREATER 4u

static unsigned int accepted_by(enum filter_op op)
{
    switch (op) {
    case FILTER_GT:
        return ACCEPTS_GREATER;
    case FILTER_GTE:
        return ACCEPTS_GREATER | ACCEPTS_EQUAL;
    case FILTER_LT:
        return ACCEPTS_LESS;
    case FILTER_LTE:
        return ACCEPTS_LESS | ACCEPTS_EQUAL;
    default:
        return ACCEPTS_EQUAL;
    }
}

static bool is_null_or_undefined(bson_type_t type)
{
    return type == BSON_TYPE_NULL || type == BSON_TYPE_UNDEFINED;
}

/*
 * Values of different brackets do not compare, with two exceptions: null, undefined and missing
 * are equal, and MinKey and MaxKey lie beyond everything. NaN equals NaN and is neither less nor
 * greater than any number.
 * @value  NULL when it is missing
 */
static bool compares(const bson_iter_t *value, const bson_iter_t *operand, unsigned int accepts)
{
    bson_type_t operand_type = bson_iter_type(operand);
    bson_type_t type = value ? bson_iter_type(value) : BSON_TYPE_UNDEFINED;
    if (!value || compare_bracket(type) != compare_bracket(operand_type)) {
        if (is_null_or_undefined(type) && is_null_or_undefined(operand_type))
            return accepts & ACCEPTS_EQUAL;
        if (operand_type == BSON_TYPE_MINKEY)
            return accepts & ACCEPTS_GREATER;
        return operand_type == BSON_TYPE_MAXKEY && (accepts & ACCEPTS_LESS);
    }
    if (number_is(value)) {
        bool value_nan = number_is_nan(value), operand_nan = number_is_nan(operand);
        if (value_nan || operand_nan)
            return value_nan && operand_nan && (accepts & ACCEPTS_EQUAL);
    }
    int order = compare_values(value, operand);
    return accepts & (order < 0 ? ACCEPTS_LESS : order > 0 ? ACCEPTS_GREATER : ACCEPTS_EQUAL);
}

static bool regex_matches(const struct filter_node *node, const bson_iter_t *value)
{
    uint32_t len;
    const char *text;
    if (BSON_ITER_HOLDS_UTF8(value))
        text = bson_iter_utf8(value, &len);
    else if (BSON_ITER_HOLDS_SYMBOL(value))
        text = bson_iter_symbol(value, &len);
    else
        return BSON_ITER_HOLDS_REGEX(value) && BSON_ITER_HOLDS_REGEX(&node->operand) &&
               compare_values(value, &node->operand) == 0;
    return regex_search(node->regex, text, len);
}

static bool is_in(const struct filter_node *node, const bson_iter_t *value)
{
    bson_iter_t element;
    if (bson_iter_recurse(&node->operand, &element)) {
        while (bson_iter_next(&element)) {
            if (compares(value, &element, ACCEPTS_EQUAL))
                return true;
        }
    }
    for (const struct filter_node *regex = node->child; value && regex; regex = regex->next) {
        if (regex_matches(regex, value))
            return true;
    }
    return false;
}

static bool visit_value(void *context, const bson_iter_t *value)
{
    const struct filter_node *node = context;
    switch (node->op) {
    case FILTER_IN:
        return is_in(node, value);
    case FILTER_REGEX:
        return value && regex_matches(node, value);
    case FILTER_EXISTS:
        return value;
    case FILTER_TYPE:
        return value && (node->types & filter_type_bit(bson_iter_type(value)));
    default:
        return compares(value, &node->operand, accepted_by(node->op));
    }
}

static bool node_matches(const struct filter_node *node, const bson_t *fields);

static bool all_match(const struct filter_node *node, const bson_t *fields)
{
    for (; node; node = node->next) {
        if (!node_matches(node, fields))
            return false;
    }
    return true;
}

static bool any_matches(const struct filter_node *node, const bson_t *fields)
{
    for (; node; node = node->next) {
        if (node_matches(node, fields))
            return true;
    }
    return false;
}

static bool node_matches(const struct filter_node *node, const bson_t *fields)
{
    switch (node->op) {
    case FILTER_AND:
        return all_match(node->child, fields);
    case FILTER_OR:
        return any_matches(node->child, fields);
    case FILTER_NOR:
        return !any_matches(node->child, fields);
    case FILTER_NOT:
        return !all_match(node->child, fields);
    default:
        return path_visit(fields, node->path, visit_value, (void *) node);
    }
}

bool filter_match(const struct filter *filter, const bson_t *fields)
{
    return node_matches(filter->root, fields);
}
