/*
 * tickscope_kernel.h - the kernel's time-stamps of a UDP program's packets, as stamps of tickscope.h.
 *
 *     struct tickscope_kernel_options options = {.sched = "sched", .tx = "tx", .rx = "rx", .every = 10, .id_of = find_id};
 *     static struct tickscope_kernel kernel;
 *     tickscope_kernel_attach(&kernel, fd, &options);              before bind or connect: see warm-up below
 *     tickscope_kernel_send(&kernel, id, &message, 0, send, sent); bracket, stamp `send`, sendmsg, stamp `sent`, collect
 *     tickscope_kernel_receive(&kernel, &message, 0);              recvmsg; then stamp `received` yourself
 *     tickscope_kernel_received(&kernel, id);                      files the packet's own stamp under its id
 *     tickscope_kernel_done(&kernel, id);                          bracket: once no stage of this packet is left
 *     tickscope_kernel_collect(&kernel);                           when epoll tells EPOLLERR
 *     tickscope_kernel_end(&kernel);                               what never came is counted
 *
 * The idea: SO_TIMESTAMPING tells when a packet was handed to the network's scheduler (`sched`), to the driver (`tx`), and
 * taken from the driver (`rx`). Those are readings of CLOCK_REALTIME, so their points are channels of that clock, and
 * every stamped send and receive has a bracket on its own thread that relates REALTIME to the counter right there. An id
 * is stamped where id % every == 0: both ends stamp the same ones. Collecting a transmit stamp is a system call more a
 * stamped packet, and wakes whoever polls the socket: measure with and without.
 *
 * `sched` and `tx` are evidence as `before`: the kernel reads its clock before it queues the packet or gives it to the driver
 * (skb_tx_timestamp comes before the descriptor is visible), through an ordered read of the counter, so nobody can have
 * seen the packet earlier. `rx` is evidence as `after`: it is read once the driver has taken the packet in.
 *
 * Matching is exact or not at all. Where the kernel can (Linux 6.13) each stamped send carries a number of ours
 * (SCM_TS_OPT_ID) that comes back with its stamps. Elsewhere the packet comes back with its stamp: the datagram is its end,
 * whatever headers the link and its tunnels put before, and `id_of` finds the id in the first 128 bytes. What fits the ends of
 * several awaited sends is nobody's; ids that are sent again while a stamp of theirs is awaited are then not stamped, and
 * neither is a datagram that does not come back whole (fragmented, or padded by its driver). The kernel's own count of
 * packets (OPT_ID alone) is never used: one send that fails shifts it.
 *
 * Guarantees: no thread, no allocation, no waiting; never a stamp under another id; every stamp asked for is counted as stamped,
 * missing or discarded. Without TICKSCOPE_DIR nothing is asked of the kernel. Errors leave the program's own calls as
 * they are: send and receive go on without kernel stamps.
 * Warm-up: the kernel begins to stamp received packets a little after it was asked to, and gives those that were queued
 * before then the time at which they are read. So stamps of the first 100 ms are discarded, and after that until the
 * socket's queue was seen empty once.
 * Refused: sockets with UDP_GRO or UDP_SEGMENT, where one stamp stands for several packets.
 * Assumes: the socket's error queue is nobody else's; packets of one struct are sent, or received, by the thread that
 * attached it (a thread that sends and one that receives attach a struct each, with their points alone; of two that send
 * on one socket, stamps that the other took off are missing to the one and unmatched to the other); not used in a
 * forked child. Stamps of hardware (points of a network card's clock, one card a process, which must have been told to
 * stamp: hwstamp_ctl) are written against the kernel's interface and untested.
 */
#ifndef TICKSCOPE_KERNEL_H
#define TICKSCOPE_KERNEL_H

#include "tickscope.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what programs use ------------------------------------------------------------------------------------------ */

enum tickscope_kernel_kind {
    TICKSCOPE_KERNEL_SCHED,       /* handed to the scheduler of the network */
    TICKSCOPE_KERNEL_TX,          /* handed to the driver */
    TICKSCOPE_KERNEL_RX,          /* taken from the driver */
    TICKSCOPE_KERNEL_HARDWARE_TX, /* sent, by the card's clock */
    TICKSCOPE_KERNEL_HARDWARE_RX  /* received, by the card's clock */
};
#define TICKSCOPE_KERNEL_KINDS 5

/* Flags of the options. */
enum {
    TICKSCOPE_KERNEL_ECHO = 1, /* match by payload echo also where the kernel could do better */
    TICKSCOPE_KERNEL_LATER = 2 /* transmit stamps are collected by tickscope_kernel_collect alone, not after each send */
};

struct tickscope_kernel_options {
    const char *sched, *tx, *rx;             /* points; NULL: not stamped */
    const char *hardware_tx, *hardware_rx;   /* the same, of the card's clock */
    const char *phc;                         /* that clock's device, such as /dev/ptp0 */
    int64_t every;                           /* ids that are multiples of it are stamped; 0: none */
    int (*id_of)(const void *payload, size_t bytes, int64_t *id); /* for payload echo; 0: no packet of ours */
    unsigned flags;
};

/* What became of the stamps of one kind. */
struct tickscope_kernel_tally {
    uint64_t stamped, missing, discarded;
};

struct tickscope_kernel_counts {
    struct tickscope_kernel_tally of[TICKSCOPE_KERNEL_KINDS];
    uint64_t refused;   /* sends of a sampled id that were not asked for: control data too long, or the id awaited still */
    uint64_t failed;    /* sends asked for that the system call refused */
    uint64_t unmatched; /* transmit stamps that nobody waited for: of a failed send, or too late */
    uint64_t merged;    /* received packets that UDP_GRO had merged: no stamp */
    uint64_t foreign;   /* messages of the error queue that are no time-stamps */
};

/* One thread's use of one socket. */
struct tickscope_kernel;

/* Asks for stamps on a UDP socket; -1 with errno and a line on stderr: refused, and the struct is then off. */
static inline int tickscope_kernel_attach(struct tickscope_kernel *kernel, int fd, const struct tickscope_kernel_options *options);

/* Whether this id's packets are stamped. */
static inline int tickscope_kernel_samples(const struct tickscope_kernel *kernel, int64_t id);

/*
 * sendmsg, with a stamp of `send` right before and of `sent` right after it; either may be NULL. Stamped ids get a bracket
 * before all that, and are collected after it. Returns what sendmsg returned, with its errno.
 */
static inline ssize_t tickscope_kernel_send(struct tickscope_kernel *kernel, int64_t id, const struct msghdr *message,
                                            int flags, tickscope_channel *send, tickscope_channel *sent);

/* recvmsg; without control data in `message`, room of the helper's own is used. The stamp is copied out at once. */
static inline ssize_t tickscope_kernel_receive(struct tickscope_kernel *kernel, struct msghdr *message, int flags);

/* Files the stamp of the packet that was received last under its id. */
static inline void tickscope_kernel_received(struct tickscope_kernel *kernel, int64_t id);

/* The bracket after a receive: call it once nothing of this packet is left to be timed. */
static inline void tickscope_kernel_done(struct tickscope_kernel *kernel, int64_t id);

/* Takes all transmit stamps that have come. */
static inline void tickscope_kernel_collect(struct tickscope_kernel *kernel);

/* Collects once more, counts as missing what has not come, and asks for no more. */
static inline void tickscope_kernel_end(struct tickscope_kernel *kernel);

/* "SCM_TS_OPT_ID", "payload-echo", "none": no transmit stamps are taken, or "off". */
static inline const char *tickscope_kernel_matching(const struct tickscope_kernel *kernel);

/* ---- what lies behind -------------------------------------------------------------------------------------------- */

#define TICKSCOPE__SCM_TS_OPT_ID 81 /* asm/socket.h of Linux 6.13 */
#define TICKSCOPE__UDP_SEGMENT 103  /* linux/udp.h, which glibc's netinet/udp.h does not go together with */
#define TICKSCOPE__UDP_GRO 104

/* Stamped sends whose stamps have not all come: more than any queue of a loaded interface holds of them. */
#define TICKSCOPE__AWAITED 256
/* Messages a system call takes off the error queue: a stamped packet has two, or three with hardware. */
#define TICKSCOPE__BATCH 16
/* Of a looped packet: the headers of a link, of a tunnel and of UDP, and the payload in which an id is looked for. */
#define TICKSCOPE__LOOPED_BYTES (128 + 128)
#define TICKSCOPE__LARGEST_PACKET 65536
#define TICKSCOPE__UDP_HEADER 8
#define TICKSCOPE__MOST_PARTS 1024 /* of a message, IOV_MAX: the system call refuses more */
#define TICKSCOPE__WARM_UP_NS INT64_C(100000000)

struct tickscope__awaited {
    int64_t id;
    uint32_t key;   /* what came with the send, where the kernel carries it */
    uint32_t bytes; /* of its datagram */
    uint8_t kinds;  /* bits: stamps that have not come */
    uint8_t is_warm;
};

/* Room for control data, aligned as CMSG_ALIGN has it. Headers are copied in and out, so nothing but bytes is ever read there. */
union tickscope__control {
    size_t aligned;
    unsigned char bytes[256];
};

/* What came with the packet that was received last. */
struct tickscope__arrived {
    struct timespec stamp[3]; /* software, unused, hardware; 0: none */
    int is_merged;
};

struct tickscope_kernel {
    int fd;
    unsigned flags;
    int64_t every; /* 0: off */
    int echoes;    /* matching is by payload echo */
    int (*id_of)(const void *payload, size_t bytes, int64_t *id);
    int64_t enabled_ns; /* CLOCK_MONOTONIC */
    int is_warm;        /* for received packets */
    uint32_t key_space, keys; /* what its numbers have in common, and how many were given */
    tickscope_channel *channel[TICKSCOPE_KERNEL_KINDS]; /* 0: not stamped */
    tickscope_channel *brackets, *phc_brackets;
    struct tickscope_kernel_counts counts;
    struct tickscope__awaited awaited[TICKSCOPE__AWAITED];
    struct tickscope__arrived arrived;
    struct mmsghdr batch[TICKSCOPE__BATCH];
    struct iovec looped[TICKSCOPE__BATCH][2]; /* the beginning, and the rest */
    unsigned char looped_bytes[TICKSCOPE__BATCH][TICKSCOPE__LOOPED_BYTES];
    union tickscope__control send_control, receive_control, batch_control[TICKSCOPE__BATCH];
};

/* Where the rest of every looped packet goes, so that its length is told. Nobody reads it. */
TICKSCOPE__ONCE unsigned char tickscope__kernel_rest[TICKSCOPE__LARGEST_PACKET];

#define TICKSCOPE__TRANSMITTED \
    (1u << TICKSCOPE_KERNEL_SCHED | 1u << TICKSCOPE_KERNEL_TX | 1u << TICKSCOPE_KERNEL_HARDWARE_TX)

static inline int tickscope_kernel_samples(const struct tickscope_kernel *kernel, int64_t id) {
    return kernel->every > 0 && id % kernel->every == 0;
}

/* ---- attaching --------------------------------------------------------------------------------------------------- */

TICKSCOPE__COLD int tickscope__kernel_refuse(int error, const char *expected, const char *found, const char *remedy) {
    tickscope__complain(expected, found, remedy);
    errno = error;
    return -1;
}

TICKSCOPE__COLD int tickscope__socket_number(int fd, int level, int name) {
    int number = 0;
    socklen_t length = sizeof number;
    return getsockopt(fd, level, name, &number, &length) == 0 ? number : 0;
}

/* Adds a number to control data that has room for it. */
static inline void tickscope__kernel_add_control(struct msghdr *message, int type, uint32_t number) {
    unsigned char *end = (unsigned char *)message->msg_control + message->msg_controllen;
    struct cmsghdr header;
    memset(&header, 0, sizeof header);
    header.cmsg_level = SOL_SOCKET;
    header.cmsg_type = type;
    header.cmsg_len = CMSG_LEN(sizeof number);
    memset(end, 0, CMSG_SPACE(sizeof number));
    memcpy(end, &header, sizeof header);
    memcpy(end + CMSG_LEN(0), &number, sizeof number);
    message->msg_controllen += CMSG_SPACE(sizeof number);
}

/* The control message at `*at`, which moves behind it; 0: there is none. `data` has `bytes` of it. */
static inline int tickscope__next_control(const struct msghdr *message, size_t *at, struct cmsghdr *header,
                                          const unsigned char **data, size_t *bytes) {
    size_t room = message->msg_controllen;
    const unsigned char *control = (const unsigned char *)message->msg_control;
    if (*at > room || room - *at < CMSG_LEN(0)) return 0;
    memcpy(header, control + *at, sizeof *header);
    if (header->cmsg_len < CMSG_LEN(0) || header->cmsg_len > room - *at) return 0;
    *data = control + *at + CMSG_LEN(0);
    *bytes = header->cmsg_len - CMSG_LEN(0);
    *at += CMSG_ALIGN(header->cmsg_len);
    return 1;
}

/*
 * Whether the kernel takes SCM_TS_OPT_ID: asked of a socket of its own, by a send to the broadcast address, for which it has
 * no right or no route. An unknown control message is refused before that is looked at.
 */
TICKSCOPE__COLD int tickscope__kernel_carries_ids(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), flags = SOF_TIMESTAMPING_OPT_ID, carries = 0;
    struct sockaddr_in nowhere;
    struct msghdr message;
    union tickscope__control control;
    if (fd < 0) return 0;
    memset(&nowhere, 0, sizeof nowhere);
    memset(&message, 0, sizeof message);
    nowhere.sin_family = AF_INET;
    nowhere.sin_port = htons(9);
    nowhere.sin_addr.s_addr = htonl(INADDR_BROADCAST);
    message.msg_name = &nowhere;
    message.msg_namelen = sizeof nowhere;
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) == 0) {
        int refused_without = sendmsg(fd, &message, 0) < 0 && errno == EINVAL;
        message.msg_control = control.bytes;
        tickscope__kernel_add_control(&message, TICKSCOPE__SCM_TS_OPT_ID, 0);
        int refused_with = sendmsg(fd, &message, 0) < 0 && errno == EINVAL;
        carries = !refused_without && !refused_with;
    }
    close(fd);
    return carries;
}

/* The card whose clock this process reads: its device number; 0: none. */
TICKSCOPE__ONCE uint64_t tickscope__phc_device;

TICKSCOPE__COLD int tickscope__use_phc(const char *path) {
    struct stat device;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &device) != 0) {
        if (fd >= 0) close(fd);
        return tickscope__kernel_refuse(ENODEV, "a network card's clock such as /dev/ptp0 for stamps of hardware",
                                        path ? path : "none", "This socket has no kernel stamps.");
    }
    if (tickscope__phc_device != 0) {
        close(fd);
        if (tickscope__phc_device == (uint64_t)device.st_rdev) return 0;
        return tickscope__kernel_refuse(EBUSY, "one network card's clock a process", path, "This socket has no kernel stamps.");
    }
    tickscope__phc_device = (uint64_t)device.st_rdev;
    tickscope__process.phc_clock = (int32_t)(~(unsigned)fd << 3 | 3); /* FD_TO_CLOCKID; open for as long as the process lives */
    return 0;
}

TICKSCOPE__COLD int tickscope__kernel_accepts(int fd) {
    if (tickscope__socket_number(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_UDP)
        return tickscope__kernel_refuse(EINVAL, "a UDP socket for kernel stamps", "another", "It goes on without.");
    if (tickscope__socket_number(fd, IPPROTO_UDP, TICKSCOPE__UDP_GRO))
        return tickscope__kernel_refuse(EINVAL, "a socket without UDP_GRO for kernel stamps", "one with it",
                                        "A merged packet has only its first one's stamp: turn it off, or go on without stamps.");
    if (tickscope__socket_number(fd, IPPROTO_UDP, TICKSCOPE__UDP_SEGMENT))
        return tickscope__kernel_refuse(EINVAL, "a socket without UDP_SEGMENT for kernel stamps", "one with it",
                                        "The packets of a send would share one stamp: turn it off, or go on without stamps.");
    return 0;
}

/* Opens what the options name; whether any of it is on. */
TICKSCOPE__COLD int tickscope__kernel_open(struct tickscope_kernel *kernel, const struct tickscope_kernel_options *options) {
    const char *point[TICKSCOPE_KERNEL_KINDS] = {options->sched, options->tx, options->rx, options->hardware_tx,
                                                 options->hardware_rx};
    int any = 0;
    for (int kind = 0; kind < TICKSCOPE_KERNEL_KINDS; kind++) {
        int received = kind == TICKSCOPE_KERNEL_RX || kind == TICKSCOPE_KERNEL_HARDWARE_RX;
        enum tickscope_counter counter = kind >= TICKSCOPE_KERNEL_HARDWARE_TX ? TICKSCOPE_PHC : TICKSCOPE_REALTIME;
        if (point[kind] == 0) continue;
        tickscope_channel *channel =
            tickscope_open_clock(point[kind], counter, received ? TICKSCOPE_AFTER : TICKSCOPE_BEFORE, 0);
        if (channel == &tickscope__off_channel) continue;
        kernel->channel[kind] = channel;
        any = 1;
    }
    if (any) kernel->brackets = tickscope_open_bracket(TICKSCOPE_REALTIME);
    if (tickscope__process.phc_clock) kernel->phc_brackets = tickscope_open_bracket(TICKSCOPE_PHC);
    return any;
}

/* Structs attached so far: two that send on one socket take each other's stamps, and must not know them for their own. */
TICKSCOPE__ONCE uint32_t tickscope__kernel_structs;

TICKSCOPE__COLD int tickscope__kernel_attach(struct tickscope_kernel *kernel, int fd,
                                             const struct tickscope_kernel_options *options) {
    memset(kernel, 0, sizeof *kernel);
    kernel->key_space = __atomic_fetch_add(&tickscope__kernel_structs, 1, __ATOMIC_RELAXED) << 24;
    kernel->fd = fd;
    kernel->flags = options->flags;
    kernel->id_of = options->id_of;
    if (options->every <= 0) return 0;
    if (tickscope__kernel_accepts(fd)) return -1;
    int hardware = options->hardware_tx || options->hardware_rx;
    if (hardware && tickscope__use_phc(options->phc)) return -1;
    if (!tickscope__kernel_open(kernel, options)) return 0;
    /* Another thread may have asked for its part of the same socket. */
    unsigned asked = (unsigned)tickscope__socket_number(fd, SOL_SOCKET, SO_TIMESTAMPING) | SOF_TIMESTAMPING_SOFTWARE;
    if (options->rx) asked |= SOF_TIMESTAMPING_RX_SOFTWARE;
    if (hardware) asked |= SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_OPT_TX_SWHW;
    if (options->hardware_rx) asked |= SOF_TIMESTAMPING_RX_HARDWARE;
    if (options->sched || options->tx || options->hardware_tx) {
        kernel->echoes = options->flags & TICKSCOPE_KERNEL_ECHO || !tickscope__kernel_carries_ids();
        if (kernel->echoes && kernel->id_of == 0)
            return tickscope__kernel_refuse(EINVAL, "a kernel that carries ids (Linux 6.13), or id_of to find them in packets",
                                            "neither", "Give id_of.");
        if (kernel->echoes) asked &= ~(unsigned)SOF_TIMESTAMPING_OPT_TSONLY;
        else asked |= SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &asked, sizeof asked) != 0)
        return tickscope__kernel_refuse(errno, "a kernel with SO_TIMESTAMPING", strerror(errno), "It goes on without stamps.");
    kernel->enabled_ns = tickscope__clock_now(TICKSCOPE_MONOTONIC); /* only now: a struct that is off collects nothing */
    kernel->every = options->every;
    return 0;
}

static inline int tickscope_kernel_attach(struct tickscope_kernel *kernel, int fd, const struct tickscope_kernel_options *options) {
    return tickscope__kernel_attach(kernel, fd, options);
}

static inline const char *tickscope_kernel_matching(const struct tickscope_kernel *kernel) {
    if (kernel->enabled_ns == 0) return "off";
    if (!kernel->channel[TICKSCOPE_KERNEL_SCHED] && !kernel->channel[TICKSCOPE_KERNEL_TX] &&
        !kernel->channel[TICKSCOPE_KERNEL_HARDWARE_TX])
        return "none";
    return kernel->echoes ? "payload-echo" : "SCM_TS_OPT_ID";
}

static inline int tickscope__kernel_passed_warm_up(const struct tickscope_kernel *kernel) {
    return tickscope__clock_now(TICKSCOPE_MONOTONIC) - kernel->enabled_ns >= TICKSCOPE__WARM_UP_NS;
}

static inline void tickscope__kernel_bracket(struct tickscope_kernel *kernel) {
    tickscope_bracket(kernel->brackets);
    if (kernel->phc_brackets) tickscope_bracket(kernel->phc_brackets);
}

/* ---- transmit stamps --------------------------------------------------------------------------------------------- */

static inline void tickscope__kernel_give_up(struct tickscope_kernel *kernel, struct tickscope__awaited *awaited) {
    for (int kind = 0; kind < TICKSCOPE_KERNEL_KINDS; kind++)
        if (awaited->kinds & 1u << kind) kernel->counts.of[kind].missing++;
    awaited->kinds = 0;
}

static inline struct tickscope__awaited *tickscope__kernel_slot(struct tickscope_kernel *kernel, uint32_t key, int64_t id) {
    uint64_t at = kernel->echoes ? (uint64_t)(id / kernel->every) : key;
    return &kernel->awaited[at % TICKSCOPE__AWAITED];
}

/* A place to await the stamps of this send; 0: none may be asked for. */
static inline struct tickscope__awaited *tickscope__kernel_await(struct tickscope_kernel *kernel, int64_t id) {
    uint32_t key = kernel->key_space | (kernel->keys & 0xffffff);
    struct tickscope__awaited *awaited = tickscope__kernel_slot(kernel, key, id);
    if (awaited->kinds) tickscope_kernel_collect(kernel);
    if (awaited->kinds && kernel->echoes && awaited->id == id) return 0; /* whose stamp would the next one be? */
    tickscope__kernel_give_up(kernel, awaited);
    awaited->id = id;
    awaited->key = key;
    kernel->keys++;
    awaited->is_warm = (uint8_t)tickscope__kernel_passed_warm_up(kernel);
    for (int kind = 0; kind < TICKSCOPE_KERNEL_KINDS; kind++) {
        tickscope_channel *channel = kernel->channel[kind];
        int keeps = channel && (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED) != TICKSCOPE__POLICY_NULL;
        if (keeps && TICKSCOPE__TRANSMITTED & 1u << kind) awaited->kinds |= (uint8_t)(1u << kind);
    }
    return awaited;
}

/* Makes `asked` the message with what asks for its stamps; 0: it is sent as it is. */
static inline struct tickscope__awaited *tickscope__kernel_ask(struct tickscope_kernel *kernel, int64_t id,
                                                               const struct msghdr *message, struct msghdr *asked) {
    size_t room = sizeof kernel->send_control.bytes - 2 * CMSG_SPACE(sizeof(uint32_t));
    int fits = message->msg_control == 0 || message->msg_controllen <= room; /* before it is rounded up, which may overflow */
    size_t theirs = message->msg_control && fits ? CMSG_ALIGN(message->msg_controllen) : 0;
    struct tickscope__awaited *awaited = fits ? tickscope__kernel_await(kernel, id) : 0;
    if (awaited == 0) {
        kernel->counts.refused++;
        return 0;
    }
    if (awaited->kinds == 0) return 0;
    uint32_t flags = 0;
    if (awaited->kinds & 1u << TICKSCOPE_KERNEL_SCHED) flags |= SOF_TIMESTAMPING_TX_SCHED;
    if (awaited->kinds & 1u << TICKSCOPE_KERNEL_TX) flags |= SOF_TIMESTAMPING_TX_SOFTWARE;
    if (awaited->kinds & 1u << TICKSCOPE_KERNEL_HARDWARE_TX) flags |= SOF_TIMESTAMPING_TX_HARDWARE;
    awaited->bytes = 0;
    size_t parts = kernel->echoes && (size_t)message->msg_iovlen <= TICKSCOPE__MOST_PARTS ? (size_t)message->msg_iovlen : 0;
    for (size_t part = 0; part < parts; part++) awaited->bytes += (uint32_t)message->msg_iov[part].iov_len;
    *asked = *message;
    memset(kernel->send_control.bytes, 0, theirs);
    if (theirs) memcpy(kernel->send_control.bytes, message->msg_control, message->msg_controllen);
    asked->msg_control = kernel->send_control.bytes;
    asked->msg_controllen = theirs;
    tickscope__kernel_add_control(asked, SO_TIMESTAMPING, flags);
    if (!kernel->echoes) tickscope__kernel_add_control(asked, TICKSCOPE__SCM_TS_OPT_ID, awaited->key);
    return awaited;
}

static inline ssize_t tickscope_kernel_send(struct tickscope_kernel *kernel, int64_t id, const struct msghdr *message,
                                            int flags, tickscope_channel *send, tickscope_channel *sent) {
    struct msghdr asked;
    struct tickscope__awaited *awaited = 0;
    if (tickscope_kernel_samples(kernel, id)) {
        awaited = tickscope__kernel_ask(kernel, id, message, &asked);
        tickscope__kernel_bracket(kernel);
    }
    if (send) tickscope_stamp(send, id);
    ssize_t bytes = sendmsg(kernel->fd, awaited ? &asked : message, flags);
    if (sent) tickscope_stamp(sent, id);
    if (awaited) {
        int error = errno;
        if (bytes < 0) {
            kernel->counts.failed++;
            awaited->kinds = 0;
        } else if (!(kernel->flags & TICKSCOPE_KERNEL_LATER)) {
            tickscope_kernel_collect(kernel);
        }
        errno = error;
    }
    return bytes;
}

/*
 * Whether a looped packet of `bytes`, of which the beginning is there, ends with the datagram of this send: its UDP header
 * tells that length right before it, and its id is found in it.
 */
static inline int tickscope__kernel_ends_with(const struct tickscope_kernel *kernel, const struct tickscope__awaited *awaited,
                                              const unsigned char *looped, size_t bytes) {
    size_t datagram = (size_t)awaited->bytes + TICKSCOPE__UDP_HEADER, here = TICKSCOPE__LOOPED_BYTES;
    int64_t id = 0;
    if (bytes < datagram || bytes - awaited->bytes > here) return 0;
    const unsigned char *payload = looped + (bytes - awaited->bytes), *length = payload - TICKSCOPE__UDP_HEADER + 4;
    if (((size_t)length[0] << 8 | length[1]) != datagram) return 0;
    size_t part = here - (size_t)(payload - looped);
    return kernel->id_of(payload, part < awaited->bytes ? part : awaited->bytes, &id) && id == awaited->id;
}

/* Whose stamp a message of the error queue is; 0: nobody waits for it. */
static inline struct tickscope__awaited *tickscope__kernel_owner(struct tickscope_kernel *kernel, uint32_t key,
                                                                 const unsigned char *looped, size_t bytes) {
    if (!kernel->echoes) {
        struct tickscope__awaited *awaited = tickscope__kernel_slot(kernel, key, 0);
        return awaited->key == key ? awaited : 0;
    }
    struct tickscope__awaited *owner = 0;
    for (int at = 0; at < TICKSCOPE__AWAITED; at++) {
        struct tickscope__awaited *awaited = &kernel->awaited[at];
        if (!awaited->kinds || !tickscope__kernel_ends_with(kernel, awaited, looped, bytes)) continue;
        if (owner) return 0;
        owner = awaited;
    }
    return owner;
}

static inline void tickscope__kernel_take(struct tickscope_kernel *kernel, struct tickscope__awaited *awaited, int kind,
                                          const struct timespec *stamp) {
    int64_t ns = stamp->tv_sec * INT64_C(1000000000) + stamp->tv_nsec;
    if (awaited == 0 || !(awaited->kinds & 1u << kind)) {
        kernel->counts.unmatched++;
        return;
    }
    awaited->kinds &= (uint8_t)~(1u << kind);
    if (!awaited->is_warm) {
        kernel->counts.of[kind].discarded++;
        return;
    }
    kernel->counts.of[kind].stamped++;
    tickscope_record(kernel->channel[kind], awaited->id, kind == TICKSCOPE_KERNEL_HARDWARE_TX ? ns : tickscope__realtime_as_read(ns));
}

/* One message of the error queue. */
static inline void tickscope__kernel_match(struct tickscope_kernel *kernel, struct msghdr *message, size_t bytes) {
    struct timespec stamp[3]; /* software, unused, hardware */
    struct sock_extended_err error;
    struct cmsghdr header;
    const unsigned char *data;
    memset(stamp, 0, sizeof stamp);
    memset(&error, 0, sizeof error);
    for (size_t at = 0, length; tickscope__next_control(message, &at, &header, &data, &length);) {
        int is_error = (header.cmsg_level == IPPROTO_IP && header.cmsg_type == IP_RECVERR) ||
                       (header.cmsg_level == IPPROTO_IPV6 && header.cmsg_type == IPV6_RECVERR);
        if (is_error && length >= sizeof error) memcpy(&error, data, sizeof error);
        int stamped = header.cmsg_level == SOL_SOCKET && header.cmsg_type == SO_TIMESTAMPING;
        if (stamped && length >= sizeof stamp) memcpy(stamp, data, sizeof stamp);
    }
    if (error.ee_origin != SO_EE_ORIGIN_TIMESTAMPING) {
        kernel->counts.foreign++;
        return;
    }
    const unsigned char *looped = (const unsigned char *)message->msg_iov->iov_base;
    struct tickscope__awaited *awaited = tickscope__kernel_owner(kernel, error.ee_data, looped, bytes);
    int is_hardware = stamp[0].tv_sec == 0 && stamp[0].tv_nsec == 0;
    if (error.ee_info == SCM_TSTAMP_SCHED) tickscope__kernel_take(kernel, awaited, TICKSCOPE_KERNEL_SCHED, &stamp[0]);
    else if (error.ee_info != SCM_TSTAMP_SND) kernel->counts.unmatched++;
    else if (is_hardware) tickscope__kernel_take(kernel, awaited, TICKSCOPE_KERNEL_HARDWARE_TX, &stamp[2]);
    else tickscope__kernel_take(kernel, awaited, TICKSCOPE_KERNEL_TX, &stamp[0]);
}

static inline int tickscope__kernel_collect_batch(struct tickscope_kernel *kernel) {
    for (int at = 0; at < TICKSCOPE__BATCH; at++) {
        struct msghdr *message = &kernel->batch[at].msg_hdr;
        kernel->looped[at][0].iov_base = kernel->looped_bytes[at];
        kernel->looped[at][0].iov_len = TICKSCOPE__LOOPED_BYTES;
        kernel->looped[at][1].iov_base = tickscope__kernel_rest;
        kernel->looped[at][1].iov_len = sizeof tickscope__kernel_rest;
        message->msg_name = 0;
        message->msg_namelen = 0;
        message->msg_iov = kernel->looped[at];
        message->msg_iovlen = kernel->echoes ? 2 : 0;
        message->msg_control = kernel->batch_control[at].bytes;
        message->msg_controllen = sizeof kernel->batch_control[at].bytes;
        message->msg_flags = 0;
    }
    int got = recvmmsg(kernel->fd, kernel->batch, TICKSCOPE__BATCH, MSG_ERRQUEUE | MSG_DONTWAIT, 0);
    for (int at = 0; at < got; at++) tickscope__kernel_match(kernel, &kernel->batch[at].msg_hdr, kernel->batch[at].msg_len);
    return got;
}

static inline void tickscope_kernel_collect(struct tickscope_kernel *kernel) {
    int error = errno;
    if (kernel->enabled_ns) /* one system call, but for a full batch; at most so many as fill the table twice */
        for (int calls = 0; calls < 2 * TICKSCOPE__AWAITED && tickscope__kernel_collect_batch(kernel) == TICKSCOPE__BATCH; calls++) {}
    errno = error;
}

static inline void tickscope_kernel_end(struct tickscope_kernel *kernel) {
    tickscope_kernel_collect(kernel);
    for (int at = 0; at < TICKSCOPE__AWAITED; at++) tickscope__kernel_give_up(kernel, &kernel->awaited[at]);
    kernel->every = 0;
}

/* ---- receive stamps ---------------------------------------------------------------------------------------------- */

/* Copies what came with a packet: whose room it is in may use it again. */
static inline void tickscope__kernel_arrive(struct tickscope_kernel *kernel, const struct msghdr *message) {
    struct tickscope__arrived *arrived = &kernel->arrived;
    struct cmsghdr header;
    const unsigned char *data;
    for (size_t at = 0, length; tickscope__next_control(message, &at, &header, &data, &length);) {
        if (header.cmsg_level == IPPROTO_UDP && header.cmsg_type == TICKSCOPE__UDP_GRO) arrived->is_merged = 1;
        int stamped = header.cmsg_level == SOL_SOCKET && header.cmsg_type == SO_TIMESTAMPING;
        if (stamped && length >= sizeof arrived->stamp) memcpy(arrived->stamp, data, sizeof arrived->stamp);
    }
}

static inline ssize_t tickscope_kernel_receive(struct tickscope_kernel *kernel, struct msghdr *message, int flags) {
    memset(&kernel->arrived, 0, sizeof kernel->arrived);
    if (kernel->every == 0) return recvmsg(kernel->fd, message, flags);
    int ours = message->msg_control == 0;
    if (ours) {
        message->msg_control = kernel->receive_control.bytes;
        message->msg_controllen = sizeof kernel->receive_control.bytes;
    }
    ssize_t bytes = recvmsg(kernel->fd, message, flags);
    if (bytes >= 0) tickscope__kernel_arrive(kernel, message);
    if (ours) {
        message->msg_control = 0;
        message->msg_controllen = 0;
    }
    return bytes;
}

/* Whether packets that arrive from now on are stamped as they arrive: none is queued that came before that began. */
static inline void tickscope__kernel_warm_up(struct tickscope_kernel *kernel) {
    struct pollfd queue = {kernel->fd, POLLIN, 0};
    if (!tickscope__kernel_passed_warm_up(kernel)) return;
    int error = errno;
    if (poll(&queue, 1, 0) >= 0 && !(queue.revents & POLLIN)) kernel->is_warm = 1;
    errno = error;
}

static inline void tickscope__kernel_keep(struct tickscope_kernel *kernel, int kind, int64_t id, const struct timespec *stamp,
                                          int is_warm) {
    int64_t ns = stamp->tv_sec * INT64_C(1000000000) + stamp->tv_nsec;
    struct tickscope_kernel_tally *tally = &kernel->counts.of[kind];
    if (kernel->channel[kind] == 0) return;
    if (!is_warm) {
        tally->discarded++;
    } else if (ns == 0) {
        tally->missing++;
    } else {
        tally->stamped++;
        tickscope_record(kernel->channel[kind], id, kind == TICKSCOPE_KERNEL_HARDWARE_RX ? ns : tickscope__realtime_as_read(ns));
    }
}

static inline void tickscope_kernel_received(struct tickscope_kernel *kernel, int64_t id) {
    struct tickscope__arrived arrived = kernel->arrived;
    int is_warm = kernel->is_warm;
    if (kernel->every == 0) return;
    if (!is_warm) tickscope__kernel_warm_up(kernel); /* for the packets after this one */
    memset(&kernel->arrived, 0, sizeof kernel->arrived); /* a packet is filed once */
    kernel->counts.merged += (uint64_t)arrived.is_merged;
    if (arrived.is_merged || !tickscope_kernel_samples(kernel, id)) return;
    tickscope__kernel_keep(kernel, TICKSCOPE_KERNEL_RX, id, &arrived.stamp[0], is_warm);
    tickscope__kernel_keep(kernel, TICKSCOPE_KERNEL_HARDWARE_RX, id, &arrived.stamp[2], is_warm);
}

static inline void tickscope_kernel_done(struct tickscope_kernel *kernel, int64_t id) {
    if (tickscope_kernel_samples(kernel, id)) tickscope__kernel_bracket(kernel);
}

#ifdef __cplusplus
}
#endif

#endif /* TICKSCOPE_KERNEL_H */
