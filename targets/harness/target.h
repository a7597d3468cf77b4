/*
 * Shared by the targets: messages, signals, the clock that paces, the command line `ROLE ADDRESS PORT [options]`.
 * A target defines TARGET, its name, before it includes this, and parse_option after it; one with another command line
 * defines TARGET_USAGE, and TARGET_WORDS, how many words come before its options.
 */

#define NANOSECONDS INT64_C(1000000000)
#ifndef TARGET_USAGE
#define TARGET_USAGE "server|client ADDRESS PORT [options]"
#define TARGET_WORDS 4
#endif

struct options; /* each target's own */

static volatile sig_atomic_t stopped;

static void fail(const char *what) {
    fprintf(stderr, TARGET ": %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *expected, const char *found) {
    fprintf(stderr, TARGET ": expected %s, found %s. Usage: " TARGET " " TARGET_USAGE "\n", expected, found);
    exit(2);
}

/* The number that `text` is, within these limits. */
static inline double number(const char *name, const char *text, double least, double most) {
    char *end, expected[96];
    double value = strtod(text, &end);
    if (*end == 0 && end != text && value >= least && value <= most) return value;
    snprintf(expected, sizeof expected, "%s from %g to %g", name, least, most);
    refuse(expected, text);
    return 0;
}

static inline int whole_number(const char *name, const char *text, int least, int most) {
    char *end, expected[96];
    long value = strtol(text, &end, 10);
    if (*end == 0 && end != text && value >= least && value <= most) return (int)value;
    snprintf(expected, sizeof expected, "%s from %d to %d", name, least, most);
    refuse(expected, text);
    return 0;
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NANOSECONDS + now.tv_nsec;
}

/* Returns 0 for a name that is no option. */
static int parse_option(struct options *options, const char *name, const char *value);

static void parse_options(struct options *options, int argc, char **argv) {
    for (int at = TARGET_WORDS; at < argc; at += 2)
        if (!parse_option(options, argv[at], at + 1 < argc ? argv[at + 1] : "nothing"))
            refuse("one of the options in " TARGET ".c", argv[at]);
}

static inline struct sockaddr_in ipv4(const char *text, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1) refuse("an IPv4 address", text);
    return address;
}

/* Pins the calling thread, and what it starts from now on, to that core; -1: leaves it as it is. */
static void pin(int core) {
    cpu_set_t cores;
    if (core < 0) return;
    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores)) fail("--core");
}

static void on_stop(int unused) {
    (void)unused;
    stopped = 1;
}

/* Sets `stopped` on SIGINT and SIGTERM. */
static void catch_signals(void) {
    struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGINT, &stop, 0);
    sigaction(SIGTERM, &stop, 0);
}
