/* Threads that stamp until a file is there: live THREADS STOP LATER PAUSE_US BURST. Each turn of a thread is three
 * stamps, of `early` before, of `switched`, and of `late` behind, all of one id. For each file LATER.N that appears, a
 * thread more stamps `later` instead of `switched`. Pauses after BURST turns. Prints how many turns there were, and how
 * many of those of `later`. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tickscope.h"

static const char *stop_file;
static unsigned pause_us;
static int64_t burst;

struct worker {
    pthread_t thread;
    int64_t number, turns;
    const char *point;
};

static void *work(void *of) {
    struct worker *own = of;
    tickscope_channel *early = tickscope_open("early", TICKSCOPE_BEFORE, 0);
    tickscope_channel *middle = tickscope_open(own->point, TICKSCOPE_PLAIN, 0);
    tickscope_channel *late = tickscope_open("late", TICKSCOPE_AFTER, 0);
    while (own->turns % 64 || access(stop_file, F_OK)) {
        int64_t id = own->number << 40 | ++own->turns;
        tickscope_stamp(early, id);
        tickscope_stamp(middle, id);
        tickscope_stamp(late, id);
        if (own->turns % burst == 0) usleep(pause_us);
    }
    return 0;
}

int main(int argc, char **argv) {
    static struct worker workers[64];
    char later[4096];
    int64_t turns = 0, later_turns = 0;
    int count = atoi(argv[1]), of_later = 0;
    if (argc != 6) return 2;
    stop_file = argv[2];
    pause_us = (unsigned)atoi(argv[4]);
    burst = atoi(argv[5]);
    for (int at = 0; at < count + of_later; at++) {
        struct worker *own = &workers[at];
        own->number = at + 1;
        own->point = at < count ? "switched" : "later";
        if (pthread_create(&own->thread, 0, work, own)) return 1;
        while (at + 1 == count + of_later && access(stop_file, F_OK)) {
            snprintf(later, sizeof later, "%s.%d", argv[3], of_later);
            if (!access(later, F_OK)) of_later++;
            usleep(5000);
        }
    }
    for (int at = 0; at < count + of_later; at++) {
        pthread_join(workers[at].thread, 0);
        *(at < count ? &turns : &later_turns) += workers[at].turns;
    }
    printf("%lld %lld\n", (long long)turns, (long long)later_turns);
    return 0;
}
