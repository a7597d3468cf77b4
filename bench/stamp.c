/*
 * stamp - what one stamp costs, beside what reading the counter costs in the same run.
 *
 *     stamp CPU ROUNDS STAMPS PAUSE_US LIBRARY
 *
 * Rounds and lines: rounds.h; at the end `count NAME NUMBER` lines.
 *
 * A block may hold the change to a new block of shared memory (one in 1012 slim stamps): medians do not show it, p90 does.
 */
#include "rounds.h"

#include <dlfcn.h>

static tickscope_channel *plain, *before, *after, *wide, *full, *off, *given, *realtime, *brackets;
static void (*library_stamp)(int64_t), (*library_rdtsc)(int64_t);

static inline __attribute__((always_inline)) void stamp_part(int64_t id) {
    int64_t parent = id >> 3;
    tickscope_stamp_with(full, id, (struct tickscope_extra){.kind = 1, .value = id, .parent = &parent, .batch = 8});
}

BLOCK(block_nothing, KEEP(id))
BLOCK(block_rdtsc, KEEP(tickscope__plain()))
BLOCK(block_rdtscp, KEEP(rdtscp()))
BLOCK(block_rdtsc_lfence, KEEP(tickscope__before()))
BLOCK(block_lfence_rdtsc, KEEP(tickscope__after()))
BLOCK(block_clock_gettime, KEEP(clock_monotonic()))
BLOCK(block_plain, tickscope_stamp(plain, id))
BLOCK(block_before, tickscope_stamp(before, id))
BLOCK(block_after, tickscope_stamp(after, id))
BLOCK(block_wide, tickscope_stamp_with(wide, id, (struct tickscope_extra){.kind = 1, .value = id}))
BLOCK(block_full, stamp_part(id))
BLOCK(block_off, tickscope_stamp(off, id))
BLOCK(block_record, tickscope_record(given, id, id + 1))
BLOCK(block_realtime, tickscope_stamp(realtime, id))
BLOCK(block_bracket, tickscope_bracket(brackets))
BLOCK(block_library, library_stamp(id))
BLOCK(block_library_rdtsc, library_rdtsc(id))

static const struct variant variants[] = {
    {"nothing", block_nothing},
    {"rdtsc", block_rdtsc},
    {"rdtscp", block_rdtscp},
    {"rdtsc;lfence", block_rdtsc_lfence},
    {"lfence;rdtsc", block_lfence_rdtsc},
    {"clock_gettime", block_clock_gettime},
    {"plain", block_plain},
    {"before", block_before},
    {"after", block_after},
    {"wide", block_wide},
    {"full", block_full},
    {"off", block_off},
    {"record", block_record},
    {"realtime", block_realtime},
    {"bracket", block_bracket},
    {"library", block_library},
    {"library rdtsc", block_library_rdtsc},
};

static void fail(const char *what) {
    fprintf(stderr, "stamp: %s\n", what);
    exit(1);
}

static void open_channels(const char *library) {
    void *loaded = dlopen(library, RTLD_NOW);
    if (loaded == 0) fail(dlerror());
    *(void **)&library_stamp = dlsym(loaded, "library_stamp");
    *(void **)&library_rdtsc = dlsym(loaded, "library_rdtsc");
    plain = tickscope_open("plain", TICKSCOPE_PLAIN, 0);
    before = tickscope_open("before", TICKSCOPE_BEFORE, 0);
    after = tickscope_open("after", TICKSCOPE_AFTER, 0);
    wide = tickscope_open("wide", TICKSCOPE_PLAIN, TICKSCOPE_WIDE);
    full = tickscope_open("full", TICKSCOPE_PLAIN, TICKSCOPE_FULL);
    off = tickscope_open("off", TICKSCOPE_PLAIN, 0);
    given = tickscope_open("given", TICKSCOPE_PLAIN, 0);
    realtime = tickscope_open_clock("realtime", TICKSCOPE_REALTIME, TICKSCOPE_PLAIN, 0);
    brackets = tickscope_open_bracket(TICKSCOPE_REALTIME);
    if (plain->entry == 0 || library_stamp == 0 || library_rdtsc == 0) fail("expected channels that are on, found none");
}

static void print_dropped(const char *library) {
    uint64_t (*library_dropped)(void);
    *(void **)&library_dropped = dlsym(dlopen(library, RTLD_NOW), "library_dropped");
    uint64_t dropped = library_dropped();
    tickscope_channel *all[] = {plain, before, after, wide, given, realtime, brackets};
    for (int at = 0; at < 7; at++) dropped += all[at]->entry->dropped;
    printf("count dropped\t%llu\n", (unsigned long long)dropped);
}

int main(int argc, char **argv) {
    if (argc != 6) fail("expected CPU ROUNDS STAMPS PAUSE_US LIBRARY");
    struct rounds how = {variants, sizeof variants / sizeof *variants, atoll(argv[2]), atoll(argv[3]), atoll(argv[4])};
    pin(atoi(argv[1]));
    open_channels(argv[5]);
    measure(&how);
    print_dropped(argv[5]);
    return 0;
}
