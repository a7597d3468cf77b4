/* The server of a pair: reads the arguments, writes the results, answers. */

struct server {
    tickscope_channel *received, *reply; /* of the timed pair */
    uint64_t answered, timed, strangers, wrong, send_failures;
};

static void answer(struct server *server, int fd) {
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    struct message message;
    ssize_t bytes = recvfrom(fd, &message, sizeof message, 0, (struct sockaddr *)&peer, &length);
    if (bytes < 0) return;
    if (!is_ours(&message, bytes, arguments_of)) {
        server->strangers++;
        return;
    }
    struct head *head = &message.head;
    int timed = head->cell != 0 && server->received != 0;
    if (timed) tickscope_stamp_with(server->received, head->id, extra_of(head));
    uint16_t sum = sum_of(message.words, arguments_of(head->words));
    server->wrong += sum != head->sum;
    head->sum = sum;
    write_words(message.words, results_of(head->words), sum);
    if (timed) tickscope_stamp_with(server->reply, head->id, extra_of(head));
    bytes = sendto(fd, &message, bytes_of(results_of(head->words)), 0, (struct sockaddr *)&peer, length);
    server->send_failures += bytes < 0;
    server->answered++;
    server->timed += (uint64_t)timed;
}

static void serve_pair(struct server *server, const struct options *options, int pair) {
    struct sockaddr_in address = address_of(options, pair);
    int fd = open_socket();
    if (bind(fd, (const struct sockaddr *)&address, sizeof address)) fail("bind");
    while (!stopped) answer(server, fd);
}

static void serve_load(const struct options *options, int pair) {
    struct server server = {0};
    serve_pair(&server, options, pair);
}

static void serve(const struct options *options) {
    struct server server = {0};
    pin(options->core);
    for (int pair = 1; pair < most_pairs(options); pair++) start(serve_load, options, pair);
    server.received = tickscope_open("received", TICKSCOPE_AFTER, TICKSCOPE_WIDE);
    server.reply = tickscope_open("reply", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
    serve_pair(&server, options, 0);
    end_processes();
    printf("{\"role\": \"server\", \"answered\": %llu, \"timed\": %llu, \"strangers\": %llu, \"wrong\": %llu, \"send_failures\": %llu}\n",
           (unsigned long long)server.answered, (unsigned long long)server.timed, (unsigned long long)server.strangers,
           (unsigned long long)server.wrong, (unsigned long long)server.send_failures);
}
