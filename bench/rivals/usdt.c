/*
 * USDT: a probe of <sys/sdt.h>, one no-operation in the code and a note that says where. Nobody looks at `off`; `event`
 * has a uprobe of the kernel, made by bench/uprobes.py. TICKSCOPE_USDT_ON says so; without it `off` is measured alone.
 */
#include "recorder.h"

#include <sys/sdt.h>

BLOCK(block_off, DTRACE_PROBE1(tickscope_bench, off, id))
BLOCK(block_event, DTRACE_PROBE1(tickscope_bench, event, id))

static const struct variant variants[] = {{"off", block_off}, {"event", block_event}};

static void open_nothing(const char *folder) {
    (void)folder;
}

static void record(int64_t id) {
    DTRACE_PROBE1(tickscope_bench, event, id);
}

static void close_nothing(void) {}

int main(int argc, char **argv) {
    int count = getenv("TICKSCOPE_USDT_ON") ? 2 : 1;
    struct recorder recorder = {open_nothing, record, close_nothing, variants, count};
    return recorder_main(&recorder, argc, argv);
}
