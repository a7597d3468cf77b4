/* The list of primitives. */

#ifdef WITH_URCU
#include <urcu.h>

#include "rcu.h"
#endif

static const struct primitive primitives[] = {
    {.name = "none"}, /* no FIB: every packet goes straight back */
    {.name = "rwl-spin", .read = spin_read, .write = spin_write},
    {.name = "rwl-park", .read = park_read, .write = park_write},
    {.name = "seqlock", .read = sequence_read, .write = sequence_write},
#ifdef WITH_URCU
    {"rcu", rcu_begin, rcu_enter, rcu_read, rcu_write, rcu_leave, rcu_end},
    {"rcu-sync", rcu_begin, rcu_enter, rcu_read, rcu_write_and_wait, rcu_leave, rcu_end},
#endif
};

static const struct primitive *primitive_named(const char *name) {
    for (size_t at = 0; at < sizeof primitives / sizeof *primitives; at++)
        if (!strcmp(name, primitives[at].name)) return &primitives[at];
#ifndef WITH_URCU
    if (!strcmp(name, "rcu") || !strcmp(name, "rcu-sync")) {
        fprintf(stderr, TARGET ": cannot use --fib %s: built without liburcu; run `make forwarder`\n", name);
        exit(1);
    }
#endif
    refuse("--fib none, rwl-spin, rwl-park, seqlock, rcu or rcu-sync", name);
    return 0;
}
