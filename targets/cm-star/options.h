/* Options of the command line. */

#define TARGET "cm-star"
#include "../harness/load.h"
#include "../harness/target.h"

#define MOST_CELLS 16   /* numbers of pairs, or of words */
#define MOST_PAIRS 16
#define MOST_WORDS 2000 /* beyond 1440 a message is two frames of Ethernet */

struct numbers {
    int count, of[MOST_CELLS];
};

struct options {
    const char *role;
    struct sockaddr_in address;
    struct numbers pairs, words;
    int repetitions, interval_us, core, sampler_core; /* -1: any */
};

/* Numbers with commas between them, ascending. */
static struct numbers numbers(const char *name, const char *text, int least, int most) {
    struct numbers numbers = {0};
    char copy[256], *rest = copy, *part;
    snprintf(copy, sizeof copy, "%s", text);
    while ((part = strsep(&rest, ","))) {
        if (numbers.count == MOST_CELLS) refuse("16 numbers at most", text);
        numbers.of[numbers.count] = whole_number(name, part, least, most);
        if (numbers.count && numbers.of[numbers.count] <= numbers.of[numbers.count - 1])
            refuse("numbers that ascend", text);
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
    else if (!strcmp(name, "--repetitions")) options->repetitions = whole_number("--repetitions", value, 8, 1000000);
    else if (!strcmp(name, "--interval")) options->interval_us = whole_number("--interval in us", value, 10, 1000000);
    else if (!strcmp(name, "--core")) options->core = whole_number("--core", value, 0, CPU_SETSIZE - 1);
    else if (!strcmp(name, "--sampler-core"))
        options->sampler_core = whole_number("--sampler-core", value, 0, CPU_SETSIZE - 1);
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
    /* The pairs after the first have the ports that follow. */
    options.address = ipv4(argv[2], whole_number("a port", argv[3], 1, 65535 - MOST_PAIRS));
    parse_options(&options, argc, argv);
    return options;
}
