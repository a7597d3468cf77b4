/*
 * recorder.h - one recorder of events under the protocol of rounds.h. C and C++.
 *
 *     PROGRAM cost FOLDER CPU ROUNDS EVENTS PAUSE_US   blocks, then `count recorded<tab>N`
 *     PROGRAM kill FOLDER CPU EVENTS                   records so many, one a microsecond, and kills itself by SIGKILL
 *
 * FOLDER takes what the recorder writes. It opens before the thread is pinned, so that threads of its own go elsewhere. In
 * the same rounds: the readings it stands on, and tickscope's stamp.
 */
#ifndef TICKSCOPE_RECORDER_H
#define TICKSCOPE_RECORDER_H

#include "../rounds.h"

#include <signal.h>

struct recorder {
    void (*open)(const char *folder);
    void (*record)(int64_t id);
    void (*close)(void);
    /* Its own variants; "event" is the one that counts as recorded. */
    const struct variant *variants;
    int count;
};

static tickscope_channel *beside;

BLOCK(block_nothing, KEEP(id))
BLOCK(block_rdtsc, KEEP(tickscope__plain()))
BLOCK(block_clock_gettime, KEEP(clock_monotonic()))
BLOCK(block_tickscope, tickscope_stamp(beside, id))

static int recorder_usage(const char *program) {
    fprintf(stderr, "%s: expected cost FOLDER CPU ROUNDS EVENTS PAUSE_US, or kill FOLDER CPU EVENTS\n", program);
    return 2;
}

static int recorder_cost(const struct recorder *recorder, char **argv) {
    struct variant all[MOST_VARIANTS] = {
        {"nothing", block_nothing}, {"rdtsc", block_rdtsc}, {"clock_gettime", block_clock_gettime}, {"tickscope", block_tickscope},
    };
    int count = 4;
    for (int at = 0; at < recorder->count; at++) all[count++] = recorder->variants[at];
    struct rounds how = {all, count, atoll(argv[4]), atoll(argv[5]), atoll(argv[6])};
    recorder->open(argv[2]);
    pin(atoi(argv[3]));
    beside = tickscope_open("beside", TICKSCOPE_PLAIN, 0);
    measure(&how);
    recorder->close();
    printf("count recorded\t%lld\n", (long long)((how.rounds + WARM_ROUNDS) * how.events));
    return 0;
}

static int recorder_kill(const struct recorder *recorder, char **argv) {
    int64_t events = atoll(argv[4]);
    recorder->open(argv[2]);
    pin(atoi(argv[3]));
    int64_t start = clock_monotonic();
    for (int64_t id = 0; id < events; id++) {
        while (clock_monotonic() < start + 1000 * id) {}
        recorder->record(id);
    }
    kill(getpid(), SIGKILL);
    return 1;
}

static int recorder_main(const struct recorder *recorder, int argc, char **argv) {
    if (argc == 7 && !strcmp(argv[1], "cost")) return recorder_cost(recorder, argv);
    if (argc == 5 && !strcmp(argv[1], "kill")) return recorder_kill(recorder, argv);
    return recorder_usage(argv[0]);
}

#endif
