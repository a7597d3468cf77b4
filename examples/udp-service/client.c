#include "message.h"

/* Asks once a millisecond. */
int main(int argc, char **argv) {
    struct sockaddr_in service = place(argc > 1 ? argv[1] : "127.0.0.1");
    int64_t requests = argc > 2 ? (int64_t)(atof(argv[2]) * 1000) : 1000, answers = 0;
    struct timespec pause = {0, 1000000};
    struct timeval patience = {1, 0};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    connect(fd, (struct sockaddr *)&service, sizeof service);
    for (int64_t id = 1; id <= requests; id++) {
        struct message message = {id, "where does the time go?"};
        send(fd, &message, sizeof message, 0);
        if (recv(fd, &message, sizeof message, 0) == sizeof message) answers++;
        nanosleep(&pause, 0);
    }
    printf("%lld answers\n", (long long)answers);
    return answers == 0;
}
