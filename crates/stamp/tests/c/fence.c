/*
 * A writer and a reader of the forwarder's table under its sequence lock, on two cores.
 *
 *     fence SIGHTS MOST
 *
 * The writer writes moves of one user by the forwarder's own step, MOST of them at most; each stamps `written`. Now and
 * then it waits for the reader, which may have no core. That reads the counter, then the address, until it has seen
 * SIGHTS moves. Prints how often it read, then a line of each move that it saw: its id, and the counter when its
 * address was last read. Exit code 3: there is one core alone.
 */
#define main forwarder_main
#include "../../../../targets/forwarder/forwarder.c"
#undef main

#define LEAST_READS 1000000
#define MOST_UNREAD 100 /* moves between two reads */

static struct testbed bed;
static _Atomic int64_t reads;
static int64_t *last_read, sights;
static int cores[2];

static void *read_moves(void *unused) {
    int64_t seen = 0, before = FIRST_ADDRESS;
    pin(cores[1]);
    while ((seen < sights || atomic_load(&reads) < LEAST_READS) && !has_ended(&bed, CONTROL)) {
        int64_t tick = tickscope_now(TICKSCOPE_BEFORE);
        struct address address = fib_read(&bed.fib, 0);
        atomic_fetch_add(&reads, 1);
        if (address.id == FIRST_ADDRESS) continue;
        seen += address.id != before;
        last_read[before = address.id] = tick;
    }
    atomic_store(&bed.done[DATA], 1);
    return unused;
}

static void await_read(void) {
    int64_t before = atomic_load(&reads);
    uint32_t spins = 0;
    while (atomic_load(&reads) == before && !has_ended(&bed, DATA)) relax(&spins);
}

int main(int argc, char **argv) {
    struct options options = {.users = 1, .fib = primitive_named("seqlock")};
    struct points points = {0};
    pthread_t reader;
    if (argc != 3 || allowed_cores(cores, 2) < 2) return 3;
    sights = atoll(argv[1]);
    int64_t most = atoll(argv[2]);
    last_read = (int64_t *)calloc((size_t)most, sizeof *last_read);
    if (last_read == 0) fail("memory");
    bed.options = &options;
    bed.fib = new_fib(&options, most);
    bed.control = new_ring(1);
    pin(cores[0]);
    open_points(&points, CONTROL);
    if (pthread_create(&reader, 0, read_moves, 0)) fail("pthread_create");
    for (int64_t id = 0; id < most && !has_ended(&bed, DATA); id++) {
        struct packet move = {.id = id, .kind = MOVE};
        if (id % MOST_UNREAD == 0) await_read();
        ring_put(bed.control, &move, 1);
        control_step(&bed, &points, 0);
    }
    atomic_store(&bed.done[CONTROL], 1);
    pthread_join(reader, 0);
    printf("%lld\n", (long long)atomic_load(&reads));
    for (int64_t id = 0; id < most; id++)
        if (last_read[id]) printf("%lld %lld\n", (long long)id, (long long)last_read[id]);
    return 0;
}
