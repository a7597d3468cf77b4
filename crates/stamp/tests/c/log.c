/*
 * A program for tests/logs.rs that is in the way of its logs, or of its own function that chooses:
 *
 *     log limited           stamps ids 0 ... 9 at "send"; from id 2 on no file may grow beyond 64 bytes
 *     log closed FILE       after id 9 it closes all descriptors, opens FILE on more than there were, and stamps
 *                           10 ... 19; FILE must stay empty, and each descriptor of it open
 *     log socket            the same with pairs of sockets, which nobody reads, and 1000 stamps
 *     log many FILE         stamps on 900 channels; 1024 descriptors may be open, and FILE must open on 400
 *     log asked             what chooses stamps the next id at "send" before it answers
 */
#include "tickscope.h"

#include <sys/socket.h>

static tickscope_channel *sent;

static void stamp(int64_t from, int64_t to) {
    for (int64_t id = from; id < to; id++) tickscope_stamp(sent, id);
}

static void close_all(void) {
    for (int fd = 3; fd < 1024; fd++) close(fd);
}

static int limited(void) {
    struct rlimit few = {64, RLIM_INFINITY};
    stamp(0, 2);
    if (setrlimit(RLIMIT_FSIZE, &few) != 0) return 1;
    stamp(2, 10);
    return 0;
}

static int closed(const char *file) {
    struct stat found;
    int own = 0;
    stamp(0, 10);
    close_all();
    while (own >= 0 && own < 700) own = open(file, O_RDWR | O_CREAT, 0600);
    stamp(10, 20);
    tickscope_close(sent);
    for (int fd = 3; fd <= own; fd++) {
        if (fcntl(fd, F_GETFD) < 0) return 1;
    }
    return own < 0 || fstat(own, &found) != 0 || found.st_size != 0;
}

static int socketed(void) {
    int pair[2] = {0, 0};
    stamp(0, 10);
    close_all();
    while (pair[1] < 700) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
    }
    stamp(10, 1000);
    return 0;
}

static int many(const char *file) {
    int own = 0;
    for (int at = 0; at < 900; at++) {
        char name[16];
        snprintf(name, sizeof name, "point%d", at);
        tickscope_stamp(tickscope_open(name, TICKSCOPE_PLAIN, 0), at);
    }
    for (int at = 0; at < 400 && own >= 0; at++) own = open(file, O_RDWR | O_CREAT, 0600);
    return own < 0;
}

static int stamp_next(void *unused, int64_t id, int64_t tick) {
    (void)unused, (void)tick;
    tickscope_stamp(sent, id + 1);
    return 1;
}

int main(int argc, char **argv) {
    const char *way = argv[1], *file = argv[argc - 1];
    struct rlimit descriptors = {1024, 1024};
    if (setrlimit(RLIMIT_NOFILE, &descriptors) != 0) return 1;
    alarm(30); /* it could wait for ever */
    if (!strcmp(way, "many")) return many(file);
    sent = tickscope_open("send", TICKSCOPE_PLAIN, 0);
    if (!strcmp(way, "limited")) return limited();
    if (!strcmp(way, "closed")) return closed(file);
    if (!strcmp(way, "socket")) return socketed();
    tickscope_choose(sent, stamp_next, 0);
    stamp(0, 1);
    tickscope_choose(sent, 0, 0);
    return 0;
}
