/* Primitives of the FIB that keep the reader out while the writer writes, or have it read again. */

/* ---- a readers-writer lock that spins ---------------------------------------------------------------------------- */

enum { WRITING = 1, WANTED = 2, READER = 4 };

/* One writer. Writer-preferring, as section II describes most of them: no reader enters once the writer waits. */
struct spin_lock {
    _Alignas(CACHE_LINE) _Atomic uint32_t word;
};

#define SHARDS 64 /* locks of `sharded`, each for the users of one remainder */

static struct spin_lock spin_lock, shards[SHARDS];

static struct address read_locked(struct spin_lock *lock, const struct cell *cell) {
    uint32_t spins = 0;
    for (;;) {
        while (atomic_load_explicit(&lock->word, memory_order_relaxed) & (WRITING | WANTED)) relax(&spins);
        uint32_t before = atomic_fetch_add_explicit(&lock->word, READER, memory_order_acquire);
        if ((before & (WRITING | WANTED)) == 0) break;
        atomic_fetch_sub_explicit(&lock->word, READER, memory_order_relaxed);
    }
    struct address address = cell->address;
    atomic_fetch_sub_explicit(&lock->word, READER, memory_order_release);
    return address;
}

/* Waits until nobody reads; `wanted` keeps new readers out meanwhile. */
static void write_locked(struct spin_lock *lock, struct cell *cell, struct address address, uint32_t wanted) {
    uint32_t spins = 0, alone = wanted;
    atomic_fetch_or_explicit(&lock->word, wanted, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&lock->word, &alone, WRITING, memory_order_acquire,
                                                  memory_order_relaxed)) {
        alone = wanted;
        relax(&spins);
    }
    cell->address = address;
    atomic_fetch_and_explicit(&lock->word, ~(uint32_t)WRITING, memory_order_release);
}

static struct address spin_read(const struct fib *fib, int32_t user) {
    return read_locked(&spin_lock, cell_of(fib, user));
}

static void spin_write(struct fib *fib, int32_t user, struct address address) {
    write_locked(&spin_lock, cell_of(fib, user), address, WANTED);
}

static void spin_write_after_readers(struct fib *fib, int32_t user, struct address address) {
    write_locked(&spin_lock, cell_of(fib, user), address, 0);
}

static struct address shard_read(const struct fib *fib, int32_t user) {
    return read_locked(&shards[user % SHARDS], cell_of(fib, user));
}

static void shard_write(struct fib *fib, int32_t user, struct address address) {
    write_locked(&shards[user % SHARDS], cell_of(fib, user), address, WANTED);
}

static void shard_begin(struct fib *fib, int64_t moves) {
    (void)moves;
    fib->bytes += sizeof shards;
}

/* ---- the C library's readers-writer lock: who waits is put to sleep ---------------------------------------------- */

/* Readers go first, as it is by default: the writer waits until none reads. */
static pthread_rwlock_t park_lock = PTHREAD_RWLOCK_INITIALIZER;

static void park_begin_writer_first(struct fib *fib, int64_t moves) {
    pthread_rwlockattr_t attributes;
    (void)fib, (void)moves;
    pthread_rwlockattr_init(&attributes);
    pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    if (pthread_rwlock_init(&park_lock, &attributes)) fail("pthread_rwlock_init");
    pthread_rwlockattr_destroy(&attributes);
}

static struct address park_read(const struct fib *fib, int32_t user) {
    const struct cell *cell = cell_of(fib, user);
    pthread_rwlock_rdlock(&park_lock);
    struct address address = cell->address;
    pthread_rwlock_unlock(&park_lock);
    return address;
}

static void park_write(struct fib *fib, int32_t user, struct address address) {
    struct cell *cell = cell_of(fib, user);
    pthread_rwlock_wrlock(&park_lock);
    cell->address = address;
    pthread_rwlock_unlock(&park_lock);
}

/* ---- a sequence number for each address: who reads while it changes reads again ---------------------------------- */

static struct address sequence_read(const struct fib *fib, int32_t user) {
    const struct cell *cell = cell_of(fib, user);
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

static void sequence_write(struct fib *fib, int32_t user, struct address address) {
    struct cell *cell = cell_of(fib, user);
    uint32_t before = atomic_load_explicit(&cell->sequence, memory_order_relaxed);
    atomic_store_explicit(&cell->sequence, before + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* nobody sees the new address with the old number */
    __atomic_store_n(&cell->address.id, address.id, __ATOMIC_RELAXED);
    __atomic_store_n(&cell->address.mac, address.mac, __ATOMIC_RELAXED);
    atomic_store_explicit(&cell->sequence, before + 2, memory_order_release);
}

/* ---- left-right: two of each address, and the writer writes the one that nobody reads ---------------------------- */

/*
 * By Ramalhete and Correia. A reader never waits: it says that it is there, by the counter of the present version, and
 * reads the side that readers are sent to. The writer changes the other side, sends readers there, waits until
 * those that may still read the first are gone, and changes that as well. One writer.
 */
static struct {
    _Alignas(CACHE_LINE) _Atomic uint32_t side;
    _Alignas(CACHE_LINE) _Atomic uint32_t version;
    struct {
        _Alignas(CACHE_LINE) _Atomic uint32_t count;
    } readers[2];
    struct address *sides;
} left_right;

static void left_right_begin(struct fib *fib, int64_t moves) {
    size_t bytes = 2 * ((size_t)fib->mask + 1) * sizeof(struct address);
    (void)moves;
    left_right.sides = (struct address *)lines(bytes);
    fib->bytes += bytes;
    for (uint64_t at = 0; at <= fib->mask; at++) {
        struct cell *cell = &fib->cells[at];
        cell->sides = &left_right.sides[2 * at];
        cell->sides[0] = cell->sides[1] = cell->address;
    }
}

static void left_right_end(struct fib *fib) {
    (void)fib;
    free(left_right.sides);
}

static struct address left_right_read(const struct fib *fib, int32_t user) {
    const struct cell *cell = cell_of(fib, user);
    uint32_t version = atomic_load(&left_right.version);
    atomic_fetch_add(&left_right.readers[version].count, 1); /* in one order with the writer's looks and the side */
    struct address address = cell->sides[atomic_load(&left_right.side)];
    atomic_fetch_sub_explicit(&left_right.readers[version].count, 1, memory_order_release);
    return address;
}

static void await_no_reader(uint32_t version) {
    uint32_t spins = 0;
    while (atomic_load(&left_right.readers[version].count) > 0) relax(&spins);
}

static void left_right_write(struct fib *fib, int32_t user, struct address address) {
    struct cell *cell = cell_of(fib, user);
    uint32_t side = atomic_load(&left_right.side), version = atomic_load(&left_right.version);
    cell->sides[!side] = address;
    atomic_store(&left_right.side, !side);
    await_no_reader(!version); /* late ones of the version before */
    atomic_store(&left_right.version, !version);
    await_no_reader(version);
    cell->sides[side] = address;
}
