/*
 * tickscope_section.h: with `sleep`, a section that sleeps; else it answers every line "width usual most ticks pair
 * switches" (switches -1: not told) with "at_most unproven lo hi".
 */
#include "tickscope_section.h"

#include <stdio.h>
#include <time.h>

static void print(struct tickscope_took took) {
    printf("%lld %d %lld %lld\n", (long long)took.at_most, (int)took.unproven, (long long)took.lo, (long long)took.hi);
}

int main(int count, char **words) {
    long long width, usual, most, ticks, pair, switches;
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
    while (scanf("%lld %lld %lld %lld %lld %lld", &width, &usual, &most, &ticks, &pair, &switches) == 6) {
        struct tickscope_meter meter;
        meter.width_ticks = width;
        meter.usual_ticks = usual;
        meter.most_ticks = most;
        print(tickscope__took(&meter, ticks, pair, switches >= 0, switches));
    }
    return 0;
}
