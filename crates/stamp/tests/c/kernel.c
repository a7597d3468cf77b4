/*
 * A UDP program with the kernel's time-stamps, for the tests. Tells what it truly did, each line "WORD NUMBERS":
 *
 *     kernel send ADDRESS PORT COUNT EVERY FLAGS    "sent ID BEFORE AFTER", CLOCK_REALTIME around each send that went out
 *     kernel receive ADDRESS PORT EVERY             "ready"; "received ID AFTER" until the id is negative
 *     kernel gro PORT         a socket with UDP_GRO is refused; one that turns it on later counts what was merged
 *     kernel close PORT       closes the socket before the stamps of ten packets are collected
 *     kernel narrow PORT      awaits the stamps of 600 packets on a socket that has room for few
 *     kernel again PORT       the same by payload echo, and then sends again the ids whose stamps may be awaited still
 *
 * FLAGS: e: match by payload echo; l: collect after every 50 sends only; f: every third send fails; w: wait until warm;
 * p: paced.
 * At the end of each: "counts MATCHING" and then of sched, tx, rx: stamped, missing, discarded; refused, failed,
 * unmatched, merged, foreign.
 */
#include "tickscope_kernel.h"

#include <arpa/inet.h>

static struct tickscope_kernel kernel;

struct packet {
    int64_t magic, id;
};
#define MAGIC 0x1122334455667788

static int id_of(const void *payload, size_t bytes, int64_t *id) {
    struct packet packet;
    if (bytes < sizeof packet) return 0;
    memcpy(&packet, payload, sizeof packet);
    *id = packet.id;
    return packet.magic == MAGIC;
}

static long long realtime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void tell_counts(void) {
    const struct tickscope_kernel_counts *counts = &kernel.counts;
    printf("counts %s", tickscope_kernel_matching(&kernel));
    for (int kind = 0; kind <= TICKSCOPE_KERNEL_RX; kind++)
        printf(" %llu %llu %llu", (unsigned long long)counts->of[kind].stamped, (unsigned long long)counts->of[kind].missing,
               (unsigned long long)counts->of[kind].discarded);
    printf(" %llu %llu %llu %llu %llu\n", (unsigned long long)counts->refused, (unsigned long long)counts->failed,
           (unsigned long long)counts->unmatched, (unsigned long long)counts->merged, (unsigned long long)counts->foreign);
}

static int open_socket(const char *address, const char *port, int binds) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, address, &place.sin_addr);
    if (binds ? bind(fd, (struct sockaddr *)&place, sizeof place) : connect(fd, (struct sockaddr *)&place, sizeof place)) exit(3);
    return fd;
}

static struct tickscope_kernel_options options_of(int64_t every, const char *flags) {
    struct tickscope_kernel_options options = {.every = every, .id_of = id_of};
    if (strchr(flags, 'e')) options.flags |= TICKSCOPE_KERNEL_ECHO;
    if (strchr(flags, 'l')) options.flags |= TICKSCOPE_KERNEL_LATER;
    return options;
}

/* One packet; one byte too many for any datagram where it is to fail. */
static ssize_t send_one(int64_t id, int fails) {
    static unsigned char payload[65508];
    struct packet packet = {MAGIC, id};
    struct iovec part = {payload, fails ? sizeof payload : 64};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(payload, &packet, sizeof packet);
    return tickscope_kernel_send(&kernel, id, &message, 0, 0, 0);
}

static void attach_sender(const char *address, const char *port, int64_t every, const char *flags) {
    struct tickscope_kernel_options options = options_of(every, flags);
    options.sched = "sched", options.tx = "tx";
    if (tickscope_kernel_attach(&kernel, open_socket(address, port, 0), &options)) exit(4);
    if (strchr(flags, 'w')) usleep(101000);
}

/* Until nobody is there any more: packets are lost where a receiver is slow. */
static void end_receiver(void) {
    struct packet packet = {MAGIC, -1};
    for (int refused = 0, tries = 0; refused < 2 && tries < 2000; tries++) {
        refused += send(kernel.fd, &packet, sizeof packet, 0) < 0 && errno == ECONNREFUSED;
        usleep(2000);
    }
}

static void run_send(char **argv) {
    int64_t count = atoll(argv[4]);
    attach_sender(argv[2], argv[3], atoll(argv[5]), argv[6]);
    for (int64_t id = 0; id < count; id++) {
        long long before = realtime_ns();
        ssize_t bytes = send_one(id, strchr(argv[6], 'f') && id % 3 == 2);
        if (bytes >= 0) printf("sent %lld %lld %lld\n", (long long)id, before, realtime_ns());
        if (id % 50 == 49) tickscope_kernel_collect(&kernel);
        if (strchr(argv[6], 'p')) usleep(300);
    }
    tickscope_kernel_collect(&kernel);
    end_receiver();
}

static void run_receive(char **argv) {
    struct tickscope_kernel_options options = options_of(atoll(argv[4]), "");
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    options.rx = "rx";
    if (tickscope_kernel_attach(&kernel, fd, &options)) exit(4);
    inet_pton(AF_INET, argv[2], &place.sin_addr);
    if (bind(fd, (struct sockaddr *)&place, sizeof place)) exit(3);
    puts("ready");
    fflush(stdout);
    for (int64_t id = 0; id >= 0;) {
        unsigned char payload[128];
        struct iovec part = {payload, sizeof payload};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t bytes = tickscope_kernel_receive(&kernel, &message, 0);
        long long after = realtime_ns();
        if (bytes < 0 || !id_of(payload, (size_t)bytes, &id) || id < 0) continue;
        tickscope_kernel_received(&kernel, id);
        tickscope_kernel_done(&kernel, id);
        printf("received %lld %lld\n", (long long)id, after);
    }
}

static void run_gro(const char *port) {
    static struct tickscope_kernel refused;
    struct tickscope_kernel_options options = options_of(1, "");
    int on = 1, segment = 32, sender, receiver = open_socket("127.0.0.1", port, 1);
    unsigned char payload[128] = {0};
    struct iovec part = {payload, sizeof payload};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    options.rx = "rx";
    if (setsockopt(receiver, IPPROTO_UDP, TICKSCOPE__UDP_GRO, &on, sizeof on)) exit(5);
    if (tickscope_kernel_attach(&refused, receiver, &options) != -1 || errno != EINVAL) exit(6);
    on = 0;
    setsockopt(receiver, IPPROTO_UDP, TICKSCOPE__UDP_GRO, &on, sizeof on);
    if (tickscope_kernel_attach(&kernel, receiver, &options)) exit(7);
    on = 1;
    setsockopt(receiver, IPPROTO_UDP, TICKSCOPE__UDP_GRO, &on, sizeof on);
    sender = open_socket("127.0.0.1", port, 0);
    usleep(101000);
    for (int merged = 0; merged < 3; merged++) {
        segment = merged ? 32 : 0; /* the first warms up */
        setsockopt(sender, IPPROTO_UDP, TICKSCOPE__UDP_SEGMENT, &segment, sizeof segment);
        if (send(sender, payload, sizeof payload, 0) != sizeof payload) exit(8);
        tickscope_kernel_receive(&kernel, &message, 0);
        tickscope_kernel_received(&kernel, merged);
    }
    if (tickscope_kernel_attach(&refused, sender, &options) != -1) exit(9); /* UDP_SEGMENT */
}

static void run_close(const char *port) {
    open_socket("127.0.0.1", port, 1);
    attach_sender("127.0.0.1", port, 1, "lw");
    for (int64_t id = 0; id < 10; id++) send_one(id, 0);
    close(kernel.fd);
}

static void run_narrow(const char *port, const char *flags) {
    int room = 1;
    open_socket("127.0.0.1", port, 1);
    attach_sender("127.0.0.1", port, 1, flags);
    setsockopt(kernel.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    for (int64_t id = 0; id < 600; id++) send_one(id, 0);
}

static void run_again(const char *port) {
    run_narrow(port, "lwe");
    for (int64_t id = 600 - TICKSCOPE__AWAITED; id < 600; id++) send_one(id, 0);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (!strcmp(argv[1], "send")) run_send(argv);
    if (!strcmp(argv[1], "receive")) run_receive(argv);
    if (!strcmp(argv[1], "gro")) run_gro(argv[2]);
    if (!strcmp(argv[1], "close")) run_close(argv[2]);
    if (!strcmp(argv[1], "narrow")) run_narrow(argv[2], "lw");
    if (!strcmp(argv[1], "again")) run_again(argv[2]);
    tickscope_kernel_end(&kernel);
    tell_counts();
    return 0;
}
