/* What the command line asks for. */

#define MOST_CELLS 16   /* numbers of pairs, or of words */
#define MOST_PAIRS 16
#define MOST_WORDS 2000 /* as many as the example within one host takes; beyond 1440 a message is two frames of Ethernet */
#define NANOSECONDS INT64_C(1000000000)

struct numbers {
    int count, of[MOST_CELLS];
};

struct options {
    const char *role;
    struct sockaddr_in address;
    struct numbers pairs, words;
    int repetitions, interval_us, core, sampler_core; /* -1: any */
};

static volatile sig_atomic_t stopped;

static void fail(const char *what) {
    fprintf(stderr, "cm-star: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *expected, const char *found) {
    fprintf(stderr, "cm-star: expected %s, found %s. Usage: cm-star server|client ADDRESS PORT [options]\n", expected, found);
    exit(2);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NANOSECONDS + now.tv_nsec;
}

static int number(const char *name, const char *text, int least, int most) {
    char *end, expected[96];
    long value = strtol(text, &end, 10);
    if (*end == 0 && end != text && value >= least && value <= most) return (int)value;
    snprintf(expected, sizeof expected, "%s from %d to %d", name, least, most);
    refuse(expected, text);
    return 0;
}

/* Numbers with commas between them, ascending. */
static struct numbers numbers(const char *name, const char *text, int least, int most) {
    struct numbers numbers = {0};
    char copy[256], *rest = copy, *part;
    snprintf(copy, sizeof copy, "%s", text);
    while ((part = strsep(&rest, ","))) {
        if (numbers.count == MOST_CELLS) refuse("16 numbers at most", text);
        numbers.of[numbers.count] = number(name, part, least, most);
        if (numbers.count && numbers.of[numbers.count] <= numbers.of[numbers.count - 1]) refuse("numbers that ascend", text);
        numbers.count++;
    }
    return numbers;
}

static int most_pairs(const struct options *options) {
    return options->pairs.of[options->pairs.count - 1];
}

static int parse_option(struct options *options, const char *name, const char *value) {
    if (!strcmp(name, "--pairs")) options->pairs = numbers("--pairs", value, 1, MOST_PAIRS);
    else if (!strcmp(name, "--words")) options->words = numbers("--words", value, 0, MOST_WORDS);
    else if (!strcmp(name, "--repetitions")) options->repetitions = number("--repetitions", value, 8, 1000000);
    else if (!strcmp(name, "--interval")) options->interval_us = number("--interval in us", value, 10, 1000000);
    else if (!strcmp(name, "--core")) options->core = number("--core", value, 0, CPU_SETSIZE - 1);
    else if (!strcmp(name, "--sampler-core")) options->sampler_core = number("--sampler-core", value, 0, CPU_SETSIZE - 1);
    else return 0;
    return 1;
}

static struct options parse(int argc, char **argv) {
    struct options options = {.pairs = {3, {1, 2, 3}},
                              .words = {5, {0, 50, 100, 150, 200}},
                              .repetitions = 512,
                              .interval_us = 2000,
                              .core = -1,
                              .sampler_core = -1};
    if (argc < 4) refuse("a role, an address and a port", "fewer arguments");
    options.role = argv[1];
    options.address.sin_family = AF_INET;
    /* The pairs after the first have the ports that follow. */
    options.address.sin_port = htons((uint16_t)number("a port", argv[3], 1, 65535 - MOST_PAIRS));
    if (inet_pton(AF_INET, argv[2], &options.address.sin_addr) != 1) refuse("an IPv4 address", argv[2]);
    for (int at = 4; at < argc; at += 2)
        if (!parse_option(&options, argv[at], at + 1 < argc ? argv[at + 1] : "nothing"))
            refuse("one of the options in cm-star.c", argv[at]);
    return options;
}

/* Of the calling thread, and of what it starts from now on. */
static void pin(int core) {
    cpu_set_t cores;
    if (core < 0) return;
    CPU_ZERO(&cores);
    CPU_SET((size_t)core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores)) fail("--core");
}
