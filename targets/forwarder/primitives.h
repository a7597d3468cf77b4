/* The list of primitives. */

#ifdef WITH_URCU
#include <urcu.h>

#include "rcu.h"
#endif

#ifdef WITH_DPDK
#include "eal.h"

#include "hash.h"
#endif

static const struct primitive primitives[] = {
    {.name = "none"}, /* no FIB: every packet goes straight back */
    {.name = "rwl-spin", .read = spin_read, .write = spin_write},
    {.name = "rwl-spin-readers", .read = spin_read, .write = spin_write_after_readers},
    {.name = "sharded", .begin = shard_begin, .read = shard_read, .write = shard_write},
    {.name = "rwl-park", .read = park_read, .write = park_write},
    {.name = "rwl-park-writer", .begin = park_begin_writer_first, .read = park_read, .write = park_write},
    {.name = "left-right", .begin = left_right_begin, .read = left_right_read, .write = left_right_write,
     .end = left_right_end},
    {.name = "seqlock", .read = sequence_read, .write = sequence_write},
#ifdef WITH_URCU
    {"rcu", rcu_begin, rcu_enter, rcu_read, rcu_write, rcu_leave, rcu_end, 0},
    {"rcu-sync", rcu_begin, rcu_enter, rcu_read, rcu_write_and_wait, rcu_leave, rcu_end, 0},
#endif
#ifdef WITH_DPDK
    {"rte-hash-rwl", hash_lock_begin, 0, hash_lock_read, hash_lock_write, 0, hash_end, 0},
    {"rte-hash-rcu", hash_rcu_begin, 0, hash_rcu_read, hash_rcu_write, hash_rcu_leave, hash_end, hash_rcu_rest},
#endif
};

/* Refuses a primitive that this program was built without. */
static inline void lacks(const char *name, const char *library) {
    fprintf(stderr, TARGET ": cannot use --fib %s: built without %s; run `make forwarder`\n", name, library);
    exit(1);
}

static const struct primitive *primitive_named(const char *name) {
    for (size_t at = 0; at < sizeof primitives / sizeof *primitives; at++)
        if (!strcmp(name, primitives[at].name)) return &primitives[at];
#ifndef WITH_URCU
    if (!strcmp(name, "rcu") || !strcmp(name, "rcu-sync")) lacks(name, "liburcu");
#endif
#ifndef WITH_DPDK
    if (!strcmp(name, "rte-hash-rwl") || !strcmp(name, "rte-hash-rcu")) lacks(name, "DPDK");
#endif
    refuse("--fib none, rwl-spin, rwl-spin-readers, rwl-park, rwl-park-writer, sharded, seqlock, left-right, rcu, "
           "rcu-sync, rte-hash-rwl or rte-hash-rcu", name);
    return 0;
}
