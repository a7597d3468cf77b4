/*
 * A program that a stamp library must not disturb, for the tests. The same in Rust: the_rust_program of guest.rs.
 *
 *     guest complain          has a complaint on stderr, if TICKSCOPE_DIR names no directory
 *     guest reuse FILE        closes stderr, opens FILE under its number, and has complaints
 *     guest pending           has SIGPIPE pending, and a complaint; fails if it is pending no more
 *     guest descriptors FILE  stamps, closes all its descriptors, has FILE under as many numbers, and forks a child
 *                             that stamps and writes to each of them; fails if one leads elsewhere
 *     guest unload LIBRARY    three times loads LIBRARY (plugin.c), has a thread and itself stamp there, and unloads it
 *                             before that thread ends; forks, and ends its main thread before the process
 *     guest leave LIBRARY     loads LIBRARY and unloads it without a stamp, often; fails if that takes address space or
 *                             descriptors
 *     guest workers           forks ten children that close stderr, stamp 100 ids each, and log to it all the while
 *     guest first             reads the counter before anything else, and records id 1 with it
 *     guest idle              does nothing, and is cut off
 *     guest become USER       gives up group 0 for 33, and root for that user, before it opens anything, and stamps
 *     guest parent            forks a child that opens a point and stamps id 2, before it does so itself
 *     guest close FILE        closes all its descriptors, has FILE under as many numbers, and opens its first point
 *     guest low               closes all its descriptors but stdout, may have none above 2, and opens its first point;
 *                             fails if stdin's number or stderr's leads anywhere then
 *     guest few               stamps at points work and more, may have no further descriptor, and forks a child that
 *                             stamps 98 ids at each
 *     guest leave-root DIR    makes DIR its root, opens its first point, and forks a child that stamps id 2
 *     guest leave-directory   goes to /, and does the same
 *
 * Each stamps id 1 at point "work", and prints "alive" at its end.
 */
#include "tickscope.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#define LAST 900

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

/* How many numbers lead to another file than the first of them. */
static int led_elsewhere(void) {
    struct stat first, found;
    int elsewhere = fstat(3, &first) != 0;
    for (int fd = 4; fd <= LAST; fd++) elsewhere += fstat(fd, &found) != 0 || found.st_ino != first.st_ino;
    return elsewhere;
}

static int take_descriptors(const char *path) {
    for (int fd = 3; fd < 1024; fd++) close(fd);
    if (open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) != 3) return 0;
    for (int fd = 4; fd <= LAST; fd++) dup2(3, fd);
    return 1;
}

static int keep_descriptors(const char *path) {
    int status = 0;
    tickscope_channel *channel = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    tickscope_stamp(channel, 1);
    if (!take_descriptors(path)) return 1;
    pid_t child = fork();
    if (child == 0) {
        int elsewhere = led_elsewhere();
        tickscope_stamp(channel, 2);
        for (int fd = 3; fd <= LAST; fd++) elsewhere += write(fd, "mine", 4) != 4;
        _exit(elsewhere + led_elsewhere() != 0);
    }
    waitpid(child, &status, 0);
    tickscope_stamp(channel, 3);
    return status != 0 || led_elsewhere() != 0;
}

static void (*stamp_there)(int64_t);
static pthread_barrier_t stamped, unloaded;

static void *stamp_and_outlive(void *unused) {
    stamp_there(100);
    pthread_barrier_wait(&stamped);
    pthread_barrier_wait(&unloaded);
    return unused;
}

static int outlive(const char *path) {
    pthread_t thread;
    int status = 0;
    void *library = dlopen(path, RTLD_NOW);
    if (library == 0) return 1;
    *(void **)&stamp_there = dlsym(library, "plugin_run");
    pthread_create(&thread, 0, stamp_and_outlive, 0);
    pthread_barrier_wait(&stamped);
    stamp_there(50);
    if (dlclose(library) != 0 || dlopen(path, RTLD_NOW | RTLD_NOLOAD)) return 1; /* it is gone */
    pthread_barrier_wait(&unloaded);
    pthread_join(thread, 0);
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, &status, 0);
    return status;
}

static int unload(const char *path) {
    int failed = 0;
    pthread_barrier_init(&stamped, 0, 2);
    pthread_barrier_init(&unloaded, 0, 2);
    for (int round = 0; round < 3 && !failed; round++) failed = outlive(path);
    complain();
    if (failed) return failed;
    puts("alive");
    pthread_exit(0);
}

static void record_first(void) {
    int64_t tick = tickscope_now(TICKSCOPE_BEFORE);
    tickscope_record(TICKSCOPE_POINT("work", TICKSCOPE_BEFORE, 0), 1, tick);
}

static int become(uid_t user) {
    if (setgid(33) != 0 || setuid(user) != 0) return 1;
    tickscope_stamp(tickscope_open("work", TICKSCOPE_PLAIN, 0), 1);
    return 0;
}

static int have_child(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        tickscope_stamp(tickscope_open("work", TICKSCOPE_PLAIN, 0), 2);
        _exit(0);
    }
    waitpid(child, &status, 0);
    record_first();
    return status;
}

/* Pages of this process's address space. */
static long pages(void) {
    long found = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &found) != 1) exit(1);
    fclose(file);
    return found;
}

static int descriptors(void) {
    struct stat found;
    int open = 0;
    for (int fd = 0; fd < 1024; fd++) open += fstat(fd, &found) == 0;
    return open;
}

static int leave_often(const char *path) {
    long before = pages();
    int open = descriptors();
    for (int time = 0; time < 20; time++) {
        void *library = dlopen(path, RTLD_NOW);
        if (!library || dlclose(library) != 0) return 1;
    }
    if (descriptors() != open) return 1;
    return pages() - before > 4096; /* one pool has as many, and is given back but for a page */
}

static volatile int over;

/* What a library logs, whatever number 2 is by now. */
static void *log_on(void *unused) {
    while (!over) (void)!write(2, "worker: nothing to do\n", 22);
    return unused;
}

/* A worker without a stderr, a thread of which goes on logging while its pool is made. */
static void work(int64_t first) {
    pthread_t logger;
    close(2);
    pthread_create(&logger, 0, log_on, 0);
    tickscope_channel *channel = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    for (int64_t id = first; id < first + 100; id++) tickscope_stamp(channel, id);
    over = 1;
    pthread_join(logger, 0);
    _exit(0);
}

static int have_workers(void) {
    int status = 0, failed = 0;
    for (int64_t worker = 0; worker < 10; worker++)
        if (fork() == 0) work(100 * worker);
    while (wait(&status) > 0) failed |= status;
    return failed;
}

static int close_first(const char *path) {
    if (!take_descriptors(path)) return 1;
    tickscope_stamp(tickscope_open("work", TICKSCOPE_PLAIN, 0), 1);
    return led_elsewhere() != 0;
}

static int have_low_numbers(void) {
    struct rlimit three = {3, 3};
    struct stat found;
    for (int fd = 0; fd < 1024; fd++)
        if (fd != 1) close(fd);
    if (setrlimit(RLIMIT_NOFILE, &three) != 0) return 1;
    tickscope_stamp(tickscope_open("work", TICKSCOPE_PLAIN, 0), 1);
    tickscope_stamp(tickscope_open("work", TICKSCOPE_PLAIN, 0), 2);
    return fstat(0, &found) == 0 || fstat(2, &found) == 0;
}

static int have_child_without_descriptors(void) {
    struct rlimit few = {4, 4};
    int status = 0;
    tickscope_channel *one = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    tickscope_channel *other = tickscope_open("more", TICKSCOPE_PLAIN, 0);
    tickscope_stamp(one, 1), tickscope_stamp(other, 1);
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
    pid_t child = fork();
    if (child == 0) {
        for (int64_t id = 2; id < 100; id++) tickscope_stamp(one, id), tickscope_stamp(other, id);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status;
}

static int leave_for(const char *root) {
    int status = 0;
    if ((root && chroot(root) != 0) || chdir("/") != 0) return 1;
    tickscope_channel *channel = tickscope_open("work", TICKSCOPE_PLAIN, 0);
    tickscope_stamp(channel, 1);
    pid_t child = fork();
    if (child == 0) {
        tickscope_stamp(channel, 2);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status;
}

int main(int argc, char **argv) {
    int failed = 0;
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "complain")) complain();
    if (!strcmp(argv[1], "reuse")) failed = reuse(argv[2]);
    if (!strcmp(argv[1], "pending")) failed = keep_pending();
    if (!strcmp(argv[1], "descriptors")) failed = keep_descriptors(argv[2]);
    if (!strcmp(argv[1], "unload")) failed = unload(argv[2]);
    if (!strcmp(argv[1], "first")) record_first();
    if (!strcmp(argv[1], "become")) failed = become((uid_t)atoi(argv[2]));
    if (!strcmp(argv[1], "parent")) failed = have_child();
    if (!strcmp(argv[1], "leave")) failed = leave_often(argv[2]);
    if (!strcmp(argv[1], "workers")) failed = have_workers();
    if (!strcmp(argv[1], "close")) failed = close_first(argv[2]);
    if (!strcmp(argv[1], "low")) failed = have_low_numbers();
    if (!strcmp(argv[1], "few")) failed = have_child_without_descriptors();
    if (!strcmp(argv[1], "leave-root")) failed = leave_for(argv[2]);
    if (!strcmp(argv[1], "leave-directory")) failed = leave_for(0);
    if (!failed) puts("alive");
    fflush(stdout);
    if (!strcmp(argv[1], "idle")) _exit(0);
    return failed;
}
