/*
 * Prints what targets/harness/load.h makes of its arguments, one number a line; a refusal is the line of what was
 * expected.
 *
 *     face due EVENTS SECONDS HERTZ START UNTIL BURST COUNT [SEED]     with a seed: Poisson
 *     face bucket EVENTS SECONDS HERTZ START MOST CAPPED STEPS SEED    offer, earned; at the end what was lost
 *     face trace USERS CONTROL DATA ROWS SEED
 *     face lateness LIMIT EVENTS SEED                                  eight quantiles, then sums, then the fault
 *     face rate HERTZ
 */
#include "../../../../targets/harness/load.h"

#include <stdio.h>

static long long number(char **argv, int at) {
    return strtoll(argv[at], 0, 10);
}

static struct load_plan plan(char **argv) {
    struct load_plan plan = {.burst = 1};
    plan.rate.events = strtoull(argv[2], 0, 10);
    plan.rate.seconds = strtoull(argv[3], 0, 10);
    plan.hertz = strtoull(argv[4], 0, 10);
    plan.start = number(argv, 5);
    return plan;
}

static int refused(const char *expected) {
    if (expected) puts(expected);
    return expected != 0;
}

static void print_due(int argc, char **argv) {
    struct load_plan wanted = plan(argv);
    struct load_lateness lateness = {0};
    struct load_due due;
    wanted.until = number(argv, 6);
    wanted.burst = (uint32_t)number(argv, 7);
    uint64_t seed = argc > 9 ? strtoull(argv[9], 0, 10) : 0;
    if (refused(argc > 9 ? load_poisson(&due, &wanted, seed) : load_constant(&due, &wanted))) return;
    for (long long left = number(argv, 8); left > 0 && due.next != LOAD_NEVER; left--) {
        printf("%lld\n", (long long)load_next(&due));
    }
    load_end(&due, &lateness, due.next < INT64_MAX - 5 ? due.next + 5 : due.next);
    printf("%llu\n", (unsigned long long)lateness.unsent);
}

static void print_bucket(char **argv) {
    struct load_plan wanted = plan(argv);
    struct load_bucket bucket;
    uint64_t seed = strtoull(argv[9], 0, 10);
    int64_t now = wanted.start;
    if (refused(load_fill(&bucket, &wanted, (uint32_t)number(argv, 6), (int)number(argv, 7)))) return;
    for (long long step = number(argv, 8); step > 0; step--) {
        now += (int64_t)load_below(&seed, load_below(&seed, 2) ? 1000 : 1000000);
        int64_t offer = load_offer(&bucket, now);
        printf("%lld\n%lld\n", (long long)offer, (long long)load_earned(&bucket));
        if (!load_pay(&bucket, (uint32_t)load_below(&seed, (uint64_t)offer + 1))) puts("not paid");
    }
    if (load_pay(&bucket, bucket.offered + 1)) puts("paid too much");
    if (load_offer(&bucket, now - 1) != -1) puts("stepped back");
    printf("%llu\n", (unsigned long long)load_lost(&bucket));
}

static void print_trace(char **argv) {
    const uint32_t control_to_data[2] = {(uint32_t)number(argv, 3), (uint32_t)number(argv, 4)};
    size_t rows = (size_t)number(argv, 5);
    const char *expected;
    uint32_t *trace = load_trace((uint32_t)number(argv, 2), control_to_data, rows, strtoull(argv[6], 0, 10), &expected);
    if (trace == 0) refused(expected);
    else
        for (size_t row = 0; row < rows; row++) printf("%lu\n", (unsigned long)trace[row]);
    free(trace);
}

static void print_lateness(char **argv) {
    static struct load_lateness lateness;
    uint64_t seed = strtoull(argv[4], 0, 10);
    lateness.late_ticks = strtoull(argv[2], 0, 10);
    for (long long left = number(argv, 3); left > 0; left--) {
        int64_t due = (int64_t)(load_bits(&seed) >> 2) - (INT64_C(1) << 61);
        uint64_t late = load_bits(&seed);
        late >>= 2 + load_below(&seed, 62);
        load_record(&lateness, due, due + (int64_t)late, 1 + (uint32_t)load_below(&seed, 3));
    }
    for (uint32_t of_1000 = 0; of_1000 <= 1000; of_1000 += 125)
        printf("%llu\n", (unsigned long long)load_quantile_ticks(&lateness, of_1000));
    printf("%llu\n%llu\n%llu\n", (unsigned long long)lateness.sent, (unsigned long long)lateness.late,
           (unsigned long long)lateness.worst_ticks);
    puts(load_fault(&lateness) ? load_fault(&lateness) : "held");
}

int main(int argc, char **argv) {
    unsigned char id[8];
    struct load_rate rate;
    load_write_id(id, INT64_C(-0x1122334455667788));
    if (memcmp(id, "\x78\x88\x99\xaa\xbb\xcc\xdd\xee", 8) != 0) puts("an id's bytes stand in another order");
    if (!strcmp(argv[1], "due")) print_due(argc, argv);
    else if (!strcmp(argv[1], "bucket")) print_bucket(argv);
    else if (!strcmp(argv[1], "trace")) print_trace(argv);
    else if (!strcmp(argv[1], "lateness")) print_lateness(argv);
    else if (!refused(load_per_second(&rate, strtod(argv[2], 0))))
        printf("%llu\n%llu\n", (unsigned long long)rate.events, (unsigned long long)rate.seconds);
    return 0;
}
