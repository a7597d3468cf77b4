/* LTTng-UST: a tracepoint that a session records, and one that none does. The session is made before: bench/recorders.py. */
#include "recorder.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_provider.h"

BLOCK(block_event, lttng_ust_tracepoint(tickscope_bench, event, id))
BLOCK(block_off, lttng_ust_tracepoint(tickscope_bench, off, id))

static const struct variant variants[] = {{"event", block_event}, {"off", block_off}};

static void open_session(const char *folder) {
    (void)folder;
    if (!lttng_ust_tracepoint_enabled(tickscope_bench, event)) {
        fprintf(stderr, "lttng: expected a session that records tickscope_bench:event, found none\n");
        exit(1);
    }
}

static void record(int64_t id) {
    lttng_ust_tracepoint(tickscope_bench, event, id);
}

static void close_session(void) {}

int main(int argc, char **argv) {
    struct recorder recorder = {open_session, record, close_session, variants, 2};
    return recorder_main(&recorder, argc, argv);
}
