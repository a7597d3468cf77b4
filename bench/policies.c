/*
 * policies - what a stamp costs under each policy, which the environment gives to each point by its name.
 *
 *     policies known POINT                                 exit code 0: the point's policy is one of this build's
 *     policies latency CPU ROUNDS EVENTS PAUSE_US POINT... blocks of rounds.h: nothing, rdtsc and each point
 *     policies shared CPU OTHER_CPU ROUNDS EVENTS POINT    the same while a thread on OTHER_CPU does the same
 *     policies throughput CPU MILLISECONDS POINT           as many stamps as fit, one thread; prints JSON
 *
 * Ids begin at 1: a point that keeps one id in many keeps none of a block's. `shared` has each thread stamp its own
 * channel of the point, and beside it what a counter for several writers costs: a locked add on one word, and on a word
 * for each.
 */
#include "rounds.h"

enum { MOST_POINTS = 16, CHUNK = 1000 };

static tickscope_channel *channels[MOST_POINTS];

#define POINT_BLOCK(at) BLOCK(block_##at, tickscope_stamp(channels[at], id + 1))

BLOCK(block_nothing, KEEP(id))
BLOCK(block_rdtsc, KEEP(tickscope__plain()))
POINT_BLOCK(0)
POINT_BLOCK(1)
POINT_BLOCK(2)
POINT_BLOCK(3)
POINT_BLOCK(4)
POINT_BLOCK(5)
POINT_BLOCK(6)
POINT_BLOCK(7)
POINT_BLOCK(8)
POINT_BLOCK(9)
POINT_BLOCK(10)
POINT_BLOCK(11)
POINT_BLOCK(12)
POINT_BLOCK(13)
POINT_BLOCK(14)
POINT_BLOCK(15)

static void (*const blocks[MOST_POINTS])(int64_t) = {
    block_0, block_1, block_2,  block_3,  block_4,  block_5,  block_6,  block_7,
    block_8, block_9, block_10, block_11, block_12, block_13, block_14, block_15,
};

static void fail(const char *what) {
    fprintf(stderr, "policies: %s\n", what);
    exit(2);
}

static tickscope_channel *opened(const char *point) {
    tickscope_channel *channel = tickscope_open(point, TICKSCOPE_PLAIN, 0);
    if (channel->entry == 0) fail("expected a channel with an entry in the pool, found none");
    return channel;
}

/* A rule that is not understood leaves the point off, and one that nothing is done about refuses its stamps. */
static int known(const char *point) {
    tickscope_channel *channel = opened(point);
    tickscope_stamp(channel, 1);
    return (uint32_t)channel->entry->policy != TICKSCOPE__POLICY_NULL && channel->entry->refused == 0;
}

static void latency(char **argv, int points) {
    if (points > MOST_POINTS) fail("expected at most 16 points");
    struct variant variants[2 + MOST_POINTS] = {{"nothing", block_nothing}, {"rdtsc", block_rdtsc}};
    struct rounds how = {variants, 2 + points, atoll(argv[1]), atoll(argv[2]), atoll(argv[3])};
    pin(atoi(argv[0]));
    for (int at = 0; at < points; at++) {
        channels[at] = opened(argv[4 + at]);
        variants[2 + at] = (struct variant){argv[4 + at], blocks[at]};
    }
    measure(&how);
    uint64_t dropped = 0;
    for (int at = 0; at < points; at++) dropped += channels[at]->entry->dropped;
    printf("count dropped\t%llu\n", (unsigned long long)dropped);
}

/* ---- two threads at once ---------------------------------------------------------------------------------------- */

static __thread tickscope_channel *own_channel;
/* Each on cache lines of its own. */
static struct {
    int64_t word;
    char rest[248];
} counters[3] __attribute__((aligned(256)));
static __thread int64_t *own_word;

BLOCK(loop_point, tickscope_stamp(own_channel, id + 1))
BLOCK(loop_one_word, __atomic_fetch_add(&counters[0].word, 1, __ATOMIC_RELAXED))
BLOCK(loop_own_word, __atomic_fetch_add(own_word, 1, __ATOMIC_RELAXED))

static void (*const loops[])(int64_t) = {block_nothing, block_rdtsc, loop_point, loop_one_word, loop_own_word};
enum { LOOPS = sizeof loops / sizeof *loops, STOP = -1 };

static int asked, running = STOP;

/* The other thread does what was asked for, until something else is. */
static void *do_as_asked(void *words) {
    char **argv = (char **)words;
    pin(atoi(argv[1]));
    own_channel = opened(argv[4]);
    own_word = &counters[1].word;
    for (int now; (now = __atomic_load_n(&asked, __ATOMIC_RELAXED)) != STOP;) {
        __atomic_store_n(&running, now, __ATOMIC_RELAXED);
        loops[now](CHUNK);
    }
    return 0;
}

static void both(int which, int64_t events) {
    __atomic_store_n(&asked, which, __ATOMIC_RELAXED);
    while (__atomic_load_n(&running, __ATOMIC_RELAXED) != which) {}
    loops[which](events);
}

static void both_nothing(int64_t events) { both(0, events); }
static void both_rdtsc(int64_t events) { both(1, events); }
static void both_point(int64_t events) { both(2, events); }
static void both_one_word(int64_t events) { both(3, events); }
static void both_own_word(int64_t events) { both(4, events); }

static void shared(char **argv) {
    const struct variant variants[LOOPS] = {
        {"nothing", both_nothing},
        {"rdtsc", both_rdtsc},
        {"point", both_point},
        {"lock add, one word", both_one_word},
        {"lock add, a word each", both_own_word},
    };
    struct rounds how = {variants, LOOPS, atoll(argv[2]), atoll(argv[3]), 0};
    pthread_t other;
    pin(atoi(argv[0]));
    own_channel = opened(argv[4]);
    own_word = &counters[2].word;
    if (pthread_create(&other, 0, do_as_asked, argv) != 0) fail("expected a second thread, found none");
    measure(&how);
    __atomic_store_n(&asked, STOP, __ATOMIC_RELAXED);
    pthread_join(other, 0);
}

/* ---- as many as fit --------------------------------------------------------------------------------------------- */

static void throughput(char **argv) {
    pin(atoi(argv[0]));
    tickscope_channel *channel = opened(argv[2]);
    int64_t start = clock_monotonic(), end = start + atoll(argv[1]) * 1000000, id = 1, now = start;
    for (; now < end; now = clock_monotonic())
        for (int64_t last = id + CHUNK; id < last; id++) tickscope_stamp(channel, id);
    printf("{\"stamps\": %lld, \"seconds\": %.6f, \"dropped\": %llu, \"stalls\": %llu}\n", (long long)(id - 1),
           (double)(now - start) / 1e9, (unsigned long long)channel->entry->dropped,
           (unsigned long long)channel->entry->stalls);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "known")) return !known(argv[2]);
    if (argc >= 7 && !strcmp(argv[1], "latency")) return latency(argv + 2, argc - 6), 0;
    if (argc == 7 && !strcmp(argv[1], "shared")) return shared(argv + 2), 0;
    if (argc == 5 && !strcmp(argv[1], "throughput")) return throughput(argv + 2), 0;
    fail("expected known POINT, latency CPU ROUNDS EVENTS PAUSE_US POINT..., shared CPU OTHER_CPU ROUNDS EVENTS POINT "
         "or throughput CPU MILLISECONDS POINT");
}
