/*
 * paced - one thread that stamps at a fixed rate, and says what that schedule suffered.
 *
 *     paced CPU SECONDS STAMPS_A_SECOND IDS SPACING
 *
 * IDS: sequential, or random (of 20 bits). SPACING: tight, or uneven: 0 to 15 multiplications between two stamps.
 * Stamps are due in batches of 100. A batch that is late is made up for at once, so the rate holds over the run;
 * lateness is how far behind its due time a batch began, which includes what the kernel took from this thread. Prints
 * JSON.
 */
#include "tickscope.h"

#include "../targets/harness/load.h"

enum { BATCH = 100 };

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) perror("paced: expected to be pinned, found"), exit(1);
}

static int random_ids, uneven;

static void stamp_batch(tickscope_channel *channel, int64_t first) {
    for (int64_t id = first; id < first + BATCH; id++) tickscope_stamp(channel, id);
}

static void stamp_varied_batch(tickscope_channel *channel, int64_t first) {
    static uint64_t state = 1, product = 1;
    for (int64_t id = first; id < first + BATCH; id++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        tickscope_stamp(channel, random_ids ? (int64_t)(state >> 44) : id);
        for (int left = uneven ? (int)(state >> 40 & 15) : 0; left > 0; left--) {
            product *= UINT64_C(6364136223846793005);
            __asm__ __volatile__("" : "+r"(product));
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 6) return fprintf(stderr, "paced: expected CPU SECONDS STAMPS_A_SECOND IDS SPACING\n"), 1;
    random_ids = !strcmp(argv[4], "random"), uneven = !strcmp(argv[5], "uneven");
    pin(atoi(argv[1]));
    struct load_plan plan = {.hertz = 1000000000, .burst = BATCH};
    struct load_lateness lateness = {.late_ticks = 1000000};
    struct load_due due;
    tickscope_channel *channel = tickscope_open("paced", TICKSCOPE_PLAIN, 0);
    if (channel->entry == 0) return 1;
    int64_t stamps = 0, longest_batch = 0, start = plan.start = now_ns();
    plan.until = start + (int64_t)(atof(argv[2]) * 1e9);
    const char *expected = load_per_second(&plan.rate, atof(argv[3]));
    if (expected || (expected = load_constant(&due, &plan)))
        return fprintf(stderr, "paced: expected %s, found %s\n", expected, argv[3]), 1;
    for (int64_t first = 0; due.next != LOAD_NEVER; first = stamps) {
        int64_t now = now_ns();
        while (now < due.next) now = now_ns();
        load_record(&lateness, load_next(&due), now, BATCH);
        stamps += BATCH;
        if (random_ids || uneven) stamp_varied_batch(channel, first);
        else stamp_batch(channel, first);
        int64_t took = now_ns() - now;
        if (took > longest_batch) longest_batch = took;
    }
    int64_t took = now_ns() - start;
    printf("{\"stamps\": %lld, \"seconds\": %.3f, \"latest_ns\": %llu, \"batches_late_1ms\": %llu, "
           "\"longest_batch_ns\": %lld, \"dropped\": %llu, \"stalls\": %llu}\n",
           (long long)stamps, (double)took / 1e9, (unsigned long long)lateness.worst_ticks,
           (unsigned long long)(lateness.late / BATCH), (long long)longest_batch,
           (unsigned long long)channel->entry->dropped, (unsigned long long)channel->entry->stalls);
    return 0;
}
