/* One node of a ring that passes numbers on by UDP: ring ADDRESS PORT NEXT [SECONDS]. Stamps `at` before it sends a
 * number to NEXT. With SECONDS it is the first: it sends a new number every 20 ms, stamps `back` when that has come
 * round, and ends; the others end with the run. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tickscope.h"

static struct sockaddr_in at(const char *address, int port) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, address, &place.sin_addr) != 1) exit(2);
    return place;
}

int main(int argc, char **argv) {
    int64_t id = 0;
    tickscope_channel *leaves, *back;
    struct sockaddr_in own, next;
    int socket_of = socket(AF_INET, SOCK_DGRAM, 0), rounds = 0, is_first = argc == 5;
    if (argc < 4) return 2;
    own = at(argv[1], atoi(argv[2]));
    next = at(argv[3], atoi(argv[2]));
    if (bind(socket_of, (struct sockaddr *)&own, sizeof own)) return 1;
    leaves = tickscope_open("at", TICKSCOPE_BEFORE, 0);
    back = is_first ? tickscope_open("back", TICKSCOPE_AFTER, 0) : 0;
    if (is_first) rounds = (int)(atof(argv[4]) * 50);
    for (int round = 0; !is_first || round < rounds; round++) {
        struct pollfd waits = {.fd = socket_of, .events = POLLIN};
        if (is_first) {
            id = round;
            usleep(20000);
        } else if (recv(socket_of, &id, sizeof id, 0) != sizeof id) continue;
        tickscope_stamp(leaves, id);
        sendto(socket_of, &id, sizeof id, 0, (struct sockaddr *)&next, sizeof next);
        /* One that got lost is waited for no longer than that. */
        while (is_first && poll(&waits, 1, 2000) > 0) {
            int64_t found;
            if (recv(socket_of, &found, sizeof found, 0) != sizeof found || found != id) continue;
            tickscope_stamp(back, id);
            break;
        }
    }
    return 0;
}
