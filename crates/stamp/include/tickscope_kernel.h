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
 * (SCM_TS_OPT_ID) that comes back with its stamps. Elsewhere the packet comes back with its stamp, and `id_of` finds the id in
 * its first 128 bytes of payload; ids that are sent again while a stamp of theirs is awaited are then not stamped. The
 * kernel's own count of packets (OPT_ID alone) is never used: one send that fails shifts it.
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

/*
 * recvmsg; without control data in `message`, room of the helper's own is used. Control data of the caller's own must stay
 * as it is until tickscope_kernel_received has looked for the stamp in it.
 */
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
#define TICKSCOPE__CONTROL_WORDS 32 /* of control data, aligned for its headers: 256 bytes */
/* Of a looped packet: Ethernet, IPv6 and UDP headers, and the payload in which an id is looked for. */
#define TICKSCOPE__LOOPED_BYTES (18 + 40 + 8 + 128)
#define TICKSCOPE__WARM_UP_NS INT64_C(100000000)

struct tickscope__awaited {
    int64_t id;
    uint32_t key;   /* what came with the send, where the kernel carries it */
    uint8_t kinds;  /* bits: stamps that have not come */
    uint8_t is_warm;
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
    struct msghdr received; /* control data of the packet received last */
    struct mmsghdr batch[TICKSCOPE__BATCH];
    struct iovec looped[TICKSCOPE__BATCH];
    unsigned char looped_bytes[TICKSCOPE__BATCH][TICKSCOPE__LOOPED_BYTES];
    uint64_t send_control[TICKSCOPE__CONTROL_WORDS], receive_control[TICKSCOPE__CONTROL_WORDS];
    uint64_t batch_control[TICKSCOPE__BATCH][TICKSCOPE__CONTROL_WORDS];
};

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

/*
 * Whether the kernel takes SCM_TS_OPT_ID: asked of a socket of its own, by a send to the broadcast address, for which it has
 * no right or no route. An unknown control message is refused before that is looked at.
 */
TICKSCOPE__COLD int tickscope__kernel_carries_ids(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), flags = SOF_TIMESTAMPING_OPT_ID, carries = 0;
    struct sockaddr_in nowhere;
    struct msghdr message;
    uint64_t control[TICKSCOPE__CONTROL_WORDS];
    if (fd < 0) return 0;
    memset(&nowhere, 0, sizeof nowhere);
    memset(&message, 0, sizeof message);
    memset(control, 0, sizeof control);
    nowhere.sin_family = AF_INET;
    nowhere.sin_port = htons(9);
    nowhere.sin_addr.s_addr = htonl(INADDR_BROADCAST);
    message.msg_name = &nowhere;
    message.msg_namelen = sizeof nowhere;
    if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) == 0) {
        int refused_without = sendmsg(fd, &message, 0) < 0 && errno == EINVAL;
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(sizeof(uint32_t));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = TICKSCOPE__SCM_TS_OPT_ID;
        header->cmsg_len = CMSG_LEN(sizeof(uint32_t));
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

static inline void tickscope__kernel_add_control(struct msghdr *message, int type, uint32_t number) {
    struct cmsghdr *header = (struct cmsghdr *)((unsigned char *)message->msg_control + message->msg_controllen);
    memset(header, 0, CMSG_SPACE(sizeof number));
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(sizeof number);
    memcpy(CMSG_DATA(header), &number, sizeof number);
    message->msg_controllen += CMSG_SPACE(sizeof number);
}

/* Makes `asked` the message with what asks for its stamps; 0: it is sent as it is. */
static inline struct tickscope__awaited *tickscope__kernel_ask(struct tickscope_kernel *kernel, int64_t id,
                                                               const struct msghdr *message, struct msghdr *asked) {
    size_t theirs = message->msg_control ? CMSG_ALIGN(message->msg_controllen) : 0;
    int fits = theirs + 2 * CMSG_SPACE(sizeof(uint32_t)) <= sizeof kernel->send_control;
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
    *asked = *message;
    memset(kernel->send_control, 0, theirs);
    if (theirs) memcpy(kernel->send_control, message->msg_control, message->msg_controllen);
    asked->msg_control = kernel->send_control;
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

/* Finds the payload in a looped packet, which begins with the link's header or the network's; 0: it is no UDP packet. */
static inline const unsigned char *tickscope__looped_payload(const unsigned char *packet, size_t bytes, size_t *payload_bytes) {
    static const size_t link_bytes[3] = {14, 0, 18}; /* Ethernet, none, Ethernet with a VLAN's tag */
    for (int link = 0; link < 3; link++) {
        size_t at = link_bytes[link];
        if (bytes < at + 28) continue;
        const unsigned char *ip = packet + at;
        if (ip[0] >> 4 == 4 && (ip[0] & 15) >= 5 && ip[9] == IPPROTO_UDP) at += (size_t)(ip[0] & 15) * 4 + 8;
        else if (ip[0] >> 4 == 6 && ip[6] == IPPROTO_UDP) at += 48;
        else continue;
        if (at > bytes) continue;
        *payload_bytes = bytes - at;
        return packet + at;
    }
    return 0;
}

/* Whose stamp a message of the error queue is; 0: nobody waits for it. */
static inline struct tickscope__awaited *tickscope__kernel_owner(struct tickscope_kernel *kernel, uint32_t key,
                                                                 const unsigned char *looped, size_t bytes) {
    int64_t id = 0;
    if (!kernel->echoes) {
        struct tickscope__awaited *awaited = tickscope__kernel_slot(kernel, key, 0);
        return awaited->key == key ? awaited : 0;
    }
    const unsigned char *payload = tickscope__looped_payload(looped, bytes, &bytes);
    if (payload == 0 || !kernel->id_of(payload, bytes, &id) || !tickscope_kernel_samples(kernel, id)) return 0;
    struct tickscope__awaited *awaited = tickscope__kernel_slot(kernel, 0, id);
    return awaited->id == id ? awaited : 0;
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
    memset(stamp, 0, sizeof stamp);
    memset(&error, 0, sizeof error);
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        int told = (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR) ||
                   (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR);
        if (told) memcpy(&error, CMSG_DATA(header), sizeof error);
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_TIMESTAMPING)
            memcpy(stamp, CMSG_DATA(header), sizeof stamp);
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
        kernel->looped[at].iov_base = kernel->looped_bytes[at];
        kernel->looped[at].iov_len = kernel->echoes ? TICKSCOPE__LOOPED_BYTES : 0;
        message->msg_name = 0;
        message->msg_namelen = 0;
        message->msg_iov = &kernel->looped[at];
        message->msg_iovlen = 1;
        message->msg_control = kernel->batch_control[at];
        message->msg_controllen = sizeof kernel->batch_control[at];
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

static inline ssize_t tickscope_kernel_receive(struct tickscope_kernel *kernel, struct msghdr *message, int flags) {
    kernel->received.msg_controllen = 0;
    if (kernel->every == 0) return recvmsg(kernel->fd, message, flags);
    int ours = message->msg_control == 0;
    if (ours) {
        message->msg_control = kernel->receive_control;
        message->msg_controllen = sizeof kernel->receive_control;
    }
    ssize_t bytes = recvmsg(kernel->fd, message, flags);
    if (bytes >= 0) kernel->received = *message;
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
    if (ns == 0) {
        tally->missing++;
    } else if (!is_warm) {
        tally->discarded++;
    } else {
        tally->stamped++;
        tickscope_record(kernel->channel[kind], id, kind == TICKSCOPE_KERNEL_HARDWARE_RX ? ns : tickscope__realtime_as_read(ns));
    }
}

static inline void tickscope_kernel_received(struct tickscope_kernel *kernel, int64_t id) {
    struct timespec stamp[3]; /* software, unused, hardware */
    struct msghdr *message = &kernel->received;
    int is_warm = kernel->is_warm, is_merged = 0;
    if (kernel->every == 0) return;
    if (!is_warm) tickscope__kernel_warm_up(kernel); /* for the packets after this one */
    memset(stamp, 0, sizeof stamp);
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level == IPPROTO_UDP && header->cmsg_type == TICKSCOPE__UDP_GRO) is_merged = 1;
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SO_TIMESTAMPING)
            memcpy(stamp, CMSG_DATA(header), sizeof stamp);
    }
    message->msg_controllen = 0;
    kernel->counts.merged += (uint64_t)is_merged;
    if (is_merged || !tickscope_kernel_samples(kernel, id)) return;
    tickscope__kernel_keep(kernel, TICKSCOPE_KERNEL_RX, id, &stamp[0], is_warm);
    tickscope__kernel_keep(kernel, TICKSCOPE_KERNEL_HARDWARE_RX, id, &stamp[2], is_warm);
}

static inline void tickscope_kernel_done(struct tickscope_kernel *kernel, int64_t id) {
    if (tickscope_kernel_samples(kernel, id)) tickscope__kernel_bracket(kernel);
}

#ifdef __cplusplus
}
#endif

#endif /* TICKSCOPE_KERNEL_H */
