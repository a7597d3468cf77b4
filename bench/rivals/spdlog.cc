// spdlog: text to a file by a thread of its own, through a queue that blocks when it is full; its default pattern and clock.
#include "recorder.h"

#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

static std::shared_ptr<spdlog::logger> logger, off;

BLOCK(block_event, logger->info("event {}", id))
BLOCK(block_off, off->info("event {}", id))

static const struct variant variants[] = {{"event", block_event}, {"off", block_off}};

static void open_log(const char *folder) {
    spdlog::init_thread_pool(1 << 17, 1);
    logger = spdlog::create_async<spdlog::sinks::basic_file_sink_mt>("events", std::string(folder) + "/events.log");
    off = logger->clone("off");
    off->set_level(spdlog::level::off);
}

static void record(int64_t id) {
    logger->info("event {}", id);
}

static void close_log(void) {
    logger.reset();
    off.reset();
    spdlog::shutdown();
}

int main(int argc, char **argv) {
    struct recorder recorder = {open_log, record, close_log, variants, 2};
    return recorder_main(&recorder, argc, argv);
}
