/*
 * rebuild.c - filing a whole subtree anew, in slices.
 *
 * The walk holds no lock between slices, so the tree may change under it. Each collection on its
 * way is pinned, and its place in a collection is a cookie, which stays good whatever happens to
 * the names around it. Names that appear meanwhile are filed when they appear.
 */
#include "ttl/filing.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE_DOCS 128

struct walk {
    struct collection *at;
    uint64_t cookie;
};

struct walk_stack {
    struct walk *steps;
    size_t n, cap;
};

static int push(struct walk_stack *stack, struct collection *c)
{
    if (stack->n == stack->cap) {
        size_t cap = stack->cap ? stack->cap * 2 : 16;
        struct walk *more = realloc(stack->steps, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        stack->steps = more;
        stack->cap = cap;
    }
    document_pin(&c->doc);
    stack->steps[stack->n++] = (struct walk){c, 0};
    return 0;
}

static void pop(struct ttl *ttl, struct walk_stack *stack)
{
    document_unpin(ttl->tree, &stack->steps[--stack->n].at->doc);
}

/* One name; may let go of the lock. */
static int visit(struct ttl *ttl, struct dentry *d, int64_t now_ms)
{
    struct document *doc = d->doc;
    const struct ruleset *rs = ruleset_of(ttl, d->parent);
    if (!rs)
        return -ENOMEM;
    /* Always first: it takes the name out of indexes that are being dropped. */
    int err = filing_update(ttl, d, NULL);
    if (err || !rs->needs_fields || !S_ISREG(doc->mode))
        return err;
    doc->flags |= DOCUMENT_FIELDS_STALE;
    int looked = filing_look(ttl, doc, now_ms);
    return looked < 0 ? looked : 0;
}

/* A slice of the walk's topmost collection. Returns false when that has been left. */
static bool walk_slice(struct ttl *ttl, struct walk_stack *stack, int64_t now_ms, int *err)
{
    for (int i = 0; i < SLICE_DOCS; i++) {
        struct walk *step = &stack->steps[stack->n - 1];
        struct dentry *d = names_after(&step->at->names, step->cookie);
        if (!d) {
            pop(ttl, stack);
            return false;
        }
        step->cookie = names_cookie(d);
        int one = 0;
        if (document_is_collection(d->doc)) {
            one = push(stack, document_collection(d->doc));
            *err = *err ? *err : one;
            return true;
        }
        one = visit(ttl, d, now_ms);
        *err = *err ? *err : one;
    }
    return true;
}

/* A subtree being filed anew, for those who ask meanwhile. */
struct rebuild {
    const struct collection *top;
    struct rebuild *next;
};

bool filing_is_rebuilding(const struct ttl *ttl, const struct collection *c)
{
    for (const struct rebuild *r = ttl->rebuilds; r; r = r->next)
        if (tree_is_below(c, r->top))
            return true;
    return false;
}

static void rebuild_end(struct ttl *ttl, const struct rebuild *rebuild)
{
    struct rebuild **at = &ttl->rebuilds;
    while (*at != rebuild)
        at = &(*at)->next;
    *at = rebuild->next;
}

int filing_rebuild(struct ttl *ttl, struct collection *top, int64_t now_ms)
{
    struct walk_stack stack = {0};
    int err = push(&stack, top);
    if (err)
        return err;
    struct rebuild rebuild = {.top = top, .next = ttl->rebuilds};
    ttl->rebuilds = &rebuild;
    while (stack.n) {
        walk_slice(ttl, &stack, now_ms, &err);
        tree_unlock(ttl->tree);
        tree_lock_background(ttl->tree);
    }
    rebuild_end(ttl, &rebuild);
    free(stack.steps);
    return err;
}
