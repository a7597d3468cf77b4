/* A library that stamps, loaded and unloaded by stamper.c: it has a pool of its own. */
#include "tickscope.h"

void plugin_run(int64_t count);

void plugin_run(int64_t count) {
    static __thread tickscope_channel *channel;
    for (int64_t id = 0; id < count; id++) {
        if (channel == 0) channel = tickscope_open("plugin", TICKSCOPE_PLAIN, 0);
        tickscope_stamp(channel, id);
    }
}
