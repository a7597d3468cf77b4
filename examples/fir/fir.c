/*
 * A policy of one's own: stamps are kept while a point is passed slowly.
 *
 * A finite impulse response filter smooths the time between two stamps, and a stamp is kept if the outcome is above a
 * limit: so of a stream of millions only the slow stretches are stored. The run file gives the point the policy own.
 *
 * The ticks here are made up (tickscope_record), so that a test knows what is to be kept: every 1000 stamps come 16
 * that are ten times as far apart. A program of yours stamps with tickscope_stamp.
 *
 *     cc -O2 -D_GNU_SOURCE -I crates/stamp/include fir.c -o fir
 */
#include <tickscope.h>

enum { TAPS = 4, STAMPS = 10000, USUAL = 1000, SLOW = 10000 };

static const int64_t weights[TAPS] = {1, 3, 3, 1};

struct filter {
    int64_t intervals[TAPS];
    int64_t last;
    int64_t limit;
    unsigned count;
};

static int is_slow(void *state, int64_t id, int64_t tick) {
    (void)id;
    struct filter *filter = state;
    filter->intervals[filter->count++ % TAPS] = tick - filter->last;
    filter->last = tick;
    if (filter->count <= TAPS) return 0; /* the first interval has no beginning */
    int64_t sum = 0;
    for (unsigned tap = 0; tap < TAPS; tap++) {
        sum += weights[tap] * filter->intervals[(filter->count - 1 - tap) % TAPS];
    }
    return sum > filter->limit;
}

int main(void) {
    static struct filter filter = {.limit = 8 * 4 * USUAL}; /* weights sum to 8: four times the usual interval */
    tickscope_channel *passed = tickscope_open("passed", TICKSCOPE_PLAIN, 0);
    tickscope_choose(passed, is_slow, &filter);
    int64_t tick = 1000000;
    for (int64_t id = 0; id < STAMPS; id++) {
        tick += id % 1000 >= 500 && id % 1000 < 516 ? SLOW : USUAL;
        tickscope_record(passed, id, tick);
    }
    tickscope_close(passed);
    return 0;
}
