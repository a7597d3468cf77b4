/* Load by replication: clients that call over and over while so many pairs are asked for, and are asleep while not. */

struct load {
    uint32_t pairs, words; /* the timed pair is one of the pairs */
};

static struct load *load; /* shared with the clients that make it */

static void share_load(void) {
    load = (struct load *)mmap(0, sizeof *load, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (load == MAP_FAILED) fail("mmap");
}

static void set_load(int pairs, int words) {
    __atomic_store_n(&load->words, (uint32_t)words, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&load->pairs, (uint32_t)pairs, __ATOMIC_RELEASE) == (uint32_t)pairs) return;
    syscall(SYS_futex, &load->pairs, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

/* Sends a call and waits for its answer; 0: none came in time, or the words are not those that were written. */
static int call_untimed(int fd, int words, int64_t id) {
    struct message message;
    struct head head = {.magic = MAGIC, .id = id, .words = (uint16_t)words};
    write_words(message.words, arguments_of(words), (uint16_t)id);
    head.sum = sum_from((uint16_t)id, arguments_of(words));
    message.head = head;
    if (send(fd, &message, bytes_of(arguments_of(words)), 0) < 0) return 0;
    for (;;) {
        ssize_t bytes = recv(fd, &message, sizeof message, 0);
        if (bytes < 0) return 0;
        if (!is_ours(&message, bytes, results_of) || message.head.id != id) continue;
        return message.head.sum == head.sum &&
               sum_of(message.words, results_of(words)) == sum_from(head.sum, results_of(words));
    }
}

static int connected(const struct options *options, int pair) {
    struct sockaddr_in address = address_of(options, pair);
    int fd = open_socket();
    if (connect(fd, (const struct sockaddr *)&address, sizeof address)) fail("connect");
    return fd;
}

/* The client of pair `pair`, counted from 0. What is not answered is no load; the next call is tried. */
static void call_as_load(const struct options *options, int pair) {
    /* A signal between the look at `stopped` and the wait wakes nobody. */
    const struct timespec longest = {0, NANOSECONDS / 10};
    int fd = connected(options, pair);
    for (int64_t id = 0; !stopped; id++) {
        uint32_t pairs = __atomic_load_n(&load->pairs, __ATOMIC_ACQUIRE);
        if (pairs > (uint32_t)pair) call_untimed(fd, (int)__atomic_load_n(&load->words, __ATOMIC_RELAXED), id);
        else /* another number of pairs ends the wait too */
            syscall(SYS_futex, &load->pairs, FUTEX_WAIT, pairs, &longest, 0, 0);
    }
}
