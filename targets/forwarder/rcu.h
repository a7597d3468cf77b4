/*
 * Read-copy-update by liburcu: the writer publishes a new version of an address, and the old one is free again once no
 * reader can hold it.
 *
 * `rcu` leaves the wait to call_rcu, whose thread runs under ordinary scheduling on any core: where polling threads
 * take all cores it hardly runs, and versions pile up, which is told. `rcu-sync` waits itself, after each write, with
 * the new version published already. Versions come from memory that is there before the run, so none is ever lacking.
 */

struct version {
    struct address address;
    struct rcu_head head;
    struct version *next; /* of those that are free */
};

static struct {
    struct version *all;
    int64_t given, made; /* from `all`; at all. The writer's */
    _Alignas(CACHE_LINE) _Atomic(struct version *) free;
    _Atomic int64_t freed;
} versions;

/* A version that nobody reads. */
static struct version *new_version(struct address address) {
    struct version *version = atomic_load_explicit(&versions.free, memory_order_acquire);
    /* Only the writer takes from the list: what is first cannot have left it and come back. */
    while (version && !atomic_compare_exchange_weak_explicit(&versions.free, &version, version->next,
                                                             memory_order_acquire, memory_order_acquire)) {}
    if (version == 0) version = &versions.all[versions.given++];
    version->address = address;
    versions.made++;
    return version;
}

static void free_version(struct version *version) {
    version->next = atomic_load_explicit(&versions.free, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&versions.free, &version->next, version, memory_order_release,
                                                  memory_order_relaxed)) {}
    atomic_fetch_add_explicit(&versions.freed, 1, memory_order_relaxed);
}

static void free_after_readers(struct rcu_head *head) {
    free_version(caa_container_of(head, struct version, head));
}

static void rcu_begin(struct fib *fib, int64_t moves) {
    int64_t room = moves + (int64_t)fib->mask + 1;
    versions.all = (struct version *)lines((size_t)room * sizeof *versions.all);
    for (uint64_t at = 0; at <= fib->mask; at++)
        if (fib->cells[at].user >= 0) fib->cells[at].version = new_version(fib->cells[at].address);
    fib->version_bytes = sizeof *versions.all;
    fib->versions_most = versions.made;
    get_default_call_rcu_data(); /* its thread starts here, before any thread has a core and a priority of its own */
}

static void rcu_enter(void) {
    rcu_register_thread();
}

static void rcu_leave(void) {
    rcu_unregister_thread();
}

static struct address rcu_read(const struct fib *fib, int32_t user) {
    struct cell *cell = cell_of(fib, user);
    rcu_read_lock();
    struct address address = rcu_dereference(cell->version)->address;
    rcu_read_unlock();
    return address;
}

/* Publishes the address; returns the version before. */
static struct version *publish(struct fib *fib, struct cell *cell, struct address address) {
    struct version *old = rcu_xchg_pointer(&cell->version, new_version(address));
    int64_t live = versions.made - atomic_load_explicit(&versions.freed, memory_order_relaxed);
    if (live > fib->versions_most) fib->versions_most = live;
    return old;
}

static void rcu_write(struct fib *fib, int32_t user, struct address address) {
    call_rcu(&publish(fib, cell_of(fib, user), address)->head, free_after_readers);
}

static void rcu_write_and_wait(struct fib *fib, int32_t user, struct address address) {
    struct cell *cell = cell_of(fib, user);
    struct version *old = publish(fib, cell, address);
    synchronize_rcu();
    free_version(old);
}

/* Every version but each user's last has come back by now. */
static void rcu_end(struct fib *fib) {
    (void)fib;
    rcu_barrier();
    free(versions.all);
    memset(&versions, 0, sizeof versions);
}
