/*
 * The timed client. Each repetition calls once in every cell, a number of pairs and of words, in an order of its own
 * and at random times, half to three halves of the interval apart: at fixed times calls beat with the scheduler's
 * tick.
 */

#define ANSWER_NS (3 * NANOSECONDS) /* after so long an answer is lost: longer than a machine stalls */
#define WARM_UP_CALLS 64

struct client {
    const struct options *options;
    int fd;
    int64_t id, repetition, due_ns;
    uint64_t dice;                 /* what keeps calls out of step is drawn from */
    struct load_lateness lateness; /* nanoseconds */
    tickscope_channel *zero[4], *first, *send, *response, *results, *last;
    uint64_t calls, abandoned, strangers;
};

static void shuffle(struct client *client, int32_t *cells, int count) {
    for (int last = count - 1; last > 0; last--) {
        int with = (int)load_below(&client->dice, (uint64_t)last + 1);
        int32_t cell = cells[last];
        cells[last] = cells[with];
        cells[with] = cell;
    }
}

/* A call that is later than an interval shifts those after it: they wait for its answer anyway. */
static void wait_until_due(struct client *client) {
    int64_t interval_ns = (int64_t)client->options->interval_us * 1000;
    client->due_ns += interval_ns / 2 + (int64_t)load_below(&client->dice, (uint64_t)interval_ns);
    struct timespec when = {client->due_ns / NANOSECONDS, client->due_ns % NANOSECONDS};
    while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, 0)) {}
    int64_t now = now_ns();
    if (stopped) return;
    load_record(&client->lateness, client->due_ns, now, 1);
    if (now - client->due_ns > interval_ns) client->due_ns = now;
}

/* Receives the answer to this call; 0: it was lost. */
static int receive(struct client *client, struct message *message, int64_t until_ns) {
    while (!stopped && now_ns() < until_ns) {
        ssize_t bytes = recv(client->fd, message, sizeof *message, 0);
        if (bytes < 0) continue;
        if (is_ours(message, bytes, results_of) && message->head.id == client->id) return 1;
        client->strangers++; /* a late answer too */
    }
    return 0;
}

static void check(const struct client *client, const struct head *sent, const struct message *message,
                  uint16_t results) {
    int count = results_of(sent->words);
    char expected[128], found[128];
    if (message->head.sum == sent->sum && results == sum_from(sent->sum, count)) return;
    snprintf(expected, sizeof expected, "the words of call %lld to sum to %u and %u", (long long)client->id, sent->sum,
             sum_from(sent->sum, count));
    snprintf(found, sizeof found, "%u and %u", message->head.sum, results);
    fprintf(stderr, "cm-star: expected %s, found %s: nothing is measured of wrong calls. Check memory and network\n",
            expected, found);
    end_processes();
    exit(1);
}

/* A timed call and the zero-time test before it; 0: its answer was lost, or the run was stopped. */
static int call(struct client *client, int32_t cell) {
    struct message message;
    int words = cell % 100000, arguments = arguments_of(words);
    uint16_t first = (uint16_t)client->id;
    struct head sent = {MAGIC, client->id, client->repetition, cell, (uint16_t)words, sum_from(first, arguments)};
    set_load(cell / 100000, words);
    wait_until_due(client);
    if (stopped) return 0;
    write_words(message.words, arguments, first);
    message.head = sent;
    for (int reading = 0; reading < 4; reading++) tickscope_stamp_with(client->zero[reading], sent.id, extra_of(&sent));
    tickscope_stamp_with(client->first, sent.id, extra_of(&sent));
    tickscope_stamp_with(client->send, sent.id, extra_of(&sent));
    if (send(client->fd, &message, bytes_of(arguments), 0) < 0 && errno != ECONNREFUSED) fail("send");
    if (!receive(client, &message, client->due_ns + ANSWER_NS)) return 0;
    tickscope_stamp_with(client->response, sent.id, extra_of(&sent));
    uint16_t results = sum_of(message.words, results_of(words));
    tickscope_stamp_with(client->results, sent.id, extra_of(&sent));
    tickscope_stamp_with(client->last, sent.id, extra_of(&sent));
    check(client, &sent, &message, results);
    client->calls++;
    return 1;
}

/* One call in every cell; 0: an answer was lost or the run stopped, and with it the repetition. Its ids are used up all
 * the same. */
static int repeat(struct client *client, int32_t *cells, int count) {
    int64_t next = client->id + count;
    int at, whole = 1;
    shuffle(client, cells, count);
    for (at = 0; at < count && whole && !stopped; at++, client->id++) whole = call(client, cells[at]);
    client->id = next;
    client->repetition++;
    return whole && at == count;
}

/* Until the servers answer. Each call has an id of its own: an answer that comes after the wait for it is nobody's. */
static void warm_up(struct client *client) {
    int64_t until = now_ns() + 10 * NANOSECONDS, id = -1;
    for (int calls = 0; calls < WARM_UP_CALLS && !stopped; id--) {
        calls += call_untimed(client->fd, 0, id);
        if (now_ns() > until) refuse("a server that answers within 10 s", "none. Start it first, with as many --pairs");
    }
}

static void open_points(struct client *client) {
    static const char *const names[] = {"zero-1", "zero-2", "zero-3", "zero-4"};
    for (int reading = 0; reading < 4; reading++) /* ordered as the readings around a call */
        client->zero[reading] =
            tickscope_open(names[reading], reading < 2 ? TICKSCOPE_BEFORE : TICKSCOPE_AFTER, TICKSCOPE_WIDE);
    client->first = tickscope_open("first", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
    client->send = tickscope_open("send", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
    client->response = tickscope_open("response", TICKSCOPE_AFTER, TICKSCOPE_WIDE);
    client->results = tickscope_open("results", TICKSCOPE_AFTER, TICKSCOPE_WIDE);
    client->last = tickscope_open("last", TICKSCOPE_AFTER, TICKSCOPE_WIDE);
}

static int all_cells(const struct options *options, int32_t *cells) {
    int count = 0;
    for (int pairs = 0; pairs < options->pairs.count; pairs++)
        for (int words = 0; words < options->words.count; words++)
            cells[count++] = cell_of(options->pairs.of[pairs], options->words.of[words]);
    return count;
}

static void ask(const struct options *options) {
    struct client client = {.options = options};
    int32_t cells[MOST_CELLS * MOST_CELLS];
    int count = all_cells(options, cells), whole = 0;
    pthread_t sampler;
    client.lateness.late_ticks = (uint64_t)options->interval_us * 1000;
    share_load();
    pin(options->core);
    for (int pair = 1; pair < most_pairs(options); pair++) start(call_as_load, options, pair);
    client.fd = connected(options, 0);
    warm_up(&client);
    open_points(&client);
    errno = pthread_create(&sampler, 0, sample, (void *)(uintptr_t)options);
    if (errno) fail("pthread_create");
    client.due_ns = now_ns();
    while (whole < options->repetitions && !stopped) {
        whole += repeat(&client, cells, count);
        if (!stopped) client.abandoned = (uint64_t)(client.repetition - whole);
        if (client.abandoned > (uint64_t)options->repetitions)
            refuse("answers to most calls", "most of them lost. Check the network");
    }
    __atomic_store_n(&sampling_over, 1, __ATOMIC_RELAXED);
    pthread_join(sampler, 0);
    end_processes();
#ifdef __OPTIMIZE__
    const char *optimised = "true";
#else
    const char *optimised = "false";
#endif
    printf("{\"role\": \"client\", \"calls\": %llu, \"repetitions\": %d, \"abandoned\": %llu, \"late\": %llu, "
           "\"strangers\": %llu, \"interval_us\": %d, \"optimised\": %s}\n",
           (unsigned long long)client.calls, whole, (unsigned long long)client.abandoned,
           (unsigned long long)client.lateness.late, (unsigned long long)client.strangers, options->interval_us,
           optimised);
}
