/*
 * late_child - stamps ids at `in` and `mid`, and hands each to a child that stamps `out`, while the child waits for its
 * own pool: only what the child stamps can be longer by it.
 */
#include "tickscope.h"

#include <sys/wait.h>

enum { MOST_IDS = 8000 }; /* fit into a pipe */

int main(void) {
    int ids[2], ready[2], flags;
    int64_t id;
    char is_ready;
    tickscope_channel *in = tickscope_open("in", TICKSCOPE_PLAIN, 0), *mid = tickscope_open("mid", TICKSCOPE_PLAIN, 0);
    if (pipe(ids) || pipe(ready)) return 1;
    pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) {
        close(ids[1]);
        if (read(ids[0], &id, sizeof id) != sizeof id) _exit(1);
        tickscope_channel *out = tickscope_open("out", TICKSCOPE_PLAIN, 0);
        do tickscope_stamp(out, id);
        while (write(ready[1], "", 1) == 1 && read(ids[0], &id, sizeof id) == sizeof id);
        _exit(0);
    }
    close(ids[0]);
    flags = fcntl(ready[0], F_GETFL);
    if (flags < 0 || fcntl(ready[0], F_SETFL, flags | O_NONBLOCK)) return 1;
    for (id = 0; id < MOST_IDS && (id < 10 || read(ready[0], &is_ready, 1) != 1); id++) {
        tickscope_stamp(in, id);
        tickscope_stamp(mid, id);
        if (write(ids[1], &id, sizeof id) != sizeof id) return 1;
    }
    close(ids[1]);
    return waitpid(child, &flags, 0) != child || flags;
}
