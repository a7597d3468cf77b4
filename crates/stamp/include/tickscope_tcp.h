/*
 * tickscope_tcp.h - messages on a TCP connection, known at both ends by where they end: in any protocol, which stays as
 * it is.
 *
 *     static struct tickscope_tcp tcp;
 *     struct tickscope_tcp_options options = {.sched = "sched", .tx = "tx", .acked = "acked", .rx = "rx", .every = 10};
 *     tickscope_tcp_attach(&tcp, fd, &options);           connected or accepted, before the first byte
 *
 *     int64_t id = tickscope_tcp_message(&tcp, bytes);    sender: the message of so many bytes that comes next
 *     tickscope_stamp(send, id);
 *     tickscope_tcp_send(&tcp, data, bytes, 0);           send, again until all of it went
 *
 *     tickscope_tcp_receive(&tcp, buffer, room, 0);       recv
 *     id = tickscope_tcp_received(&tcp, behind);          receiver: the message that ends so many bytes before the end
 *                                                         of what was read
 *     tickscope_stamp(received, id);
 *     tickscope_tcp_done(&tcp, id);                       bracket: once no stage of this message is left
 *     tickscope_tcp_end(&tcp);                            what never came is counted
 *
 * The idea: TCP delivers each byte once and in order, so the place of a message's last byte in the stream is known
 * to who sends it and to who reads it. An id is the connection's number, a hash of both ends' addresses and ports
 * in the order from sender to receiver, and that place: neighbouring messages have neighbouring ids. Where
 * addresses are translated on the way, or ports are used again within a run, give both ends the same `connection`.
 *
 * The kernel's stamps lie below, of one message in `every`, the same ones at both ends. `sched`, `tx`: the segment
 * with the last byte was handed to the network's scheduler, to the driver, for the first time; `acked`: the peer's
 * kernel has told that it has the last byte; `rx`: the segment with the last byte, or one behind it that was joined
 * to it before it was read, was taken from the driver. They are readings of CLOCK_REALTIME, with a bracket on this
 * thread around each stamped message. `sched` and `tx` are evidence as `before`, `rx` as `after`: no byte is seen
 * before it was first sent, and an `rx` that is a later segment's is only later.
 *
 * Matching is exact or not at all: the kernel says by its own count of the stream's bytes which byte a stamp is of
 * (SOF_TIMESTAMPING_OPT_ID). A message that does not end its send, or the read that brings its end, has no stamp of the
 * kernel: counted as merged. Of one that is sent in pieces the last is stamped, of what is retransmitted the first. The
 * kernel begins to stamp what it receives a little after it is first asked to: `rx` is missing until then.
 *
 * Guarantees: no thread, no allocation, no waiting; never a stamp under another id; every stamp asked for is
 * counted as stamped or missing. Without TICKSCOPE_DIR nothing is asked of the kernel; ids are the same. Errors
 * leave the program's own calls as they are.
 * Assumes: all bytes are sent and received by these calls, or told by tickscope_tcp_skip; one thread uses a struct,
 * and a thread that sends and one that receives attach a struct each, with their points alone; the socket's error
 * queue is nobody else's; not used in a forked child.
 */
#ifndef TICKSCOPE_TCP_H
#define TICKSCOPE_TCP_H

#include "tickscope_id.h"
#include "tickscope_kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what programs use ------------------------------------------------------------------------------------------ */

enum tickscope_tcp_kind {
    TICKSCOPE_TCP_SCHED, /* handed to the scheduler of the network */
    TICKSCOPE_TCP_TX,    /* handed to the driver */
    TICKSCOPE_TCP_ACKED, /* the peer has acknowledged it */
    TICKSCOPE_TCP_RX     /* taken from the driver */
};
#define TICKSCOPE_TCP_KINDS 4

struct tickscope_tcp_options {
    const char *sched, *tx, *acked, *rx; /* points; NULL: not stamped */
    int64_t every;                       /* of so many messages the kernel stamps one, chosen by its id; 0: none */
    uint64_t sent, received;             /* bytes of the connection before it was attached */
    uint64_t connection;                 /* a number that both ends know, instead of addresses and ports; 0: those */
    int opened;                          /* with `connection`: 1 at the end that connected, 0 at the other */
};

/* What became of the kernel's stamps of one kind. */
struct tickscope_tcp_tally {
    uint64_t stamped, missing;
};

struct tickscope_tcp_counts {
    struct tickscope_tcp_tally of[TICKSCOPE_TCP_KINDS];
    uint64_t merged;    /* sampled messages that ended no send, or no read */
    uint64_t partial;   /* sends that were to be stamped and took less than they were given */
    uint64_t failed;    /* sends asked for that the system call refused */
    uint64_t unmatched; /* transmit stamps that nobody waited for: retransmitted, or of a send in pieces */
    uint64_t foreign;   /* messages of the error queue that are no time-stamps */
};

/* One thread's use of one connection. */
struct tickscope_tcp;

/* Takes a connected TCP socket; -1 with errno and a line on stderr: its ids are 0, or go on without kernel stamps. */
static inline int tickscope_tcp_attach(struct tickscope_tcp *tcp, int fd, const struct tickscope_tcp_options *options);

/* The id of the message of so many bytes that is sent behind those already named. */
static inline int64_t tickscope_tcp_message(struct tickscope_tcp *tcp, size_t bytes);

/* send. Returns what it returned, with its errno. */
static inline ssize_t tickscope_tcp_send(struct tickscope_tcp *tcp, const void *data, size_t bytes, int flags);

/* recv. Returns what it returned, with its errno. What MSG_PEEK shows is not received yet. */
static inline ssize_t tickscope_tcp_receive(struct tickscope_tcp *tcp, void *buffer, size_t bytes, int flags);

/* The id of the message that ends so many bytes before the last one read; files the kernel's stamp of it, once. */
static inline int64_t tickscope_tcp_received(struct tickscope_tcp *tcp, uint64_t behind);

/* Bytes that went or came by other calls. */
static inline void tickscope_tcp_skip(struct tickscope_tcp *tcp, uint64_t sent, uint64_t received);

/* The bracket after a receive: call it once nothing of this message is left to be timed. */
static inline void tickscope_tcp_done(struct tickscope_tcp *tcp, int64_t id);

/* Takes all transmit stamps that have come: when epoll tells EPOLLERR. Each send does so, too. */
static inline void tickscope_tcp_collect(struct tickscope_tcp *tcp);

/* Collects once more, counts as missing what has not come, and asks for no more. */
static inline void tickscope_tcp_end(struct tickscope_tcp *tcp);

/* ---- what lies behind -------------------------------------------------------------------------------------------- */

#define TICKSCOPE__OPT_ID_TCP (1 << 16) /* SOF_TIMESTAMPING_OPT_ID_TCP of Linux 6.2: counts from what was written */
/* Sends whose stamps have not all come: `acked` comes a round trip later. */
#define TICKSCOPE__TCP_AWAITED 256
#define TICKSCOPE__TCP_TRANSMITTED (1u << TICKSCOPE_TCP_SCHED | 1u << TICKSCOPE_TCP_TX | 1u << TICKSCOPE_TCP_ACKED)

struct tickscope__tcp_awaited {
    int64_t id;
    uint32_t key; /* the last byte, by the kernel's count */
    uint8_t kinds; /* bits: stamps that have not come */
};

struct tickscope_tcp {
    int fd;
    int is_attached;
    int64_t every;     /* 0: no kernel stamps */
    uint64_t out, in;  /* numbers of the two directions */
    uint64_t named, sent, received; /* bytes: of messages that have an id, and passed */
    uint64_t key_base; /* bytes sent before the kernel began to count */
    tickscope_channel *channel[TICKSCOPE_TCP_KINDS]; /* 0: not stamped */
    tickscope_channel *brackets;
    struct tickscope_tcp_counts counts;
    struct tickscope__tcp_awaited awaited[TICKSCOPE__TCP_AWAITED];
    uint32_t next; /* slot of the next send that is asked for */
    struct timespec arrived; /* of the read's last segment; 0: none */
    union tickscope__control send_control, receive_control, batch_control[TICKSCOPE__BATCH];
    struct mmsghdr batch[TICKSCOPE__BATCH];
};

/* Not by the id itself: messages of one length would all have, or all lack, a factor in common with `every`. */
static inline int tickscope__tcp_samples(const struct tickscope_tcp *tcp, int64_t id) {
    return tcp->every > 0 && ((uint64_t)id * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (uint64_t)tcp->every == 0;
}

/* ---- attaching --------------------------------------------------------------------------------------------------- */

/* An end as 18 bytes, IPv4 in its mapped form: the same at both ends whichever sockets they use; 0: another family. */
TICKSCOPE__COLD int tickscope__tcp_end_bytes(const struct sockaddr_storage *address, unsigned char *bytes) {
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (address->ss_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        memcpy(bytes, mapped, sizeof mapped);
        memcpy(bytes + 12, &v4.sin_addr, 4);
        memcpy(bytes + 16, &v4.sin_port, 2);
        return 1;
    }
    if (address->ss_family != AF_INET6) return 0;
    memcpy(&v6, address, sizeof v6);
    memcpy(bytes, &v6.sin6_addr, 16);
    memcpy(bytes + 16, &v6.sin6_port, 2);
    return 1;
}

TICKSCOPE__COLD int tickscope__tcp_name(struct tickscope_tcp *tcp, const struct tickscope_tcp_options *options) {
    struct sockaddr_storage here, there;
    socklen_t here_bytes = sizeof here, there_bytes = sizeof there;
    unsigned char out[36], in[36];
    size_t bytes = sizeof out;
    if (getsockname(tcp->fd, (struct sockaddr *)&here, &here_bytes) ||
        getpeername(tcp->fd, (struct sockaddr *)&there, &there_bytes))
        return tickscope__kernel_refuse(errno, "a TCP connection", strerror(errno), "Attach it once it is connected.");
    int is_tcp = tickscope__socket_number(tcp->fd, SOL_SOCKET, SO_PROTOCOL) == IPPROTO_TCP;
    if (!is_tcp || !tickscope__tcp_end_bytes(&here, out) || !tickscope__tcp_end_bytes(&there, out + 18))
        return tickscope__kernel_refuse(EINVAL, "a TCP connection", "another socket", "Its messages have no ids.");
    memcpy(in, out + 18, 18);
    memcpy(in + 18, out, 18);
    if (options->connection) {
        for (int at = 0; at < 8; at++) out[at] = in[at] = (unsigned char)(options->connection >> 8 * at);
        out[8] = options->opened != 0;
        in[8] = options->opened == 0;
        bytes = 9;
    }
    tcp->out = (uint64_t)tickscope_id_bytes(out, bytes);
    tcp->in = (uint64_t)tickscope_id_bytes(in, bytes);
    return 0;
}

/* Opens what the options name; whether any of it is on. */
TICKSCOPE__COLD int tickscope__tcp_open(struct tickscope_tcp *tcp, const struct tickscope_tcp_options *options) {
    const char *point[TICKSCOPE_TCP_KINDS] = {options->sched, options->tx, options->acked, options->rx};
    int any = 0;
    for (int kind = 0; kind < TICKSCOPE_TCP_KINDS; kind++) {
        enum tickscope_ordering ordering = kind >= TICKSCOPE_TCP_ACKED ? TICKSCOPE_AFTER : TICKSCOPE_BEFORE;
        if (point[kind] == 0) continue;
        tickscope_channel *channel = tickscope_open_clock(point[kind], TICKSCOPE_REALTIME, ordering, 0);
        if (channel == &tickscope__off_channel) continue;
        tcp->channel[kind] = channel;
        any = 1;
    }
    if (any) tcp->brackets = tickscope_open_bracket(TICKSCOPE_REALTIME);
    return any;
}

/* Asks the kernel for stamps; those of a send are asked for send by send. */
TICKSCOPE__COLD int tickscope__tcp_ask(struct tickscope_tcp *tcp) {
    unsigned before = (unsigned)tickscope__socket_number(tcp->fd, SOL_SOCKET, SO_TIMESTAMPING);
    unsigned asked = before | SOF_TIMESTAMPING_SOFTWARE;
    int transmits = 0;
    for (int kind = 0; kind <= TICKSCOPE_TCP_ACKED; kind++) transmits |= tcp->channel[kind] != 0;
    if (tcp->channel[TICKSCOPE_TCP_RX]) asked |= SOF_TIMESTAMPING_RX_SOFTWARE;
    if (transmits && before & SOF_TIMESTAMPING_OPT_ID)
        return tickscope__kernel_refuse(EBUSY, "a socket of which nobody asked for stamps of sends", "one with them",
                                        "Let one thread send: ids go on, without kernel stamps.");
    if (transmits) asked |= SOF_TIMESTAMPING_OPT_ID | TICKSCOPE__OPT_ID_TCP | SOF_TIMESTAMPING_OPT_TSONLY;
    if (setsockopt(tcp->fd, SOL_SOCKET, SO_TIMESTAMPING, &asked, sizeof asked) != 0)
        return tickscope__kernel_refuse(errno, "Linux 6.2 or later for kernel stamps of TCP", strerror(errno),
                                        "Ids go on, without kernel stamps.");
    return 0;
}

TICKSCOPE__COLD int tickscope__tcp_attach(struct tickscope_tcp *tcp, int fd,
                                          const struct tickscope_tcp_options *options) {
    memset(tcp, 0, sizeof *tcp);
    tcp->fd = fd;
    if (tickscope__tcp_name(tcp, options)) return -1;
    tcp->is_attached = 1;
    tcp->named = tcp->sent = tcp->key_base = options->sent;
    tcp->received = options->received;
    if (options->every <= 0 || !tickscope__tcp_open(tcp, options)) return 0;
    if (tickscope__tcp_ask(tcp)) return -1;
    tcp->every = options->every;
    return 0;
}

static inline int tickscope_tcp_attach(struct tickscope_tcp *tcp, int fd, const struct tickscope_tcp_options *options) {
    return tickscope__tcp_attach(tcp, fd, options);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* The id of what ends at that byte of a direction. */
static inline int64_t tickscope__tcp_id(const struct tickscope_tcp *tcp, uint64_t direction, uint64_t end) {
    return tcp->is_attached ? (int64_t)(direction + end) : 0;
}

static inline int64_t tickscope_tcp_message(struct tickscope_tcp *tcp, size_t bytes) {
    if (tcp->named < tcp->sent) tcp->named = tcp->sent;
    /* One that is named while this one waits shares its send, whose stamp is of the last byte alone. */
    int waits = tcp->named > tcp->sent;
    if (waits && tickscope__tcp_samples(tcp, tickscope__tcp_id(tcp, tcp->out, tcp->named))) tcp->counts.merged++;
    tcp->named += bytes;
    return tickscope__tcp_id(tcp, tcp->out, tcp->named);
}

static inline void tickscope__tcp_give_up(struct tickscope_tcp *tcp, struct tickscope__tcp_awaited *awaited) {
    for (int kind = 0; kind < TICKSCOPE_TCP_KINDS; kind++)
        if (awaited->kinds & 1u << kind) tcp->counts.of[kind].missing++;
    awaited->kinds = 0;
}

/* The stamps to await of the message that ends with the send of so many bytes; 0: none. */
static inline struct tickscope__tcp_awaited *tickscope__tcp_await(struct tickscope_tcp *tcp, size_t bytes) {
    int64_t id = tickscope__tcp_id(tcp, tcp->out, tcp->named);
    if (bytes == 0 || tcp->sent + bytes != tcp->named || !tickscope__tcp_samples(tcp, id)) return 0;
    struct tickscope__tcp_awaited *awaited = &tcp->awaited[tcp->next % TICKSCOPE__TCP_AWAITED];
    if (awaited->kinds) tickscope_tcp_collect(tcp);
    tickscope__tcp_give_up(tcp, awaited);
    for (int kind = 0; kind <= TICKSCOPE_TCP_ACKED; kind++) {
        tickscope_channel *channel = tcp->channel[kind];
        int keeps = channel && (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED) != TICKSCOPE__POLICY_NULL;
        if (keeps) awaited->kinds |= (uint8_t)(1u << kind);
    }
    if (awaited->kinds == 0) return 0;
    awaited->id = id;
    awaited->key = (uint32_t)(tcp->named - 1 - tcp->key_base);
    tcp->next++;
    return awaited;
}

static inline ssize_t tickscope_tcp_send(struct tickscope_tcp *tcp, const void *data, size_t bytes, int flags) {
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    struct tickscope__tcp_awaited *awaited = tcp->every ? tickscope__tcp_await(tcp, bytes) : 0;
    if (awaited) {
        uint32_t asked = 0;
        if (awaited->kinds & 1u << TICKSCOPE_TCP_SCHED) asked |= SOF_TIMESTAMPING_TX_SCHED;
        if (awaited->kinds & 1u << TICKSCOPE_TCP_TX) asked |= SOF_TIMESTAMPING_TX_SOFTWARE;
        if (awaited->kinds & 1u << TICKSCOPE_TCP_ACKED) asked |= SOF_TIMESTAMPING_TX_ACK;
        message.msg_control = tcp->send_control.bytes;
        tickscope__kernel_add_control(&message, SO_TIMESTAMPING, asked);
        tickscope_bracket(tcp->brackets);
    }
    ssize_t went = sendmsg(tcp->fd, &message, flags);
    if (went > 0) tcp->sent += (uint64_t)went;
    if (awaited) {
        int error = errno;
        if (went < 0) tcp->counts.failed++;
        else if ((size_t)went < bytes) tcp->counts.partial++; /* what is left is asked for again */
        if (went < 0 || (size_t)went < bytes) awaited->kinds = 0;
        else tickscope_tcp_collect(tcp);
        errno = error;
    }
    return went;
}

/* ---- transmit stamps --------------------------------------------------------------------------------------------- */

static inline int tickscope__tcp_kind(uint32_t info) {
    switch (info) {
    case SCM_TSTAMP_SCHED: return TICKSCOPE_TCP_SCHED;
    case SCM_TSTAMP_SND: return TICKSCOPE_TCP_TX;
    case SCM_TSTAMP_ACK: return TICKSCOPE_TCP_ACKED;
    default: return TICKSCOPE_TCP_KINDS;
    }
}

static inline void tickscope__tcp_file(struct tickscope_tcp *tcp, int kind, int64_t id, const struct timespec *stamp) {
    int64_t ns = stamp->tv_sec * INT64_C(1000000000) + stamp->tv_nsec;
    tcp->counts.of[kind].stamped++;
    tickscope_record(tcp->channel[kind], id, tickscope__realtime_as_read(ns));
}

/* One message of the error queue. */
static inline void tickscope__tcp_match(struct tickscope_tcp *tcp, const struct msghdr *message) {
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
        tcp->counts.foreign++;
        return;
    }
    int kind = tickscope__tcp_kind(error.ee_info);
    for (int at = 0; kind < TICKSCOPE_TCP_KINDS && at < TICKSCOPE__TCP_AWAITED; at++) {
        struct tickscope__tcp_awaited *awaited = &tcp->awaited[at];
        if (!(awaited->kinds & 1u << kind) || awaited->key != error.ee_data) continue;
        awaited->kinds &= (uint8_t)~(1u << kind);
        tickscope__tcp_file(tcp, kind, awaited->id, &stamp[0]);
        return;
    }
    tcp->counts.unmatched++;
}

static inline int tickscope__tcp_collect_batch(struct tickscope_tcp *tcp) {
    for (int at = 0; at < TICKSCOPE__BATCH; at++) {
        struct msghdr *message = &tcp->batch[at].msg_hdr;
        memset(message, 0, sizeof *message);
        message->msg_control = tcp->batch_control[at].bytes;
        message->msg_controllen = sizeof tcp->batch_control[at].bytes;
    }
    int got = recvmmsg(tcp->fd, tcp->batch, TICKSCOPE__BATCH, MSG_ERRQUEUE | MSG_DONTWAIT, 0);
    for (int at = 0; at < got; at++) tickscope__tcp_match(tcp, &tcp->batch[at].msg_hdr);
    return got;
}

static inline void tickscope_tcp_collect(struct tickscope_tcp *tcp) {
    int error = errno;
    int calls = tcp->every ? 2 * TICKSCOPE__TCP_AWAITED : 0; /* one, but for a full batch */
    while (calls-- > 0 && tickscope__tcp_collect_batch(tcp) == TICKSCOPE__BATCH) {}
    errno = error;
}

static inline void tickscope_tcp_end(struct tickscope_tcp *tcp) {
    tickscope_tcp_collect(tcp);
    for (int at = 0; at < TICKSCOPE__TCP_AWAITED; at++) tickscope__tcp_give_up(tcp, &tcp->awaited[at]);
    tcp->every = 0;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

static inline ssize_t tickscope_tcp_receive(struct tickscope_tcp *tcp, void *buffer, size_t bytes, int flags) {
    struct iovec part = {buffer, bytes};
    struct msghdr message;
    struct cmsghdr header;
    const unsigned char *data;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (tcp->every) {
        message.msg_control = tcp->receive_control.bytes;
        message.msg_controllen = sizeof tcp->receive_control.bytes;
    }
    ssize_t came = recvmsg(tcp->fd, &message, flags);
    if (came <= 0 || flags & MSG_PEEK) return came;
    tcp->received += (uint64_t)came;
    memset(&tcp->arrived, 0, sizeof tcp->arrived);
    for (size_t at = 0, length; tickscope__next_control(&message, &at, &header, &data, &length);) {
        int stamped = header.cmsg_level == SOL_SOCKET && header.cmsg_type == SO_TIMESTAMPING;
        if (stamped && length >= sizeof tcp->arrived) memcpy(&tcp->arrived, data, sizeof tcp->arrived);
    }
    return came;
}

static inline int64_t tickscope_tcp_received(struct tickscope_tcp *tcp, uint64_t behind) {
    int64_t id = tickscope__tcp_id(tcp, tcp->in, tcp->received - behind);
    if (!tcp->channel[TICKSCOPE_TCP_RX] || !tickscope__tcp_samples(tcp, id)) return id;
    int is_stamped = tcp->arrived.tv_sec != 0 || tcp->arrived.tv_nsec != 0;
    if (behind > 0) tcp->counts.merged++;
    else if (!is_stamped) tcp->counts.of[TICKSCOPE_TCP_RX].missing++;
    else tickscope__tcp_file(tcp, TICKSCOPE_TCP_RX, id, &tcp->arrived);
    if (behind == 0) memset(&tcp->arrived, 0, sizeof tcp->arrived); /* a segment is filed once */
    return id;
}

static inline void tickscope_tcp_done(struct tickscope_tcp *tcp, int64_t id) {
    if (tickscope__tcp_samples(tcp, id)) tickscope_bracket(tcp->brackets);
}

static inline void tickscope_tcp_skip(struct tickscope_tcp *tcp, uint64_t sent, uint64_t received) {
    tcp->sent += sent;
    tcp->received += received;
}

#ifdef __cplusplus
}
#endif

#endif /* TICKSCOPE_TCP_H */
