/*
 * A program under measurement, for the tests: stamps as told, and tells in a shared file what it has done.
 *
 *     stamper WITNESS threads N COUNT     N threads stamp ids 0, 1, ... each at point "work"; COUNT 0: until killed
 *     stamper WITNESS paced N COUNT       the same, resting 1 ms after every 300 stamps
 *     stamper WITNESS slow N COUNT        the same, resting 1 ms after every 10 stamps
 *     stamper WITNESS rate N COUNT        one thread that stamps the same, N a microsecond; what is late comes at once
 *     stamper WITNESS fork COUNT          the same on one thread, then a child of it on the inherited channel
 *     stamper WITNESS signals COUNT       one thread, with a timer's handler that stamps -1, -2, ... on the same channel
 *     stamper WITNESS steps WAY COUNT     one thread, with a handler after its every instruction that stamps -1, -2, ... (x86)
 *     stamper WITNESS fork-steps WAY COUNT    the same with a handler that forks; the child stamps 1000000 and ends,
 *                                         every other one 999999 in the handler too
 *                                         WAY: slim, before, after, wide, full, both (a clock is read too), or
 *                                         record, which takes a tick that was read already
 *     stamper WITNESS core-steps COUNT    wide stamps of TICKSCOPE_RDTSCP on a thread that is moved to another core
 *                                         right before and after that instruction; prints on which it ran
 *     stamper WITNESS wide COUNT          kind = id % 3, value = id * 10
 *     stamper WITNESS misuse              stamps before open and after close
 *     stamper WITNESS plugin LIBRARY COUNT    a loaded library stamps
 *
 * WITNESS holds 64 words; word t is how many stamps of thread t (main: 0, child: 32) have returned.
 */
#include "tickscope.h"

#include <dlfcn.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static volatile uint64_t *returned;
static int paced;

struct work {
    int word;
    int64_t count;
};

/* What the stamp of an id carries; every fifth has no parent, every seventh says nothing of attempt and batch. */
static struct tickscope_extra carried(int64_t id) {
    static int64_t parent;
    struct tickscope_extra extra = {0, 0, 0, 0, 0};
    parent = id - 100;
    extra.kind = (int32_t)(id % 3);
    extra.value = id * 10;
    extra.parent = id % 5 ? &parent : 0;
    extra.attempt = id % 7 ? (int32_t)(id % 4) : -1;
    extra.batch = id % 7 ? (int32_t)(id % 64 + 1) : 0;
    return extra;
}

static void stamp_and_count(tickscope_channel *channel, int word, int64_t count) {
    for (int64_t id = 0; count == 0 || id < count; id++) {
        tickscope_stamp(channel, id);
        __atomic_store_n(&returned[word], (uint64_t)id + 1, __ATOMIC_RELEASE);
        if (paced && id % paced == paced - 1) usleep(1000);
    }
}

static void *work(void *argument) {
    struct work *mine = (struct work *)argument;
    stamp_and_count(tickscope_open("work", TICKSCOPE_PLAIN, 0), mine->word, mine->count);
    return 0;
}

static void run_threads(int threads, int64_t count) {
    pthread_t thread[32];
    struct work mine[32];
    for (int at = 0; at < threads; at++) {
        mine[at].word = at;
        mine[at].count = count;
        pthread_create(&thread[at], 0, work, &mine[at]);
    }
    for (int at = 0; at < threads; at++) pthread_join(thread[at], 0);
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void run_rate(int64_t a_us, int64_t count) {
    tickscope_channel *channel = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    int64_t start = now_us();
    for (int64_t id = 0; count == 0 || id < count; id++) {
        while (id % 1000 == 0 && (now_us() - start) * a_us < id) {}
        tickscope_stamp(channel, id);
        __atomic_store_n(&returned[0], (uint64_t)id + 1, __ATOMIC_RELEASE);
    }
}

static void run_fork(int64_t count) {
    tickscope_channel *channel = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    stamp_and_count(channel, 0, 1000);
    if (fork() == 0) {
        stamp_and_count(channel, 32, count);
        exit(0);
    }
    stamp_and_count(channel, 0, count);
    wait(0);
}

static tickscope_channel *signalled;
static volatile int64_t handled;

static void on_timer(int unused) {
    (void)unused;
    for (int burst = 0; burst < 40; burst++) tickscope_stamp(signalled, -++handled);
    __atomic_store_n(&returned[1], (uint64_t)handled, __ATOMIC_RELEASE);
}

static void run_signals(int64_t count) {
    struct itimerval every = {{0, 100}, {0, 100}};
    signalled = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    signal(SIGALRM, on_timer);
    setitimer(ITIMER_REAL, &every, 0);
    stamp_and_count(signalled, 0, count);
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_REAL, &every, 0);
}

#if defined(__x86_64__)
static int carries, is_given;

static void stamp_that_way(int64_t id) {
    if (carries) tickscope_stamp_with(signalled, id, carried(id));
    else if (is_given) tickscope_record(signalled, id, id + 1000000000);
    else tickscope_stamp(signalled, id);
}

static void open_that_way(const char *name) {
    int both = !strcmp(name, "both"), full = !strcmp(name, "full");
    is_given = !strcmp(name, "record");
    carries = full || both || !strcmp(name, "wide");
    unsigned flags = full ? TICKSCOPE_FULL : both ? TICKSCOPE_WIDE | TICKSCOPE_BOTH : carries ? TICKSCOPE_WIDE : 0;
    enum tickscope_ordering ordering = !strcmp(name, "before")  ? TICKSCOPE_BEFORE
                                       : !strcmp(name, "after") ? TICKSCOPE_AFTER
                                                                : TICKSCOPE_PLAIN;
    signalled = tickscope_open("work", ordering, flags);
}

static void on_step(int unused) {
    (void)unused;
    stamp_that_way(-++handled);
}

#define TRAP_FLAG 0x100 /* one step at a time */
static void begin_steps(void) {
    __asm__ __volatile__("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}
static void end_steps(void) {
    __asm__ __volatile__("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static void run_steps(const char *name, int64_t count) {
    open_that_way(name);
    signal(SIGTRAP, on_step);
    begin_steps();
    for (int64_t id = 0; id < count; id++) stamp_that_way(id);
    end_steps();
    __atomic_store_n(&returned[1], (uint64_t)handled, __ATOMIC_RELEASE);
}

static volatile int is_child, is_within;

/* Word 1 counts children, word 2 those that did not end well. */
static void on_step_fork(int unused, siginfo_t *unused_too, void *interrupted) {
    int status = 0;
    (void)unused, (void)unused_too;
    if (!is_within) return;
    pid_t child = fork();
    if (child == 0) {
        is_child = 1;
        if (returned[1] % 2 == 0) stamp_that_way(999999); /* within the stamp that was interrupted */
        ((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    waitpid(child, &status, 0);
    returned[1]++;
    if (child < 0 || status != 0) returned[2]++;
}

static void run_fork_steps(const char *name, int64_t count) {
    struct sigaction step;
    memset(&step, 0, sizeof step);
    step.sa_sigaction = on_step_fork;
    step.sa_flags = SA_SIGINFO;
    open_that_way(name);
    sigaction(SIGTRAP, &step, 0);
    returned[0] = (uint64_t)getpid();
    for (int64_t id = 0; id < count; id++) {
        int watched = id < 2 || id > count - 4; /* the first lease, a plain stamp, a full block of count - 2 records */
        if (watched) begin_steps();
        is_within = watched;
        stamp_that_way(id);
        is_within = 0;
        if (is_child) {
            stamp_that_way(1000000);
            _exit(0);
        }
        if (watched) end_steps();
    }
}

static int cores[2], on_core;
static int *core_read; /* where the core of the stamp being made goes */

static void move_to(int at) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cores[at], &only);
    sched_setaffinity(0, sizeof only, &only);
    on_core = at;
}

/* Moves the thread to the other core when rdtscp is the next instruction, and again when it was the last. */
static void on_step_move(int unused, siginfo_t *unused_too, void *interrupted) {
    static int was_next;
    const unsigned char *next = (const unsigned char *)((ucontext_t *)interrupted)->uc_mcontext.gregs[REG_RIP];
    (void)unused, (void)unused_too;
    int is_next = next[0] == 0x0f && next[1] == 0x01 && next[2] == 0xf9;
    if (is_next || was_next) move_to(!on_core);
    if (is_next) *core_read = cores[on_core];
    was_next = is_next;
}

static void run_core_steps(int64_t count) {
    struct sigaction step;
    cpu_set_t allowed;
    int found = 0, core_of[1000];
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int core = 0; core < CPU_SETSIZE && found < 2; core++)
        if (CPU_ISSET(core, &allowed)) cores[found++] = core;
    if (found < 2) cores[1] = cores[0];
    memset(&step, 0, sizeof step);
    step.sa_sigaction = on_step_move;
    step.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &step, 0);
    signalled = tickscope_open("work", TICKSCOPE_BEFORE, TICKSCOPE_WIDE | TICKSCOPE_RDTSCP);
    for (int64_t id = 0; id < count && id < 1000; id++) {
        move_to((int)(id % 2));
        core_read = &core_of[id];
        begin_steps();
        tickscope_stamp_with(signalled, id, carried(id));
        end_steps();
    }
    for (int64_t id = 0; id < count && id < 1000; id++) printf("%d\n", core_of[id]);
}
#endif

static void run_misuse(void) {
    tickscope_channel *channel = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    tickscope_stamp(0, 1);
    tickscope_stamp(channel, 2);
    tickscope_close(channel);
    tickscope_stamp(channel, 3);
    tickscope_stamp(tickscope_open("no such name", TICKSCOPE_PLAIN, 0), 4);
}

static void run_plugin(const char *library, int64_t count) {
    void *plugin = dlopen(library, RTLD_NOW);
    void (*run)(int64_t) = 0;
    if (plugin) *(void **)&run = dlsym(plugin, "plugin_run");
    if (run == 0) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    run(count);
    stamp_and_count(tickscope_open("work", TICKSCOPE_PLAIN, 0), 0, count);
    dlclose(plugin);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int fd = open(argv[1], O_RDWR);
    returned = (volatile uint64_t *)mmap(0, 512, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (returned == MAP_FAILED) return 2;
    int64_t last = argc > 3 ? atoll(argv[argc - 1]) : 0;
    paced = !strcmp(argv[2], "paced") ? 300 : !strcmp(argv[2], "slow") ? 10 : 0;
    if (paced || !strcmp(argv[2], "threads")) run_threads(atoi(argv[3]), last);
    if (!strcmp(argv[2], "rate")) run_rate(atoi(argv[3]), last);
    if (!strcmp(argv[2], "fork")) run_fork(last);
    if (!strcmp(argv[2], "signals")) run_signals(last);
#if defined(__x86_64__)
    if (!strcmp(argv[2], "steps")) run_steps(argv[3], last);
    if (!strcmp(argv[2], "fork-steps")) run_fork_steps(argv[3], last);
    if (!strcmp(argv[2], "core-steps")) run_core_steps(last);
#endif
    if (!strcmp(argv[2], "misuse")) run_misuse();
    if (!strcmp(argv[2], "plugin")) run_plugin(argv[3], last);
    if (!strcmp(argv[2], "wide") || !strcmp(argv[2], "full")) {
        unsigned flags = argv[2][0] == 'w' ? TICKSCOPE_WIDE : TICKSCOPE_FULL;
        tickscope_channel *channel = tickscope_open("work", TICKSCOPE_AFTER, flags);
        for (int64_t id = 0; id < last; id++) tickscope_stamp_with(channel, id, carried(id));
        for (int64_t id = last; id < last + 9; id++) tickscope_record_with(channel, id, 1 + id, carried(id));
        for (int64_t id = last + 9; id < last + 18; id++) tickscope_stamp(channel, id);
    }
    return 0;
}
