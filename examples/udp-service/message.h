#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct message {
    int64_t id;
    char text[56];
};

static struct sockaddr_in place(const char *address) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(9000)};
    inet_pton(AF_INET, address, &place.sin_addr);
    return place;
}
