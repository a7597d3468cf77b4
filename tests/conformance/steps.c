/* Takes the steps of a conformance program, a line each on stdin, by tickscope.h. Ends with 64 at an unknown step. */
#include "tickscope.h"
#include "tickscope_id.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CHANNELS = 16 };

static enum tickscope_ordering ordering_of(const char *word) {
    if (!strcmp(word, "before")) return TICKSCOPE_BEFORE;
    return strcmp(word, "after") ? TICKSCOPE_PLAIN : TICKSCOPE_AFTER;
}

static unsigned flags_of(const char *word) {
    if (!strcmp(word, "full")) return TICKSCOPE_FULL;
    return strcmp(word, "wide") ? 0 : TICKSCOPE_WIDE;
}

static struct tickscope_extra with(int32_t kind, int64_t value) {
    struct tickscope_extra extra;
    memset(&extra, 0, sizeof extra);
    extra.kind = kind;
    extra.value = value;
    return extra;
}

static int is_multiple(void *divisor, int64_t id, int64_t tick) {
    return tick != 0 && id % *(const int64_t *)divisor == 0;
}

int main(void) {
    static int64_t divisors[MOST_CHANNELS];
    tickscope_channel *channels[MOST_CHANNELS] = {0};
    char line[256], point[48], ordering[16], fields[16];
    while (fgets(line, sizeof line, stdin)) {
        unsigned at = 0;
        int32_t kind = 0;
        int64_t id = 0, value = 0, tick = 0, n = 0;
        if (sscanf(line, "open %u %47s %15s %15s", &at, point, ordering, fields) == 4 && at < MOST_CHANNELS)
            channels[at] = tickscope_open(point, ordering_of(ordering), flags_of(fields));
        else if (sscanf(line, "stamp %u %" SCNd64, &at, &id) == 2 && at < MOST_CHANNELS)
            tickscope_stamp(channels[at], id);
        else if (sscanf(line, "stamp_with %u %" SCNd64 " %" SCNd32 " %" SCNd64, &at, &id, &kind, &value) == 4 &&
                 at < MOST_CHANNELS)
            tickscope_stamp_with(channels[at], id, with(kind, value));
        else if (sscanf(line, "record %u %" SCNd64 " %" SCNd64, &at, &id, &tick) == 3 && at < MOST_CHANNELS)
            tickscope_record(channels[at], id, tick);
        else if (sscanf(line, "record_with %u %" SCNd64 " %" SCNd32 " %" SCNd64 " %" SCNd64, &at, &id, &kind, &value,
                        &tick) == 5 &&
                 at < MOST_CHANNELS)
            tickscope_record_with(channels[at], id, tick, with(kind, value));
        else if (sscanf(line, "record_batch %u %" SCNd64 " %" SCNd64 " %" SCNd64, &at, &id, &n, &tick) == 4 &&
                 at < MOST_CHANNELS)
            tickscope_record_batch_with(channels[at], id, n, tick, with(0, 0));
        else if (sscanf(line, "keep_and_stamp %u %47s", &at, point) == 2 && at < MOST_CHANNELS)
            tickscope_stamp(channels[at], tickscope_keep_id_text(point));
        else if (sscanf(line, "stamp_text %u %47s", &at, point) == 2 && at < MOST_CHANNELS)
            tickscope_stamp(channels[at], tickscope_id_text(point));
        else if (sscanf(line, "choose %u %" SCNd64, &at, &n) == 2 && at < MOST_CHANNELS && n != 0) {
            divisors[at] = n;
            tickscope_choose(channels[at], is_multiple, &divisors[at]);
        } else if (sscanf(line, "close %u", &at) == 1 && at < MOST_CHANNELS)
            tickscope_close(channels[at]);
        else if (!strcmp(line, "kill\n"))
            raise(SIGKILL);
        else
            return 64;
    }
    return 0;
}
