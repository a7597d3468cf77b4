/*
 * worker USER IDS: as a server that gives up root in its workers. The parent stamps "accepted" before it hands over an
 * id; a child becomes that user and group before it stamps "worked", a point that the parent had opened and stamped.
 */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tickscope.h"

static int work(int from, unsigned user) {
    if (setgroups(0, NULL) != 0 || setgid(user) != 0 || setuid(user) != 0 || setuid(0) == 0) {
        return 2;
    }
    tickscope_channel *worked = tickscope_open("worked", TICKSCOPE_AFTER, 0);
    for (int id; read(from, &id, sizeof id) == (ssize_t)sizeof id;) {
        tickscope_stamp(worked, id);
    }
    return 0;
}

int main(int count, char **words) {
    if (count != 3) {
        return 2;
    }
    int ends[2], status = 0;
    tickscope_channel *accepted = tickscope_open("accepted", TICKSCOPE_BEFORE, 0);
    tickscope_channel *early = tickscope_open("worked", TICKSCOPE_AFTER, 0);
    tickscope_stamp(accepted, 1);
    tickscope_stamp(early, 1);
    if (pipe(ends) != 0) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        return work(ends[0], (unsigned)atoi(words[1]));
    }
    for (int id = 2; id <= atoi(words[2]); ++id) {
        tickscope_stamp(accepted, id);
        if (write(ends[1], &id, sizeof id) != (ssize_t)sizeof id) {
            return 1;
        }
    }
    close(ends[1]);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
