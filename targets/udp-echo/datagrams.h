/* Datagrams of ours, sent and received with the kernel's stamps where --kernel asks for them. */

#define MAGIC UINT64_C(0x304f484345535054) /* "TPSECHO0" */

/* One datagram as it was received. */
struct datagram {
    unsigned char bytes[MOST_BYTES];
    size_t length;
    struct sockaddr_in peer;
    struct packet packet;
};

static uint64_t our_token;

static int is_ours(const struct datagram *datagram) {
    const struct packet *packet = &datagram->packet;
    return datagram->length >= sizeof *packet && packet->magic == MAGIC && packet->token == our_token;
}

/* For matching by payload echo. */
static int id_of(const void *payload, size_t bytes, int64_t *id) {
    struct packet packet;
    if (bytes < sizeof packet) return 0;
    memcpy(&packet, payload, sizeof packet);
    *id = packet.id;
    return packet.magic == MAGIC && packet.token == our_token;
}

static int open_socket(const struct options *options) {
    struct timeval nap = {.tv_usec = NAP_NS / 1000};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | (options->wait == WAIT_BLOCKING ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &nap, sizeof nap)) fail("socket");
    our_token = options->token;
    return fd;
}

/* The points of a thread on its socket; without --kernel the struct is off. */
static void attach(struct tickscope_kernel *kernel, int fd, const struct options *options, const char *sched, const char *tx,
                   const char *rx) {
    struct tickscope_kernel_options wanted = {
        .sched = sched, .tx = tx, .rx = rx, .every = options->kernel_every, .id_of = id_of};
    if (tickscope_kernel_attach(kernel, fd, &wanted)) exit(1); /* stderr says why */
}

/* Receives one datagram; 0: there is none. */
static int receive(struct tickscope_kernel *kernel, struct datagram *datagram) {
    struct iovec part = {datagram->bytes, sizeof datagram->bytes};
    struct msghdr message = {
        .msg_name = &datagram->peer, .msg_namelen = sizeof datagram->peer, .msg_iov = &part, .msg_iovlen = 1};
    ssize_t bytes = tickscope_kernel_receive(kernel, &message, 0);
    if (bytes < 0) return 0;
    datagram->length = (size_t)bytes;
    memcpy(&datagram->packet, datagram->bytes, sizeof datagram->packet);
    return 1;
}

static int watched(int poller, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

/* EPOLLERR: stamps have come, or a packet was refused, which is told until somebody asks. */
static void clear_errors(struct tickscope_kernel *kernel) {
    int error;
    socklen_t length = sizeof error;
    tickscope_kernel_collect(kernel);
    getsockopt(kernel->fd, SOL_SOCKET, SO_ERROR, &error, &length);
}
