/*
 * Both ends of a TCP connection with the kernel's time-stamps, for the tests. Says what was truly done, "WORD NUMBERS":
 *
 *     tcp exchange ADDRESS EVERY FLAGS   "sent ID BEFORE AFTER", CLOCK_REALTIME around each message's send, and
 *                                        "received ID BEFORE AFTER", around the read with its last byte
 *     tcp pieces ADDRESS EVERY -         a message that takes several sends, and one behind it
 *     tcp offsets ADDRESS EVERY -        bytes that passed before the connection was attached, or by other calls
 *     tcp refused ADDRESS EVERY -        sockets that are no TCP connection, a second sender: "refused ERRNO" of each
 *
 * ADDRESS: mapped is a server of IPv6 whose client speaks IPv4. FLAGS: b: three messages a send, read at once;
 * h: each in two halves; e: all of one length; c: the ends know the connection by a number.
 * At the end "counts" of the sender: sched, tx, acked as stamped, missing; merged, partial, failed, unmatched,
 * foreign; and of the receiver: rx as stamped, missing; merged.
 */
#include "tickscope_tcp.h"

#include <arpa/inet.h>

#define MESSAGES 300

static struct tickscope_tcp here, there;
static int client, server;
static unsigned char bytes[1 << 20];

static long long realtime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void connect_both(const char *address, int room) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } place;
    int is_mapped = !strcmp(address, "mapped"), is_v6 = is_mapped || strchr(address, ':') != 0;
    memset(&place, 0, sizeof place);
    place.any.sa_family = is_v6 ? AF_INET6 : AF_INET;
    void *number = is_v6 ? (void *)&place.v6.sin6_addr : (void *)&place.v4.sin_addr;
    if (!is_mapped && inet_pton(place.any.sa_family, address, number) != 1) exit(3);
    socklen_t length = is_v6 ? sizeof place.v6 : sizeof place.v4;
    int listener = socket(place.any.sa_family, SOCK_STREAM, 0);
    if (bind(listener, &place.any, length) || listen(listener, 1)) exit(3);
    if (getsockname(listener, &place.any, &length)) exit(3);
    if (is_mapped) {
        in_port_t port = place.v6.sin6_port;
        memset(&place, 0, sizeof place);
        place.v4.sin_family = AF_INET;
        place.v4.sin_port = port;
        place.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        length = sizeof place.v4;
    }
    client = socket(place.any.sa_family, SOCK_STREAM, 0);
    setsockopt(client, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (connect(client, &place.any, length)) exit(3);
    server = accept(listener, 0, 0);
    close(listener);
}

static struct tickscope_tcp_options options_of(int is_client, int64_t every) {
    struct tickscope_tcp_options options;
    memset(&options, 0, sizeof options);
    options.every = every;
    if (is_client) options.sched = "sched", options.tx = "tx", options.acked = "acked";
    else options.rx = "rx";
    return options;
}

static void attach_both(int64_t every, const char *flags) {
    struct tickscope_tcp_options client_options = options_of(1, every), server_options = options_of(0, every);
    if (strchr(flags, 'c')) {
        client_options.connection = server_options.connection = 77;
        client_options.opened = 1;
    }
    if (tickscope_tcp_attach(&here, client, &client_options)) exit(4);
    if (tickscope_tcp_attach(&there, server, &server_options)) exit(4);
}

/* Asks the kernel to stamp what it receives, and waits until it does: it begins a little later. */
static void wait_until_stamped(void) {
    unsigned asked = SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE;
    struct sockaddr_in place;
    socklen_t length = sizeof place;
    int fd = socket(AF_INET, SOCK_DGRAM, 0); /* stays open: the kernel goes on for as long as one is */
    memset(&place, 0, sizeof place);
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&place, length) || getsockname(fd, (struct sockaddr *)&place, &length)) exit(3);
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &asked, sizeof asked)) exit(3);
    for (time_t until = time(0) + 60; time(0) < until; usleep(1000)) {
        long long sent = realtime_ns(), stamp = 0;
        struct iovec part = {bytes, 1};
        union tickscope__control control;
        struct msghdr message;
        struct cmsghdr header;
        const unsigned char *data;
        struct timespec came;
        memset(&message, 0, sizeof message);
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        if (sendto(fd, bytes, 1, 0, (struct sockaddr *)&place, length) != 1) exit(3);
        usleep(1000); /* a packet that was not stamped when it came is stamped when it is read */
        long long read = realtime_ns();
        if (recvmsg(fd, &message, 0) != 1) exit(3);
        for (size_t at = 0, size; tickscope__next_control(&message, &at, &header, &data, &size);)
            if (header.cmsg_type == SO_TIMESTAMPING) {
                memcpy(&came, data, sizeof came);
                stamp = came.tv_sec * 1000000000LL + came.tv_nsec;
            }
        if (sent <= stamp && stamp < read) return;
    }
    exit(8);
}

/* Reads until so many bytes have come in all; returns when the read with the last of them began. */
static long long read_until(uint64_t end) {
    long long before = 0;
    while (there.received < end) {
        before = realtime_ns();
        if (tickscope_tcp_receive(&there, bytes, end - there.received, 0) <= 0) exit(5);
    }
    return before;
}

static void exchange(const char *flags) {
    size_t each = strchr(flags, 'b') ? 3 : 1;
    for (size_t number = 0; number < MESSAGES; number += each) {
        size_t length[3], all = 0;
        int64_t id[3];
        for (size_t at = 0; at < each; at++) {
            length[at] = strchr(flags, 'e') ? 64 : 1 + (number + at) * 7919 % 20000;
            id[at] = tickscope_tcp_message(&here, length[at]);
            all += length[at];
        }
        long long before = realtime_ns();
        size_t first = strchr(flags, 'h') ? all / 2 : 0;
        if (first && tickscope_tcp_send(&here, bytes, first, 0) != (ssize_t)first) exit(6);
        if (tickscope_tcp_send(&here, bytes, all - first, 0) != (ssize_t)(all - first)) exit(6);
        long long after = realtime_ns();
        for (size_t at = 0; at < each; at++) printf("sent %lld %lld %lld\n", (long long)id[at], before, after);
        before = read_until(there.received + all);
        after = realtime_ns();
        for (size_t at = 0; at < each; at++) {
            all -= length[at];
            int64_t received = tickscope_tcp_received(&there, all);
            printf("received %lld %lld %lld\n", (long long)received, before, after);
            tickscope_tcp_done(&there, received);
        }
    }
}

static void send_in_pieces(void) {
    size_t whole = sizeof bytes, went = 0;
    int pieces = 0;
    int64_t id = tickscope_tcp_message(&here, whole);
    long long before = realtime_ns();
    while (went < whole) {
        ssize_t now = tickscope_tcp_send(&here, bytes + went, whole - went, MSG_DONTWAIT);
        if (now > 0) went += (size_t)now, pieces++;
        else read_until(here.sent);
    }
    printf("sent %lld %lld %lld\npieces %d\n", (long long)id, before, realtime_ns(), pieces);
    before = read_until(whole);
    long long after = realtime_ns();
    printf("received %lld %lld %lld\n", (long long)tickscope_tcp_received(&there, 0), before, after);
    exchange("");
}

static void pass_offsets(int64_t every) {
    struct tickscope_tcp_options client_options = options_of(1, every), server_options = options_of(0, every);
    if (send(client, bytes, 100, 0) != 100 || recv(server, bytes, 100, MSG_WAITALL) != 100) exit(6);
    client_options.sent = server_options.received = 100;
    if (tickscope_tcp_attach(&here, client, &client_options)) exit(4);
    if (tickscope_tcp_attach(&there, server, &server_options)) exit(4);
    if (send(client, bytes, 50, 0) != 50) exit(6);
    tickscope_tcp_skip(&here, 50, 0);
    if (recv(server, bytes, 50, MSG_WAITALL) != 50) exit(6);
    tickscope_tcp_skip(&there, 0, 50);
    if (send(client, bytes, 10, 0) != 10 || tickscope_tcp_receive(&there, bytes, 10, MSG_PEEK) <= 0) exit(6);
    tickscope_tcp_skip(&here, 10, 0);
    if (there.received != 150) exit(9); /* what was looked at has not come yet */
    read_until(160);
    exchange("");
}

static void refuse_all(const char *address, int64_t every) {
    struct tickscope_tcp_options options = options_of(1, every);
    int udp = socket(AF_INET, SOCK_DGRAM, 0), alone = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in nowhere;
    memset(&nowhere, 0, sizeof nowhere);
    nowhere.sin_family = AF_INET;
    nowhere.sin_port = htons(9);
    nowhere.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(udp, (struct sockaddr *)&nowhere, sizeof nowhere)) exit(3);
    printf("refused %d\n", tickscope_tcp_attach(&here, udp, &options) ? errno : 0);
    printf("refused %d\n", tickscope_tcp_attach(&here, alone, &options) ? errno : 0);
    printf("id %lld\n", (long long)tickscope_tcp_message(&here, 10));
    connect_both(address, 1 << 20);
    printf("refused %d\n", tickscope_tcp_attach(&there, client, &options) ? errno : 0);
    printf("refused %d\n", tickscope_tcp_attach(&here, client, &options) ? errno : 0);
    printf("id %lld\n", (long long)(tickscope_tcp_message(&here, 10) - tickscope_tcp_message(&there, 10)));
}

int main(int argc, char **argv) {
    int64_t every = argc == 5 ? atoll(argv[3]) : 0;
    if (argc != 5) return 2;
    tickscope_open("pool-is-there", TICKSCOPE_BEFORE, 0); /* what takes long is over by then */
    if (!strcmp(argv[1], "refused")) {
        refuse_all(argv[2], every);
        return 0;
    }
    wait_until_stamped();
    connect_both(argv[2], strcmp(argv[1], "pieces") ? 1 << 20 : 1 << 13);
    if (!strcmp(argv[1], "offsets")) pass_offsets(every);
    else attach_both(every, argv[4]);
    if (!strcmp(argv[1], "exchange")) exchange(argv[4]);
    if (!strcmp(argv[1], "pieces")) send_in_pieces();
    /* The peer's kernel has acknowledged all that it had from it. */
    shutdown(client, SHUT_WR);
    while (recv(server, bytes, sizeof bytes, 0) > 0) {}
    close(server);
    while (recv(client, bytes, sizeof bytes, 0) > 0) {}
    tickscope_tcp_end(&here);
    tickscope_tcp_end(&there);
    printf("counts");
    for (int kind = 0; kind < TICKSCOPE_TCP_RX; kind++)
        printf(" %llu %llu", (unsigned long long)here.counts.of[kind].stamped,
               (unsigned long long)here.counts.of[kind].missing);
    printf(" %llu %llu %llu %llu %llu", (unsigned long long)here.counts.merged, (unsigned long long)here.counts.partial,
           (unsigned long long)here.counts.failed, (unsigned long long)here.counts.unmatched,
           (unsigned long long)here.counts.foreign);
    printf(" %llu %llu %llu\n", (unsigned long long)there.counts.of[TICKSCOPE_TCP_RX].stamped,
           (unsigned long long)there.counts.of[TICKSCOPE_TCP_RX].missing, (unsigned long long)there.counts.merged);
    return 0;
}
