/*
 * forwarder - the packet forwarder of "Timely Mobile Routing" (arXiv 2304.14603): a source that sends data packets of
 * mobile users and their location updates, a forwarder that addresses the former by a table that the latter change, and
 * the age of both by stamps of tickscope.h.
 *
 *     forwarder [--rate PPS] [--fib NAME] [--cdr RATIO] [--users N]
 *         --fib none|rwl-spin|rwl-spin-readers|rwl-park|rwl-park-writer|sharded|seqlock|left-right|rcu|rcu-sync
 *             |rte-hash-rwl|rte-hash-rcu   what keeps the table consistent (primitives.h)
 *         --seconds S              how long the trace takes at the rate
 *         --packets N              length of the trace, without what users are primed by (traffic.h); else what the
 *                                  rate sends in --seconds
 *         --moves N                the same, so long that it has some N moves
 *         --datapath rings|net_ring|udp|net_memif|net_af_packet|net_af_xdp   between source and forwarder
 *         --role both|source|forwarder   which of them this process is; two with the last four datapaths
 *         --at WHERE               where two processes meet: ADDRESS:PORT, a socket's path, an interface
 *         --ring N                 room of the control ring and of the data ring; newest: of one packet, the newest
 *         --link N                 room of each way of the link
 *         --link-back N            room of the way back, if it is another
 *         --layout contended|alone|spread|single   which roles share a thread (core.h)
 *         --scheduling own|shared  own: a core and SCHED_FIFO for each thread; shared: ordinary, no figure is valid
 *         --delay NS               what the data process spends on each packet besides: a control of the method
 *         --seed N                 of the trace
 *         --invalid tell|fail      whether it ends with 1 where its figures may not be used
 *         --rate 0                 as fast as the link admits
 *
 * Points, in the order a packet passes them:
 *     data     generated (before; value: user), arrived (after), taken (after), addressed (before; value: id of the
 *              location update that the address is from), then received or misaddressed (after)
 *     moves    moved (before; value: user), move-arrived (after), written (after)
 * All of a batch have one reading where the paper has one, at generated and moved, and where they were taken together,
 * at all others but written. An id is ROW * USERS + USER: the policy `X of USERS` keeps all stamps of X users.
 *
 * At the end one line of JSON says what was counted, and whether the figures may be used.
 */
#include "tickscope.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>

/* One translation unit, a file for each subject. */
#include "options.h"

#include "packet.h"

#include "ring.h"

#include "newest.h"

#include "traffic.h"

#include "fib.h"

#include "lock.h"

#include "primitives.h"

#include "datapath.h"

#include "roles.h"

#include "core.h"

#include "result.h"

struct instant {
    int64_t tick, ns;
};

/* Both clocks at one instant: the narrowest of some pairs, for a thread may be away between two readings. */
static struct instant instant_now(void) {
    struct instant best = {0, 0};
    int64_t narrowest = INT64_MAX;
    for (int attempt = 0; attempt < 16; attempt++) {
        int64_t before = tickscope_now(TICKSCOPE_AFTER), ns = now_ns(), width = tickscope_now(TICKSCOPE_AFTER) - before;
        if (width >= narrowest) continue;
        narrowest = width;
        best = (struct instant){before + width / 2, ns};
    }
    return best;
}

/* Ticks a second, by CLOCK_MONOTONIC over a twentieth of one. */
static int64_t measured_hertz(void) {
    struct instant begin = instant_now(), end;
    while (now_ns() - begin.ns < NANOSECONDS / 20) {}
    end = instant_now();
    return (int64_t)((double)(end.tick - begin.tick) * 1e9 / (double)(end.ns - begin.ns));
}

static void begin_testbed(struct testbed *bed, const struct options *options) {
    bed->options = options;
    bed->hertz = measured_hertz();
    bed->trace = new_trace(options);
#ifdef WITH_DPDK
    dpdk_shares = options->datapath == NET_MEMIF;
#endif
    bed->fib = new_fib(options, bed->trace.moves);
    bed->links = new_links(options);
    bed->control = new_ring((uint64_t)options->ring);
    bed->data = new_ring((uint64_t)options->ring);
    if (options->keeps_newest) bed->newest = new_newest();
    bed->last_move = (_Atomic int64_t *)lines((size_t)options->users * sizeof *bed->last_move);
    for (int user = 0; user < options->users; user++) bed->last_move[user] = FIRST_ADDRESS;
}

/* Whether a thread of DPDK's rests in a fault: nothing that may want a lock of its is called any more. */
static int has_faulted(void) {
#ifdef WITH_DPDK
    return atomic_load(&has_memif_faulted);
#else
    return 0;
#endif
}

static void end_testbed(struct testbed *bed) {
    if (has_faulted()) return;
    end_links(&bed->links);
    end_fib(&bed->fib);
    free_ring(bed->control);
    free_ring(bed->data);
    free(bed->newest);
    free(bed->last_move);
    free(bed->trace.rows);
#ifdef WITH_DPDK
    end_dpdk();
#endif
}

static int nobody_came(const struct options *options) {
    if (options->role == SOURCE)
        fprintf(stderr, TARGET ": no forwarder answers at %s for %d s; start it first, with --role forwarder and this "
                               "--at\n", options->at, PEER_SECONDS);
    else fprintf(stderr, TARGET ": ended before a source came to %s\n", options->at);
    return 1;
}

/* Says what went wrong; returns the exit code. */
static int verdict(const struct testbed *bed, int64_t torn, const struct reasons *reasons) {
    const struct options *options = bed->options;
    if (torn > 0) {
        fprintf(stderr, TARGET ": expected every address as it was written, found %lld mixed of two. This is a defect "
                               "of --fib %s\n", (long long)torn, options->fib->name);
        return 1;
    }
    if (bed->is_peer_gone && options->role == SOURCE && bed->sender.begin_ns == 0) return nobody_came(options);
    if (bed->is_peer_gone) {
        fprintf(stderr, TARGET ": the %s at %s went before it parted; what was counted until then is told\n",
                options->role == SOURCE ? "forwarder" : "source", options->at);
        return 1;
    }
    if (options->invalid == TELL || reasons->length == 0) return 0;
    fprintf(stderr, TARGET ": the figures of this trial may not be used: %s\n", reasons->text);
    return 1;
}

int main(int argc, char **argv) {
    static struct testbed bed;
    static struct core cores[ROLES];
    struct options options = parse(argc, argv);
    struct result result = {.bed = &bed, .cores = cores};
    catch_signals();
    result.threads = assign_cores(cores, &options);
    begin_testbed(&bed, &options);
    result.is_locked = options.scheduling == OWN && !mlockall(MCL_CURRENT | MCL_FUTURE);
    if (bed.links.await && !bed.links.await(&options)) return nobody_came(&options);
    run_cores(&bed, cores, result.threads);
    if (bed.links.part) bed.links.part(&options);
    if (bed.sender.end_ns == 0) bed.sender.end_ns = now_ns();
    double seconds = (double)(bed.sender.end_ns - bed.sender.begin_ns) / 1e9;
    result.achieved_pps = bed.sender.begin_ns > 0 && seconds > 0 ? (double)bed.sender.row / seconds : 0;
    end_testbed(&bed);
    struct reasons reasons = reasons_of(&result);
    print_result(&result, &reasons);
    int code = verdict(&bed, bed.data_counts.torn, &reasons);
    if (fflush(stdout)) fail("standard output");
    if (has_faulted()) _exit(code);
    return code;
}
