/*
 * udp-echo - a UDP echo service and its client, stamped with tickscope.h: the first subject.
 *
 *     udp-echo server ADDRESS PORT [--seconds N]
 *     udp-echo client ADDRESS PORT [--rate HZ] [--size BYTES] [--seconds N] [--linger MS]
 *     both: [--token N]  datagrams with another token are strangers: counted, never stamped
 *
 * Points: client `send` (before), `sent` (plain: the return of the system call, a branch), `response` (after);
 * server `received` (after), `reply` (before). The id of a packet is its number. Every send is due at its own time: a
 * late one does not shift those that follow. At the end one line of JSON says what was counted.
 */
#include "tickscope.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#define MAGIC UINT64_C(0x304f484345535054) /* "TPSECHO0" */
#define LEAST_BYTES sizeof(struct packet)
#define MOST_BYTES 1472 /* what an Ethernet frame of 1500 bytes carries over IPv4 */
#define NANOSECONDS INT64_C(1000000000)

struct packet {
    uint64_t magic, token;
    int64_t id;
};

struct options {
    struct sockaddr_in address;
    double rate_hz, seconds;
    long linger_ms;
    size_t bytes;
    uint64_t token;
};

struct counts {
    uint64_t sent, send_failures, received, strangers, late_sends;
};

static volatile sig_atomic_t stopped;

static void on_stop(int unused) {
    (void)unused;
    stopped = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "udp-echo: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *expected, const char *found) {
    fprintf(stderr, "udp-echo: expected %s, found %s. Usage: udp-echo server|client ADDRESS PORT [options]\n", expected, found);
    exit(2);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NANOSECONDS + now.tv_nsec;
}

static double number(const char *name, const char *text, double least, double most) {
    char *end, expected[96];
    double value = strtod(text, &end);
    if (*end == 0 && end != text && value >= least && value <= most) return value;
    snprintf(expected, sizeof expected, "%s from %g to %g", name, least, most);
    refuse(expected, text);
    return 0;
}

static struct options parse(int argc, char **argv) {
    struct options options = {.rate_hz = 1000, .seconds = 0, .linger_ms = 200, .bytes = 64};
    if (argc < 4) refuse("a role, an address and a port", "fewer arguments");
    options.address.sin_family = AF_INET;
    options.address.sin_port = htons((uint16_t)number("a port", argv[3], 1, 65535));
    if (inet_pton(AF_INET, argv[2], &options.address.sin_addr) != 1) refuse("an IPv4 address", argv[2]);
    for (int at = 4; at < argc; at += 2) {
        const char *value = at + 1 < argc ? argv[at + 1] : "nothing";
        if (!strcmp(argv[at], "--rate")) options.rate_hz = number("--rate in Hz", value, 0.01, 1e6);
        else if (!strcmp(argv[at], "--size")) options.bytes = (size_t)number("--size in bytes", value, LEAST_BYTES, MOST_BYTES);
        else if (!strcmp(argv[at], "--seconds")) options.seconds = number("--seconds", value, 0, 1e6);
        else if (!strcmp(argv[at], "--linger")) options.linger_ms = (long)number("--linger in ms", value, 0, 60000);
        else if (!strcmp(argv[at], "--token")) options.token = strtoull(value, 0, 0);
        else refuse("--rate, --size, --seconds, --linger or --token", argv[at]);
    }
    return options;
}

static int is_ours(const struct packet *packet, ssize_t bytes, uint64_t token) {
    return bytes >= (ssize_t)LEAST_BYTES && packet->magic == MAGIC && packet->token == token;
}

static int watched(int poller, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

static int open_socket(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) fail("socket");
    return fd;
}

/* ---- server ------------------------------------------------------------------------------------------------------ */

struct server {
    int fd;
    uint64_t token;
    tickscope_channel *received, *reply;
    struct counts counts;
};

/* Answers everything that waits. */
static void answer(struct server *server) {
    unsigned char buffer[MOST_BYTES];
    struct packet packet;
    struct sockaddr_in peer;
    for (;;) {
        socklen_t length = sizeof peer;
        ssize_t bytes = recvfrom(server->fd, buffer, sizeof buffer, 0, (struct sockaddr *)&peer, &length);
        if (bytes < 0) return;
        memcpy(&packet, buffer, sizeof packet);
        if (!is_ours(&packet, bytes, server->token)) {
            server->counts.strangers++;
            continue;
        }
        tickscope_stamp(server->received, packet.id);
        server->counts.received++;
        tickscope_stamp(server->reply, packet.id);
        if (sendto(server->fd, buffer, (size_t)bytes, 0, (struct sockaddr *)&peer, length) == bytes) server->counts.sent++;
        else server->counts.send_failures++;
    }
}

static struct counts serve(const struct options *options) {
    struct server server = {.fd = open_socket(), .token = options->token};
    struct epoll_event event;
    int64_t end_ns = options->seconds > 0 ? now_ns() + (int64_t)(options->seconds * 1e9) : INT64_MAX;
    int poller = epoll_create1(EPOLL_CLOEXEC);
    server.received = tickscope_open("received", TICKSCOPE_AFTER, 0);
    server.reply = tickscope_open("reply", TICKSCOPE_BEFORE, 0);
    if (bind(server.fd, (const struct sockaddr *)&options->address, sizeof options->address)) fail("bind");
    if (watched(poller, server.fd)) fail("epoll_ctl");
    while (!stopped && now_ns() < end_ns)
        if (epoll_wait(poller, &event, 1, 100) > 0) answer(&server);
    return server.counts;
}

/* ---- client ------------------------------------------------------------------------------------------------------ */

struct client {
    int fd;
    const struct options *options;
    tickscope_channel *send, *sent, *response;
    int64_t next_id, start_ns;
    struct counts counts;
};

static int64_t due_ns(const struct client *client) {
    return client->start_ns + (int64_t)((double)client->next_id * 1e9 / client->options->rate_hz);
}

static void send_one(struct client *client) {
    unsigned char buffer[MOST_BYTES] = {0};
    struct packet packet = {MAGIC, client->options->token, client->next_id++};
    memcpy(buffer, &packet, sizeof packet);
    tickscope_stamp(client->send, packet.id);
    ssize_t bytes = send(client->fd, buffer, client->options->bytes, 0);
    tickscope_stamp(client->sent, packet.id);
    if (bytes == (ssize_t)client->options->bytes) client->counts.sent++;
    else client->counts.send_failures++;
}

static void receive_all(struct client *client) {
    unsigned char buffer[MOST_BYTES];
    struct packet packet;
    ssize_t bytes;
    while ((bytes = recv(client->fd, buffer, sizeof buffer, 0)) >= 0) {
        memcpy(&packet, buffer, sizeof packet);
        if (is_ours(&packet, bytes, client->options->token) && packet.id >= 0 && packet.id < client->next_id) {
            tickscope_stamp(client->response, packet.id);
            client->counts.received++;
        } else {
            client->counts.strangers++;
        }
    }
}

static void set_timer(int timer, int64_t at_ns) {
    struct itimerspec when = {.it_value = {at_ns / NANOSECONDS, at_ns % NANOSECONDS}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, 0)) fail("timerfd_settime");
}

static struct counts ask(const struct options *options) {
    struct client client = {.fd = open_socket(), .options = options};
    struct epoll_event event;
    int poller = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    client.send = tickscope_open("send", TICKSCOPE_BEFORE, 0);
    client.sent = tickscope_open("sent", TICKSCOPE_PLAIN, 0);
    client.response = tickscope_open("response", TICKSCOPE_AFTER, 0);
    if (connect(client.fd, (const struct sockaddr *)&options->address, sizeof options->address)) fail("connect");
    if (watched(poller, client.fd) || watched(poller, timer)) fail("epoll_ctl");
    client.start_ns = now_ns() + NANOSECONDS / 100;
    int64_t end_ns = options->seconds > 0 ? client.start_ns + (int64_t)(options->seconds * 1e9) : INT64_MAX;
    set_timer(timer, client.start_ns);
    while (!stopped && due_ns(&client) < end_ns) {
        uint64_t expirations;
        if (epoll_wait(poller, &event, 1, 100) <= 0) continue;
        if (event.data.fd == client.fd) {
            receive_all(&client);
            continue;
        }
        if (read(timer, &expirations, sizeof expirations) < 0) continue;
        for (int late = 0; due_ns(&client) <= now_ns() && due_ns(&client) < end_ns; late = 1) {
            client.counts.late_sends += (uint64_t)late;
            send_one(&client);
        }
        set_timer(timer, due_ns(&client));
    }
    for (int64_t until = now_ns() + options->linger_ms * 1000000; now_ns() < until && client.counts.received < client.counts.sent;)
        if (epoll_wait(poller, &event, 1, 10) > 0 && event.data.fd == client.fd) receive_all(&client);
    return client.counts;
}

int main(int argc, char **argv) {
    struct options options = parse(argc, argv);
    struct sigaction stop = {.sa_handler = on_stop};
    struct counts counts = {0};
    sigaction(SIGINT, &stop, 0);
    sigaction(SIGTERM, &stop, 0);
    if (!strcmp(argv[1], "server")) counts = serve(&options);
    else if (!strcmp(argv[1], "client")) counts = ask(&options);
    else refuse("server or client", argv[1]);
    printf("{\"role\": \"%s\", \"sent\": %llu, \"send_failures\": %llu, \"received\": %llu, \"strangers\": %llu, \"late_sends\": %llu}\n",
           argv[1], (unsigned long long)counts.sent, (unsigned long long)counts.send_failures, (unsigned long long)counts.received,
           (unsigned long long)counts.strangers, (unsigned long long)counts.late_sends);
    return 0;
}
