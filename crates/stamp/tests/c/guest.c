/*
 * A program that a stamp library must not disturb, for the tests. The same in Rust: the_rust_program of guest.rs.
 *
 *     guest complain          has a complaint on stderr, if TICKSCOPE_DIR names no directory
 *     guest reuse FILE        closes stderr, opens FILE under its number, and has complaints
 *     guest pending           has SIGPIPE pending, and a complaint; fails if it is pending no more
 *
 * Each stamps id 1 at point "work", and prints "alive" at its end.
 */
#include "tickscope.h"

static void complain(void) {
    tickscope_stamp(tickscope_open("no such name", TICKSCOPE_PLAIN, 0), 1);
    tickscope_stamp(tickscope_open("work", TICKSCOPE_PLAIN, 0), 1);
    tickscope_stamp(0, 1);
}

static int reuse(const char *path) {
    close(2);
    if (open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) != 2) return 1;
    complain();
    return write(2, "mine", 4) != 4;
}

static int keep_pending(void) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe, 0);
    raise(SIGPIPE);
    complain();
    sigpending(&pipe);
    return !sigismember(&pipe, SIGPIPE);
}

int main(int argc, char **argv) {
    int failed = 0;
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "complain")) complain();
    if (!strcmp(argv[1], "reuse")) failed = reuse(argv[2]);
    if (!strcmp(argv[1], "pending")) failed = keep_pending();
    if (!failed) puts("alive");
    return failed;
}
