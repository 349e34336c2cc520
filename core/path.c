#include "core/path.h"

#include <stdint.h>
#include <string.h>

struct search {
    path_visitor *visitor;
    void *context;
};

static bool walk_array(const struct search *search, const bson_iter_t *array, const char *path);

static const char *component_end(const char *path)
{
    return path + strcspn(path, ".");
}

/* Is a path's first component this index of an array, in plain decimal digits? */
static bool component_is_index(const char *path, uint32_t index)
{
    char digits[16];
    const char *text;
    size_t len = bson_uint32_to_string(index, &text, digits, sizeof digits);
    return (size_t) (component_end(path) - path) == len && memcmp(path, text, len) == 0;
}

/* The end of the path, reached by a name. */
static bool show_leaf(const struct search *search, const bson_iter_t *value)
{
    bson_iter_t element;
    if (BSON_ITER_HOLDS_ARRAY(value) && bson_iter_recurse(value, &element)) {
        while (bson_iter_next(&element)) {
            if (search->visitor(search->context, &element))
                return true;
        }
    }
    return search->visitor(search->context, value);
}

/* `iter` is at the begin of a document, in front of its first element. */
static bool walk_document(const struct search *search, bson_iter_t *iter, const char *path)
{
    bson_iter_t inner;
    const char *end = component_end(path);
    if (!bson_iter_find_w_len(iter, path, (int) (end - path)))
        return search->visitor(search->context, NULL);
    if (*end == '\0')
        return show_leaf(search, iter);
    if (BSON_ITER_HOLDS_ARRAY(iter))
        return walk_array(search, iter, end + 1);
    if (BSON_ITER_HOLDS_DOCUMENT(iter) && bson_iter_recurse(iter, &inner))
        return walk_document(search, &inner, end + 1);
    return search->visitor(search->context, NULL);
}

/* An element whose index is the path's first component. */
static bool walk_indexed(const struct search *search, const bson_iter_t *element, const char *path)
{
    bson_iter_t inner;
    const char *end = component_end(path);
    if (*end == '\0')
        return search->visitor(search->context, element);
    if (BSON_ITER_HOLDS_ARRAY(element))
        return walk_array(search, element, end + 1);
    return BSON_ITER_HOLDS_DOCUMENT(element) && bson_iter_recurse(element, &inner) &&
           walk_document(search, &inner, end + 1);
}

static bool walk_array(const struct search *search, const bson_iter_t *array, const char *path)
{
    bson_iter_t element, inner;
    bool numeric = *path >= '0' && *path <= '9';
    if (!bson_iter_recurse(array, &element))
        return false;
    for (uint32_t index = 0; bson_iter_next(&element); index++) {
        if (BSON_ITER_HOLDS_DOCUMENT(&element) && bson_iter_recurse(&element, &inner) &&
            walk_document(search, &inner, path))
            return true;
        if (numeric && component_is_index(path, index) && walk_indexed(search, &element, path))
            return true;
    }
    return false;
}

bool path_visit(const bson_t *document, const char *path, path_visitor *visitor, void *context)
{
    const struct search search = {.visitor = visitor, .context = context};
    bson_iter_t iter;
    return bson_iter_init(&iter, document) && walk_document(&search, &iter, path);
}
