/*
 * stamp_library - a call site in a shared library of its own, loaded by dlopen: what a plug-in or a language binding pays.
 *
 * The channel is found as such a call site finds it: in a thread-local variable of the library, opened at first use. Each
 * function is called once a stamp through a pointer, so the cost of the call is part of the figure; `library_rdtsc` is the
 * floor of that: the same call, and nothing but the reading.
 */
#include "tickscope.h"

static __thread tickscope_channel *channel;

void library_stamp(int64_t id) {
    if (__builtin_expect(channel == 0, 0)) channel = tickscope_open("library", TICKSCOPE_PLAIN, 0);
    tickscope_stamp(channel, id);
}

void library_rdtsc(int64_t id) {
    (void)id;
    (void)tickscope__plain();
}

/* Stamps that found no block. */
uint64_t library_dropped(void) {
    return channel && channel->entry ? channel->entry->dropped : 0;
}
