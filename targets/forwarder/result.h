/* The line of JSON that tells what was counted, and whether the figures of the run may be used. */

#define MOST_STALLED 0.01   /* of the time of any core */
#define LEAST_ACHIEVED 0.98 /* of the rate that was asked for */
#define MOST_MOVED 1.5      /* how much longer the cores' exchange may take after the trial than before, or before */

struct result {
    const struct testbed *bed;
    const struct core *cores;
    int threads, is_locked;
    double achieved_pps;
};

static double nanoseconds(const struct result *result, int64_t ticks) {
    return (double)ticks * 1e9 / (double)result->bed->hertz;
}

static double stalled_share(const struct core *core) {
    return core->ticks > 0 ? (double)core->stalled_ticks / (double)core->ticks : 0;
}

/* Reasons why figures may not be used, each in quotes and with commas between them. */
struct reasons {
    char text[1024];
    size_t length;
};

static void give(struct reasons *reasons, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void give(struct reasons *reasons, const char *format, ...) {
    char reason[160];
    va_list rest;
    va_start(rest, format);
    vsnprintf(reason, sizeof reason, format, rest);
    va_end(rest);
    size_t room = sizeof reasons->text - reasons->length;
    int length = snprintf(reasons->text + reasons->length, room, "%s\"%s\"", reasons->length ? ", " : "", reason);
    if (length > 0 && (size_t)length < room) reasons->length += (size_t)length;
}

/* Reasons that the sender knows of. */
static void give_of_source(struct reasons *reasons, const struct result *result) {
    const struct testbed *bed = result->bed;
    double asked = bed->options->rate_pps;
    if (asked == 0) give(reasons, "no rate was asked for");
    if (asked > 0 && result->achieved_pps < LEAST_ACHIEVED * asked)
        give(reasons, "sent %.0f of %.0f packets a second", result->achieved_pps, asked);
    if (bed->sender.row < bed->trace.count)
        give(reasons, "cut after %lld of %lld packets", (long long)bed->sender.row, (long long)bed->trace.count);
}

/* Why the figures may not be used; none: they may. */
static struct reasons reasons_of(const struct result *result) {
    const struct testbed *bed = result->bed;
    struct reasons reasons = {.length = 0};
    if (bed->options->scheduling == SHARED) give(&reasons, "shared scheduling");
    else if (!result->is_locked) give(&reasons, "memory is not locked: run as root");
    if (bed->is_peer_gone) give(&reasons, "the other process went");
    if (bed->options->role != FORWARDER) give_of_source(&reasons, result);
    else if (!bed->arrival.has_parted && !bed->is_peer_gone) give(&reasons, "ended before the source parted");
    for (int at = 0; at < result->threads; at++) {
        if (stalled_share(&result->cores[at]) > MOST_STALLED)
            give(&reasons, "thread %d was stalled for %.1f %% of the time", at,
                 100 * stalled_share(&result->cores[at]));
        if (result->cores[at].was_left) give(&reasons, "thread %d ended with packets under way", at);
    }
    double before = nanoseconds(result, result->cores[0].exchange_ticks[0]);
    double after = nanoseconds(result, result->cores[0].exchange_ticks[1]);
    if (before > MOST_MOVED * after || after > MOST_MOVED * before)
        give(&reasons, "the cores were moved: an exchange took %.0f ns before, %.0f ns after", before, after);
    return reasons;
}

static void print_count(const char *name, int64_t count) {
    printf(", \"%s\": %lld", name, (long long)count);
}

/* A share of some; null: there were none. */
static void print_share(const char *name, int64_t part, int64_t all) {
    if (all > 0) printf(", \"%s\": %.6f", name, (double)part / (double)all);
    else printf(", \"%s\": null", name);
}

/* Of the time of the core that was away the longest. */
static double most_stalled(const struct result *result) {
    double most = 0;
    for (int at = 0; at < result->threads; at++)
        if (stalled_share(&result->cores[at]) > most) most = stalled_share(&result->cores[at]);
    return most;
}

static void print_cores(const struct result *result) {
    const int64_t *exchange = result->cores[0].exchange_ticks;
    printf(", \"exchange_ns\": [%.0f", nanoseconds(result, exchange[0]));
    printf(", %.0f]", nanoseconds(result, exchange[1]));
    printf(", \"threads\": [");
    for (int at = 0; at < result->threads; at++) {
        const struct core *core = &result->cores[at];
        printf("%s{\"core\": ", at ? ", " : "");
        if (core->number >= 0) printf("%d", core->number);
        else printf("null");
        printf(", \"turns\": %lld, \"stalls\": %lld, \"stalled_share\": %.6f, \"longest_stall_us\": %.1f}",
               (long long)core->turns, (long long)core->stalls, stalled_share(core),
               nanoseconds(result, core->longest_ticks) / 1000);
    }
    printf("]");
}

/* Mean of packets a batch of some; 0: there was none. */
static double batch_mean(int64_t packets, int64_t batches) {
    return batches > 0 ? (double)packets / (double)batches : 0;
}

static void print_settings(const struct options *options) {
    printf("{\"role\": \"%s\"", process_names[options->role]);
    printf(", \"fib\": \"%s\", \"datapath\": \"%s\", \"layout\": \"%s\", \"scheduling\": \"%s\"", options->fib->name,
           datapath_names[options->datapath], layout_names[options->layout], scheduling_names[options->scheduling]);
    printf(", \"rate_pps\": %.0f, \"cdr\": %g, \"users\": %d, \"seed\": %d", options->rate_pps, options->cdr,
           options->users, options->seed);
    printf(", \"ring\": %d, \"newest\": %s, \"link\": %d, \"link_back\": %d, \"delay_ns\": %d", options->ring,
           options->keeps_newest ? "true" : "false", options->link, options->link_back, options->delay_ns);
}

/* What was lost between the processes, by what both counted; null: the forwarder never said. */
static void print_lost(const struct testbed *bed) {
    int64_t judged = bed->receiver.received + bed->receiver.misaddressed;
    int is_source = bed->options->role == SOURCE;
    int64_t arrived = is_source ? bed->receiver.arrived : bed->arrival.packets;
    int64_t returned = is_source ? bed->receiver.returned : bed->data_counts.returned;
    int is_known = bed->options->role == BOTH || (is_source && bed->answer == FAREWELL);
    if (is_known) printf(", \"lost\": {\"there\": %lld, \"back\": %lld}", (long long)(bed->sender.row - arrived),
                         (long long)(returned - judged));
    else printf(", \"lost\": null");
    print_count("strange", bed->links.there.strange + bed->links.back.strange);
}

static void print_result(const struct result *result, const struct reasons *reasons) {
    const struct testbed *bed = result->bed;
    int64_t judged = bed->receiver.received + bed->receiver.misaddressed;
    print_settings(bed->options);
    printf(", \"achieved_pps\": %.0f", result->achieved_pps);
    print_count("primed_moves", bed->trace.primed_moves);
    print_count("primed_data", bed->trace.primed_data);
    print_count("sent_data", bed->sender.sent_data);
    print_count("sent_moves", bed->sender.sent_moves);
    print_count("received", bed->receiver.received);
    print_count("misaddressed", bed->receiver.misaddressed);
    print_count("written", bed->control_counts.written);
    printf(", \"drops\": {\"control\": %lld, \"data\": %lld, \"return\": %lld}", (long long)bed->arrival.control_drops,
           (long long)bed->arrival.data_drops, (long long)bed->data_counts.return_drops);
    print_count("arrived", bed->arrival.packets);
    print_count("returned", bed->data_counts.returned);
    print_lost(bed);
    print_share("misaddressed_share", bed->receiver.misaddressed, judged);
    print_share("control_drop_share", bed->arrival.control_drops, bed->arrival.moves);
    print_share("data_drop_share", bed->arrival.data_drops, bed->arrival.packets - bed->arrival.moves);
    printf(", \"stalled_share_most\": %.6f", most_stalled(result));
    print_count("torn", bed->data_counts.torn);
    printf(", \"sent_batch_mean\": %.3f", batch_mean(bed->sender.row, bed->sender.batches));
    printf(", \"arrived_batch_mean\": %.3f", batch_mean(bed->arrival.packets, bed->arrival.batches));
    printf(", \"delay_mean_ns\": %.0f",
           judged > 0 ? nanoseconds(result, bed->receiver.delay_ticks) / (double)judged : 0);
#ifdef WITH_DPDK
    if (dpdk_runs) printf(", \"huge_pages\": %s", dpdk_is_huge ? "true" : "false");
    else
#endif
        printf(", \"huge_pages\": null"); /* DPDK has no part in it */
    print_count("fib_bytes", (int64_t)bed->fib.bytes);
    print_count("versions_most", bed->fib.versions_most);
    print_count("versions_bytes", bed->fib.versions_most * bed->fib.version_bytes);
    print_cores(result);
    printf(", \"why\": [%s], \"valid\": %s}\n", reasons->text, reasons->length ? "false" : "true");
}
