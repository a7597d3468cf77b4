/* Processes of the pairs that are not timed: they end with the timed one. */

static pid_t processes[MOST_PAIRS];
static int process_count;

/* Starts what `run` does in a process of its own; before any point is opened, so that it stamps nothing. */
static void start(void (*run)(const struct options *, int), const struct options *options, int pair) {
    pid_t parent = getpid(), child = fork();
    if (child < 0) fail("fork");
    if (child > 0) {
        processes[process_count++] = child;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent) run(options, pair);
    _exit(0);
}

static void end_processes(void) {
    for (int at = 0; at < process_count; at++) kill(processes[at], SIGTERM);
    for (int at = 0; at < process_count; at++) waitpid(processes[at], 0, 0);
    process_count = 0;
}
