/*
 * DPDK's hash table in place of the one of fib.h, under its readers-writer lock or by its read-copy-update.
 *
 * `rte-hash-rwl` looks up and writes in place under rte_rwlock, which spins and lets the writer go first.
 * `rte-hash-rcu` is its lock-free table (RW_CONCURRENCY_LF): a write is another pointer to another version of the
 * address, and the old one is used again once rte_rcu_qsbr says that every reader has rested since. Readers rest
 * between two batches. Versions come from memory that is there before the run. Assumes one reader and one writer.
 * Deliberately absent: the defer queue of rte_rcu_qsbr, which is marked experimental; the queue of old versions is
 * here.
 */
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_malloc.h>
#include <rte_rcu_qsbr.h>
#include <rte_rwlock.h>

#define LEAST_ENTRIES 8 /* rte_hash makes no smaller table */

struct hash_version {
    struct address address;
    uint64_t token; /* of when it was replaced */
    struct hash_version *next;
};

static struct {
    struct rte_hash *table;
    rte_rwlock_t lock;
    struct rte_rcu_qsbr *rests;
    struct hash_version *all, *oldest, **newest; /* `oldest` to `newest`: replaced, and not used again yet */
    int64_t given;
} hash;

static _Thread_local int is_reader;

static void hash_begin(struct fib *fib, int64_t versions, uint8_t flags) {
    struct rte_malloc_socket_stats before, after;
    begin_dpdk();
    uint32_t cells = (uint32_t)fib->mask + 1;
    struct rte_hash_parameters wanted = {.name = "fib", .entries = cells < LEAST_ENTRIES ? LEAST_ENTRIES : cells,
                                         .key_len = sizeof(int32_t), .hash_func = rte_hash_crc,
                                         .socket_id = SOCKET_ID_ANY, .extra_flag = flags};
    rte_malloc_get_socket_stats(0, &before);
    hash.table = rte_hash_create(&wanted);
    if (hash.table == 0) dpdk_failed("rte_hash_create", rte_errno);
    rte_malloc_get_socket_stats(0, &after);
    fib->bytes = after.heap_allocsz_bytes - before.heap_allocsz_bytes;
    hash.all = (struct hash_version *)lines((size_t)versions * sizeof *hash.all);
    for (uint64_t at = 0; at <= fib->mask; at++) {
        const struct cell *cell = &fib->cells[at];
        if (cell->user < 0) continue;
        hash.all[hash.given].address = cell->address;
        int error = rte_hash_add_key_data(hash.table, &cell->user, &hash.all[hash.given++]);
        if (error) dpdk_failed("rte_hash_add_key_data", error);
    }
}

static void hash_end(struct fib *fib) {
    (void)fib;
    rte_hash_free(hash.table);
    rte_free(hash.rests);
    free(hash.all);
}

/* What the table has of the user; all are there. */
static struct hash_version *hash_find(int32_t user) {
    void *version;
    int found = rte_hash_lookup_data(hash.table, &user, &version);
    if (found < 0) dpdk_failed("rte_hash_lookup_data", found);
    return (struct hash_version *)version;
}

static void hash_lock_begin(struct fib *fib, int64_t moves) {
    (void)moves;
    rte_rwlock_init(&hash.lock);
    hash_begin(fib, (int64_t)fib->mask + 1, 0);
    fib->bytes += (size_t)hash.given * sizeof *hash.all;
}

static struct address hash_lock_read(const struct fib *fib, int32_t user) {
    (void)fib;
    rte_rwlock_read_lock(&hash.lock);
    struct address address = hash_find(user)->address;
    rte_rwlock_read_unlock(&hash.lock);
    return address;
}

static void hash_lock_write(struct fib *fib, int32_t user, struct address address) {
    (void)fib;
    rte_rwlock_write_lock(&hash.lock);
    hash_find(user)->address = address;
    rte_rwlock_write_unlock(&hash.lock);
}

static void hash_rcu_begin(struct fib *fib, int64_t moves) {
    hash_begin(fib, moves + (int64_t)fib->mask + 1, RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF);
    size_t bytes = rte_rcu_qsbr_get_memsize(1);
    hash.rests = (struct rte_rcu_qsbr *)rte_zmalloc("rests", bytes, CACHE_LINE);
    if (hash.rests == 0 || rte_rcu_qsbr_init(hash.rests, 1)) dpdk_failed("rte_rcu_qsbr_init", rte_errno);
    fib->bytes += bytes;
    hash.newest = &hash.oldest;
    fib->version_bytes = sizeof *hash.all;
    fib->versions_most = hash.given;
}

/* A thread reads from its first call on. */
static struct address hash_rcu_read(const struct fib *fib, int32_t user) {
    (void)fib;
    if (!is_reader) {
        is_reader = !rte_rcu_qsbr_thread_register(hash.rests, 0);
        if (!is_reader) dpdk_failed("rte_rcu_qsbr_thread_register", rte_errno);
        rte_rcu_qsbr_thread_online(hash.rests, 0);
    }
    return hash_find(user)->address;
}

static void hash_rcu_rest(void) {
    if (is_reader) rte_rcu_qsbr_quiescent(hash.rests, 0);
}

static void hash_rcu_leave(void) {
    if (!is_reader) return;
    rte_rcu_qsbr_thread_offline(hash.rests, 0);
    rte_rcu_qsbr_thread_unregister(hash.rests, 0);
}

/* The version that was replaced first, if every reader has rested since, else one that was never used. */
static struct hash_version *hash_unused(void) {
    struct hash_version *oldest = hash.oldest;
    if (oldest == 0 || rte_rcu_qsbr_check(hash.rests, oldest->token, false) == 0) return &hash.all[hash.given++];
    hash.oldest = oldest->next;
    if (hash.oldest == 0) hash.newest = &hash.oldest;
    return oldest;
}

static void hash_rcu_write(struct fib *fib, int32_t user, struct address address) {
    struct hash_version *old = hash_find(user), *version = hash_unused();
    version->address = address;
    int error = rte_hash_add_key_data(hash.table, &user, version);
    if (error) dpdk_failed("rte_hash_add_key_data", error);
    old->next = 0;
    old->token = rte_rcu_qsbr_start(hash.rests);
    *hash.newest = old;
    hash.newest = &old->next;
    if (hash.given > fib->versions_most) fib->versions_most = hash.given;
}
