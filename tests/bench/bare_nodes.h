/*
 * bare_nodes.h - what bare_ll keeps in memory: nodes, a hash table of their names, one mutex.
 *
 * A header with its code, because every program in this folder is one source file. All functions
 * want the lock held.
 */
#ifndef TTLFS_TESTS_BENCH_BARE_NODES_H
#define TTLFS_TESTS_BENCH_BARE_NODES_H

#include <errno.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS (1u << 18)
#define TIMEOUT_S 86400.0
#define XATTR_BYTES 64

struct node {
    struct node *chain;       /* in the hash table */
    struct node *prev, *next; /* among its siblings */
    struct node *parent;      /* NULL: root, or no name */
    struct node *children;    /* directories: one of them, in a ring */
    uint64_t lookups, number;
    struct stat st;
    char *data;
    size_t room;
    char xattr_name[XATTR_BYTES], xattr_value[XATTR_BYTES];
    size_t xattr_bytes;
    uint32_t hash;
    char name[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *table[BUCKETS];
static struct node *root;

static struct node *node_of(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? root : (struct node *) (uintptr_t) ino;
}

static uint32_t hash_of(const struct node *parent, const char *name)
{
    uint64_t h = (uintptr_t) parent * 0x9E3779B97F4A7C15u;

    for (; *name; name++)
        h = (h ^ (unsigned char) *name) * 0x100000001B3u;
    return (uint32_t) (h ^ h >> 32) % BUCKETS;
}

static struct node *find(const struct node *parent, const char *name)
{
    struct node *n = table[hash_of(parent, name)];

    while (n && (n->parent != parent || strcmp(n->name, name) != 0))
        n = n->chain;
    return n;
}

static struct node *node_new(const char *name, mode_t mode, const struct fuse_ctx *ctx)
{
    size_t bytes = strlen(name) + 1;
    struct node *n = calloc(1, sizeof(*n) + bytes);

    if (!n)
        return NULL;
    memcpy(n->name, name, bytes);
    n->st.st_ino = root ? (uintptr_t) n : FUSE_ROOT_ID;
    n->st.st_mode = mode;
    n->st.st_nlink = S_ISDIR(mode) ? 2 : 1;
    n->st.st_uid = ctx ? ctx->uid : getuid();
    n->st.st_gid = ctx ? ctx->gid : getgid();
    clock_gettime(CLOCK_REALTIME, &n->st.st_mtim);
    n->st.st_atim = n->st.st_ctim = n->st.st_mtim;
    return n;
}

static void attach(struct node *n, struct node *parent)
{
    static uint64_t number;
    struct node *first = parent->children ? parent->children : n;

    n->hash = hash_of(parent, n->name);
    n->chain = table[n->hash];
    table[n->hash] = n;
    n->number = ++number;
    n->parent = parent;
    parent->children = first;
    n->next = first;
    n->prev = first == n ? n : first->prev;
    n->prev->next = first->prev = n;
}

static void detach(struct node *n)
{
    struct node **at = &table[n->hash];

    while (*at != n)
        at = &(*at)->chain;
    *at = n->chain;
    n->prev->next = n->next;
    n->next->prev = n->prev;
    if (n->parent->children == n)
        n->parent->children = n->next == n ? NULL : n->next;
    n->parent = NULL;
    n->st.st_nlink = 0;
}

static void forget_node(struct node *n, uint64_t lookups)
{
    n->lookups -= lookups;
    if (n->lookups || n->parent || n == root)
        return;
    free(n->data);
    free(n);
}

static struct fuse_entry_param entry_of(struct node *n, uint64_t lookups)
{
    struct fuse_entry_param e = {.attr_timeout = TIMEOUT_S, .entry_timeout = TIMEOUT_S};

    if (n) {
        n->lookups += lookups;
        e.ino = n->st.st_ino;
        e.attr = n->st;
    }
    return e;
}

static int grow(struct node *n, size_t size)
{
    size_t room = size < 256 ? 256 : size + size / 4;
    char *data = size > n->room ? realloc(n->data, room) : n->data;

    if (!data)
        return ENOMEM;
    if (size > n->room) {
        memset(data + n->room, 0, room - n->room);
        n->room = room;
        n->data = data;
    }
    n->st.st_size = (off_t) size;
    return 0;
}

#endif
