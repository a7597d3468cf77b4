/* The server: answers each datagram of ours with itself. */

struct server {
    struct tickscope_kernel kernel;
    tickscope_channel *woken, *received, *reply, *replied;
    struct counts counts;
};

/* Answers one datagram; `woken` is the tick of the wake-up that told of it, 0: there was none. */
static void answer(struct server *server, int64_t woken) {
    struct datagram datagram;
    if (!receive(&server->kernel, &datagram)) return;
    if (!is_ours(&datagram)) {
        server->counts.strangers++;
        return;
    }
    int64_t id = datagram.packet.id;
    tickscope_stamp(server->received, id);
    if (woken) tickscope_record(server->woken, id, woken);
    tickscope_kernel_received(&server->kernel, id);
    server->counts.received++;
    struct iovec part = {datagram.bytes, datagram.length};
    struct msghdr message = {
        .msg_name = &datagram.peer, .msg_namelen = sizeof datagram.peer, .msg_iov = &part, .msg_iovlen = 1};
    ssize_t bytes = tickscope_kernel_send(&server->kernel, id, &message, 0, server->reply, server->replied);
    if (bytes == (ssize_t)datagram.length) server->counts.sent++;
    else server->counts.send_failures++;
    tickscope_kernel_done(&server->kernel, id);
}

/* One datagram a wake-up: so each was there when its own epoll_wait returned, and `woken` comes after `rx`. */
static void answer_by_epoll(struct server *server, int64_t end) {
    struct epoll_event event;
    int poller = epoll_create1(EPOLL_CLOEXEC);
    server->woken = tickscope_open("woken", TICKSCOPE_AFTER, 0);
    if (watched(poller, server->kernel.fd)) fail("epoll_ctl");
    while (!stopped && now_ns() < end) {
        if (epoll_wait(poller, &event, 1, 100) <= 0) continue;
        int64_t woken = tickscope_now(TICKSCOPE_AFTER);
        if (event.events & EPOLLERR) clear_errors(&server->kernel);
        if (event.events & EPOLLIN) answer(server, woken);
    }
}

static struct counts serve(const struct options *options) {
    static struct server server;
    int fd = open_socket(options);
    int64_t end = end_ns(options, now_ns());
    attach(&server.kernel, fd, options, "reply-sched", "reply-tx", "rx");
    server.received = tickscope_open("received", TICKSCOPE_AFTER, 0);
    server.reply = tickscope_open("reply", TICKSCOPE_BEFORE, 0);
    server.replied = tickscope_open("replied", TICKSCOPE_PLAIN, 0);
    if (bind(fd, (const struct sockaddr *)&options->address, sizeof options->address)) fail("bind");
    if (options->wait == WAIT_EPOLL) answer_by_epoll(&server, end);
    else /* waits in recvmsg, or comes back at once and tries again */
        while (!stopped && now_ns() < end) answer(&server, 0);
    add_kernel_counts(&server.counts, &server.kernel);
    return server.counts;
}
