/*
 * A ring of one packet in which the newest takes the place of what waits: the buffer that the paper asks for, and that
 * DPDK does not have.
 *
 * Three slots: one is the producer's, one the consumer's, one is between them; each swaps its own with that. Assumes
 * one thread that puts and one that takes. Guarantees that a packet is taken once, or replaced and counted, and that
 * neither side sees a slot that the other writes.
 */

#define UNREAD UINT32_C(4) /* beside the number of the slot between: nobody took it yet */

struct newest {
    _Alignas(CACHE_LINE) _Atomic uint32_t between;
    _Alignas(CACHE_LINE) uint32_t producers;
    _Alignas(CACHE_LINE) uint32_t consumers;
    struct packet slots[3];
};

static struct newest *new_newest(void) {
    struct newest *newest = (struct newest *)lines(sizeof *newest);
    newest->producers = 1;
    newest->consumers = 2;
    return newest;
}

/* Puts these in turn, each in the place of what waits; returns how much data waited and is gone. */
static size_t newest_put(struct newest *newest, const struct packet *packets, size_t count) {
    size_t replaced = 0;
    for (size_t at = 0; at < count; at++) {
        newest->slots[newest->producers] = packets[at];
        uint32_t mine = newest->producers | UNREAD;
        uint32_t before = atomic_exchange_explicit(&newest->between, mine, memory_order_acq_rel);
        newest->producers = before & ~UNREAD;
        replaced += (before & UNREAD) != 0 && newest->slots[newest->producers].kind == DATA_PACKET;
    }
    return replaced;
}

static size_t newest_take(struct newest *newest, struct packet *packet) {
    if ((atomic_load_explicit(&newest->between, memory_order_relaxed) & UNREAD) == 0) return 0;
    uint32_t before = atomic_exchange_explicit(&newest->between, newest->consumers, memory_order_acq_rel);
    newest->consumers = before & ~UNREAD;
    *packet = newest->slots[newest->consumers];
    return 1;
}
