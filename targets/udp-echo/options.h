/* What the command line asks for, and the clock that paces. */

enum wait { WAIT_EPOLL, WAIT_BLOCKING, WAIT_BUSY };
static const char *const wait_names[] = {"epoll", "blocking", "busy"};

#define MOST_BYTES 1472 /* what an Ethernet frame of 1500 bytes carries over IPv4 */
#define NANOSECONDS INT64_C(1000000000)
#define NAP_NS (NANOSECONDS / 10) /* the longest wait without a look at whether it is time to end */

struct packet {
    uint64_t magic, token;
    int64_t id;
};

struct options {
    const char *role;
    struct sockaddr_in address;
    double rate_hz, seconds;
    long linger_ms;
    size_t bytes;
    uint64_t token;
    enum wait wait;
    int64_t kernel_every;
    const char *clock_log;
    int priority, core; /* 0: as the process was started; -1: any */
};

static volatile sig_atomic_t stopped;

static void fail(const char *what) {
    fprintf(stderr, "udp-echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *expected, const char *found) {
    fprintf(stderr, "udp-echo: expected %s, found %s. Usage: udp-echo server|client ADDRESS PORT [options]\n", expected, found);
    exit(2);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NANOSECONDS + now.tv_nsec;
}

static double number(const char *name, const char *text, double least, double most) {
    char *end, expected[96];
    double value = strtod(text, &end);
    if (*end == 0 && end != text && value >= least && value <= most) return value;
    snprintf(expected, sizeof expected, "%s from %g to %g", name, least, most);
    refuse(expected, text);
    return 0;
}

static enum wait wait_named(const char *name) {
    for (int wait = WAIT_EPOLL; wait <= WAIT_BUSY; wait++)
        if (!strcmp(name, wait_names[wait])) return (enum wait)wait;
    refuse("--wait blocking, epoll or busy", name);
    return WAIT_EPOLL;
}

static int parse_option(struct options *options, const char *name, const char *value) {
    if (!strcmp(name, "--rate")) options->rate_hz = number("--rate in Hz", value, 0.01, 1e6);
    else if (!strcmp(name, "--size")) options->bytes = (size_t)number("--size in bytes", value, sizeof(struct packet), MOST_BYTES);
    else if (!strcmp(name, "--seconds")) options->seconds = number("--seconds", value, 0, 1e6);
    else if (!strcmp(name, "--linger")) options->linger_ms = (long)number("--linger in ms", value, 0, 60000);
    else if (!strcmp(name, "--token")) options->token = strtoull(value, 0, 0);
    else if (!strcmp(name, "--wait")) options->wait = wait_named(value);
    else if (!strcmp(name, "--kernel")) options->kernel_every = (int64_t)number("--kernel, every how many packets", value, 0, 1e9);
    else if (!strcmp(name, "--clock-log")) options->clock_log = value;
    else if (!strcmp(name, "--fifo")) options->priority = (int)number("--fifo, a priority", value, 1, 99);
    else if (!strcmp(name, "--core")) options->core = (int)number("--core", value, 0, CPU_SETSIZE - 1);
    else return 0;
    return 1;
}

static struct options parse(int argc, char **argv) {
    struct options options = {.rate_hz = 1000, .linger_ms = 200, .bytes = 64, .core = -1};
    if (argc < 4) refuse("a role, an address and a port", "fewer arguments");
    options.role = argv[1];
    options.address.sin_family = AF_INET;
    options.address.sin_port = htons((uint16_t)number("a port", argv[3], 1, 65535));
    if (inet_pton(AF_INET, argv[2], &options.address.sin_addr) != 1) refuse("an IPv4 address", argv[2]);
    for (int at = 4; at < argc; at += 2)
        if (!parse_option(&options, argv[at], at + 1 < argc ? argv[at + 1] : "nothing"))
            refuse("one of the options in udp-echo.c", argv[at]);
    return options;
}

/* When to end; INT64_MAX: when told to. */
static int64_t end_ns(const struct options *options, int64_t start_ns) {
    return options->seconds > 0 ? start_ns + (int64_t)(options->seconds * 1e9) : INT64_MAX;
}

/* Before any thread is started: they inherit both. */
static void settle(const struct options *options) {
    struct sched_param parameter = {.sched_priority = options->priority};
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (options->core >= 0) CPU_SET((size_t)options->core, &cores);
    if (options->core >= 0 && sched_setaffinity(0, sizeof cores, &cores)) fail("--core");
    if (options->priority && sched_setscheduler(0, SCHED_FIFO, &parameter)) fail("--fifo");
}
