/*
 * tickscope_section.h - how long any section of code took, as an interval. Stands next to tickscope.h.
 *
 *     struct tickscope_meter meter = tickscope_meter_of_this_thread();   once, some milliseconds
 *     struct tickscope_begun begun = tickscope_section_begin(&meter);
 *     ...
 *     struct tickscope_took took = tickscope_section_end(&begun);
 *
 * Guaranteed: the section took less than `took.at_most` ticks, whatever else happened between. The counter is read on
 * both sides, ordered so that no part of the section lies outside, and each reading is as wide as the counter's step
 * makes it. That holds where the processors share one counter that moves in regular steps, or in steps that take
 * longer than a reading.
 *
 * Assumed, never proven: a lower end. No reading tells a section from a delay between a reading and the section. So
 * `took.lo` to `took.hi` holds the section together with whatever delayed it or the readings next to it (an
 * interrupt, a hypervisor), if begin and end themselves cost no more than `meter.most_ticks`:
 * TICKSCOPE_SECTION_ASSUMES. It is given with evidence alone, `took.unproven` being TICKSCOPE_UNDISTURBED: the kernel
 * did not switch this thread away, and neither pair of readings next to the section was dearer than readings are
 * here. Print the assumption with it.
 *
 * All in ticks of the counter; crates/clock/src/section.rs is the same for Rust.
 */
#ifndef TICKSCOPE_SECTION_H
#define TICKSCOPE_SECTION_H

#include "tickscope.h"

#include <sys/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The width of readings and the cost of begin and end here, ticks. */
struct tickscope_meter {
    int64_t width_ticks; /* the counter stands in [n, n + width) when a reading says n */
    int64_t usual_ticks; /* twice what 99 of 100 pairs of readings took: beyond it something disturbs */
    int64_t most_ticks;  /* begin and end take no more within their readings: assumed */
};

#define TICKSCOPE_SECTION_ASSUMES \
    "begin and end take no more than the meter's most_ticks here, four times what 99 of 100 empty sections took; " \
    "a delay between a reading and the section counts as the section's"

enum tickscope_unproven {
    TICKSCOPE_UNDISTURBED,
    TICKSCOPE_NOT_TOLD,     /* the kernel does not tell of switches */
    TICKSCOPE_SWITCHED,     /* the thread was switched away */
    TICKSCOPE_DISTURBED,    /* a pair of readings next to the section took longer than readings do here */
    TICKSCOPE_CONTRADICTION /* the counter went backward, by more than a reading is wide */
};

/* A section that has begun. */
struct tickscope_begun {
    struct tickscope_meter meter;
    int64_t switches; /* -1: unknown */
    int64_t pair;
    int64_t from; /* as the counter truly reads */
};

struct tickscope_took {
    int64_t ticks;   /* from reading to reading */
    int64_t at_most; /* guaranteed */
    enum tickscope_unproven unproven;
    int64_t lo, hi; /* of an undisturbed section, under TICKSCOPE_SECTION_ASSUMES; else 0 and -1 */
};

/* ---- how --------------------------------------------------------------------------------------------------------- */

/* The true counter; tests put a simulated one in its place. */
#ifndef TICKSCOPE__SECTION_READ
#define TICKSCOPE__SECTION_READ(ordering) tickscope__read(ordering)
#endif

enum {
    TICKSCOPE__METER_SECTIONS = 4096,
    TICKSCOPE__STEP_READINGS = 2048,
    TICKSCOPE__STEP_WINDOW = 8,
    TICKSCOPE__REPEATS_ONE_IN = 16, /* of neighbouring readings: then a reading is faster than a step */
    TICKSCOPE__INTERRUPTED = 30,    /* a gap beyond so many times the median is an interruption */
    TICKSCOPE__FINEST_WIDTH = 4,    /* where no step of 3 ticks or more fits, nor one of exactly 2 */
    /* Elsewhere begin and end are aligned otherwise, have to be fetched, or share their core: seen to cost up to 3
     * times what they do in 99 of 100 empty sections. Beyond that lie delays. */
    TICKSCOPE__DEARER_ELSEWHERE = 4,
    TICKSCOPE__SLOWER_LATER = 2 /* a processor may be clocked down by as much before a pair of readings tells */
};

/* What this node reads where the counter truly reads `raw`. */
TICKSCOPE__HOT int64_t tickscope__as_read(int64_t raw) {
    int is_injected = __atomic_load_n(&tickscope__process.injected, __ATOMIC_ACQUIRE);
    return is_injected ? tickscope__injected(&tickscope__process.map, raw) : raw;
}

/* From one reading to the next, ordered as around a section. */
TICKSCOPE__HOT int64_t tickscope__pair(void) {
    int64_t from = TICKSCOPE__SECTION_READ(TICKSCOPE_BEFORE);
    int64_t to = TICKSCOPE__SECTION_READ(TICKSCOPE_AFTER);
    return tickscope__as_read(to) - tickscope__as_read(from);
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

/* A counter that moves in steps reads n from when it came to n until it moved on. */
static inline struct tickscope_took tickscope__took(const struct tickscope_meter *meter, int64_t ticks, int64_t pair,
                                                    int known, int64_t switches) {
    struct tickscope_took took;
    /* Below 0 there is nothing to bound: no section takes less. */
    int64_t least = ticks - meter->width_ticks - meter->most_ticks, lo = least < 0 ? 0 : least;
    took.ticks = ticks;
    took.at_most = ticks + meter->width_ticks;
    if (took.at_most <= 0) {
        took.unproven = TICKSCOPE_CONTRADICTION;
    } else if (!known) {
        took.unproven = TICKSCOPE_NOT_TOLD;
    } else if (switches != 0) {
        took.unproven = TICKSCOPE_SWITCHED;
    } else if (pair > meter->usual_ticks) {
        took.unproven = TICKSCOPE_DISTURBED;
    } else {
        took.unproven = TICKSCOPE_UNDISTURBED;
    }
    took.lo = took.unproven == TICKSCOPE_UNDISTURBED ? lo : 0;
    took.hi = took.unproven == TICKSCOPE_UNDISTURBED ? took.at_most : -1;
    return took;
}

/* Begins a section: what follows is in it. */
TICKSCOPE__HOT struct tickscope_begun tickscope_section_begin(const struct tickscope_meter *meter) {
    struct tickscope_begun begun;
    begun.meter = *meter;
    begun.switches = tickscope__switches();
    begun.pair = tickscope__pair();
    begun.from = TICKSCOPE__SECTION_READ(TICKSCOPE_BEFORE);
    return begun;
}

/* Ends it: what precedes is in it. */
TICKSCOPE__HOT struct tickscope_took tickscope_section_end(const struct tickscope_begun *begun) {
    int64_t to = TICKSCOPE__SECTION_READ(TICKSCOPE_AFTER);
    int64_t pair = tickscope__pair();
    int64_t switches = tickscope__switches();
    int known = begun->switches >= 0 && switches >= 0;
    int64_t ticks = tickscope__as_read(to) - tickscope__as_read(begun->from);
    if (pair < begun->pair) pair = begun->pair;
    return tickscope__took(&begun->meter, ticks, pair, known, switches - begun->switches);
}

/* ---- the width of a reading; crates/host/src/step.rs looks at more readings, on every processor ------------------ */

/* From one candidate for the step to the next, in thousandths of a tick. */
#define TICKSCOPE__COARSE(step) ((step) / 4096 + 1)

/*
 * How far from each other the readings' residues lie at most by a regular step, all in thousandths of a tick; -1:
 * beyond `allowed`. Windows so long that the candidate's coarseness would smear them are left out: that accepts more.
 */
TICKSCOPE__COLD int64_t tickscope__spread(const int64_t *readings, int64_t step, int64_t allowed) {
    int64_t widest = 0;
    for (int at = 0; at + TICKSCOPE__STEP_WINDOW <= TICKSCOPE__STEP_READINGS; at += TICKSCOPE__STEP_WINDOW) {
        const int64_t *window = readings + at;
        int64_t lo = 0, hi = 0, span = window[TICKSCOPE__STEP_WINDOW - 1] - window[0];
        if (span < 0 || span * 1000 / step * TICKSCOPE__COARSE(step) > 500) continue;
        for (int next = 1; next < TICKSCOPE__STEP_WINDOW; next++) {
            int64_t residue = (window[next] - window[0]) * 1000 % step;
            if (residue > step / 2) residue -= step;
            if (residue < lo) lo = residue;
            if (residue > hi) hi = residue;
            if (hi - lo > allowed) return -1;
        }
        if (hi - lo > widest) widest = hi - lo;
    }
    return widest;
}

/* How far above a lattice of whole steps the readings lie: 0, or 1 tick; -1: further. The first may be above, too. */
TICKSCOPE__COLD int tickscope__above(const int64_t *readings, int64_t step) {
    int above = 0, below = 0;
    for (int at = 1; at < TICKSCOPE__STEP_READINGS; at++) {
        int64_t residue = ((readings[at] - readings[0]) % step + step) % step;
        if (residue == 1) above = 1;
        else if (residue == step - 1) below = 1;
        else if (residue) return -1;
    }
    return above && below ? -1 : above + below;
}

/*
 * The width by the largest regular step up to `longest` whose values, rounded down once or twice, are all the readings;
 * 0: there is none of `least` ticks or more. Never a common divisor, which is 1 of steps of 24 and 25. `lie_above`:
 * some readings are a tick above the lattice.
 */
TICKSCOPE__COLD int64_t tickscope__lattice_width(const int64_t *readings, int64_t least, int64_t longest,
                                                 int lie_above) {
    for (int64_t rounded = 1; rounded <= 2; rounded++) {
        for (int64_t step = longest * 1000; step >= least * 1000; step -= TICKSCOPE__COARSE(step)) {
            int64_t allowed = rounded * 1000 < step / 2 ? rounded * 1000 : step / 2;
            if (tickscope__spread(readings, step, allowed + 250) < 0) continue;
            int above = tickscope__above(readings, step / 1000);
            if (above >= 0) return step / 1000 + above;
            return (step + 999) / 1000 + (lie_above ? 2 : rounded);
        }
    }
    return 0;
}

/* The width of a counter's readings, of which these are neighbours in time. `gaps` has room for as many. */
TICKSCOPE__COLD int64_t tickscope__width(const int64_t *readings, int64_t *gaps) {
    int64_t count = 0, equal = 0, single = 0;
    for (int at = 1; at < TICKSCOPE__STEP_READINGS; at++) {
        int64_t gap = readings[at] - readings[at - 1];
        equal += gap == 0, single += gap == 1; /* some processors never return a number twice */
        if (gap > 1) gaps[count++] = gap;
    }
    if (count == 0 && single == 0) return INT64_MAX / 8; /* a counter that stands still bounds nothing */
    if (count == 0) return TICKSCOPE__FINEST_WIDTH;
    qsort(gaps, (size_t)count, sizeof gaps[0], tickscope__by_size);
    int64_t least = gaps[0], median = gaps[count / 2];
    int repeats = (equal + single) * TICKSCOPE__REPEATS_ONE_IN >= TICKSCOPE__STEP_READINGS;
    /* Where readings repeat, every step shows, and an uneven counter fits smaller steps than it has, if any. */
    int64_t shortest = repeats && median * 3 / 4 > 3 ? median * 3 / 4 : 3;
    int64_t width = tickscope__lattice_width(readings, shortest, least + 1, single > 0);
    if (width) return width;
    while (count > 1 && gaps[count - 1] > median * TICKSCOPE__INTERRUPTED) count--;
    if (equal + single > 0 && gaps[count - 1] >= 3) return gaps[count - 1] + 1 + (single > 0);
    return single == 0 && tickscope__above(readings, 2) == 0 ? 2 : TICKSCOPE__FINEST_WIDTH;
}

/* In the orderings that sections and stamps are read in; the widest counts. */
TICKSCOPE__COLD int64_t tickscope__measured_width(void) {
    int64_t readings[TICKSCOPE__STEP_READINGS], gaps[TICKSCOPE__STEP_READINGS], widest = 0;
    uint32_t random = 1;
    for (int ordering = TICKSCOPE_PLAIN; ordering <= TICKSCOPE_AFTER; ordering++) {
        for (int at = 0; at < TICKSCOPE__STEP_READINGS; at++) {
            /* At changing distances in the first half, so that no loop stays in step with the counter. */
            random = random * 1664525 + 1013904223;
            volatile uint32_t pause = at < TICKSCOPE__STEP_READINGS / 2 ? (random >> 16) % 13 : 0;
            while (pause > 0) pause = pause - 1;
            readings[at] = tickscope__as_read(TICKSCOPE__SECTION_READ((enum tickscope_ordering)ordering));
        }
        int64_t width = tickscope__width(readings, gaps);
        if (width > widest) widest = width;
    }
    return widest;
}

/* Measures empty sections, begun and ended here by the code that begins and ends them anywhere. */
static inline struct tickscope_meter tickscope_meter_of_this_thread(void) {
    int64_t empty[TICKSCOPE__METER_SECTIONS], pairs[TICKSCOPE__METER_SECTIONS];
    struct tickscope_meter meter = {0, 0, 0};
    sigset_t before;
    int index = TICKSCOPE__METER_SECTIONS * 99 / 100;
    tickscope__hold(&before);
    if (!tickscope__process.ready) tickscope__inject_counter();
    tickscope__let_go(&before);
    for (int at = 0; at < TICKSCOPE__METER_SECTIONS; at++) {
        struct tickscope_begun begun = tickscope_section_begin(&meter);
        struct tickscope_took took = tickscope_section_end(&begun);
        empty[at] = took.ticks, pairs[at] = begun.pair;
    }
    qsort(empty, TICKSCOPE__METER_SECTIONS, sizeof empty[0], tickscope__by_size);
    qsort(pairs, TICKSCOPE__METER_SECTIONS, sizeof pairs[0], tickscope__by_size);
    meter.width_ticks = tickscope__measured_width();
    meter.usual_ticks = TICKSCOPE__SLOWER_LATER * pairs[index];
    meter.most_ticks = TICKSCOPE__DEARER_ELSEWHERE * empty[index] + meter.width_ticks;
    return meter;
}

#ifdef __cplusplus
}
#endif
#endif
