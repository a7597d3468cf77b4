/*
 * Channels of other clocks, and readings of a clock between two of the counter, for the tests.
 *
 *     clocks stamps COUNT     ids 0, 1, ... at "realtime" (stamped), "given" (recorded, 1000 + id), "wide-given", "phc" (refused)
 *     clocks brackets COUNT   brackets of a clock that takes its time; prints before which and after which counter each
 *                             reading of it was truly made: "NS EARLIEST LATEST CLOCK"
 *     clocks both COUNT       wide stamps of TICKSCOPE_BOTH at "both", full ones at "both-full"; prints the same
 *     clocks core COUNT       wide stamps of TICKSCOPE_RDTSCP at "core"
 *     clocks map              what CLOCK_REALTIME is made to read for each number on stdin
 *     clocks misuse           what is refused: ticks of 0, closed channels, names and counters that are none
 */
#define _GNU_SOURCE 1
#include <time.h>
static int slow_gettime(clockid_t clock, struct timespec *now);
#define clock_gettime slow_gettime
#include "tickscope.h"
#undef clock_gettime

static int takes_its_time;

/* Everything that tickscope.h reads of a clock comes through here. */
static int slow_gettime(clockid_t clock, struct timespec *now) {
    int64_t start = tickscope__after(), earliest, latest;
    while (takes_its_time && tickscope__after() - start < 20000) {}
    earliest = tickscope__before();
    int failed = clock_gettime(clock, now);
    latest = tickscope__after();
    if (takes_its_time)
        printf("%lld %lld %lld %d\n", now->tv_sec * 1000000000LL + now->tv_nsec, (long long)earliest, (long long)latest,
               (int)clock);
    while (takes_its_time && tickscope__after() - latest < 20000) {}
    return failed;
}

static struct tickscope_extra kind_and_value(int32_t kind, int64_t value) {
    struct tickscope_extra extra = {0, 0, 0, 0, 0};
    extra.kind = kind;
    extra.value = value;
    return extra;
}

static void run_stamps(int64_t count) {
    tickscope_channel *realtime = tickscope_open_clock("realtime", TICKSCOPE_REALTIME, TICKSCOPE_AFTER, 0);
    tickscope_channel *given = tickscope_open_clock("given", TICKSCOPE_MONOTONIC, TICKSCOPE_BEFORE, 0);
    tickscope_channel *wide = tickscope_open("wide-given", TICKSCOPE_AFTER, TICKSCOPE_WIDE);
    tickscope_channel *phc = tickscope_open_clock("phc", TICKSCOPE_PHC, TICKSCOPE_AFTER, 0);
    for (int64_t id = 0; id < count; id++) {
        tickscope_stamp(realtime, id);
        tickscope_record(given, id, 1000 + id);
        tickscope_record_with(wide, id, tickscope_now(TICKSCOPE_AFTER), kind_and_value(7, id * 2));
        tickscope_stamp(phc, id);
    }
}

static void run_brackets(int64_t count) {
    tickscope_channel *channel = tickscope_open_bracket(TICKSCOPE_REALTIME);
    takes_its_time = 1;
    for (int64_t at = 0; at < count; at++) tickscope_bracket(channel);
}

static void run_both(int64_t count) {
    tickscope_channel *wide = tickscope_open("both", TICKSCOPE_BEFORE, TICKSCOPE_WIDE | TICKSCOPE_BOTH);
    tickscope_channel *full = tickscope_open("both-full", TICKSCOPE_AFTER, TICKSCOPE_FULL | TICKSCOPE_BOTH);
    struct tickscope_extra extra = kind_and_value(9, 1);
    extra.batch = 3;
    takes_its_time = 1;
    for (int64_t id = 0; id < count; id++) {
        tickscope_stamp(wide, id);
        tickscope_stamp_with(full, id, extra);
    }
}

static void run_core(int64_t count) {
    tickscope_channel *channel = tickscope_open("core", TICKSCOPE_AFTER, TICKSCOPE_WIDE | TICKSCOPE_RDTSCP);
    for (int64_t id = 0; id < count; id++) tickscope_stamp_with(channel, id, kind_and_value(1, id));
}

static void run_map(void) {
    long long raw_ns;
    tickscope_open("any", TICKSCOPE_PLAIN, 0);
    while (scanf("%lld", &raw_ns) == 1) printf("%lld\n", (long long)tickscope__realtime_as_read(raw_ns));
}

static void run_misuse(void) {
    tickscope_channel *channel = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    tickscope_record(channel, 2, 5);
    tickscope_record(channel, 1, 0); /* refused */
    tickscope_record_with(channel, 3, 6, kind_and_value(9, 9)); /* kept as a slim one */
    tickscope_bracket(channel); /* refused: no channel of tickscope_open_bracket */
    tickscope_record(0, 4, 7);
    tickscope_open("clock-bracket.realtime", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
    tickscope_open_clock("work", (enum tickscope_counter)2, TICKSCOPE_BEFORE, 0);
    tickscope_open_bracket(TICKSCOPE_COUNTER);
    tickscope_open("slim", TICKSCOPE_BEFORE, TICKSCOPE_BOTH);
    tickscope_open_clock("clock", TICKSCOPE_REALTIME, TICKSCOPE_BEFORE, TICKSCOPE_WIDE | TICKSCOPE_RDTSCP);
    tickscope_close(channel);
    tickscope_record(channel, 5, 8);
}

int main(int argc, char **argv) {
    int64_t count = argc > 2 ? atoll(argv[2]) : 0;
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "stamps")) run_stamps(count);
    if (!strcmp(argv[1], "brackets")) run_brackets(count);
    if (!strcmp(argv[1], "both")) run_both(count);
    if (!strcmp(argv[1], "core")) run_core(count);
    if (!strcmp(argv[1], "map")) run_map();
    if (!strcmp(argv[1], "misuse")) run_misuse();
    return 0;
}
