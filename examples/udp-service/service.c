#include "message.h"
#include <ctype.h>

/* Answers each message with its text in capitals. */
int main(int argc, char **argv) {
    struct sockaddr_in here = place(argc > 1 ? argv[1] : "127.0.0.1");
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&here, sizeof here)) return perror("bind"), 1;
    for (;;) {
        struct message message;
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        if (recvfrom(fd, &message, sizeof message, 0, (struct sockaddr *)&peer, &length) != sizeof message) continue;
        for (size_t at = 0; at < sizeof message.text; at++) message.text[at] = (char)toupper(message.text[at]);
        sendto(fd, &message, sizeof message, 0, (struct sockaddr *)&peer, length);
    }
}
