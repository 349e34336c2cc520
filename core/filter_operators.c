/*
 * From an expression to nodes: what is asked of one field.
 */
#include "core/filter_impl.h"

#include "core/number.h"

#include <errno.h>
#include <string.h>

/*
 * Is this a document of operators, {"$gt": 5}? Its first name decides; references to other
 * documents, {"$ref": …, "$id": …}, are values all the same.
 */
static bool is_operators(const bson_iter_t *value)
{
    bson_iter_t first, ref, id;
    if (!BSON_ITER_HOLDS_DOCUMENT(value) || !bson_iter_recurse(value, &first) ||
        !bson_iter_next(&first) || *bson_iter_key(&first) != '$')
        return false;
    return !(bson_iter_recurse(value, &ref) && bson_iter_find(&ref, "$ref") &&
             bson_iter_recurse(value, &id) && bson_iter_find(&id, "$id"));
}

static int add_regex(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *value, const char *pattern, const char *options)
{
    struct filter_node *node;
    int rc = filter_refuse_in_partial(compiler, "a regular expression");
    if (rc == 0)
        rc = filter_add_node(parent, FILTER_REGEX, path, &node);
    if (rc != 0)
        return rc;
    node->operand = *value;
    return regex_new(pattern, options, &node->regex, compiler->why);
}

static int add_regex_value(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *value)
{
    const char *options;
    const char *pattern = bson_iter_regex(value, &options);
    return add_regex(compiler, parent, path, value, pattern, options);
}

/* $eq, $gt and so on: `name` for messages. */
static int add_comparison(const struct filter_compiler *compiler, struct filter_node *parent,
    enum filter_op op, const char *name, const char *path, const bson_iter_t *value)
{
    struct filter_node *node;
    if (BSON_ITER_HOLDS_UNDEFINED(value))
        return reason_set(compiler->why, EINVAL, "%s cannot compare with undefined", name);
    if (BSON_ITER_HOLDS_REGEX(value)) {
        int rc = filter_refuse_in_partial(compiler, "a regular expression");
        if (rc != 0)
            return rc;
        if (op != FILTER_EQ)
            return reason_set(
                compiler->why, EINVAL, "%s cannot compare with a regular expression", name);
    }
    int rc = filter_add_node(parent, op, path, &node);
    if (rc == 0)
        node->operand = *value;
    return rc;
}

static int add_in(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *name, const char *path, const bson_iter_t *value)
{
    struct filter_node *node;
    bson_iter_t element;
    if (!BSON_ITER_HOLDS_ARRAY(value) || !bson_iter_recurse(value, &element))
        return reason_set(compiler->why, EINVAL, "%s needs an array", name);
    int rc = filter_add_node(parent, FILTER_IN, path, &node);
    if (rc != 0)
        return rc;
    node->operand = *value;
    while (rc == 0 && bson_iter_next(&element)) {
        if (BSON_ITER_HOLDS_UNDEFINED(&element))
            rc = reason_set(compiler->why, EINVAL, "%s cannot compare with undefined", name);
        else if (BSON_ITER_HOLDS_REGEX(&element))
            rc = add_regex_value(compiler, node, NULL, &element);
        else if (is_operators(&element))
            rc = reason_set(compiler->why, EINVAL, "%s cannot hold an operator", name);
    }
    return rc;
}

/* As MongoDB sees truth: everything but false, zero, null and undefined. */
static bool is_true(const bson_iter_t *value)
{
    if (BSON_ITER_HOLDS_BOOL(value))
        return bson_iter_bool(value);
    if (number_is(value))
        return !number_is_zero(value);
    return !BSON_ITER_HOLDS_NULL(value) && !BSON_ITER_HOLDS_UNDEFINED(value);
}

static int add_exists(struct filter_node *parent, const char *path, const bson_iter_t *value)
{
    struct filter_node *node;
    int rc = 0;
    if (!is_true(value)) {
        rc = filter_add_node(parent, FILTER_NOT, NULL, &node);
        parent = node;
    }
    return rc != 0 ? rc : filter_add_node(parent, FILTER_EXISTS, path, &node);
}

/* The names of types; a number is accepted for each, too. */
static const struct {
    const char *name;
    bson_type_t type;
    int number;
} types[] = {
    {"double", BSON_TYPE_DOUBLE, 1},
    {"string", BSON_TYPE_UTF8, 2},
    {"object", BSON_TYPE_DOCUMENT, 3},
    {"array", BSON_TYPE_ARRAY, 4},
    {"binData", BSON_TYPE_BINARY, 5},
    {"undefined", BSON_TYPE_UNDEFINED, 6},
    {"objectId", BSON_TYPE_OID, 7},
    {"bool", BSON_TYPE_BOOL, 8},
    {"date", BSON_TYPE_DATE_TIME, 9},
    {"null", BSON_TYPE_NULL, 10},
    {"regex", BSON_TYPE_REGEX, 11},
    {"dbPointer", BSON_TYPE_DBPOINTER, 12},
    {"javascript", BSON_TYPE_CODE, 13},
    {"symbol", BSON_TYPE_SYMBOL, 14},
    {"javascriptWithScope", BSON_TYPE_CODEWSCOPE, 15},
    {"int", BSON_TYPE_INT32, 16},
    {"timestamp", BSON_TYPE_TIMESTAMP, 17},
    {"long", BSON_TYPE_INT64, 18},
    {"decimal", BSON_TYPE_DECIMAL128, 19},
    {"minKey", BSON_TYPE_MINKEY, -1},
    {"maxKey", BSON_TYPE_MAXKEY, 127},
};

uint32_t filter_type_bit(bson_type_t type)
{
    if (type == BSON_TYPE_MINKEY)
        return UINT32_C(1) << 30;
    if (type == BSON_TYPE_MAXKEY)
        return UINT32_C(1) << 31;
    return (uint32_t) type < 30 ? UINT32_C(1) << type : 0;
}

/* Adds the types that one operand of $type names. */
static int add_one_type(
    const struct filter_compiler *compiler, const bson_iter_t *value, uint32_t *set)
{
    const char *name = BSON_ITER_HOLDS_UTF8(value) ? bson_iter_utf8(value, NULL) : NULL;
    if (!name && !number_is(value))
        return reason_set(compiler->why, EINVAL, "$type needs names or numbers of types");
    if (name && strcmp(name, "number") == 0) {
        *set |= filter_type_bit(BSON_TYPE_DOUBLE) | filter_type_bit(BSON_TYPE_INT32) |
                filter_type_bit(BSON_TYPE_INT64) | filter_type_bit(BSON_TYPE_DECIMAL128);
        return 0;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (name ? strcmp(name, types[i].name) == 0 : number_equals(value, types[i].number)) {
            *set |= filter_type_bit(types[i].type);
            return 0;
        }
    }
    return name ? reason_set(compiler->why, EINVAL, "$type: unknown type %s", name)
                : reason_set(compiler->why, EINVAL, "$type: unknown number of a type");
}

static int add_type(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *value)
{
    struct filter_node *node;
    bson_iter_t element;
    int rc = filter_add_node(parent, FILTER_TYPE, path, &node);
    if (rc != 0)
        return rc;
    if (!BSON_ITER_HOLDS_ARRAY(value) || !bson_iter_recurse(value, &element))
        return add_one_type(compiler, value, &node->types);
    while (rc == 0 && bson_iter_next(&element))
        rc = add_one_type(compiler, &element, &node->types);
    if (rc == 0 && node->types == 0)
        rc = reason_set(compiler->why, EINVAL, "$type needs at least one type");
    return rc;
}

/* A string without NUL inside, or NULL. */
static const char *plain_text(const bson_iter_t *value)
{
    uint32_t len;
    if (!BSON_ITER_HOLDS_UTF8(value))
        return NULL;
    const char *text = bson_iter_utf8(value, &len);
    return strlen(text) == len ? text : NULL;
}

/* {"$regex": …} among other operators, its options beside it. */
static int add_regex_operator(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *operators, const bson_iter_t *value)
{
    const char *pattern, *options = "";
    bson_iter_t sibling;
    bool beside = bson_iter_recurse(operators, &sibling) && bson_iter_find(&sibling, "$options");
    if (beside && !(options = plain_text(&sibling)))
        return reason_set(compiler->why, EINVAL, "$options needs a string");
    if (BSON_ITER_HOLDS_REGEX(value)) {
        const char *own_options;
        pattern = bson_iter_regex(value, &own_options);
        if (beside && *own_options)
            return reason_set(compiler->why, EINVAL, "options both in $regex and in $options");
        options = beside ? options : own_options;
    } else if (!(pattern = plain_text(value))) {
        return reason_set(compiler->why, EINVAL, "$regex needs a string");
    }
    return add_regex(compiler, parent, path, value, pattern, options);
}

static int compile_operators(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *operators);

/* $not and $ne, $nin: something below a negation. */
static int add_not(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *value)
{
    struct filter_node *node;
    const char *name = bson_iter_key(value);
    int rc = filter_refuse_in_partial(compiler, name);
    if (rc == 0)
        rc = filter_add_node(parent, FILTER_NOT, NULL, &node);
    if (rc != 0)
        return rc;
    if (strcmp(name, "$ne") == 0) {
        if (BSON_ITER_HOLDS_REGEX(value))
            return reason_set(
                compiler->why, EINVAL, "$ne cannot compare with a regular expression");
        return add_comparison(compiler, node, FILTER_EQ, name, path, value);
    }
    if (strcmp(name, "$nin") == 0)
        return add_in(compiler, node, name, path, value);
    if (BSON_ITER_HOLDS_REGEX(value))
        return add_regex_value(compiler, node, path, value);
    if (!is_operators(value))
        return reason_set(compiler->why, EINVAL, "$not needs operators or a regular expression");
    return compile_operators(compiler, node, path, value);
}

static const struct {
    const char *name;
    enum filter_op op;
} comparisons[] = {
    {"$eq", FILTER_EQ},
    {"$gt", FILTER_GT},
    {"$gte", FILTER_GTE},
    {"$lt", FILTER_LT},
    {"$lte", FILTER_LTE},
};

/* One operator of {"$gt": 5, "$lt": 9}: `value` is at it. */
static int compile_operator(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *operators, const bson_iter_t *value)
{
    const char *name = bson_iter_key(value);
    bson_iter_t sibling;
    for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
        if (strcmp(name, comparisons[i].name) == 0)
            return add_comparison(compiler, parent, comparisons[i].op, name, path, value);
    }
    if (strcmp(name, "$in") == 0)
        return add_in(compiler, parent, name, path, value);
    if (strcmp(name, "$exists") == 0)
        return add_exists(parent, path, value);
    if (strcmp(name, "$type") == 0)
        return add_type(compiler, parent, path, value);
    if (strcmp(name, "$ne") == 0 || strcmp(name, "$nin") == 0 || strcmp(name, "$not") == 0)
        return add_not(compiler, parent, path, value);
    if (strcmp(name, "$regex") == 0)
        return add_regex_operator(compiler, parent, path, operators, value);
    if (strcmp(name, "$options") == 0) {
        if (bson_iter_recurse(operators, &sibling) && bson_iter_find(&sibling, "$regex"))
            return 0;
        return reason_set(compiler->why, EINVAL, "$options without $regex");
    }
    return reason_set(compiler->why, EINVAL, "unknown operator %s", name);
}

static int compile_operators(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *operators)
{
    bson_iter_t iter;
    int rc = 0;
    if (!bson_iter_recurse(operators, &iter))
        return -EINVAL;
    while (rc == 0 && bson_iter_next(&iter))
        rc = compile_operator(compiler, parent, path, operators, &iter);
    return rc;
}

int filter_compile_field(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *value)
{
    if (is_operators(value))
        return compile_operators(compiler, parent, path, value);
    if (BSON_ITER_HOLDS_REGEX(value))
        return add_regex_value(compiler, parent, path, value);
    return add_comparison(compiler, parent, FILTER_EQ, path, path, value);
}
