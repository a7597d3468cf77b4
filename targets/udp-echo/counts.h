/* What was counted, and the line of JSON that tells it. */

#include "../harness/schedule.h"

struct counts {
    uint64_t sent, send_failures, received, strangers, late_sends;
    struct tickscope_kernel_counts kernel;
    const char *matching;
    struct round_trips trips;      /* of a client, as is what follows */
    struct load_lateness lateness; /* nanoseconds */
};

/* Ends the kernel's part and adds what it counted. */
static void add_kernel_counts(struct counts *counts, struct tickscope_kernel *kernel) {
    struct tickscope_kernel_counts *sum = &counts->kernel;
    const struct tickscope_kernel_counts *more = &kernel->counts;
    if (counts->matching == 0) counts->matching = tickscope_kernel_matching(kernel);
    tickscope_kernel_end(kernel);
    for (int kind = 0; kind < TICKSCOPE_KERNEL_KINDS; kind++) {
        sum->of[kind].stamped += more->of[kind].stamped;
        sum->of[kind].missing += more->of[kind].missing;
        sum->of[kind].discarded += more->of[kind].discarded;
    }
    sum->refused += more->refused;
    sum->failed += more->failed;
    sum->unmatched += more->unmatched;
    sum->merged += more->merged;
    sum->foreign += more->foreign;
}

static void print_kernel(const struct options *options, const struct counts *counts) {
    static const char *const names[] = {"sched", "tx", "rx"};
    printf(", \"kernel\": {\"every\": %lld, \"matching\": \"%s\"", (long long)options->kernel_every, counts->matching);
    for (int kind = 0; kind <= TICKSCOPE_KERNEL_RX; kind++) {
        const struct tickscope_kernel_tally *tally = &counts->kernel.of[kind];
        printf(", \"%s\": {\"stamped\": %llu, \"missing\": %llu, \"discarded\": %llu}", names[kind],
               (unsigned long long)tally->stamped, (unsigned long long)tally->missing, (unsigned long long)tally->discarded);
    }
    print_number("refused", counts->kernel.refused);
    print_number("failed", counts->kernel.failed);
    print_number("unmatched", counts->kernel.unmatched);
    print_number("merged", counts->kernel.merged);
    print_number("foreign", counts->kernel.foreign);
    printf("}");
}

/* What a packet took: none of it from stamps. */
static void print_costs(struct counts *counts) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000;
    cpu_us += (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (counts->received > 0) print_number("packet_cpu_ns", cpu_us * 1000 / counts->received);
    if (counts->trips.count == 0) return;
    sort_round_trips(&counts->trips);
    print_number("rtt_p50_ns", (uint64_t)round_trip_quantile(&counts->trips, 500));
    print_number("rtt_p99_ns", (uint64_t)round_trip_quantile(&counts->trips, 990));
}

static void print_counts(const struct options *options, struct counts *counts) {
    static const char *const policies[] = {"other", "fifo", "rr", "batch", "", "idle", "deadline"};
    static const char *const pacings[] = {"timerfd", "clock_nanosleep", "spin"};
    struct sched_param parameter = {0};
    int policy = sched_getscheduler(0), is_client = !strcmp(options->role, "client");
    sched_getparam(0, &parameter);
    printf("{\"role\": \"%s\"", options->role);
    print_number("sent", counts->sent);
    print_number("send_failures", counts->send_failures);
    print_number("received", counts->received);
    print_number("strangers", counts->strangers);
    print_number("late_sends", counts->late_sends);
    printf(", \"wait\": \"%s\", \"pacing\": \"%s\"", wait_names[options->wait],
           is_client ? pacings[options->wait] : "replies");
    printf(", \"policy\": \"%s\", \"priority\": %d", policy >= 0 && policy <= 6 ? policies[policy] : "unknown",
           parameter.sched_priority);
    if (options->core >= 0) printf(", \"core\": %d", options->core);
    else printf(", \"core\": null");
    print_costs(counts);
    if (is_client) print_schedule(&counts->lateness);
    print_kernel(options, counts);
    if (is_client) print_valid(&counts->lateness);
    printf("}\n");
}
