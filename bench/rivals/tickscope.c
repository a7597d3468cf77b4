/* tickscope's own stamp, as its rivals are measured: beside a live collector. FOLDER is the collector's. */
#include "recorder.h"

static tickscope_channel *point, *off;

BLOCK(block_event, tickscope_stamp(point, id))
BLOCK(block_off, tickscope_stamp(off, id))

static const struct variant variants[] = {{"event", block_event}, {"off", block_off}};

static void open_points(const char *folder) {
    (void)folder;
    point = tickscope_open("point", TICKSCOPE_PLAIN, 0);
    off = tickscope_open("off", TICKSCOPE_PLAIN, 0);
    if (point->entry == 0) exit(1);
}

static void record(int64_t id) {
    tickscope_stamp(point, id);
}

static void close_points(void) {}

int main(int argc, char **argv) {
    struct recorder recorder = {open_points, record, close_points, variants, 2};
    return recorder_main(&recorder, argc, argv);
}
