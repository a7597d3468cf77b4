/*
 * Everything at once, for sanitizers: threads that stamp, end and close, handlers that stamp, children, a switch of
 * policies, and one who takes blocks.
 *
 *     sanitized within COUNT     a thread of this program takes the blocks as a collector does, through the same
 *                                mapping: ThreadSanitizer sees both sides of the hand-over. Every id is looked for
 *     sanitized beside COUNT     somebody else does
 *     sanitized start            threads that open, stamp and read clocks at once
 *     sanitized start DIRECTORY  the same, with TICKSCOPE_DIR set by then alone: the first of them makes the pool
 *
 * Ids are stamper * 1000000 + 0, 1, ...; it tells how many were stamped. Children stamp under stamper 900.
 */
#include "tickscope.h"

#include <sys/time.h>
#include <sys/wait.h>

/*
 * ThreadSanitizer holds locks of its own while it forks, and the library's handlers of fork wait for a thread that may
 * be waiting for those: under it nobody forks while other threads open and close channels. A signal that comes while it
 * holds one stops it for ever: under it signals come between stamps alone. At every instruction they come in steps.c.
 */
#if defined(TICKSCOPE__BUILTINS)
#define FORKS_AMID_THREADS 0
#else
#define FORKS_AMID_THREADS 1
#endif

#define STAMPERS 64
#define LONG_ONES 4
#define MOST 20000
static uint8_t seen[STAMPERS][MOST];
static int32_t stamped[STAMPERS]; /* ids that each has given */
static int32_t is_over, torn;
static int64_t count;

static __thread tickscope_channel *handled; /* where this thread's handler stamps */
static __thread int32_t handler_stamper;

static void on_alarm(int unused) {
    int error = errno;
    (void)unused;
    if (handled && stamped[handler_stamper] < MOST)
        tickscope_stamp(handled, handler_stamper * 1000000 + stamped[handler_stamper]++);
    errno = error;
}

static void stamp(tickscope_channel *channel, unsigned flags, int64_t id) {
    struct tickscope_extra extra = {0, 0, 0, 0, 0};
    int64_t parent = id - 1;
    extra.value = id * 3;
    extra.parent = &parent;
    if (flags) tickscope_stamp_with(channel, id, extra);
    else tickscope_stamp(channel, id);
    if (!FORKS_AMID_THREADS && id % 50 == 0) raise(SIGALRM);
}

/* A child stamps on what it inherited and on a channel of its own. */
static void fork_once(tickscope_channel *channel) {
    pid_t child = fork();
    if (child == 0) {
        for (int at = 0; at < 50; at++) stamp(channel, 0, 900000000 + at);
        stamp(tickscope_open("child", TICKSCOPE_BEFORE, 0), 0, 900000100);
        _exit(0);
    }
    if (child > 0) waitpid(child, 0, 0);
}

static void *stamp_long(void *argument) {
    static const unsigned shapes[LONG_ONES] = {0, TICKSCOPE_WIDE, TICKSCOPE_FULL, TICKSCOPE_WIDE | TICKSCOPE_BOTH};
    int32_t mine = (int32_t)(intptr_t)argument;
    tickscope_channel *channel = tickscope_open("work", (enum tickscope_ordering)(mine % 3), shapes[mine]);
    tickscope_channel *off = tickscope_open("switched", TICKSCOPE_PLAIN, 0);
    handler_stamper = 32 + mine;
    handled = tickscope_open("handled", TICKSCOPE_PLAIN, 0);
    for (int64_t id = 0; id < count; id++) {
        stamp(channel, shapes[mine], mine * 1000000 + id);
        stamp(off, 0, 901000000);
        if (FORKS_AMID_THREADS && mine == 0 && id % (count / 4) == 7) fork_once(off);
        /* Another process's switch: what it may do to the word at any time. */
        uint64_t word = __atomic_load_n(&off->entry->policy, __ATOMIC_ACQUIRE);
        uint64_t other = (word + (UINT64_C(1) << 32)) ^ 1;
        if (mine == 1 && id % 64 == 0) __atomic_store_n(&off->entry->policy, other, __ATOMIC_RELEASE);
    }
    handled = 0;
    tickscope_close(channel);
    stamped[mine] = (int32_t)count;
    return 0;
}

/* Ends soon, so that others go on in its block. */
static void *stamp_short(void *argument) {
    int32_t mine = (int32_t)(intptr_t)argument;
    for (int at = 0; at < 5; at++) {
        int64_t id = mine * 1000000 + __atomic_fetch_add(&stamped[mine], 1, __ATOMIC_RELAXED);
        tickscope_stamp(TICKSCOPE_POINT("short", TICKSCOPE_BEFORE, 0), id);
    }
    return 0;
}

static void note(const struct tickscope__block_header *block, const unsigned char *record) {
    int64_t id = __atomic_load_n((const int64_t *)(const void *)record, __ATOMIC_RELAXED);
    int64_t stamper = id / 1000000, at = id % 1000000;
    if (stamper >= STAMPERS || at >= MOST) return; /* of no interest */
    if (seen[stamper][at]++) torn++;
    const struct tickscope__full_record *full = (const struct tickscope__full_record *)(const void *)record;
    int both = stamper == 3; /* its values are readings of a clock */
    if (block->shape > 1 && !both && __atomic_load_n(&full->wide.value, __ATOMIC_RELAXED) != id * 3) torn++;
    if (block->shape > 2 && __atomic_load_n(&full->parent, __ATOMIC_RELAXED) != id - 1) torn++;
}

static const int64_t *tick_at(const struct tickscope__block_header *block, uint32_t unit) {
    return (const int64_t *)(const void *)((const unsigned char *)block + (size_t)unit * TICKSCOPE__UNIT_BYTES) + 1;
}

/* Takes a block if it is complete, or released, or if everybody has ended. */
static void take(struct tickscope__block_header *block, uint32_t units, int all) {
    uint32_t released = TICKSCOPE__BLOCK_RELEASED;
    if (__atomic_load_n(&block->magic, __ATOMIC_ACQUIRE) != TICKSCOPE__BLOCK_MAGIC) return;
    uint32_t first = block->header_bytes / TICKSCOPE__UNIT_BYTES, complete = 1;
    for (uint32_t unit = first; unit < units && complete; unit += block->shape)
        complete = __atomic_load_n(tick_at(block, unit), __ATOMIC_ACQUIRE) != 0;
    if (!complete && !all &&
        !__atomic_compare_exchange_n(&block->state, &released, 4, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    for (uint32_t unit = first, next = block->successor; unit < units; unit += block->shape) {
        if (unit == next) { /* a description, not a record */
            next = ((const struct tickscope__successor *)(const void *)(tick_at(block, unit) - 1))->next;
            unit += tickscope__successor_units(block->shape) - block->shape;
        } else if (__atomic_load_n(tick_at(block, unit), __ATOMIC_ACQUIRE)) {
            note(block, (const unsigned char *)(tick_at(block, unit) - 1));
        }
    }
    __atomic_store_n(&block->state, 3, __ATOMIC_RELAXED);
    __atomic_store_n(&block->magic, 0, __ATOMIC_RELAXED);
    /* Word by word: whoever looks whether it may go on in this block is told no, and may read it meanwhile. */
    for (uint32_t word = 3; word < units * 4; word++) __atomic_store_n((uint32_t *)block + word, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&block->state, TICKSCOPE__BLOCK_FREE, __ATOMIC_RELEASE);
}

static void take_all(int all) {
    struct tickscope__pool_header *pool = __atomic_load_n(&tickscope__process.pool, __ATOMIC_ACQUIRE);
    for (uint32_t at = 0; pool && at < pool->block_count; at++)
        take(tickscope__block(pool, at), pool->block_bytes / TICKSCOPE__UNIT_BYTES, all);
}

static void *collect(void *unused) {
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        take_all(0);
        usleep(200);
    }
    return unused;
}

static void run(int within) {
    pthread_t thread[LONG_ONES], other[8], collector;
    struct itimerval every = {{0, 500}, {0, 500}};
    tickscope_channel *first = tickscope_open("first", TICKSCOPE_PLAIN, 0); /* the pool is there */
    fork_once(first);
    if (within) pthread_create(&collector, 0, collect, 0);
    signal(SIGALRM, on_alarm);
    for (intptr_t at = 0; at < LONG_ONES; at++) pthread_create(&thread[at], 0, stamp_long, (void *)at);
    if (FORKS_AMID_THREADS) setitimer(ITIMER_REAL, &every, 0);
    for (int wave = 0; wave < 20; wave++) {
        for (intptr_t at = 0; at < 8; at++) pthread_create(&other[at], 0, stamp_short, (void *)(8 + at));
        for (int at = 0; at < 8; at++) pthread_join(other[at], 0);
    }
    for (int at = 0; at < LONG_ONES; at++) pthread_join(thread[at], 0);
    memset(&every, 0, sizeof every);
    if (FORKS_AMID_THREADS) setitimer(ITIMER_REAL, &every, 0);
    fork_once(first);
    if (!within) return;
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    pthread_join(collector, 0);
    take_all(1);
}

static void *start_at_once(void *argument) {
    pthread_barrier_wait((pthread_barrier_t *)argument);
    int64_t now = tickscope_now(TICKSCOPE_PLAIN);
    tickscope_stamp(0, 1); /* refused and counted */
    for (int at = 0; at < 100; at++) tickscope_stamp(TICKSCOPE_POINT("work", TICKSCOPE_BEFORE, 0), now + at);
    tickscope_stamp(tickscope_open("no such name", TICKSCOPE_PLAIN, 0), 4);
    tickscope_clock_now(TICKSCOPE_REALTIME);
    return 0;
}

static void start(void) {
    pthread_t thread[8];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, 0, 8);
    for (int at = 0; at < 8; at++) pthread_create(&thread[at], 0, start_at_once, &barrier);
    for (int at = 0; at < 8; at++) pthread_join(thread[at], 0);
}

int main(int argc, char **argv) {
    int64_t given = 0, missed = 0;
    if (argc < 2) return 2;
    count = argc > 2 ? atoll(argv[2]) : 0;
    if (!strcmp(argv[1], "start")) {
        if (argc > 2) setenv("TICKSCOPE_DIR", argv[2], 1);
        start();
    }
    else run(!strcmp(argv[1], "within"));
    for (int stamper = 0; stamper < STAMPERS; stamper++) {
        given += stamped[stamper];
        for (int at = 0; at < stamped[stamper]; at++) missed += !seen[stamper][at];
    }
    printf("%lld %lld %d\n", (long long)given, (long long)missed, torn);
    return 0;
}
