/*
 * A ring of packets between two threads, or within one.
 *
 * Assumes one thread that puts and one that takes. Each keeps what it last saw of the other's index, and looks again
 * only where that says that the ring is full, or empty: an index is then written by one core and rarely read by the
 * other. Guarantees order, and that a packet is taken once. Deliberately absent: waiting.
 */

struct ring {
    _Alignas(CACHE_LINE) _Atomic uint64_t put; /* all that were ever put */
    uint64_t taken_seen;
    _Alignas(CACHE_LINE) _Atomic uint64_t taken;
    uint64_t put_seen;
    _Alignas(CACHE_LINE) uint64_t capacity;
    uint64_t mask;
    struct packet *slots;
};

/* Zeroed memory that starts on a cache line. */
static void *lines(size_t bytes) {
    void *memory = aligned_alloc(CACHE_LINE, (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    if (memory == 0) fail("memory");
    memset(memory, 0, bytes);
    return memory;
}

static struct ring *new_ring(uint64_t capacity) {
    struct ring *ring = (struct ring *)lines(sizeof *ring);
    uint64_t slots = 1;
    while (slots < capacity) slots *= 2;
    ring->capacity = capacity;
    ring->mask = slots - 1;
    ring->slots = (struct packet *)lines(slots * sizeof *ring->slots);
    return ring;
}

static void free_ring(struct ring *ring) {
    free(ring->slots);
    free(ring);
}

/* Puts the first of these for which there is room; returns how many. */
static size_t ring_put(struct ring *ring, const struct packet *packets, size_t count) {
    uint64_t put = atomic_load_explicit(&ring->put, memory_order_relaxed);
    if (ring->capacity - (put - ring->taken_seen) < count)
        ring->taken_seen = atomic_load_explicit(&ring->taken, memory_order_acquire);
    uint64_t room = ring->capacity - (put - ring->taken_seen);
    if (count > room) count = room;
    for (size_t at = 0; at < count; at++) ring->slots[(put + at) & ring->mask] = packets[at];
    atomic_store_explicit(&ring->put, put + count, memory_order_release);
    return count;
}

/* Takes so many at most; returns how many. */
static size_t ring_take(struct ring *ring, struct packet *packets, size_t most) {
    uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    if (ring->put_seen - taken < most) ring->put_seen = atomic_load_explicit(&ring->put, memory_order_acquire);
    uint64_t there = ring->put_seen - taken;
    if (most > there) most = there;
    if (most == 0) return 0;
    for (size_t at = 0; at < most; at++) packets[at] = ring->slots[(taken + at) & ring->mask];
    atomic_store_explicit(&ring->taken, taken + most, memory_order_release);
    return most;
}
