/*
 * tcp-lines - a service that answers each line with another, and its client: plain text over TCP, in which no line says
 * which one it is. Stamped with tickscope_tcp.h: a line's id is where it ends in the stream.
 *
 *     tcp-lines server ADDRESS PORT
 *     tcp-lines client ADDRESS PORT [--rate HZ] [--seconds N]
 *              [--size BYTES]           a line has 1 byte to so many, by its number
 *     both:    [--kernel N]             the kernel stamps one line in N too; 0, the default: none
 *              [--core N]
 *
 * Points, in the order a question and its answer pass them (REALTIME: of that clock, with --kernel):
 *     client   send (before), sched, tx (REALTIME); branch: acked (REALTIME)
 *     server   rx (REALTIME), received (after), reply (before; its parent is the question's id), reply-sched, reply-tx
 *              (REALTIME)
 *     client   response-rx (REALTIME), response (after)
 *
 * Every send is due at its own time: a late one does not shift those that follow. At the end one line of JSON says what
 * was counted, and whether the client's schedule was held.
 */
#include "tickscope_tcp.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#define TARGET "tcp-lines"
#include "../harness/load.h"
#include "../harness/target.h"

#include "../harness/schedule.h"

#define MOST_BYTES (1 << 16)
#define NAP_NS (NANOSECONDS / 10) /* the longest wait without a look at whether it is time to end */

struct options {
    const char *role;
    struct sockaddr_in address;
    double rate_hz, seconds;
    size_t bytes;
    int64_t kernel_every;
    int core;
};

struct counts {
    uint64_t sent, received;
    struct load_lateness lateness; /* nanoseconds */
};

/* One end of the connection, with what was read of the line that has not ended. */
struct end {
    struct tickscope_tcp tcp;
    unsigned char bytes[MOST_BYTES];
    struct counts counts;
};

static int parse_option(struct options *options, const char *name, const char *value) {
    if (!strcmp(name, "--rate")) options->rate_hz = number("--rate in Hz", value, 0.01, 1e6);
    else if (!strcmp(name, "--seconds")) options->seconds = number("--seconds", value, 0, 1e6);
    else if (!strcmp(name, "--size")) options->bytes = (size_t)whole_number("--size in bytes", value, 1, MOST_BYTES);
    else if (!strcmp(name, "--kernel"))
        options->kernel_every = (int64_t)number("--kernel, one line in how many", value, 0, 1e9);
    else if (!strcmp(name, "--core")) options->core = whole_number("--core", value, 0, CPU_SETSIZE - 1);
    else return 0;
    return 1;
}

static int open_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes)) fail("socket");
    return fd;
}

static void attach(struct end *end, int fd, struct tickscope_tcp_options wanted, const struct options *options) {
    int yes = 1;
    wanted.every = options->kernel_every;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) fail("TCP_NODELAY");
    if (tickscope_tcp_attach(&end->tcp, fd, &wanted)) exit(1); /* stderr says why */
}

/* Sends a line; returns 0 where the peer has gone. */
static int send_line(struct end *end, const unsigned char *line, size_t bytes) {
    for (size_t went = 0; went < bytes;) {
        ssize_t now = tickscope_tcp_send(&end->tcp, line + went, bytes - went, MSG_NOSIGNAL);
        if (now < 0 && errno != EINTR) return 0;
        if (now > 0) went += (size_t)now;
    }
    end->counts.sent++;
    return 1;
}

/* Takes what has come, and hands each line that ended to `take`; returns 0 where the peer has gone. */
static int read_lines(struct end *end, int (*take)(struct end *end, int64_t id, size_t bytes)) {
    size_t line = 0; /* of the last one that had begun */
    static size_t begun;
    ssize_t came = tickscope_tcp_receive(&end->tcp, end->bytes, sizeof end->bytes, 0);
    if (came < 0) return errno == EINTR || errno == EAGAIN;
    for (size_t at = 0; at < (size_t)came; at++) {
        if (end->bytes[at] != '\n') continue;
        int64_t id = tickscope_tcp_received(&end->tcp, (uint64_t)((size_t)came - at - 1));
        end->counts.received++;
        if (!take(end, id, begun + at + 1 - line)) return 0;
        tickscope_tcp_done(&end->tcp, id);
        line = at + 1;
        begun = 0;
    }
    begun += (size_t)came - line;
    return came > 0;
}

/* ---- the server: answers in the order of the questions ----------------------------------------------------------- */

static tickscope_channel *received, *reply;

static int answer(struct end *end, int64_t question, size_t bytes) {
    static unsigned char line[64];
    tickscope_stamp(received, question);
    int length = snprintf((char *)line, sizeof line, "a line of %zu\n", bytes);
    int64_t id = tickscope_tcp_message(&end->tcp, (size_t)length);
    tickscope_stamp_with(reply, id, (struct tickscope_extra){.parent = &question});
    return send_line(end, line, (size_t)length);
}

static struct counts serve(const struct options *options) {
    static struct end end;
    int listener = open_socket();
    if (bind(listener, (const struct sockaddr *)&options->address, sizeof options->address) || listen(listener, 1))
        fail("bind");
    received = tickscope_open("received", TICKSCOPE_AFTER, 0);
    reply = tickscope_open("reply", TICKSCOPE_BEFORE, TICKSCOPE_FULL);
    struct pollfd caller = {listener, POLLIN, 0};
    while (!stopped && poll(&caller, 1, NAP_NS / 1000000) <= 0) {}
    int fd = stopped ? -1 : accept(listener, 0, 0);
    if (fd < 0) return end.counts;
    attach(&end, fd, (struct tickscope_tcp_options){.sched = "reply-sched", .tx = "reply-tx", .rx = "rx"}, options);
    while (!stopped && read_lines(&end, answer)) {}
    tickscope_tcp_end(&end.tcp);
    return end.counts;
}

/* ---- the client -------------------------------------------------------------------------------------------------- */

static tickscope_channel *asked, *response;

static int take_response(struct end *end, int64_t id, size_t bytes) {
    (void)end, (void)bytes;
    tickscope_stamp(response, id);
    return 1;
}

/* Asks; its length goes with its number, so that ends lie at all kinds of places. */
static int ask_one(struct end *end, const struct options *options) {
    static unsigned char line[MOST_BYTES];
    size_t bytes = 1 + end->counts.sent * 7919 % options->bytes;
    memset(line, 'x', bytes);
    line[bytes - 1] = '\n';
    tickscope_stamp(asked, tickscope_tcp_message(&end->tcp, bytes));
    return send_line(end, line, bytes);
}

/* Waits for the socket until that instant, and takes what comes; returns 0 where the peer has gone. */
static int wait_until(struct end *end, int64_t at_ns) {
    int64_t left = at_ns - now_ns(), most = left < NAP_NS ? left : NAP_NS;
    struct pollfd socket = {end->tcp.fd, POLLIN, 0};
    struct timespec most_time = {0, most > 0 ? most : 0};
    if (ppoll(&socket, 1, &most_time, 0) <= 0) return 1;
    if (socket.revents & POLLERR) tickscope_tcp_collect(&end->tcp);
    return !(socket.revents & (POLLIN | POLLHUP)) || read_lines(end, take_response);
}

static struct counts ask(const struct options *options) {
    static struct end end;
    struct load_plan plan = {.hertz = NANOSECONDS, .burst = 1};
    struct load_due due;
    int fd = open_socket(), goes_on = 1;
    if (connect(fd, (const struct sockaddr *)&options->address, sizeof options->address)) fail("connect");
    asked = tickscope_open("send", TICKSCOPE_BEFORE, 0);
    response = tickscope_open("response", TICKSCOPE_AFTER, 0);
    struct tickscope_tcp_options points = {.sched = "sched", .tx = "tx", .acked = "acked", .rx = "response-rx"};
    attach(&end, fd, points, options);
    plan.start = now_ns() + NANOSECONDS / 10;
    plan.until = options->seconds > 0 ? plan.start + (int64_t)(options->seconds * 1e9) : INT64_MAX;
    const char *expected = load_per_second(&plan.rate, options->rate_hz);
    if (expected || (expected = load_constant(&due, &plan))) refuse(expected, "another --rate");
    end.counts.lateness.late_ticks = (uint64_t)(options->rate_hz > 1000 ? 1e9 / options->rate_hz : 1e6);
    while (!stopped && goes_on && due.next != LOAD_NEVER) {
        if (due.next > now_ns()) {
            goes_on = wait_until(&end, due.next);
            continue;
        }
        load_record(&end.counts.lateness, load_next(&due), now_ns(), 1);
        goes_on = ask_one(&end, options);
    }
    load_end(&due, &end.counts.lateness, now_ns());
    for (int64_t until = now_ns() + NANOSECONDS; goes_on && end.counts.received < end.counts.sent && now_ns() < until;)
        goes_on = wait_until(&end, until);
    tickscope_tcp_end(&end.tcp);
    return end.counts;
}

/* ------------------------------------------------------------------------------------------------------------------ */

int main(int argc, char **argv) {
    struct options options = {.rate_hz = 1000, .bytes = 1000, .core = -1};
    if (argc < 4) refuse("a role, an address and a port", "fewer arguments");
    options.role = argv[1];
    options.address = ipv4(argv[2], whole_number("a port", argv[3], 1, 65535));
    parse_options(&options, argc, argv);
    int is_client = !strcmp(options.role, "client");
    if (!is_client && strcmp(options.role, "server")) refuse("server or client", options.role);
    catch_signals();
    pin(options.core);
    struct counts counts = is_client ? ask(&options) : serve(&options);
    printf("{\"role\": \"%s\"", options.role);
    print_number("sent", counts.sent);
    print_number("received", counts.received);
    if (is_client) {
        print_schedule(&counts.lateness);
        print_valid(&counts.lateness);
    }
    printf("}\n");
    return 0;
}
