/* Options of the command line. */

#define TARGET "udp-echo"
#include "../harness/load.h"
#include "../harness/target.h"

enum wait { WAIT_EPOLL, WAIT_BLOCKING, WAIT_BUSY };
static const char *const wait_names[] = {"epoll", "blocking", "busy"};

#define MOST_BYTES 1472 /* what an Ethernet frame of 1500 bytes carries over IPv4 */
#define NAP_NS (NANOSECONDS / 10) /* the longest wait without a look at whether it is time to end */

struct packet {
    uint64_t magic, token;
    int64_t id;
};

struct options {
    const char *role;
    struct sockaddr_in address;
    double rate_hz, seconds, late_ms; /* late_ms 0: once the next is due, or after a millisecond */
    long linger_ms;
    size_t bytes;
    uint64_t token;
    enum wait wait;
    int64_t kernel_every;
    const char *clock_log, *due;
    int priority, core; /* 0: as the process was started; -1: any */
};

static enum wait wait_named(const char *name) {
    for (int wait = WAIT_EPOLL; wait <= WAIT_BUSY; wait++)
        if (!strcmp(name, wait_names[wait])) return (enum wait)wait;
    refuse("--wait blocking, epoll or busy", name);
    return WAIT_EPOLL;
}

static int parse_option(struct options *options, const char *name, const char *value) {
    if (!strcmp(name, "--rate")) options->rate_hz = number("--rate in Hz", value, 0.01, 1e6);
    else if (!strcmp(name, "--size"))
        options->bytes = (size_t)number("--size in bytes", value, sizeof(struct packet), MOST_BYTES);
    else if (!strcmp(name, "--seconds")) options->seconds = number("--seconds", value, 0, 1e6);
    else if (!strcmp(name, "--late")) options->late_ms = number("--late in ms", value, 0.001, 60000);
    else if (!strcmp(name, "--linger")) options->linger_ms = (long)number("--linger in ms", value, 0, 60000);
    else if (!strcmp(name, "--token")) options->token = strtoull(value, 0, 0);
    else if (!strcmp(name, "--wait")) options->wait = wait_named(value);
    else if (!strcmp(name, "--kernel"))
        options->kernel_every = (int64_t)number("--kernel, every how many packets", value, 0, 1e9);
    else if (!strcmp(name, "--clock-log")) options->clock_log = value;
    else if (!strcmp(name, "--due")) options->due = value;
    else if (!strcmp(name, "--fifo")) options->priority = (int)number("--fifo, a priority", value, 1, 99);
    else if (!strcmp(name, "--core")) options->core = (int)number("--core", value, 0, CPU_SETSIZE - 1);
    else return 0;
    return 1;
}

static struct options parse(int argc, char **argv) {
    struct options options = {.rate_hz = 1000, .linger_ms = 200, .bytes = 64, .core = -1};
    if (argc < 4) refuse("a role, an address and a port", "fewer arguments");
    options.role = argv[1];
    options.address = ipv4(argv[2], (int)number("a port", argv[3], 1, 65535));
    parse_options(&options, argc, argv);
    return options;
}

/* When to end; INT64_MAX: when told to. */
static int64_t end_ns(const struct options *options, int64_t start_ns) {
    return options->seconds > 0 ? start_ns + (int64_t)(options->seconds * 1e9) : INT64_MAX;
}

/* Before any thread is started: they inherit both. */
static void settle(const struct options *options) {
    struct sched_param parameter = {.sched_priority = options->priority};
    pin(options->core);
    if (options->priority && sched_setscheduler(0, SCHED_FIFO, &parameter)) fail("--fifo");
}
