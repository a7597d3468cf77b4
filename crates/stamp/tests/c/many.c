/*
 * Many threads, several users, for the tests:
 *
 *     many crowd THREADS POINTS COUNT     so many threads at once, each with so many points, COUNT stamps at each
 *     many short THREADS AT_ONCE          threads that stamp once and end; the stamp's value is the thread's id
 *     many short-wide THREADS AT_ONCE     the same with records of 32 bytes
 *     many after THREADS                  the same one after another, without TICKSCOPE_POINT
 *     many drop UID                       stamps 1 to 3 as root, 11 to 13 after it became that user; a child of it that
 *                                         stamps for the first time as that user: 21 to 23
 *     many limited                        stamps once, and goes on
 *     many close                          stamps, closes all descriptors but stdin and stdout, and ends with stdin
 *     many hostile DIRECTORY POOL         as uid 65534: prints each attempt that succeeds
 */
#include "tickscope.h"

#include <dirent.h>
#include <grp.h>
#include <sys/wait.h>

static pthread_barrier_t everyone;
static int points, count;
static unsigned shape;
static int32_t next_id;

static void *stamp_at_all(void *argument) {
    (void)argument;
    pthread_barrier_wait(&everyone); /* nobody ends before all have opened */
    for (int point = 0; point < points; point++) {
        char name[16];
        snprintf(name, sizeof name, "point%d", point);
        tickscope_channel *channel = tickscope_open(name, TICKSCOPE_PLAIN, 0);
        for (int id = 0; id < count; id++) tickscope_stamp(channel, id);
    }
    pthread_barrier_wait(&everyone);
    return 0;
}

static void *stamp_once(void *argument) {
    struct tickscope_extra extra = {0, 0, 0, 0, 0};
    int64_t id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    extra.value = (int64_t)syscall(SYS_gettid);
    if (argument) tickscope_stamp(tickscope_open("work", TICKSCOPE_BEFORE, 0), extra.value);
    else if (shape) tickscope_stamp_with(TICKSCOPE_POINT("work", TICKSCOPE_BEFORE, TICKSCOPE_WIDE), id, extra);
    else tickscope_stamp(TICKSCOPE_POINT("work", TICKSCOPE_BEFORE, 0), extra.value);
    return 0;
}

static void run(int threads, int at_once, void *(*work)(void *), void *argument) {
    pthread_t thread[1024];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (int first = 0; first < threads; first += at_once) {
        int now = threads - first < at_once ? threads - first : at_once;
        for (int at = 0; at < now; at++)
            if (pthread_create(&thread[at], &small, work, argument) != 0) exit(3);
        for (int at = 0; at < now; at++) pthread_join(thread[at], 0);
    }
}

static void become(uid_t user) {
    if (setgroups(0, 0) != 0 || setgid((gid_t)user) != 0 || setuid(user) != 0) exit(4);
}

static void stamp_from(tickscope_channel *channel, int64_t first) {
    for (int64_t id = first; id < first + 3; id++) tickscope_stamp(channel, id);
}

static void drop(uid_t user) {
    pid_t child = fork(); /* before this process opens anything, as a server's worker */
    if (child == 0) {
        become(user);
        stamp_from(TICKSCOPE_POINT("late", TICKSCOPE_PLAIN, 0), 21);
        exit(0);
    }
    waitpid(child, 0, 0);
    tickscope_channel *early = tickscope_open("early", TICKSCOPE_PLAIN, 0);
    stamp_from(early, 1);
    become(user);
    stamp_from(early, 11);
    child = fork(); /* with a pool, that it must not share */
    if (child == 0) {
        stamp_from(early, 31);
        exit(0);
    }
    waitpid(child, 0, 0);
}

static void tell(const char *what, int succeeded) {
    if (succeeded) printf("%s\n", what);
}

static void attack(const char *directory, const char *pool) {
    char path[4200], lock[4200];
    struct flock whole;
    become(65534);
    memset(&whole, 0, sizeof whole);
    whole.l_type = F_RDLCK;
    whole.l_len = 1;
    tell("list", opendir(directory) != 0);
    for (int flags = O_RDONLY; flags <= O_RDWR; flags++) tell("open the pool", open(pool, flags) >= 0);
    tell("remove the pool", unlink(pool) == 0);
    snprintf(path, sizeof path, "%s.old", directory);
    tell("rename the directory", rename(directory, path) == 0);
    snprintf(path, sizeof path, "%s/key", directory);
    tell("read the key", open(path, O_RDONLY) >= 0);
    snprintf(lock, sizeof lock, "%s/collector.lock", directory);
    int fd = open(lock, O_RDONLY);
    tell("lock", fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole) == 0);
    tell("remove the lock", unlink(lock) == 0);
    snprintf(path, sizeof path, "%s/uid-0", directory);
    tell("rename a user's directory", rename(path, lock) == 0 || rmdir(path) == 0);
    /* What it can: take names that are free, and make a pool of its own. Neither may matter. */
    snprintf(path, sizeof path, "%s/uid-33", directory);
    mkdir(path, 0700);
    if (symlink("/etc", path) != 0) snprintf(path, sizeof path, "%s/uid-34", directory);
    if (symlink("/etc", path) != 0) return;
    snprintf(path, sizeof path, "%s/refused-1-28", directory);
    close(open(path, O_CREAT | O_RDWR, 0666));
    stamp_from(tickscope_open("late", TICKSCOPE_PLAIN, 0), 1000);
}

static void close_all(void) {
    struct flock none;
    stamp_from(tickscope_open("work", TICKSCOPE_PLAIN, 0), 1);
    /* The mapping may keep the lock, or not. */
    memset(&none, 0, sizeof none);
    none.l_type = F_UNLCK;
    if (fcntl(tickscope__process.lock_fd, F_OFD_SETLK, &none) != 0) exit(5);
    for (int fd = 2; fd < 1024; fd++) close(fd);
    if (write(1, "closed\n", 7) != 7) exit(6);
    while (read(0, &count, 1) > 0) continue;
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    int first = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(way, "crowd")) {
        points = atoi(argv[3]), count = atoi(argv[4]);
        pthread_barrier_init(&everyone, 0, (unsigned)first);
        run(first, first, stamp_at_all, 0);
    }
    shape = !strcmp(way, "short-wide");
    if (shape || !strcmp(way, "short")) run(first, atoi(argv[3]), stamp_once, 0);
    if (!strcmp(way, "after")) run(first, 1, stamp_once, &next_id);
    if (!strcmp(way, "drop")) drop((uid_t)first);
    if (!strcmp(way, "limited")) {
        stamp_from(tickscope_open("work", TICKSCOPE_PLAIN, 0), 1);
        puts("went on");
    }
    if (!strcmp(way, "close")) close_all();
    if (!strcmp(way, "hostile")) attack(argv[2], argv[3]);
    return 0;
}
