/*
 * stages - three stages of known work, stamped: a program whose stages can be made slower one by one.
 *
 *     stages TRACES WORK1 WORK2 WORK3
 *
 * Each trace passes first > second > third > fourth, and between two points as many rounds of arithmetic as the words
 * say, give or take a quarter, by a generator with a fixed seed; then it rests for a tenth of a millisecond.
 */
#include "tickscope.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void work(uint64_t rounds) {
    uint64_t some = rounds * 3 / 4 + next() % (rounds / 2 + 1);
    volatile uint64_t sum = 0;
    for (uint64_t round = 0; round < some; round++) sum += round ^ sum << 1;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "expected TRACES WORK1 WORK2 WORK3; give all four\n"), 2;
    uint64_t rounds[3];
    for (int stage = 0; stage < 3; stage++) rounds[stage] = strtoull(argv[stage + 2], 0, 10);
    const struct timespec rest = {0, 100000};
    for (int64_t id = 0; id < atoll(argv[1]); id++) {
        tickscope_stamp(TICKSCOPE_POINT("first", TICKSCOPE_PLAIN, 0), id);
        work(rounds[0]);
        tickscope_stamp(TICKSCOPE_POINT("second", TICKSCOPE_PLAIN, 0), id);
        work(rounds[1]);
        tickscope_stamp(TICKSCOPE_POINT("third", TICKSCOPE_PLAIN, 0), id);
        work(rounds[2]);
        tickscope_stamp(TICKSCOPE_POINT("fourth", TICKSCOPE_PLAIN, 0), id);
        nanosleep(&rest, 0);
    }
    return 0;
}
