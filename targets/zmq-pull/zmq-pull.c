/*
 * zmq-pull - a PULL socket of ZeroMQ with a known capacity, stamped with tickscope.h: what takes `tickscope load zmq`.
 *
 *     zmq-pull ADDRESS PORT [options]
 *           [--capacity HZ]  messages that it serves a second, of all senders; 0, the default: as they come
 *           [--id-at BYTE]   where a message has its id, 64 bits with the lowest byte first; 0
 *           [--buffer BYTES] of the kernel's for each connection, before the sender is held up; the kernel's own choice
 *           [--core N]       that it runs on; any
 *           [--senders N]    ends once so many senders came and have gone; 0, the default: at SIGTERM
 *
 * Points: received (after: the message is in this process), served (after).
 *
 * ZMTP 3.0 (rfc.zeromq.org/spec/23) with the mechanism NULL, written from the specification and not from the sender's
 * code. It reads no more than it serves, so an overloaded one loses nothing: its senders are held up.
 */
#include "tickscope.h"

#include <arpa/inet.h>
#include <poll.h>

#define TARGET "zmq-pull"
#define TARGET_USAGE "ADDRESS PORT [options]"
#define TARGET_WORDS 3
#include "../harness/target.h"

#define MOST_MESSAGE (1 << 24)
#define GREETING 64
#define LONG_FRAME 2
#define COMMAND_FRAME 4

struct options {
    double capacity_hz;
    int id_at, buffer, senders, core;
};

static struct options options = {.core = -1};
static pthread_mutex_t service = PTHREAD_MUTEX_INITIALIZER;
static int64_t free_ns; /* when the last service was to end */
static _Atomic uint64_t messages, bytes, gone, refused;

static int parse_option(struct options *options, const char *name, const char *value) {
    if (!strcmp(name, "--capacity")) options->capacity_hz = number("--capacity in Hz", value, 0, 1e7);
    else if (!strcmp(name, "--id-at")) options->id_at = whole_number("--id-at", value, 0, MOST_MESSAGE);
    else if (!strcmp(name, "--buffer")) options->buffer = whole_number("--buffer in bytes", value, 1, 1 << 30);
    else if (!strcmp(name, "--senders")) options->senders = whole_number("--senders", value, 0, 1 << 16);
    else if (!strcmp(name, "--core")) options->core = whole_number("--core", value, 0, CPU_SETSIZE - 1);
    else return 0;
    return 1;
}

/* A sender's connection, with what was read of it and not looked at. */
struct peer {
    int socket;
    int waited; /* whether something was waited for since the last service */
    size_t from, until;
    unsigned char buffer[1 << 16];
};

/* Reads so many bytes; 0: it ended before. */
static int take(struct peer *peer, void *bytes, size_t length) {
    for (size_t at = 0; at < length;) {
        if (peer->from == peer->until) {
            ssize_t read_now = recv(peer->socket, peer->buffer, sizeof peer->buffer, MSG_DONTWAIT);
            if (read_now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
                peer->waited = 1;
                read_now = recv(peer->socket, peer->buffer, sizeof peer->buffer, 0);
            }
            if (read_now < 0 && errno == EINTR && !stopped) continue;
            if (read_now <= 0) return 0;
            peer->from = 0;
            peer->until = (size_t)read_now;
        }
        size_t some = peer->until - peer->from < length - at ? peer->until - peer->from : length - at;
        memcpy((char *)bytes + at, peer->buffer + peer->from, some);
        peer->from += some;
        at += some;
    }
    return 1;
}

/* The flags of the next frame, whose length is put into `length`; -1: there is none. */
static int frame(struct peer *peer, uint64_t *length) {
    unsigned char head[9];
    if (!take(peer, head, 1) || !take(peer, head + 1, head[0] & LONG_FRAME ? 8 : 1)) return -1;
    *length = 0;
    for (int at = 1; at <= (head[0] & LONG_FRAME ? 8 : 1); at++) *length = *length << 8 | head[at];
    return *length <= MOST_MESSAGE ? head[0] : -1;
}

static int greet(struct peer *peer, unsigned char *body) {
    static const unsigned char ready[] = "\x04\x1a\5READY\xbSocket-Type\0\0\0\4PULL";
    unsigned char ours[GREETING] = {0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L'}, theirs[GREETING];
    uint64_t length;
    if (send(peer->socket, ours, GREETING, MSG_NOSIGNAL) != GREETING || !take(peer, theirs, GREETING)) return 0;
    if (theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 || memcmp(theirs + 12, ours + 12, 20)) return 0;
    if (send(peer->socket, ready, sizeof ready - 1, MSG_NOSIGNAL) != sizeof ready - 1) return 0;
    if (!((unsigned)frame(peer, &length) & COMMAND_FRAME) || !take(peer, body, length)) return 0;
    return length > 6 && !memcmp(body, "\5READY", 6) && memmem(body, length, "\4PUSH", 5) != 0;
}

/*
 * Serves one message: of all senders one after another, each service from the end of the one before, or from now where
 * the message had to be waited for. What was there already begins when the one before was to end, however late this
 * thread is: a machine that takes its core away takes nothing from the capacity.
 */
static void serve(struct peer *peer) {
    if (options.capacity_hz == 0) return;
    pthread_mutex_lock(&service);
    int64_t now = now_ns();
    if (peer->waited && free_ns < now) free_ns = now;
    peer->waited = 0;
    free_ns += (int64_t)(1e9 / options.capacity_hz);
    struct timespec until = {free_ns / NANOSECONDS, free_ns % NANOSECONDS};
    /* A timer wakes late: what is due sooner than that is not slept for, and made up for by the next. */
    if (free_ns - now > 100000) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0);
    pthread_mutex_unlock(&service);
}

static void *pull(void *argument) {
    struct peer *peer = argument;
    unsigned char *body = malloc(MOST_MESSAGE);
    tickscope_channel *received = tickscope_open("received", TICKSCOPE_AFTER, 0);
    tickscope_channel *served = tickscope_open("served", TICKSCOPE_AFTER, 0);
    uint64_t length;
    if (body && greet(peer, body)) {
        for (int flags; (flags = frame(peer, &length)) >= 0 && take(peer, body, length);) {
            int64_t id = -1;
            if (flags & COMMAND_FRAME) continue; /* a PING, which nobody here sends */
            if (length >= (uint64_t)options.id_at + 8) memcpy(&id, body + options.id_at, 8);
            tickscope_stamp(received, id);
            serve(peer);
            tickscope_stamp(served, id);
            messages++;
            bytes += length;
        }
    } else {
        refused++;
    }
    tickscope_close(received);
    tickscope_close(served);
    free(body);
    close(peer->socket);
    free(peer);
    gone++;
    return 0;
}

static int listener(char **argv) {
    struct sockaddr_in address = ipv4(argv[1], whole_number("PORT", argv[2], 0, 65535));
    int on = 1, socket_ = socket(AF_INET, SOCK_STREAM, 0);
    if (socket_ < 0) fail("socket");
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (options.buffer) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &options.buffer, sizeof options.buffer);
    if (bind(socket_, (struct sockaddr *)&address, sizeof address) || listen(socket_, 64)) fail(argv[1]);
    socklen_t length = sizeof address;
    getsockname(socket_, (struct sockaddr *)&address, &length);
    fprintf(stderr, TARGET ": listening at port %d\n", ntohs(address.sin_port));
    return socket_;
}

int main(int argc, char **argv) {
    if (argc < TARGET_WORDS) refuse("an address and a port", "fewer words");
    parse_options(&options, argc, argv);
    catch_signals();
    pin(options.core);
    struct pollfd waiting = {.fd = listener(argv), .events = POLLIN};
    while (!stopped && (options.senders == 0 || gone < (uint64_t)options.senders)) {
        if (poll(&waiting, 1, 20) <= 0) continue;
        struct peer *peer = calloc(1, sizeof *peer);
        pthread_t thread;
        if (!peer || (peer->socket = accept(waiting.fd, 0, 0)) < 0 || pthread_create(&thread, 0, pull, peer)) {
            fail("a sender's connection");
        }
        pthread_detach(thread);
    }
    printf("{\"messages\": %llu, \"bytes\": %llu, \"refused\": %llu}\n", (unsigned long long)messages,
           (unsigned long long)bytes, (unsigned long long)refused);
    return 0;
}
