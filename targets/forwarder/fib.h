/*
 * The forwarding information base: where each user is, read by the data process while the control process writes.
 *
 * A hash table whose keys are all there before the run, so that a write changes an address and nothing else. What keeps
 * a reader from half an address is the primitive: one of a list, chosen at run time; some have a table of their own.
 * An address can be recognised: its hardware address follows from its number and its user, so a reader sees whether
 * what it read was ever written.
 * Assumes one writer. Deliberately absent: insertion, removal, resizing.
 */

struct address {
    int64_t id; /* of the location update that it is from */
    uint64_t mac;
};

struct version;

struct cell {
    int32_t user; /* -1: free */
    _Atomic uint32_t sequence;
    struct address address;
    union {
        struct version *version; /* of the read-copy-update primitives, in place of the address */
        struct address *sides;   /* of left-right: two of them */
    };
};

struct fib {
    struct cell *cells;
    uint64_t mask;
    size_t bytes;
    int64_t versions_most, version_bytes; /* what read-copy-update kept at once, and how large one is; 0: none */
    const struct primitive *primitive;
};

/* One way to keep readers and the writer apart. Each function may be absent. */
struct primitive {
    const char *name;
    void (*begin)(struct fib *fib, int64_t moves); /* before any thread; room for that many writes */
    void (*enter)(void);                           /* on each thread that reads or writes */
    struct address (*read)(const struct fib *fib, int32_t user);
    void (*write)(struct fib *fib, int32_t user, struct address address);
    void (*leave)(void);
    void (*end)(struct fib *fib); /* after all threads */
    void (*rest)(void);           /* on the thread that reads, between two batches */
};

static struct cell *cell_of(const struct fib *fib, int32_t user) {
    uint64_t at = (uint64_t)(uint32_t)user * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    while (fib->cells[at & fib->mask].user != user && fib->cells[at & fib->mask].user >= 0) at++;
    return &fib->cells[at & fib->mask];
}

static struct fib new_fib(const struct options *options, int64_t moves) {
    struct fib fib = {.primitive = options->fib};
    uint64_t cells = 2;
    while (cells < 2 * (uint64_t)options->users) cells *= 2;
    fib.mask = cells - 1;
    fib.bytes = cells * sizeof *fib.cells;
    fib.cells = (struct cell *)lines(fib.bytes);
    for (uint64_t at = 0; at < cells; at++) fib.cells[at].user = -1;
    for (int32_t user = 0; user < options->users; user++) {
        struct cell *cell = cell_of(&fib, user);
        cell->user = user;
        cell->address = (struct address){FIRST_ADDRESS, mac_of(FIRST_ADDRESS, user)};
    }
    if (options->fib->begin) options->fib->begin(&fib, moves);
    return fib;
}

static void end_fib(struct fib *fib) {
    if (fib->primitive->end) fib->primitive->end(fib);
    free(fib->cells);
}

/* Where the user is. */
static struct address fib_read(const struct fib *fib, int32_t user) {
    return fib->primitive->read(fib, user);
}

/* From now on the user is there. */
static void fib_write(struct fib *fib, int32_t user, int64_t id) {
    fib->primitive->write(fib, user, (struct address){id, mac_of(id, user)});
}

static int is_torn(struct address address, int32_t user) {
    return address.mac != mac_of(address.id, user);
}

/* Waits a little; a thread that shares its core lets others run now and then, such as the one it waits for. */
static void relax(uint32_t *spins) {
    if ((++*spins & 1023) == 0) sched_yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}
