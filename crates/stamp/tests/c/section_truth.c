/*
 * Sections of known length between tickscope_section_begin and _end: how many intervals do not hold it.
 *
 *     section_truth simulated SECTIONS   counters that move by 1, 2, 24.5, 26, 40, 1000 or uneven ticks; exact truth
 *     section_truth real SECTIONS        this machine's, around chains of multiplications that take at least so long
 *
 * A line each: what, sections, those whose at_most is false, those with a lower end, those whose lower end is beyond
 * the least length. That is false of a simulated section; a real one may have been delayed, or its core slower than the
 * fastest.
 */
#include "tickscope.h"

static int64_t simulated_read(int ordering);
static int simulating;
#define TICKSCOPE__SECTION_READ(ordering) (simulating ? simulated_read(ordering) : tickscope__read(ordering))
#include "tickscope_section.h"

/* All times of the simulation are in thousandths of a tick. */
static int64_t now, step, cost;
static const int64_t UNEVEN[] = {41000, 63000, 45000, 58000, 41000, 50000, 47000, 61000};
static uint64_t state = 88172645463325252u;
/* Whether a second reading within a step shows a tick more, and the last value shown. */
static int never_repeats;
static int64_t last_value;

static int64_t random_below(int64_t end) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (int64_t)(state >> 2) % end;
}

/* What the counter shows; `step` 0: it moves unevenly. */
static int64_t shown(void) {
    int64_t period = 0, at;
    int next;
    if (step) return now / step * step / 1000;
    for (next = 0; next < 8; next++) period += UNEVEN[next];
    at = now / period * period;
    for (next = 0; at + UNEVEN[next] <= now; next++) at += UNEVEN[next];
    return at / 1000;
}

/* A reading takes `cost` or a little more, up to its instant or from there on. */
static int64_t simulated_read(int ordering) {
    int64_t reading, passes = cost + random_below(cost / 2);
    if (ordering != TICKSCOPE_BEFORE) now += passes;
    reading = shown();
    if (never_repeats && reading == last_value) reading++;
    else last_value = reading;
    if (ordering != TICKSCOPE_AFTER) now += passes;
    return reading;
}

static void print(const char *what, long sections, long false_hi, long ended, long beyond) {
    printf("%s sections %ld false_at_most %ld with_lower_end %ld beyond_least %ld\n", what, sections, false_hi, ended,
           beyond);
}

static void simulate(const char *name, int64_t step_long, int64_t reading_cost, long sections) {
    struct tickscope_meter meter;
    long at, false_hi = 0, ended = 0, beyond = 0;
    now = INT64_C(1000000000000) + random_below(1000000000), step = step_long, cost = reading_cost;
    meter = tickscope_meter_of_this_thread();
    for (at = 0; at < sections; at++) {
        /* Often empty, else of up to many thousand ticks; begin and end cost up to three times as much here. */
        int64_t length = at % 4 == 0 ? 0 : random_below(at % 4 == 1 ? 200000 : at % 4 == 2 ? 3000000 : 90000000);
        struct tickscope_begun begun = tickscope_section_begin(&meter);
        struct tickscope_took took;
        now += random_below(4 * cost) + length;
        took = tickscope_section_end(&begun);
        now += random_below(5000000);
        false_hi += length >= took.at_most * 1000;
        ended += took.unproven == TICKSCOPE_UNDISTURBED;
        beyond += took.lo * 1000 > length;
    }
    print(name, sections, false_hi, ended, beyond);
}

#if defined(__x86_64__)
#define ONE_AFTER_ANOTHER(count) \
    __asm__ __volatile__(".rept " #count "\n\timul %0, %0\n\t.endr" : "+r"(factor)::"memory")
#else
#define ONE_AFTER_ANOTHER(count) \
    __asm__ __volatile__(".rept " #count "\n\tmul %0, %0, %0\n\t.endr" : "+r"(factor)::"memory")
#endif

static uint64_t factor = 3;

/* Ticks of 100 000 multiplications, each of which waits for the one before. */
static int64_t chain(void) {
    int64_t from = tickscope_now(TICKSCOPE_BEFORE);
    int part;
    for (part = 0; part < 100; part++) ONE_AFTER_ANOTHER(1000);
    return tickscope_now(TICKSCOPE_AFTER) - from;
}

enum { SECTIONS_A_CHAIN = 200 };

/*
 * Judges sections of `count` multiplications by the fastest chain seen before, among and after them. A core that speeds
 * up for as long as one section is faster than any chain; in a section of few multiplications the readings cost more
 * than that saves. One of many is judged by readings within it, `inner`.
 */
static void judge(const char *name, const struct tickscope_took *took, const int64_t *inner, long sections,
                  int64_t least) {
    long at, false_hi = 0, ended = 0, beyond = 0;
    for (at = 0; at < sections; at++) {
        false_hi += inner ? took[at].at_most < inner[at] : took[at].at_most * INT64_C(100000) < least;
        ended += took[at].unproven == TICKSCOPE_UNDISTURBED;
        beyond += took[at].lo * INT64_C(100000) > least;
    }
    print(name, sections, false_hi, ended, beyond);
}

#define MEASURE(count, body, inner)                                       \
    do {                                                                  \
        long at;                                                          \
        for (at = 0; at < sections; at++) {                               \
            int64_t ticks = at % SECTIONS_A_CHAIN ? fastest : chain();    \
            struct tickscope_begun begun;                                 \
            if (ticks < fastest) fastest = ticks;                         \
            begun = tickscope_section_begin(&meter);                      \
            body;                                                         \
            took[at] = tickscope_section_end(&begun);                     \
        }                                                                 \
        judge("chain-" #count, took, inner, sections, fastest * (count)); \
    } while (0)
#define MEASURE_SHORT(count) MEASURE(count, ONE_AFTER_ANOTHER(count), 0)
#define MEASURE_LONG(count)                                    \
    MEASURE(                                                   \
        count,                                                 \
        {                                                      \
            int64_t from = tickscope_now(TICKSCOPE_BEFORE);    \
            ONE_AFTER_ANOTHER(count);                          \
            inner[at] = tickscope_now(TICKSCOPE_AFTER) - from; \
        },                                                     \
        inner)

static void measure(long sections) {
    struct tickscope_took *took = (struct tickscope_took *)malloc((size_t)sections * sizeof *took);
    int64_t *inner = (int64_t *)malloc((size_t)sections * sizeof *inner);
    struct tickscope_meter meter = tickscope_meter_of_this_thread();
    int64_t fastest = INT64_MAX;
    int round;
    if (took == 0 || inner == 0) exit(2);
    for (round = 0; round < 1000; round++) {
        int64_t ticks = chain();
        if (ticks < fastest) fastest = ticks;
    }
    MEASURE_SHORT(0);
    MEASURE_SHORT(4);
    MEASURE_SHORT(12);
    MEASURE_SHORT(14);
    MEASURE_SHORT(16);
    MEASURE_SHORT(18);
    MEASURE_SHORT(24);
    MEASURE_SHORT(28);
    MEASURE_SHORT(36);
    MEASURE_SHORT(48);
    MEASURE_LONG(1000);
    MEASURE_LONG(5000);
    fprintf(stderr, "width %lld, usual %lld, most %lld, fastest chain %lld\n", (long long)meter.width_ticks,
            (long long)meter.usual_ticks, (long long)meter.most_ticks, (long long)fastest);
    free(inner);
    free(took);
}

int main(int count, char **words) {
    long sections = count > 2 ? atol(words[2]) : 0;
    if (sections <= 0) return 2;
    simulating = strcmp(words[1], "simulated") == 0;
    if (!simulating) {
        measure(sections);
        return 0;
    }
    simulate("step-1", 1000, 5000, sections);
    simulate("step-2", 2000, 20000, sections);
    never_repeats = 1;
    simulate("step-26-never-twice", 26000, 19000, sections);
    simulate("step-24.5-never-twice", 24500, 19000, sections);
    never_repeats = 0;
    simulate("step-24.5", 24500, 5000, sections);
    simulate("step-24.5-slow", 24500, 31000, sections);
    simulate("step-40", 40000, 5000, sections);
    simulate("step-40-slow", 40000, 31000, sections);
    simulate("step-1000", 1000000, 5000, sections);
    simulate("step-1000-slow", 1000000, 31000, sections);
    simulate("uneven", 0, 5000, sections);
    return 0;
}
