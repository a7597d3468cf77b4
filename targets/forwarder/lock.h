/* Primitives of the FIB that keep the reader out while the writer writes, or have it read again. */

/* ---- a readers-writer lock that spins ---------------------------------------------------------------------------- */

enum { WRITING = 1, WANTED = 2, READER = 4 };

/* Writer-preferring, as section II describes most of them: no reader enters once the writer waits. One writer. */
static struct {
    _Alignas(CACHE_LINE) _Atomic uint32_t word;
} spin_lock;

static struct address spin_read(struct cell *cell) {
    uint32_t spins = 0;
    for (;;) {
        while (atomic_load_explicit(&spin_lock.word, memory_order_relaxed) & (WRITING | WANTED)) relax(&spins);
        uint32_t before = atomic_fetch_add_explicit(&spin_lock.word, READER, memory_order_acquire);
        if ((before & (WRITING | WANTED)) == 0) break;
        atomic_fetch_sub_explicit(&spin_lock.word, READER, memory_order_relaxed);
    }
    struct address address = cell->address;
    atomic_fetch_sub_explicit(&spin_lock.word, READER, memory_order_release);
    return address;
}

static void spin_write(struct fib *fib, struct cell *cell, struct address address) {
    uint32_t spins = 0, alone = WANTED;
    (void)fib;
    atomic_fetch_or_explicit(&spin_lock.word, WANTED, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&spin_lock.word, &alone, WRITING, memory_order_acquire,
                                                  memory_order_relaxed)) {
        alone = WANTED;
        relax(&spins);
    }
    cell->address = address;
    atomic_fetch_and_explicit(&spin_lock.word, ~(uint32_t)WRITING, memory_order_release);
}

/* ---- the C library's readers-writer lock: who waits is put to sleep ---------------------------------------------- */

static pthread_rwlock_t park_lock = PTHREAD_RWLOCK_INITIALIZER;

static struct address park_read(struct cell *cell) {
    pthread_rwlock_rdlock(&park_lock);
    struct address address = cell->address;
    pthread_rwlock_unlock(&park_lock);
    return address;
}

static void park_write(struct fib *fib, struct cell *cell, struct address address) {
    (void)fib;
    pthread_rwlock_wrlock(&park_lock);
    cell->address = address;
    pthread_rwlock_unlock(&park_lock);
}

/* ---- a sequence number for each address: who reads while it changes reads again ---------------------------------- */

static struct address sequence_read(struct cell *cell) {
    struct address address;
    uint32_t spins = 0, before, after;
    for (;;) {
        before = atomic_load_explicit(&cell->sequence, memory_order_acquire);
        address.id = __atomic_load_n(&cell->address.id, __ATOMIC_RELAXED);
        address.mac = __atomic_load_n(&cell->address.mac, __ATOMIC_RELAXED);
        atomic_thread_fence(memory_order_acquire); /* the address is not read after the second look */
        after = atomic_load_explicit(&cell->sequence, memory_order_relaxed);
        if (before == after && before % 2 == 0) return address;
        relax(&spins);
    }
}

static void sequence_write(struct fib *fib, struct cell *cell, struct address address) {
    uint32_t before = atomic_load_explicit(&cell->sequence, memory_order_relaxed);
    (void)fib;
    atomic_store_explicit(&cell->sequence, before + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* nobody sees the new address with the old number */
    __atomic_store_n(&cell->address.id, address.id, __ATOMIC_RELAXED);
    __atomic_store_n(&cell->address.mac, address.mac, __ATOMIC_RELAXED);
    atomic_store_explicit(&cell->sequence, before + 2, memory_order_release);
}
