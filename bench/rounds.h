/*
 * rounds.h - the protocol by which programs here measure what one event costs.
 *
 * A round measures every variant once, in random order, each in a block of events in a tight loop. Variants of one round are
 * neighbours in time, so their difference is free of what changes slowly: the core's frequency, another tenant. One line a
 * block: `block VARIANT<tab>NANOSECONDS_AN_EVENT`. C and C++.
 */
#ifndef TICKSCOPE_ROUNDS_H
#define TICKSCOPE_ROUNDS_H

#include "tickscope.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Keeps a value, and the loop around it, from being optimised away. */
#define KEEP(value) __asm__ __volatile__("" ::"r"(value) : "memory")

/* A variant's function: a block of it. */
#define BLOCK(name, statement)                                      \
    __attribute__((noinline)) static void name(int64_t events) {    \
        for (int64_t id = 0; id < events; id++) {                   \
            statement;                                              \
        }                                                           \
    }

struct variant {
    const char *name;
    void (*run)(int64_t events);
};

struct rounds {
    const struct variant *variants;
    int count;
    int64_t rounds, events;
    int64_t pause_us; /* of idle spinning after each round: a consumer beside it needs them to keep up with a tight loop */
};

enum { MOST_VARIANTS = 32, WARM_ROUNDS = 10 };

static inline int64_t rdtscp(void) {
    uint32_t low, high, aux;
    __asm__ __volatile__("rdtscp" : "=a"(low), "=d"(high), "=c"(aux)::"memory");
    return (int64_t)((uint64_t)high << 32 | low);
}

static inline int64_t clock_monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        perror("bench: expected to be pinned, found");
        exit(1);
    }
}

static void pause_for(int64_t microseconds) {
    int64_t end = clock_monotonic() + 1000 * microseconds;
    while (clock_monotonic() < end) {}
}

/* A fixed sequence: every run visits the variants in the same random orders. */
static uint32_t random_below(uint32_t bound) {
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % bound;
}

static void one_round(const struct rounds *how, float *ticks_an_event) {
    int order[MOST_VARIANTS];
    for (int at = 0; at < how->count; at++) order[at] = at;
    for (int at = how->count - 1; at > 0; at--) {
        int other = (int)random_below((uint32_t)at + 1), kept = order[at];
        order[at] = order[other];
        order[other] = kept;
    }
    for (int at = 0; at < how->count; at++) {
        int64_t start = tickscope__after();
        how->variants[order[at]].run(how->events);
        ticks_an_event[order[at]] = (float)(rdtscp() - start) / (float)how->events;
    }
    if (how->pause_us) pause_for(how->pause_us);
}

/* Measures and prints. */
static inline void measure(const struct rounds *how) {
    float *ticks = (float *)calloc((size_t)(how->rounds * how->count), sizeof *ticks), unused[MOST_VARIANTS];
    for (int warm = 0; warm < WARM_ROUNDS; warm++) one_round(how, unused);
    int64_t start = tickscope__after(), start_ns = clock_monotonic();
    for (int64_t at = 0; at < how->rounds; at++) one_round(how, ticks + at * how->count);
    double ns_a_tick = (double)(clock_monotonic() - start_ns) / (double)(tickscope__after() - start);
    for (int64_t at = 0; at < how->rounds * how->count; at++)
        printf("block %s\t%.3f\n", how->variants[at % how->count].name, ticks[at] * ns_a_tick);
    free(ticks);
}

#endif
