/*
 * The datapath `udp`: plain sockets of the kernel, one each process, a datagram a packet.
 *
 * The forwarder waits at its address and takes whoever greets it first as its source. What the kernel has no room for
 * is lost on the way, which the counts of both ends tell. A datagram of another size is none of ours, nor is one of
 * anybody else, and that is counted. Sockets never block.
 */

static struct {
    int socket, is_connected;
    struct sockaddr_in other; /* the other end, of one that is connected */
    _Atomic int has_heard, is_refused; /* nobody listens at the other end any more */
} udp;

/* Errors of a call that says how many: what could be done at once, and whether the other end is there. */
static size_t udp_count(int done, const char *what) {
    if (done >= 0) return (size_t)done;
    if (errno == ECONNREFUSED) atomic_store_explicit(&udp.is_refused, udp.has_heard, memory_order_relaxed);
    else if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) fail(what);
    return 0;
}

static size_t put_in_socket(struct link *link, const struct packet *packets, size_t count) {
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    (void)link;
    memset(messages, 0, sizeof messages);
    for (size_t at = 0; at < count; at++) {
        parts[at] = (struct iovec){(void *)(uintptr_t)&packets[at], PACKET_BYTES};
        messages[at].msg_hdr.msg_iov = &parts[at];
        messages[at].msg_hdr.msg_iovlen = 1;
    }
    return udp_count(sendmmsg(udp.socket, messages, (unsigned)count, MSG_DONTWAIT), "sendmmsg");
}

static void connect_to(const struct sockaddr_in *other) {
    if (connect(udp.socket, (const struct sockaddr *)other, sizeof *other)) fail("connect");
    udp.other = *other;
    udp.is_connected = 1;
}

/* What others sent before the socket was connected may still wait in it. */
static int is_of_other_end(const struct sockaddr_in *from) {
    return udp.is_connected && from->sin_port == udp.other.sin_port &&
           from->sin_addr.s_addr == udp.other.sin_addr.s_addr;
}

static size_t take_from_socket(struct link *link, struct packet *packets, size_t most) {
    struct mmsghdr messages[BATCH];
    struct iovec parts[BATCH];
    struct sockaddr_in from[BATCH];
    size_t kept = 0;
    memset(messages, 0, sizeof messages);
    for (size_t at = 0; at < most; at++) {
        parts[at] = (struct iovec){&packets[at], PACKET_BYTES};
        messages[at].msg_hdr = (struct msghdr){
            .msg_iov = &parts[at], .msg_iovlen = 1, .msg_name = &from[at], .msg_namelen = sizeof *from};
    }
    size_t count = udp_count(recvmmsg(udp.socket, messages, (unsigned)most, MSG_DONTWAIT, 0), "recvmmsg");
    for (size_t at = 0; at < count; at++) {
        int is_whole = messages[at].msg_len == PACKET_BYTES && !(messages[at].msg_hdr.msg_flags & MSG_TRUNC);
        if (is_whole && !udp.is_connected && is_greeting(&packets[at])) connect_to(&from[at]);
        int is_ours = is_whole && is_of_other_end(&from[at]);
        if (is_ours && kept < at) packets[kept] = packets[at];
        kept += (size_t)is_ours;
        atomic_fetch_add_explicit(&link->strange, !is_ours, memory_order_relaxed);
    }
    if (kept > 0) atomic_store_explicit(&udp.has_heard, 1, memory_order_relaxed);
    return kept;
}

static int udp_is_gone(void) {
    return atomic_load_explicit(&udp.is_refused, memory_order_relaxed);
}

static void end_udp(void) {
    close(udp.socket);
}

static struct links udp_links(const struct options *options) {
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(options->at, ':');
    if (colon == 0 || (size_t)(colon - options->at) >= sizeof host) refuse("--at ADDRESS:PORT", options->at);
    memcpy(host, options->at, (size_t)(colon - options->at));
    host[colon - options->at] = 0;
    struct sockaddr_in address = ipv4(host, whole_number("the port of --at", colon + 1, 1, 65535));
    int is_source = options->role == SOURCE, bytes = 1 << 22;
    udp.socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (udp.socket < 0) fail("socket");
    setsockopt(udp.socket, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (is_source) connect_to(&address);
    else if (bind(udp.socket, (struct sockaddr *)&address, sizeof address)) fail(options->at);
    struct link link = {.put = put_in_socket, .take = take_from_socket};
    return (struct links){.there = link, .back = link, .is_gone = udp_is_gone, .end = end_udp};
}
