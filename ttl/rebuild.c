/*
 * rebuild.c - filing a whole subtree anew, in slices.
 *
 * The walk holds no lock between slices, so the tree may change under it. Each collection on its
 * way is pinned, and its place in a collection is a cookie, which stays good whatever happens to
 * the names around it. Names that appear meanwhile are filed when they appear.
 */
#include "ttl/filing.h"

#include "ttl/progress.h"

#include <errno.h>
#include <stdlib.h>

#define SLICE_DOCS 128
/* More are not gone through to count what there is to do. */
#define COUNTED_COLLECTIONS 1000

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
static bool walk_slice(
    struct ttl *ttl, struct walk_stack *stack, int64_t now_ms, struct progress *progress, int *err)
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
        progress->done++;
        one = visit(ttl, d, now_ms);
        *err = *err ? *err : one;
    }
    return true;
}

/*
 * How many documents there are below a collection: counted where that is quick, else all there are.
 */
static uint64_t count_below(const struct tree *tree, const struct collection *top)
{
    uint64_t all = tree->ndocuments - tree->ncollections, n = 0;
    if (top->doc.nlink == 2)
        return top->names.count;
    if (top == tree->root || tree->ncollections > COUNTED_COLLECTIONS)
        return all;
    for (const struct collection *c = tree->collections; c; c = c->all_next)
        if (c->doc.nlink && tree_is_below(c, top))
            n += c->names.count - (c->doc.nlink - 2);
    return n;
}

/* What the progress of a rebuild is called; its address tells it from other work. */
static const char rebuild_op[] = "indexBuild";

bool filing_is_rebuilding(const struct ttl *ttl, const struct collection *c)
{
    for (const struct progress *p = ttl->progress; p; p = p->next)
        if (p->op == rebuild_op && tree_is_below(c, p->at))
            return true;
    return false;
}

int filing_rebuild_for(struct ttl *ttl, struct collection *top, int64_t now_ms, const char *what)
{
    struct walk_stack stack = {0};
    struct progress progress = {.op = rebuild_op, .what = what, .at = top, .started_ms = now_ms};
    int err = push(&stack, top);
    if (err)
        return err;
    progress.total = count_below(ttl->tree, top);
    document_pin(&top->doc);
    progress_begin(ttl, &progress);
    while (stack.n) {
        walk_slice(ttl, &stack, now_ms, &progress, &err);
        tree_unlock(ttl->tree);
        tree_lock_background(ttl->tree);
    }
    progress_end(&progress);
    document_unpin(ttl->tree, &top->doc);
    free(stack.steps);
    return err;
}

int filing_rebuild(struct ttl *ttl, struct collection *top, int64_t now_ms)
{
    return filing_rebuild_for(ttl, top, now_ms, NULL);
}
