/*
 * filter_impl.h - a compiled filter; shared by filter*.c alone.
 */
#ifndef TTLFS_CORE_FILTER_IMPL_H
#define TTLFS_CORE_FILTER_IMPL_H

#include "core/filter.h"
#include "core/regex.h"

#include <stdint.h>

enum filter_op {
    FILTER_AND,
    FILTER_OR,
    FILTER_NOR,
    FILTER_NOT, /* not all of its children */
    FILTER_EQ,
    FILTER_GT,
    FILTER_GTE,
    FILTER_LT,
    FILTER_LTE,
    FILTER_IN,
    FILTER_REGEX,
    FILTER_EXISTS,
    FILTER_TYPE
};

struct filter_node {
    enum filter_op op;
    uint32_t types;            /* of FILTER_TYPE: see filter_type_bit */
    struct regex *regex;       /* of FILTER_REGEX */
    const char *path;          /* of what looks at values; inside the filter's expression */
    struct filter_node *child; /* the first; of FILTER_IN: the regular expressions in the list */
    struct filter_node *last;  /* child */
    struct filter_node *next;  /* of the same parent */
    bson_iter_t operand;       /* of what has one; inside the filter's expression */
};

struct filter {
    bson_t *expression; /* owned; nodes point into it, so it never moves */
    struct filter_node *root;
};

/* What every step of compiling needs to know. */
struct filter_compiler {
    unsigned int flags;
    struct reason *why;
};

/* A new node, last below its parent, which owns it from here on. Errors: -ENOMEM. */
int filter_add_node(
    struct filter_node *parent, enum filter_op op, const char *path, struct filter_node **ret_node);

/* -EINVAL with the reason unless this compiles a query. */
int filter_refuse_in_partial(const struct filter_compiler *compiler, const char *what);

/* What one path is asked, {path: value}: adds it below `parent`. Errors: -EINVAL, -ENOMEM. */
int filter_compile_field(const struct filter_compiler *compiler, struct filter_node *parent,
    const char *path, const bson_iter_t *value);

/* The bit of a type in filter_node.types. */
uint32_t filter_type_bit(bson_type_t type);

#endif
