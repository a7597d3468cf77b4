/*
 * tickscope_section.h: with `sleep`, a section that sleeps; else it answers every line "least most ticks pair switches" (switches -1:
 * not told) with "at_most at_most_less_reading unproven lo hi".
 */
#include "tickscope_section.h"

#include <stdio.h>
#include <time.h>

static void print(struct tickscope_took took) {
    printf("%lld %lld %d %lld %lld\n", (long long)took.at_most, (long long)took.at_most_less_reading, (int)took.unproven,
           (long long)took.lo, (long long)took.hi);
}

int main(int count, char **words) {
    long long least, most, ticks, pair, switches;
    if (count > 1 && strcmp(words[1], "sleep") == 0) {
        struct tickscope_meter meter = tickscope_meter_of_this_thread();
        struct tickscope_begun begun = tickscope_section_begin(&meter);
        struct timespec wait;
        memset(&wait, 0, sizeof wait);
        wait.tv_nsec = 2000000;
        nanosleep(&wait, 0);
        print(tickscope_section_end(&begun));
        return 0;
    }
    while (scanf("%lld %lld %lld %lld %lld", &least, &most, &ticks, &pair, &switches) == 5) {
        struct tickscope_meter meter;
        meter.least_ticks = least;
        meter.most_ticks = most;
        print(tickscope__took(&meter, ticks, pair, switches >= 0, switches));
    }
    return 0;
}
