/*
 * stamp - what one stamp costs, beside what reading the counter costs in the same run.
 *
 *     stamp CPU ROUNDS STAMPS PAUSE_US LIBRARY
 *
 * PAUSE_US of idle spinning follow each round: a collector beside it needs them to keep up with a tight loop.
 * A round measures every variant once, in random order, each in a block of STAMPS stamps in a tight loop. One line a block:
 * `block VARIANT NANOSECONDS_A_STAMP`, and at the end `count NAME NUMBER` lines. Variants of one round are neighbours in
 * time, so their difference is free of what changes slowly: the core's frequency, another tenant.
 *
 * A block may hold the change to a new block of shared memory (one in 1012 slim stamps): medians do not show it, p90 does.
 */
#include "tickscope.h"

#include <dlfcn.h>

/* Keeps a value, and the loop around it, from being optimised away. */
#define KEEP(value) __asm__ __volatile__("" ::"r"(value) : "memory")

static tickscope_channel *plain, *before, *after, *wide, *off, *given, *realtime, *brackets;
static void (*library_stamp)(int64_t), (*library_rdtsc)(int64_t);

#define BLOCK(name, statement)                                      \
    __attribute__((noinline)) static void name(int64_t stamps) {    \
        for (int64_t id = 0; id < stamps; id++) {                   \
            statement;                                              \
        }                                                           \
    }

static int64_t rdtscp(void) {
    uint32_t low, high, aux;
    __asm__ __volatile__("rdtscp" : "=a"(low), "=d"(high), "=c"(aux)::"memory");
    return (int64_t)((uint64_t)high << 32 | low);
}

static int64_t clock_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
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
BLOCK(block_wide, tickscope_stamp_with(wide, id, 1, id))
BLOCK(block_off, tickscope_stamp(off, id))
BLOCK(block_record, tickscope_record(given, id, id + 1))
BLOCK(block_realtime, tickscope_stamp(realtime, id))
BLOCK(block_bracket, tickscope_bracket(brackets))
BLOCK(block_library, library_stamp(id))
BLOCK(block_library_rdtsc, library_rdtsc(id))

static const struct variant {
    const char *name;
    void (*run)(int64_t stamps);
} variants[] = {
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
    {"off", block_off},
    {"record", block_record},
    {"realtime", block_realtime},
    {"bracket", block_bracket},
    {"library", block_library},
    {"library rdtsc", block_library_rdtsc},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

static void fail(const char *what) {
    fprintf(stderr, "stamp: %s\n", what);
    exit(1);
}

static void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) fail("expected to be pinned, found a refusal");
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
    off = tickscope_open("off", TICKSCOPE_PLAIN, 0);
    given = tickscope_open("given", TICKSCOPE_PLAIN, 0);
    realtime = tickscope_open_clock("realtime", TICKSCOPE_REALTIME, TICKSCOPE_PLAIN, 0);
    brackets = tickscope_open_bracket(TICKSCOPE_REALTIME);
    if (plain->entry == 0 || library_stamp == 0 || library_rdtsc == 0) fail("expected channels that are on, found none");
}

/* A fixed sequence: every run visits the variants in the same random orders. */
static uint32_t random_below(uint32_t bound) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % bound;
}

static void shuffle(int *order) {
    for (int at = VARIANTS - 1; at > 0; at--) {
        int other = (int)random_below((uint32_t)at + 1), kept = order[at];
        order[at] = order[other];
        order[other] = kept;
    }
}

static void one_round(int64_t stamps, float *ticks_a_stamp) {
    int order[VARIANTS];
    for (int at = 0; at < VARIANTS; at++) order[at] = at;
    shuffle(order);
    for (int at = 0; at < VARIANTS; at++) {
        int64_t start = tickscope__after();
        variants[order[at]].run(stamps);
        ticks_a_stamp[order[at]] = (float)(rdtscp() - start) / (float)stamps;
    }
}

static void pause_for(int64_t microseconds) {
    int64_t end = clock_monotonic() + 1000 * microseconds;
    while (clock_monotonic() < end) {}
}

static void print(const float *ticks, int64_t rounds, double ns_a_tick, const char *library) {
    for (int64_t at = 0; at < rounds * VARIANTS; at++)
        printf("block %s\t%.3f\n", variants[at % VARIANTS].name, ticks[at] * ns_a_tick);
    uint64_t (*library_dropped)(void);
    *(void **)&library_dropped = dlsym(dlopen(library, RTLD_NOW), "library_dropped");
    uint64_t dropped = library_dropped();
    tickscope_channel *all[] = {plain, before, after, wide, given, realtime, brackets};
    for (int at = 0; at < 7; at++) dropped += all[at]->entry->dropped;
    printf("count dropped\t%llu\n", (unsigned long long)dropped);
}

int main(int argc, char **argv) {
    if (argc != 6) fail("expected CPU ROUNDS STAMPS PAUSE_US LIBRARY");
    int64_t rounds = atoll(argv[2]), stamps = atoll(argv[3]), pause_us = atoll(argv[4]);
    pin(atoi(argv[1]));
    open_channels(argv[5]);
    float *ticks = (float *)calloc((size_t)(rounds * VARIANTS), sizeof *ticks);
    float unused[VARIANTS];
    for (int warm = 0; warm < 10; warm++) one_round(stamps, unused);
    int64_t start = tickscope__after(), start_ns = clock_monotonic();
    for (int64_t at = 0; at < rounds; at++) {
        one_round(stamps, ticks + at * VARIANTS);
        if (pause_us) pause_for(pause_us);
    }
    double ns_a_tick = (double)(clock_monotonic() - start_ns) / (double)(tickscope__after() - start);
    print(ticks, rounds, ns_a_tick, argv[5]);
    return 0;
}
