/*
 * A UDP program with the kernel's time-stamps, for the tests. Tells what it truly did, each line "WORD NUMBERS":
 *
 *     kernel send ADDRESS PORT COUNT EVERY FLAGS    "attached 0 NS", CLOCK_REALTIME before; "sent ID BEFORE AFTER", CLOCK_REALTIME around each send that went out
 *     kernel receive ADDRESS PORT EVERY             "ready"; "received ID AFTER" until the id is negative
 *     kernel gro PORT         a socket with UDP_GRO is refused; one that turns it on later counts what was merged
 *     kernel cold PORT        files a packet without a stamp at once
 *     kernel long PORT        sends with control data of a length that nothing has, which the system call refuses
 *     kernel close PORT       closes the socket before the stamps of ten packets are collected
 *     kernel narrow PORT      awaits the stamps of 600 packets on a socket that has room for few
 *     kernel again PORT       the same by payload echo, and then sends again the ids whose stamps may be awaited still
 *     kernel looped -         "owner ID" of looped packets made here, -1: nobody's; each after the name of what it is
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

static int family_of(const char *address) {
    return strchr(address, ':') ? AF_INET6 : AF_INET;
}

static void place_socket(int fd, const char *address, const char *port, int binds) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } place;
    int family = family_of(address);
    memset(&place, 0, sizeof place);
    place.any.sa_family = (sa_family_t)family;
    place.v4.sin_port = htons((uint16_t)atoi(port)); /* where it stands in both */
    void *number = family == AF_INET6 ? (void *)&place.v6.sin6_addr : (void *)&place.v4.sin_addr;
    socklen_t length = family == AF_INET6 ? sizeof place.v6 : sizeof place.v4;
    if (inet_pton(family, address, number) != 1) exit(3);
    if (binds ? bind(fd, &place.any, length) : connect(fd, &place.any, length)) exit(3);
}

static int open_socket(const char *address, const char *port, int binds) {
    int fd = socket(family_of(address), SOCK_DGRAM, 0);
    place_socket(fd, address, port, binds);
    return fd;
}

static struct tickscope_kernel_options options_of(int64_t every, const char *flags) {
    struct tickscope_kernel_options options = {.every = every, .id_of = id_of};
    if (strchr(flags, 'e')) options.flags |= TICKSCOPE_KERNEL_ECHO;
    if (strchr(flags, 'l')) options.flags |= TICKSCOPE_KERNEL_LATER;
    return options;
}

/* One packet of one of four lengths; one byte too many for any datagram where it is to fail. */
static ssize_t send_one(int64_t id, int fails) {
    static unsigned char payload[65536];
    static const size_t lengths[4] = {16, 64, 200, 1300};
    struct packet packet = {MAGIC, id};
    struct iovec part = {payload, fails ? sizeof payload : lengths[(id >> 4) & 3]};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(payload, &packet, sizeof packet);
    return tickscope_kernel_send(&kernel, id, &message, 0, 0, 0);
}

static void attach_sender(const char *address, const char *port, int64_t every, const char *flags) {
    struct tickscope_kernel_options options = options_of(every, flags);
    options.sched = "sched", options.tx = "tx";
    tickscope_open("pool-is-there", TICKSCOPE_BEFORE, 0); /* what takes long is over by then */
    printf("attached 0 %lld\n", realtime_ns());
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
    int fd = socket(family_of(argv[2]), SOCK_DGRAM, 0);
    options.rx = "rx";
    if (tickscope_kernel_attach(&kernel, fd, &options)) exit(4);
    place_socket(fd, argv[2], argv[3], 1);
    puts("ready");
    fflush(stdout);
    for (int64_t id = 0; id >= 0;) {
        unsigned char payload[128];
        struct iovec part = {payload, sizeof payload};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        struct cmsghdr control[16]; /* of the program's own, and used again at once */
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        ssize_t bytes = tickscope_kernel_receive(&kernel, &message, 0);
        long long after = realtime_ns();
        memset(control, 0xff, sizeof control);
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

static void run_cold(const char *port) {
    struct tickscope_kernel_options options = options_of(1, "");
    options.rx = "rx";
    if (tickscope_kernel_attach(&kernel, open_socket("127.0.0.1", port, 1), &options)) exit(7);
    tickscope_kernel_received(&kernel, 0);
}

static void run_long(const char *port) {
    unsigned char nothing[16] = {0};
    struct msghdr message = {.msg_control = nothing, .msg_controllen = SIZE_MAX};
    attach_sender("127.0.0.1", port, 1, "lw");
    if (tickscope_kernel_send(&kernel, 0, &message, 0, 0, 0) != -1) exit(10);
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

/* ---- looped packets, as links and tunnels make them ---------------------------------------------------------------- */

struct looped {
    unsigned char bytes[4096];
    size_t length;
};

static void put(struct looped *packet, const void *bytes, size_t length) {
    memcpy(packet->bytes + packet->length, bytes, length);
    packet->length += length;
}

static void put_link(struct looped *packet, size_t length, unsigned kind) {
    unsigned char header[18] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2};
    header[length - 2] = (unsigned char)(kind >> 8), header[length - 1] = (unsigned char)kind;
    put(packet, header, length);
}

/* Headers of IP and UDP, or of another protocol alone, before so many bytes. */
static void put_ip(struct looped *packet, int version, int protocol, size_t bytes) {
    size_t inner = bytes + (protocol == IPPROTO_UDP ? 8 : 0);
    unsigned char v4[20] = {0x45, 0, (unsigned char)((inner + 20) >> 8), (unsigned char)(inner + 20), [8] = 64, [9] = (unsigned char)protocol};
    unsigned char v6[40] = {0x60, [4] = (unsigned char)(inner >> 8), (unsigned char)inner, (unsigned char)protocol, 64};
    unsigned char udp[8] = {0x30, 0x39, 0x1c, 0xe8, (unsigned char)(inner >> 8), (unsigned char)inner};
    if (version == 4) put(packet, v4, sizeof v4);
    else put(packet, v6, sizeof v6);
    if (protocol == IPPROTO_UDP) put(packet, udp, sizeof udp);
}

static void put_payload(struct looped *packet, int64_t id, size_t bytes) {
    static const unsigned char nothing[2048];
    struct packet payload = {MAGIC, id};
    put(packet, &payload, sizeof payload);
    put(packet, nothing, bytes - sizeof payload);
}

static void tell_owner(const char *what, const struct looped *packet) {
    const struct tickscope__awaited *owner = tickscope__kernel_owner(&kernel, 0, packet->bytes, packet->length);
    printf("%s %lld\n", what, owner ? (long long)owner->id : -1LL);
}

static void await_send(int64_t id, uint32_t bytes) {
    struct tickscope__awaited *awaited = tickscope__kernel_slot(&kernel, 0, id);
    awaited->id = id;
    awaited->bytes = bytes;
    awaited->kinds = 1u << TICKSCOPE_KERNEL_TX;
}

static void run_looped(void) {
    struct { const char *what; size_t link; unsigned kind; int version; int64_t id; size_t bytes; } plain[] = {
        {"ethernet-4", 14, 0x0800, 4, 1, 100}, {"ethernet-6", 14, 0x86dd, 6, 1, 100}, {"no-link-4", 0, 0, 4, 1, 100},
        {"no-link-6", 0, 0, 6, 1, 100},        {"vlan-4", 18, 0x0800, 4, 1, 100},     {"smallest", 14, 0x0800, 4, 3, 16},
        {"large-6", 14, 0x86dd, 6, 4, 1400},   {"shorter", 14, 0x0800, 4, 1, 99},     {"unknown", 14, 0x0800, 4, 5, 100},
    };
    kernel.echoes = 1, kernel.every = 1, kernel.id_of = id_of;
    await_send(1, 100), await_send(3, 16), await_send(4, 1400);
    for (size_t at = 0; at < sizeof plain / sizeof *plain; at++) {
        struct looped packet = {.length = 0};
        if (plain[at].link) put_link(&packet, plain[at].link, plain[at].kind);
        put_ip(&packet, plain[at].version, IPPROTO_UDP, plain[at].bytes);
        put_payload(&packet, plain[at].id, plain[at].bytes);
        tell_owner(plain[at].what, &packet);
    }
    struct looped gre = {.length = 0}, vxlan = {.length = 0}, padded = {.length = 0}, within = {.length = 0};
    put_link(&gre, 14, 0x0800), put_ip(&gre, 4, 47, 4 + 20 + 8 + 100), put(&gre, "\0\0\x8", 4);
    put_ip(&gre, 4, IPPROTO_UDP, 100), put_payload(&gre, 1, 100), tell_owner("gre", &gre);
    put_link(&vxlan, 14, 0x86dd), put_ip(&vxlan, 6, IPPROTO_UDP, 8 + 14 + 20 + 8 + 100), put(&vxlan, "\x8\0\0\0\0\0\1", 8);
    put_link(&vxlan, 14, 0x0800), put_ip(&vxlan, 4, IPPROTO_UDP, 100), put_payload(&vxlan, 1, 100), tell_owner("vxlan", &vxlan);
    put_link(&padded, 14, 0x0800), put_ip(&padded, 4, IPPROTO_UDP, 16), put_payload(&padded, 3, 16), put(&padded, "\0", 2);
    tell_owner("padded", &padded);
    /* A datagram of one awaited id that ends like another's, headers and all, is nobody's. */
    await_send(6, 16 + 8 + 16);
    put_link(&within, 14, 0x0800), put_ip(&within, 4, IPPROTO_UDP, 40), put_payload(&within, 6, 16);
    put(&within, "\0\0\0\0\0\x18\0", 8), put_payload(&within, 3, 16), tell_owner("within", &within);
    kernel.awaited[3].kinds = 0;
    tell_owner("not-within", &within);
    memset(&kernel, 0, sizeof kernel);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    if (!strcmp(argv[1], "send")) run_send(argv);
    if (!strcmp(argv[1], "receive")) run_receive(argv);
    if (!strcmp(argv[1], "gro")) run_gro(argv[2]);
    if (!strcmp(argv[1], "cold")) run_cold(argv[2]);
    if (!strcmp(argv[1], "long")) run_long(argv[2]);
    if (!strcmp(argv[1], "close")) run_close(argv[2]);
    if (!strcmp(argv[1], "narrow")) run_narrow(argv[2], "lw");
    if (!strcmp(argv[1], "again")) run_again(argv[2]);
    if (!strcmp(argv[1], "looped")) run_looped();
    tickscope_kernel_end(&kernel);
    tell_counts();
    return 0;
}
