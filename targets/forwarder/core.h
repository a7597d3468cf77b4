/*
 * Threads that poll: which roles share one, on which core, and how long a core was away.
 *
 * Under own scheduling each thread has a core to itself and SCHED_FIFO of its own; the process has not, so that
 * what else it runs never waits for one that polls. The kernel's reserve for other programs stays: what it takes is a
 * stall, and is told. Under shared scheduling threads go wherever the kernel puts them and let others run when they
 * find nothing to do: for tries and tests, where no figure means anything.
 */

#define PRIORITY 10
#define STALL_US 50 /* a core that was away for longer, as far as its thread sees, was stalled */
#define DRAIN_SECONDS 10 /* what is under way when the sender ends takes much less */

/* Roles of each thread by layout. */
static const struct {
    int threads, roles_of[ROLES]; /* bits of roles */
} layouts[] = {
    [CONTENDED] = {2, {1 << SENDER | 1 << RECEIVER | 1 << CONTROL, 1 << ARRIVAL | 1 << DATA}},
    [ALONE] = {2, {1 << SENDER | 1 << RECEIVER, 1 << ARRIVAL | 1 << CONTROL | 1 << DATA}},
    [SPREAD] = {5, {1 << SENDER, 1 << RECEIVER, 1 << ARRIVAL, 1 << CONTROL, 1 << DATA}},
    [SINGLE] = {1, {(1 << ROLES) - 1}},
};

struct core {
    pthread_t thread;
    struct testbed *bed;
    pthread_barrier_t *all_ready;
    int place, roles, number; /* in the layout; bits of roles; -1: any core */
    int64_t cut_ns;    /* the sender ends by then; all do, some time later */
    _Alignas(CACHE_LINE) int64_t turns, ticks, stalls, stalled_ticks, longest_ticks;
    int was_left; /* it ended with packets under way */
    uint32_t turns_taken;
    int64_t exchange_ticks[2]; /* before the trial and after it; 0: not measured */
};

/* ---- what a thread is given -------------------------------------------------------------------------------------- */

/* Cores that this process may use, in order; returns how many. */
static int allowed_cores(int *numbers, int most) {
    cpu_set_t set;
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set)) fail("sched_getaffinity");
    for (int core = 0; core < CPU_SETSIZE && count < most; core++)
        if (CPU_ISSET((size_t)core, &set)) numbers[count++] = core;
    return count;
}

/* Refuses to poll in real time where other programs would be left nothing. */
static void expect_reserve(void) {
    char text[32] = "";
    FILE *file = fopen("/proc/sys/kernel/sched_rt_runtime_us", "r");
    if (file && fgets(text, sizeof text, file) && atoi(text) < 0) {
        fprintf(stderr, TARGET ": expected kernel.sched_rt_runtime_us to leave other programs a part of each second, "
                               "found -1. Run `sysctl kernel.sched_rt_runtime_us=950000`, or use --scheduling "
                               "shared\n");
        exit(1);
    }
    if (file) fclose(file);
}

/* Roles of each process. */
static const int roles_of_process[] = {[BOTH] = (1 << ROLES) - 1, [SOURCE] = 1 << SENDER | 1 << RECEIVER,
                                       [FORWARDER] = 1 << ARRIVAL | 1 << CONTROL | 1 << DATA};

/*
 * Gives each thread of this process a core, the one that it has in the layout of both processes; returns how many there
 * are. Refuses where there are too few cores.
 */
static int assign_cores(struct core *cores, const struct options *options) {
    int numbers[ROLES], threads = layouts[options->layout].threads, there = allowed_cores(numbers, ROLES), count = 0;
    for (int at = 0; at < threads; at++) {
        int roles = layouts[options->layout].roles_of[at] & roles_of_process[options->role];
        int number = options->scheduling == OWN && at < there ? numbers[at] : -1;
        if (roles) cores[count++] = (struct core){.place = at, .roles = roles, .number = number};
    }
    if (options->scheduling == SHARED) return count;
    expect_reserve();
    if (threads > there) {
        fprintf(stderr, TARGET ": expected %d cores for --layout %s, found %d. Use --layout contended or alone (2 "
                               "cores) or single (1), or --scheduling shared, whose figures mean nothing\n",
                threads, layout_names[options->layout], there);
        exit(1);
    }
    return count;
}

/* Makes the calling thread the one that its core runs. */
static void settle(const struct core *core) {
    struct sched_param parameter = {.sched_priority = PRIORITY};
    if (core->number < 0) return;
    pin(core->number);
    int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
    if (error == 0) return;
    fprintf(stderr, TARGET ": cannot poll in real time: %s; run as root, or use --scheduling shared, whose figures "
                           "mean nothing\n", strerror(error));
    exit(1);
}

/* ---- how far apart two cores are --------------------------------------------------------------------------------- */

#define EXCHANGES 256
#define EXCHANGE_SERIES 16

/*
 * Ticks that a cache line takes to the other core and back, between the first two threads: the least mean of some
 * series. Virtual processors are moved between the machine's cores, and delays follow: 0.35 us and 1.4 us were seen of
 * one program within a minute. Only with cores of their own: else the scheduler is what takes time.
 */
static int64_t exchange(struct core *core, int side) {
    int64_t least = INT64_MAX;
    for (int series = 0; series < EXCHANGE_SERIES; series++) {
        int64_t begin = tickscope_now(TICKSCOPE_PLAIN);
        for (int round = 0; round < EXCHANGES; round++) {
            uint32_t mine = 2 * core->turns_taken++ + (uint32_t)side, spins = 0;
            while (atomic_load_explicit(&core->bed->turn, memory_order_acquire) != mine) relax(&spins);
            atomic_store_explicit(&core->bed->turn, mine + 1, memory_order_release);
        }
        int64_t ticks = tickscope_now(TICKSCOPE_PLAIN) - begin;
        if (ticks < least) least = ticks;
    }
    return least / EXCHANGES;
}

/* Takes part in an exchange if this is one of the first two threads of several, and all are of this process. */
static void exchange_once(struct core *core, int after) {
    const struct options *options = core->bed->options;
    if (core->number < 0 || core->place > 1 || layouts[options->layout].threads < 2 || options->role != BOTH) return;
    core->exchange_ticks[after] = exchange(core, core->place);
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static int is_over(const struct core *core) {
    for (int role = 0; role < ROLES; role++)
        if (core->roles >> role & 1 && !has_ended(core->bed, (enum role)role)) return 0;
    return 1;
}

/* Whether the other process went although there is something to say. */
static int is_peer_gone(struct testbed *bed) {
    int answer = atomic_load_explicit(&bed->answer, memory_order_relaxed);
    int is_met = bed->options->role == FORWARDER || answer > 0;
    int has_parted = atomic_load_explicit(&bed->arrival.has_parted, memory_order_relaxed) || answer == FAREWELL;
    if (bed->links.is_gone && bed->links.is_gone() && is_met && !has_parted) lose_peer(bed);
    return atomic_load_explicit(&bed->is_peer_gone, memory_order_relaxed);
}

/*
 * Looks at the clock, at signals and at the other process now and then: a run that takes too long is cut, one that does
 * not drain ended.
 */
static int is_left(struct core *core) {
    int64_t now = now_ns();
    if (is_peer_gone(core->bed)) return 1;
    if (stopped || now >= core->cut_ns) atomic_store_explicit(&core->bed->is_cut, 1, memory_order_relaxed);
    core->was_left = now >= core->cut_ns + DRAIN_SECONDS * NANOSECONDS;
    return core->was_left;
}

static void note_gap(struct core *core, int64_t gap, int64_t limit) {
    if (gap <= limit) return;
    core->stalls++;
    core->stalled_ticks += gap;
    if (gap > core->longest_ticks) core->longest_ticks = gap;
}

static void poll_roles(struct core *core, struct points *points) {
    int64_t begin = tickscope_now(TICKSCOPE_PLAIN), last = begin, limit = STALL_US * core->bed->hertz / 1000000;
    while (!is_over(core)) {
        int64_t now = tickscope_now(TICKSCOPE_PLAIN);
        size_t done = 0;
        note_gap(core, now - last, limit);
        last = now;
        for (int role = 0; role < ROLES; role++)
            if (core->roles >> role & 1 && !has_ended(core->bed, (enum role)role))
                done += steps[role](core->bed, points, now);
        if (done == 0 && core->bed->options->scheduling == SHARED) sched_yield();
        if ((++core->turns & 1023) == 0 && is_left(core)) break;
    }
    core->ticks = tickscope_now(TICKSCOPE_PLAIN) - begin;
}

/* Polls; where a poll faults, the other process took its memory away, or this is a defect. */
static void poll_to_the_end(struct core *core, struct points *points) {
#ifdef WITH_DPDK
    if (sigsetjmp(poll_begin, 1)) {
        is_polling = 0;
        if (!await_memif_gone()) abort();
        lose_peer(core->bed);
        return;
    }
    is_polling = 1;
    poll_roles(core, points);
    is_polling = 0;
#else
    poll_roles(core, points);
#endif
}

static void *run_core(void *argument) {
    struct core *core = (struct core *)argument;
    struct points points = {0};
    const struct primitive *primitive = core->bed->fib.primitive;
    const struct links *links = &core->bed->links;
    for (int role = 0; role < ROLES; role++)
        if (core->roles >> role & 1) open_points(&points, (enum role)role);
    if (primitive->enter) primitive->enter();
    if (links->enter) links->enter();
    settle(core);
    exchange_once(core, 0);
    pthread_barrier_wait(core->all_ready);
    if (core->roles >> SENDER & 1 && core->bed->options->role == BOTH) begin_sending(core->bed);
    poll_to_the_end(core, &points);
    exchange_once(core, 1);
    if (links->leave) links->leave();
    if (primitive->leave) primitive->leave();
    return 0;
}

/* When the sender is cut, from now on. A forwarder of its own ends when its source does. */
static int64_t cut_ns(const struct testbed *bed) {
    const struct options *options = bed->options;
    double wanted = options->rate_pps > 0 ? (double)bed->trace.count / options->rate_pps : 60;
    if (options->role == FORWARDER) return INT64_MAX / 2;
    if (options->role == SOURCE) wanted += PEER_SECONDS;
    return now_ns() + (int64_t)((CUT_FACTOR * wanted + 1) * 1e9);
}

/* Runs all roles of these threads to their end. */
static void run_cores(struct testbed *bed, struct core *cores, int threads) {
    pthread_barrier_t all_ready;
    pthread_barrier_init(&all_ready, 0, (unsigned)threads);
    for (int at = 0; at < threads; at++) {
        cores[at].bed = bed;
        cores[at].all_ready = &all_ready;
        cores[at].cut_ns = cut_ns(bed);
        if (pthread_create(&cores[at].thread, 0, run_core, &cores[at])) fail("pthread_create");
    }
    for (int at = 0; at < threads; at++) pthread_join(cores[at].thread, 0);
    pthread_barrier_destroy(&all_ready);
}
