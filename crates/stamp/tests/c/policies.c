/*
 * A program whose points are under any policy, for tests/policies.rs; what it does is told by words:
 *
 *     policies WITNESS stamp COUNT       ids -500 ... COUNT - 501 at point "work", slim; COUNT 0: until killed
 *     policies WITNESS stamp_with COUNT  the same, wide
 *     policies WITNESS record COUNT      the same, slim, with ticks given: the id + 1000000
 *     policies WITNESS fork COUNT        half of them, then the rest in the parent, and all anew in a child
 *     policies WITNESS steps COUNT       after every instruction of a stamp a handler stamps 100000 and on (x86)
 *     policies WITNESS adopt COUNT       after one, a later one at each stamp, and the seventh from there, the handler
 *                                        switches the policy, and stamps (x86)
 *     policies WITNESS once COUNT        so many channels: ids 1 and 2, and 3 by a handler after an instruction of 2, a
 *                                        later one on each channel (x86)
 *     policies WITNESS lease COUNT       so many full blocks; after one instruction of a stamp that needs the next, a
 *                                        later one at each, a handler switches between buffered and every 1 (x86)
 *     policies WITNESS threads COUNT     three threads, until word 63 is not 0
 *
 * The function that chooses under the policy own keeps each third id. WITNESS: word 0 is how many stamps have returned,
 * word 1 how many those of the handler are.
 */
#include "tickscope.h"

#include <sys/wait.h>
#include <ucontext.h>

enum { FIRST = -500 };
static volatile uint64_t *returned;
static tickscope_channel *channel;
static volatile int64_t handled;

static int each_third(void *state, int64_t id, int64_t tick) {
    return tick != 0 && id % *(const int64_t *)state == 0;
}

static tickscope_channel *open_work(unsigned flags) {
    static int64_t third = 3;
    tickscope_channel *work = tickscope_open("work", TICKSCOPE_BEFORE, flags);
    tickscope_choose(work, each_third, &third);
    return work;
}

static void stamp_all(const char *way, int64_t from, int64_t count) {
    struct tickscope_extra extra = {0, 0, 0, 0, 0};
    for (int64_t at = from; count == 0 || at < count; at++) {
        extra.value = (FIRST + at) * 10;
        if (!strcmp(way, "record")) tickscope_record(channel, FIRST + at, FIRST + at + 1000000);
        else if (!strcmp(way, "stamp_with")) tickscope_stamp_with(channel, FIRST + at, extra);
        else tickscope_stamp(channel, FIRST + at);
        __atomic_store_n(&returned[0], (uint64_t)at + 1, __ATOMIC_RELEASE);
    }
}

static void stamp_and_fork(int64_t count) {
    stamp_all("stamp", 0, count / 2);
    pid_t child = fork();
    stamp_all("stamp", child ? count / 2 : 0, count);
    if (child == 0) exit(0);
    waitpid(child, 0, 0);
}

static void *stamp_until_told(void *unused) {
    (void)unused;
    tickscope_channel *own = open_work(0);
    for (int64_t id = 0; returned[63] == 0; id++) {
        tickscope_stamp(own, id);
        if (id % 64 == 63) usleep(100);
    }
    return 0;
}

static void stamp_on_threads(void) {
    pthread_t threads[3];
    for (int at = 0; at < 3; at++) pthread_create(&threads[at], 0, stamp_until_told, 0);
    for (int at = 0; at < 3; at++) pthread_join(threads[at], 0);
}

#if defined(__x86_64__)
static void on_step(int unused, siginfo_t *info, void *interrupted) {
    (void)unused, (void)info, (void)interrupted;
    tickscope_stamp(channel, 100000 + handled);
    handled++;
}

/* Switches as a collector does, between first-last with and without a marker, which the handler stamps. */
static volatile int64_t stamped, step;
static void switch_on_step(int unused, siginfo_t *info, void *interrupted) {
    struct tickscope__entry *entry = channel->entry;
    uint64_t epoch = (entry->policy >> 32) + 1;
    (void)unused, (void)info;
    int64_t at = step++;
    if (at != stamped && at != stamped + 7) return;
    handled++;
    entry->parameters[epoch & 1] = epoch & 1 ? 77 : TICKSCOPE__NO_MARKER;
    __atomic_store_n(&entry->policy, epoch << 32 | TICKSCOPE__POLICY_FIRST_LAST, __ATOMIC_RELEASE);
    tickscope_stamp(channel, stamped % 2 ? 77 : 78);
    /* The stamp may adopt what it finds now, with signals blocked, which a trap must not meet. */
    if (at != stamped) ((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

static void stamp_once_on_step(int unused, siginfo_t *info, void *interrupted) {
    (void)unused, (void)info, (void)interrupted;
    if (step++ != stamped) return;
    tickscope_stamp(channel, 3);
    handled++;
}

static void switch_once_on_step(int unused, siginfo_t *info, void *interrupted) {
    struct tickscope__entry *entry = channel->entry;
    uint64_t epoch = (entry->policy >> 32) + 1;
    uint64_t policy = epoch & 1 ? TICKSCOPE__POLICY_EVERY : TICKSCOPE__POLICY_BUFFERED;
    (void)unused, (void)info;
    if (step++ != stamped) return;
    entry->parameters[epoch & 1] = epoch & 1;
    __atomic_store_n(&entry->policy, epoch << 32 | policy, __ATOMIC_RELEASE);
    ((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_EFL] &= ~0x100; /* as in switch_on_step */
}

static void stamp_by_one_step(void (*handler)(int, siginfo_t *, void *), int64_t count) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, 0);
    for (stamped = 0; stamped < count; stamped++) {
        if (handler == stamp_once_on_step) {
            char name[16];
            snprintf(name, sizeof name, "work%d", (int)stamped);
            channel = tickscope_open(name, TICKSCOPE_BEFORE, 0);
            tickscope_stamp(channel, 1);
        } else
            do tickscope_stamp(channel, 1);
            while (!tickscope__is_full(channel, channel->next));
        step = 0;
        __asm__ __volatile__("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
        tickscope_stamp(channel, 2);
        __asm__ __volatile__("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    }
    returned[1] = (uint64_t)handled;
}

static void stamp_in_steps(void (*handler)(int, siginfo_t *, void *), int64_t count) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, 0);
    for (int64_t at = 0; at < count; at++) {
        stamped = at;
        step = 0;
        __asm__ __volatile__("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
        tickscope_stamp(channel, FIRST + at);
    }
    __asm__ __volatile__("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    returned[0] = (uint64_t)count;
    returned[1] = (uint64_t)handled;
}
#endif

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int fd = open(argv[1], O_RDWR);
    returned = (volatile uint64_t *)mmap(0, 512, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (returned == MAP_FAILED) return 2;
    int64_t count = atoll(argv[3]);
    if (strcmp(argv[2], "threads")) channel = open_work(strcmp(argv[2], "stamp_with") ? 0 : TICKSCOPE_WIDE);
    if (!strcmp(argv[2], "threads")) stamp_on_threads();
    else if (!strcmp(argv[2], "fork")) stamp_and_fork(count);
#if defined(__x86_64__)
    else if (!strcmp(argv[2], "steps")) stamp_in_steps(on_step, count);
    else if (!strcmp(argv[2], "once")) stamp_by_one_step(stamp_once_on_step, count);
    else if (!strcmp(argv[2], "lease")) stamp_by_one_step(switch_once_on_step, count);
    else if (!strcmp(argv[2], "adopt")) stamp_in_steps(switch_on_step, count);
#endif
    else stamp_all(argv[2], 0, count);
    tickscope_dump();
    return 0;
}
