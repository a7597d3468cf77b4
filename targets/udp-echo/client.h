/* The client: sends at its own pace, whatever comes back. */

/* Where responses are taken; in --wait blocking that is a thread of its own. */
struct receiver {
    struct tickscope_kernel kernel;
    tickscope_channel *woken, *response;
    FILE *clock_log;
    const int64_t *next_id;
    struct round_trips trips;
    uint64_t received, strangers; /* read by the sending thread too */
};

struct client {
    const struct options *options;
    struct tickscope_kernel kernel; /* of sends */
    tickscope_channel *send, *sent;
    struct receiver *receiver;
    int64_t next_id;
    struct load_due due; /* in nanoseconds of CLOCK_MONOTONIC, which the kernel's timers wait by */
    tickscope_channel *due_point;
    struct counts counts;
};

static void add_one(uint64_t *count) {
    __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* A program that knows another clock only: its line is all it says of this instant. */
static void log_clock(FILE *log, int64_t id) {
    long long ns = now_ns();
    fprintf(log, "%lld,%lld\n", (long long)id, ns);
}

/* Takes one response; `woken` is the tick of the wake-up that told of it, 0: there was none. */
static void take(struct receiver *receiver, struct tickscope_kernel *kernel, int64_t woken) {
    struct datagram datagram;
    if (!receive(kernel, &datagram)) return;
    int64_t id = datagram.packet.id;
    if (!is_ours(&datagram) || id < 0 || id >= __atomic_load_n(receiver->next_id, __ATOMIC_RELAXED)) {
        add_one(&receiver->strangers);
        return;
    }
    tickscope_stamp(receiver->response, id);
    if (receiver->clock_log) log_clock(receiver->clock_log, id);
    if (woken) tickscope_record(receiver->woken, id, woken);
    tickscope_kernel_received(kernel, id);
    tickscope_kernel_done(kernel, id);
    round_trip_ends(&receiver->trips, id);
    add_one(&receiver->received);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* A send is late once the next is due, or after a millisecond, unless --late says otherwise. */
static void plan_sends(struct client *client) {
    const struct options *options = client->options;
    struct load_plan plan = {.hertz = NANOSECONDS, .start = now_ns() + NANOSECONDS / 100, .burst = 1};
    plan.until = end_ns(options, plan.start);
    const char *expected = load_per_second(&plan.rate, options->rate_hz);
    if (expected || (expected = load_constant(&client->due, &plan))) refuse(expected, "another --rate");
    double late_ms = options->rate_hz > 1000 ? 1e3 / options->rate_hz : 1;
    if (options->late_ms > 0) late_ms = options->late_ms;
    client->counts.lateness.late_ticks = (uint64_t)(1e6 * late_ms);
}

static void send_one(struct client *client) {
    unsigned char buffer[MOST_BYTES] = {0};
    struct packet packet = {MAGIC, client->options->token, client->next_id};
    struct iovec part = {buffer, client->options->bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memcpy(buffer, &packet, sizeof packet);
    __atomic_store_n(&client->next_id, packet.id + 1, __ATOMIC_RELAXED);
    round_trip_begins(&client->receiver->trips, packet.id);
    ssize_t bytes = tickscope_kernel_send(&client->kernel, packet.id, &message, 0, client->send, client->sent);
    if (bytes == (ssize_t)client->options->bytes) client->counts.sent++;
    else client->counts.send_failures++;
}

/* Sends all that is due: more than one means that those after the first are late. */
static void send_due(struct client *client) {
    for (int late = 0;; late = 1) {
        int64_t now = now_ns();
        if (stopped || now < client->due.next || client->due.next == LOAD_NEVER) return;
        int64_t due = load_next(&client->due);
        load_record(&client->counts.lateness, due, now, 1);
        if (client->due_point) tickscope_record(client->due_point, client->next_id, due);
        client->counts.late_sends += (uint64_t)late;
        send_one(client);
    }
}

static int goes_on(const struct client *client) {
    return !stopped && client->due.next != LOAD_NEVER;
}

/* After the last send: whether responses may still come. */
static int lingers(const struct client *client, int64_t until) {
    return now_ns() < until && __atomic_load_n(&client->receiver->received, __ATOMIC_RELAXED) < client->counts.sent;
}

/* Ends the sending; returns until when responses are waited for. */
static int64_t linger_until(struct client *client) {
    int64_t now = now_ns();
    load_end(&client->due, &client->counts.lateness, now);
    return now + client->options->linger_ms * 1000000;
}

/* ---- epoll: one thread, woken by the socket and by a timer ------------------------------------------------------- */

static void set_timer(int timer, int64_t at_ns) {
    struct itimerspec when = {.it_value = {at_ns / NANOSECONDS, at_ns % NANOSECONDS}};
    if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, 0)) fail("timerfd_settime");
}

/* Waits once and takes at most one response, as the server does; whether the timer fired. */
static int wait_by_epoll(struct client *client, int poller, int most_ms) {
    struct epoll_event event;
    if (epoll_wait(poller, &event, 1, most_ms) <= 0) return 0;
    int64_t woken = tickscope_now(TICKSCOPE_AFTER);
    if (event.data.fd != client->kernel.fd) return 1;
    if (event.events & EPOLLERR) clear_errors(&client->kernel);
    if (event.events & EPOLLIN) take(client->receiver, &client->kernel, woken);
    return 0;
}

static void ask_by_epoll(struct client *client) {
    int poller = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    client->receiver->woken = tickscope_open("response-woken", TICKSCOPE_AFTER, 0);
    if (watched(poller, client->kernel.fd) || watched(poller, timer)) fail("epoll_ctl");
    set_timer(timer, client->due.next);
    while (goes_on(client)) {
        uint64_t expirations;
        if (!wait_by_epoll(client, poller, 100) || read(timer, &expirations, sizeof expirations) < 0) continue;
        send_due(client);
        set_timer(timer, client->due.next);
    }
    set_timer(timer, INT64_MAX);
    for (int64_t until = linger_until(client); lingers(client, until);) wait_by_epoll(client, poller, 10);
}

/* ---- busy: one thread that never waits --------------------------------------------------------------------------- */

static void ask_by_polling(struct client *client) {
    while (goes_on(client)) {
        if (client->due.next <= now_ns()) send_due(client);
        else take(client->receiver, &client->kernel, 0);
    }
    for (int64_t until = linger_until(client); lingers(client, until);) take(client->receiver, &client->kernel, 0);
}

/* ---- blocking: a thread that receives, one that sends and sleeps ------------------------------------------------- */

static int over;

static void *receive_blocking(void *argument) {
    struct client *client = (struct client *)argument;
    struct receiver *receiver = client->receiver;
    attach(&receiver->kernel, client->kernel.fd, client->options, 0, 0, "response-rx");
    receiver->response = tickscope_open("response", TICKSCOPE_AFTER, 0);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) take(receiver, &receiver->kernel, 0);
    tickscope_kernel_end(&receiver->kernel);
    return 0;
}

static void sleep_until(int64_t at_ns) {
    int64_t nap_end = now_ns() + NAP_NS, until = at_ns < nap_end ? at_ns : nap_end;
    struct timespec when = {until / NANOSECONDS, until % NANOSECONDS};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, 0); /* a signal ends it early: the caller looks again */
}

static void ask_blocking(struct client *client) {
    pthread_t thread;
    errno = pthread_create(&thread, 0, receive_blocking, client);
    if (errno) fail("pthread_create");
    while (goes_on(client)) {
        if (client->due.next > now_ns()) sleep_until(client->due.next);
        send_due(client);
    }
    for (int64_t until = linger_until(client); lingers(client, until);) sleep_until(now_ns() + 1000000);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    pthread_join(thread, 0);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static struct counts ask(const struct options *options) {
    static struct receiver receiver;
    static struct client client;
    int fd = open_socket(options);
    client.options = options;
    client.receiver = &receiver;
    receiver.next_id = &client.next_id;
    receiver.trips = round_trips_of(options);
    if (options->clock_log && (receiver.clock_log = fopen(options->clock_log, "w")) == 0) fail("--clock-log");
    if (receiver.clock_log) fputs("id,ns\n", receiver.clock_log);
    attach(&client.kernel, fd, options, "sched", "tx", options->wait == WAIT_BLOCKING ? 0 : "response-rx");
    client.send = tickscope_open("send", TICKSCOPE_BEFORE, 0);
    client.sent = tickscope_open("sent", TICKSCOPE_PLAIN, 0);
    if (options->wait != WAIT_BLOCKING) receiver.response = tickscope_open("response", TICKSCOPE_AFTER, 0);
    if (connect(fd, (const struct sockaddr *)&options->address, sizeof options->address)) fail("connect");
    if (options->due) client.due_point = tickscope_open_clock(options->due, TICKSCOPE_MONOTONIC, TICKSCOPE_PLAIN, 0);
    plan_sends(&client);
    if (options->wait == WAIT_EPOLL) ask_by_epoll(&client);
    else if (options->wait == WAIT_BUSY) ask_by_polling(&client);
    else ask_blocking(&client);
    if (receiver.clock_log && fclose(receiver.clock_log)) fail("--clock-log");
    client.counts.received = receiver.received;
    client.counts.strangers = receiver.strangers;
    client.counts.trips = receiver.trips;
    add_kernel_counts(&client.counts, &client.kernel);
    if (options->wait == WAIT_BLOCKING) add_kernel_counts(&client.counts, &receiver.kernel);
    return client.counts;
}
