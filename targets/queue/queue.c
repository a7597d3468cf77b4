/*
 * queue - a queue of known capacity between two threads, stamped with tickscope.h: what a search for a sustainable
 * rate is tried on.
 *
 *     queue [--rate HZ] [--capacity HZ] [--buffer N] [--seconds N]
 *           [--vary SHARE]   service times are drawn evenly from their mean less that share to their mean and it; 0.5
 *           [--seed N]       of service times: the same seed gives the same ones
 *           [--linger MS]    how long what is queued at the end is still served; 1000
 *           [--late MS]      when an arrival is late: of more than 1 in 1000 so late no figure may be used; 10
 *           [--core N]       of the thread that paces the arrivals; any
 *
 * Points: enqueue (before), dequeue (after: it was served). An id is the number of an arrival. One that finds no room
 * is dropped: it has the first stamp alone, as has one that is not served by the end.
 *
 * A service begins when the one before was to end, or with the arrival where that is later, and not when the thread
 * comes to it: so a machine that takes the thread's core away delays stamps, and takes nothing from the capacity.
 * At the end one line of JSON says what was counted, and whether the arrivals were on time.
 */
#include "tickscope.h"

#include <arpa/inet.h>
#include <stdatomic.h>

#define TARGET "queue"
#define TARGET_USAGE "[options]"
#define TARGET_WORDS 1
#include "../harness/load.h"
#include "../harness/schedule.h"
#include "../harness/target.h"

#define MOST_BUFFER (1 << 20)
#define NEAR_NS 200000 /* what is due sooner is waited for by spinning */

struct options {
    double rate_hz, capacity_hz, seconds, vary, late_ms;
    int64_t linger_ms;
    uint64_t buffer, seed;
    int core;
};

/* One thread puts and one takes: `taken` moves once an arrival was served, so that it has its place until then. */
struct queue {
    const struct options *options;
    int64_t *arrived_ns;
    _Atomic uint64_t put, taken;
    _Atomic int64_t ends_ns; /* INT64_MAX: arrivals still come */
    uint64_t dropped;
};

static int parse_option(struct options *options, const char *name, const char *value) {
    if (!strcmp(name, "--rate")) options->rate_hz = number("--rate in Hz", value, 0.01, 1e7);
    else if (!strcmp(name, "--capacity")) options->capacity_hz = number("--capacity in Hz", value, 0.01, 1e7);
    else if (!strcmp(name, "--buffer")) options->buffer = (uint64_t)whole_number("--buffer", value, 1, MOST_BUFFER);
    else if (!strcmp(name, "--seconds")) options->seconds = number("--seconds", value, 0.001, 1e6);
    else if (!strcmp(name, "--vary")) options->vary = number("--vary", value, 0, 1);
    else if (!strcmp(name, "--seed")) options->seed = strtoull(value, 0, 0);
    else if (!strcmp(name, "--linger")) options->linger_ms = (int64_t)number("--linger in ms", value, 0, 60000);
    else if (!strcmp(name, "--late")) options->late_ms = number("--late in ms", value, 0, 60000);
    else if (!strcmp(name, "--core")) options->core = whole_number("--core", value, 0, CPU_SETSIZE - 1);
    else return 0;
    return 1;
}

/* Comes near that instant, or a hundred microseconds on where nothing is due. */
static void come_near(int64_t at_ns) {
    int64_t until = at_ns == INT64_MAX ? now_ns() + NEAR_NS / 2 : at_ns - NEAR_NS;
    struct timespec when = {until / NANOSECONDS, until % NANOSECONDS};
    if (now_ns() < until) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, 0);
}

static int is_over(struct queue *queue) {
    return stopped || now_ns() >= atomic_load(&queue->ends_ns);
}

/* ---- service ----------------------------------------------------------------------------------------------------- */

static int64_t service_ns(const struct options *options, uint64_t *seed) {
    double mean_ns = 1e9 / options->capacity_hz;
    double drawn = (double)(load_bits(seed) >> 11) / (double)(UINT64_C(1) << 53);
    return (int64_t)(mean_ns * (1 + options->vary * (2 * drawn - 1)) + 0.5);
}

static void *serve(void *argument) {
    struct queue *queue = argument;
    const struct options *options = queue->options;
    tickscope_channel *dequeue = tickscope_open("dequeue", TICKSCOPE_AFTER, 0);
    uint64_t seed = options->seed;
    int64_t free_ns = 0;
    for (uint64_t id = 0; !is_over(queue);) {
        if (id == atomic_load(&queue->put)) {
            if (atomic_load(&queue->ends_ns) != INT64_MAX) break; /* nothing more comes, and all is served */
            come_near(INT64_MAX);
            continue;
        }
        int64_t slot = (int64_t)(id % options->buffer), arrived_ns = queue->arrived_ns[2 * slot];
        free_ns = (free_ns > arrived_ns ? free_ns : arrived_ns) + service_ns(options, &seed);
        while (now_ns() < free_ns && !is_over(queue)) come_near(free_ns);
        if (now_ns() < free_ns) break;
        tickscope_stamp(dequeue, queue->arrived_ns[2 * slot + 1]);
        atomic_store(&queue->taken, ++id);
    }
    return 0;
}

/* ---- arrivals ---------------------------------------------------------------------------------------------------- */

static void arrive(struct queue *queue, tickscope_channel *enqueue, int64_t id) {
    uint64_t put = atomic_load(&queue->put), room = queue->options->buffer;
    tickscope_stamp(enqueue, id);
    if (put - atomic_load(&queue->taken) == room) {
        queue->dropped++;
        return;
    }
    queue->arrived_ns[2 * (put % room)] = now_ns();
    queue->arrived_ns[2 * (put % room) + 1] = id;
    atomic_store(&queue->put, put + 1);
}

static struct load_lateness offer(struct queue *queue) {
    const struct options *options = queue->options;
    struct load_lateness lateness = {.late_ticks = (uint64_t)(1e6 * options->late_ms)};
    struct load_plan plan = {.hertz = NANOSECONDS, .start = now_ns() + NANOSECONDS / 100, .burst = 1};
    struct load_due due;
    tickscope_channel *enqueue = tickscope_open("enqueue", TICKSCOPE_BEFORE, 0);
    plan.until = plan.start + (int64_t)(options->seconds * 1e9);
    const char *expected = load_per_second(&plan.rate, options->rate_hz);
    if (expected || (expected = load_constant(&due, &plan))) refuse(expected, "another --rate");
    for (int64_t id = 0; !stopped && due.next != LOAD_NEVER;) {
        int64_t now = now_ns();
        if (now < due.next) {
            come_near(due.next);
            continue;
        }
        load_record(&lateness, load_next(&due), now, 1);
        arrive(queue, enqueue, id++);
    }
    load_end(&due, &lateness, now_ns());
    return lateness;
}

/* ------------------------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv) {
    struct options options = {.rate_hz = 1000, .capacity_hz = 10000, .seconds = 1, .vary = 0.5, .late_ms = 10};
    struct queue queue = {.options = &options, .ends_ns = INT64_MAX};
    pthread_t server;
    options.linger_ms = 1000;
    options.buffer = 1000;
    options.seed = 1;
    options.core = -1;
    parse_options(&options, argc, argv);
    catch_signals();
    if ((queue.arrived_ns = calloc(2 * options.buffer, sizeof *queue.arrived_ns)) == 0) fail("--buffer");
    errno = pthread_create(&server, 0, serve, &queue);
    if (errno) fail("pthread_create");
    pin(options.core);
    struct load_lateness lateness = offer(&queue);
    uint64_t waiting = atomic_load(&queue.put) - atomic_load(&queue.taken);
    atomic_store(&queue.ends_ns, now_ns() + 1000000 * options.linger_ms);
    pthread_join(server, 0);
    printf("{\"capacity_hz\": %.17g", options.capacity_hz);
    print_number("buffer", options.buffer);
    print_number("offered", lateness.sent);
    print_number("dropped", queue.dropped);
    print_number("served", atomic_load(&queue.taken));
    print_number("waiting_at_end", waiting);
    print_schedule(&lateness);
    print_valid(&lateness);
    printf("}\n");
    return 0;
}
