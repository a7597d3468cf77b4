/*
 * tickscope_section.h - how long any section of code took, as an interval. Stands beside tickscope.h.
 *
 *     struct tickscope_meter meter = tickscope_meter_of_this_thread();   once, about a millisecond
 *     struct tickscope_begun begun = tickscope_section_begin(&meter);
 *     ...
 *     struct tickscope_took took = tickscope_section_end(&begun);
 *
 * The counter is read on both sides, ordered so that no part of the section lies outside: it took no longer than
 * `took.at_most`, whatever else happened between. That is guaranteed where the processors share one counter. From below
 * there is a bound only with evidence that nothing intervened: `took.unproven` is TICKSCOPE_PROVEN if the kernel did not
 * switch this thread away and neither pair of readings beside the section was dearer than readings are here; then the
 * section took `took.lo` to `took.hi` ticks. An interrupt or a hypervisor is not counted as a switch; a section that held
 * one did take that long. All in ticks of the counter; crates/clock/src/section.rs is the same for Rust.
 */
#ifndef TICKSCOPE_SECTION_H
#define TICKSCOPE_SECTION_H

#include "tickscope.h"

#include <stdlib.h>
#include <sys/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What readings of the counter cost here, ticks: the least, and what 99 of 100 take at most. */
struct tickscope_meter {
    int64_t least_ticks;
    int64_t most_ticks;
};

enum tickscope_unproven {
    TICKSCOPE_PROVEN,
    TICKSCOPE_NOT_TOLD,     /* the kernel does not tell of switches */
    TICKSCOPE_SWITCHED,     /* the thread was switched away */
    TICKSCOPE_DISTURBED,    /* a pair of readings beside the section took longer than readings do here */
    TICKSCOPE_CONTRADICTION /* a reading was cheaper or dearer than it ever should be */
};

/* A section that has begun. */
struct tickscope_begun {
    struct tickscope_meter meter;
    int64_t switches; /* -1: not told */
    int64_t pair;
    int64_t from;
};

struct tickscope_took {
    int64_t at_most;              /* guaranteed */
    int64_t at_most_less_reading; /* if no reading is cheaper than the cheapest seen; -1: this one was */
    enum tickscope_unproven unproven;
    int64_t lo, hi; /* where it is proven; else 0 and -1 */
};

/* ---- how --------------------------------------------------------------------------------------------------------- */

enum { TICKSCOPE__METER_READINGS = 10001 };

/* From one reading to the next, ordered as around a section. */
TICKSCOPE__HOT int64_t tickscope__pair(void) {
    int64_t from = tickscope_now(TICKSCOPE_BEFORE);
    return tickscope_now(TICKSCOPE_AFTER) - from;
}

/* How often the kernel switched away from this thread; -1: it does not tell. */
static inline int64_t tickscope__switches(void) {
#ifdef RUSAGE_THREAD
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage) == 0) return (int64_t)usage.ru_nvcsw + (int64_t)usage.ru_nivcsw;
#endif
    return -1;
}

static inline int tickscope__by_size(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static inline struct tickscope_meter tickscope_meter_of_this_thread(void) {
    int64_t costs[TICKSCOPE__METER_READINGS];
    struct tickscope_meter meter;
    int i;
    for (i = 0; i < TICKSCOPE__METER_READINGS; i++) costs[i] = tickscope__pair();
    qsort(costs, TICKSCOPE__METER_READINGS, sizeof costs[0], tickscope__by_size);
    meter.least_ticks = costs[0];
    meter.most_ticks = costs[TICKSCOPE__METER_READINGS * 99 / 100];
    return meter;
}

/* A counter that reads n stands between n and n + 1, so a distance of readings is good to a tick either way. */
static inline struct tickscope_took tickscope__took(const struct tickscope_meter *meter, int64_t ticks, int64_t pair,
                                                    int told, int64_t switches) {
    struct tickscope_took took;
    /* Below 0 there is nothing to bound: no section takes less. */
    int64_t least = ticks - 1 - (meter->most_ticks + 1), lo = least < 0 ? 0 : least;
    /* Less the tick that the cheapest reading may have seemed too dear by. */
    int64_t less_reading = ticks + 1 - (meter->least_ticks - 1);
    took.at_most = ticks + 1;
    took.at_most_less_reading = less_reading < 0 ? -1 : less_reading;
    if (!told) {
        took.unproven = TICKSCOPE_NOT_TOLD;
    } else if (switches != 0) {
        took.unproven = TICKSCOPE_SWITCHED;
    } else if (pair > meter->most_ticks) {
        took.unproven = TICKSCOPE_DISTURBED;
    } else if (less_reading < lo) {
        took.unproven = TICKSCOPE_CONTRADICTION;
    } else {
        took.unproven = TICKSCOPE_PROVEN;
    }
    took.lo = took.unproven == TICKSCOPE_PROVEN ? lo : 0;
    took.hi = took.unproven == TICKSCOPE_PROVEN ? less_reading : -1;
    return took;
}

/* Begins a section: what follows is in it. */
static inline struct tickscope_begun tickscope_section_begin(const struct tickscope_meter *meter) {
    struct tickscope_begun begun;
    begun.meter = *meter;
    begun.switches = tickscope__switches();
    begun.pair = tickscope__pair();
    begun.from = tickscope_now(TICKSCOPE_BEFORE);
    return begun;
}

/* Ends it: what precedes is in it. */
static inline struct tickscope_took tickscope_section_end(const struct tickscope_begun *begun) {
    int64_t to = tickscope_now(TICKSCOPE_AFTER);
    int64_t pair = tickscope__pair();
    int64_t switches = tickscope__switches();
    int told = begun->switches >= 0 && switches >= 0;
    if (pair < begun->pair) pair = begun->pair;
    return tickscope__took(&begun->meter, to - begun->from, pair, told, switches - begun->switches);
}

#ifdef __cplusplus
}
#endif
#endif
