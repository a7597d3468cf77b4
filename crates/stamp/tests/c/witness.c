/*
 * witness - stamps ids from 1 at the point "send" until it is killed, and says after each in shared memory how far it
 * got.
 *
 *     witness FILE [MARKER_AT]     FILE: 8 bytes; the stamp MARKER_AT carries the id -1
 */
#include "tickscope.h"

static int by_three(void *state, int64_t id, int64_t tick) {
    (void)state, (void)tick;
    return id % 3 == 0;
}

int main(int argc, char **argv) {
    int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int64_t marker_at = argc > 2 ? atoll(argv[2]) : -1;
    if (map == MAP_FAILED) return 1;
    int64_t *returned = (int64_t *)map;
    tickscope_channel *sent = tickscope_open("send", TICKSCOPE_PLAIN, 0);
    tickscope_choose(sent, by_three, 0);
    for (int64_t id = 1;; id++) {
        tickscope_stamp(sent, id == marker_at ? -1 : id);
        __atomic_store_n(returned, id, __ATOMIC_RELEASE);
    }
}
