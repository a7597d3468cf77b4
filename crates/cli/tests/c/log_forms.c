/* Reads clocks between two stamps and logs them as programs do: cut to microseconds, as floating-point seconds, in
   milliseconds, as ticks. A log that is believed too far puts a reading outside the two stamps. */
#include "tickscope.h"
#include <stdio.h>
#include <time.h>

static FILE *file(const char *directory, const char *name, const char *head) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *log = fopen(path, "w");
    if (log && *head) fprintf(log, "%s\n", head);
    return log;
}

int main(int argc, char **argv) {
    const char *to = argc > 1 ? argv[1] : ".";
    FILE *cut = file(to, "cut.csv", "point,id,time"), *real = file(to, "float.csv", "kind,id,time,value");
    FILE *ticks = file(to, "ticks.csv", "");
    if (!cut || !real || !ticks) return 1;
    tickscope_channel *before = tickscope_open("before", TICKSCOPE_AFTER, 0);
    tickscope_channel *after = tickscope_open("after", TICKSCOPE_BEFORE, 0);
    for (long long id = 1; id <= 500; id++) {
        struct timespec monotonic, realtime, pause = {0, 100000 + 7919 * (id % 13)};
        tickscope_stamp(before, id);
        clock_gettime(CLOCK_MONOTONIC, &monotonic);
        clock_gettime(CLOCK_REALTIME, &realtime);
        long long tick = tickscope_now(TICKSCOPE_PLAIN);
        tickscope_stamp(after, id);
        fprintf(cut, "us,%lld,%lld.%06ld\n", id, (long long)monotonic.tv_sec, monotonic.tv_nsec / 1000);
        fprintf(cut, "ms,%lld,%lld.%03ld\n", id, (long long)monotonic.tv_sec, monotonic.tv_nsec / 1000000);
        fprintf(real, "0,%lld,%.9f,%lld\n", id, (double)realtime.tv_sec + 1e-9 * (double)realtime.tv_nsec, id * 2);
        fprintf(ticks, "%lld,%lld\n", id, tick);
        nanosleep(&pause, 0);
    }
    return fclose(cut) || fclose(real) || fclose(ticks);
}
