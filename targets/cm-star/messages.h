/*
 * Messages: a head and words of 16 bits, in the byte order of both hosts. A call's first half of the words are
 * arguments, which the server reads; the others are results, which the client reads. On the paper's machine only a
 * name of the words was sent; here they are in the datagram, as on any network.
 */

#define MAGIC UINT64_C(0x305241545353434d) /* "MCSSTAR0" */

struct head {
    uint64_t magic;
    int64_t id, repetition;
    int32_t cell;        /* pairs * 100000 + words; 0: nobody times this call */
    uint16_t words, sum; /* of the call; of the arguments: as sent, and back as the server read them */
};

struct message {
    struct head head;
    uint16_t words[MOST_WORDS];
};

/* What the stamps of a call carry. */
static struct tickscope_extra extra_of(const struct head *head) {
    return (struct tickscope_extra){.kind = head->cell, .value = head->repetition};
}

static int32_t cell_of(int pairs, int words) {
    return pairs * 100000 + words;
}

static int arguments_of(int words) {
    return words / 2;
}

static int results_of(int words) {
    return words - arguments_of(words);
}

static size_t bytes_of(int words) {
    return sizeof(struct head) + (size_t)words * sizeof(uint16_t);
}

/* first, first + 1, ...: one store a word, as in the paper's loop. */
static void write_words(uint16_t *words, int count, uint16_t first) {
    volatile uint16_t *each = words;
    for (int at = 0; at < count; at++) each[at] = (uint16_t)(first + at);
}

/* One load a word. */
static uint16_t sum_of(const uint16_t *words, int count) {
    const volatile uint16_t *each = words;
    uint16_t sum = 0;
    for (int at = 0; at < count; at++) sum = (uint16_t)(sum + each[at]);
    return sum;
}

/* What the sum of such words must be. */
static uint16_t sum_from(uint16_t first, int count) {
    return (uint16_t)((uint32_t)first * (uint32_t)count + (uint32_t)count * ((uint32_t)count - 1) / 2);
}

/* Whether so many bytes are a message of ours with so many of its words. */
static int is_ours(const struct message *message, ssize_t bytes, int (*words)(int)) {
    if (bytes < (ssize_t)sizeof message->head || message->head.magic != MAGIC || message->head.words > MOST_WORDS) return 0;
    return bytes == (ssize_t)bytes_of(words(message->head.words));
}

/* A socket whose waits end now and then, for a look at whether it is time to end. */
static int open_socket(void) {
    struct timeval nap = {.tv_usec = 100000};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &nap, sizeof nap)) fail("socket");
    return fd;
}

static struct sockaddr_in address_of(const struct options *options, int pair) {
    struct sockaddr_in address = options->address;
    address.sin_port = htons((uint16_t)(ntohs(address.sin_port) + pair));
    return address;
}
