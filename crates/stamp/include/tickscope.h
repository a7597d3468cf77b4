/*
 * tickscope.h - stamps from C99 and C++17, header only.
 *
 *     tickscope_channel *sent = tickscope_open("sent", TICKSCOPE_BEFORE, 0);
 *     tickscope_stamp(sent, packet->id);
 *     send(...);
 *
 * A stamp is (tick, id): one reading of this host's counter and an id that is equal at every point the thing passes. It
 * costs about what reading the counter costs, makes no system call and takes no lock. Stamps go to blocks in shared
 * memory (docs/block-format.md) that outlive the process: a program killed by SIGKILL loses none that returned.
 *
 * Nothing here ends, blocks (unless asked to) or crashes the program: without TICKSCOPE_DIR, or where anything is wrong,
 * points are off and one line on stderr says why. The environment, read once a process:
 *
 *     TICKSCOPE_DIR          stamp directory, on tmpfs; unset: every point is off
 *     TICKSCOPE_NODE         this node's name
 *     TICKSCOPE_POLICY       glob=policy,...  first match wins; policies: buffered (the default), null
 *     TICKSCOPE_POOL_BYTES   shared memory for blocks, default 16777216
 *     TICKSCOPE_BLOCK_BYTES  4096, 8192, 16384 (default), 32768 or 65536
 *     TICKSCOPE_WHEN_FULL    drop (the default: dropped and counted) or wait (while a collector lives, 1 s at most)
 *     TICKSCOPE_GROUP        number of a group that may read and collect the stamps too; unset: this user alone
 *     TICKSCOPE_KEY          32 hexadecimal digits by which a collector run by root knows its programs' pools
 *     TICKSCOPE_INJECT       a known map put before the counter, for tests
 *     TICKSCOPE_INJECT_REALTIME  the same before CLOCK_REALTIME, with steps and slews
 *
 * Which calls may run where:
 *     tickscope_stamp, _record, _bracket      the thread that opened the channel, and signal handlers on it
 *     tickscope_open, _open_clock, _open_bracket    any thread, not signal handlers
 *     tickscope_now, tickscope_clock_now      anywhere; through the injected map once a channel was opened or a meter made
 *     tickscope_close                         the thread that opened the channel, not signal handlers
 * There is no limit on channels but the pool's memory: a stamp that finds no channel or no room is counted as lost,
 * under its point. An ended thread's handles, and the rest of its block, serve later threads.
 * fork: the child's channels go on in a pool of the child's own. exec: the program that follows opens its own. The end of
 * a thread closes its channels. Every shared object that includes this header has a pool of its own; the pool of one
 * that is unloaded is collected when the process ends. vfork's child must not stamp; raw clone is not supported.
 */
#ifndef TICKSCOPE_H
#define TICKSCOPE_H

#if !defined(_GNU_SOURCE) && !defined(_FEATURES_H)
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "tickscope.h: expected _GNU_SOURCE before the first system header, found stricter features. Include tickscope.h first, or compile with -D_GNU_SOURCE"
#endif
#if !defined(__x86_64__) && !defined(__aarch64__)
#error "tickscope.h: expected x86-64 or aarch64"
#endif

#ifdef __cplusplus
#define TICKSCOPE__ASSERT(condition, what) static_assert(condition, what)
extern "C" {
#else
#define TICKSCOPE__ASSERT(condition, what) __extension__ _Static_assert(condition, what)
#endif

/* One copy in a shared object, however many of its files include this header, and never another object's copy. */
#define TICKSCOPE__ONCE __attribute__((weak, visibility("hidden")))
#define TICKSCOPE__COLD __attribute__((weak, visibility("hidden"), noinline, cold))
#define TICKSCOPE__HOT static inline __attribute__((always_inline))

/* ---- what programs use ------------------------------------------------------------------------------------------ */

/* What a reading of the counter is ordered against. */
enum tickscope_ordering {
    TICKSCOPE_PLAIN = 0,  /* nothing: for stages, never evidence about clocks */
    TICKSCOPE_BEFORE = 1, /* read before anything that follows can be seen by others: put it right before a send */
    TICKSCOPE_AFTER = 2   /* not read until all that precedes was seen: put it right after a receive */
};

/* What a channel's ticks were read from; the numbers are those of block headers. */
enum tickscope_counter {
    TICKSCOPE_COUNTER = 0,       /* the node's own: TSC or CNTVCT */
    TICKSCOPE_REALTIME = 3,      /* CLOCK_REALTIME, ns */
    TICKSCOPE_MONOTONIC = 4,     /* CLOCK_MONOTONIC, ns */
    TICKSCOPE_MONOTONIC_RAW = 5, /* CLOCK_MONOTONIC_RAW, ns */
    TICKSCOPE_PHC = 6            /* a network card's clock, ns: tickscope_kernel.h */
};

/* Flags of tickscope_open. */
enum {
    TICKSCOPE_WIDE = 1, /* stamps carry kind, value and core: 32 bytes instead of 16 */
    TICKSCOPE_FULL = 2  /* stamps carry parent, attempt and batch too: 48 bytes */
};

/*
 * Fields of a stamp beyond tick and id: tickscope_stamp_with(sent, id, (struct tickscope_extra){.attempt = 1}).
 * Whatever is left out is 0. A channel keeps as much of it as it was opened for.
 */
struct tickscope_extra {
    int32_t kind;          /* class of the id, analysed apart */
    int32_t attempt;       /* transmissions of the id before this one; negative: not said */
    int64_t value;         /* rides along: a queue's depth, a length */
    const int64_t *parent; /* id that this one is part of; 0 or the id itself: none. It is read during the call */
    int32_t batch;         /* how many things the stamp stands for; 0 or negative: not said */
};

/* One point on one thread of one process. Belongs to the thread that opened it. */
typedef struct tickscope_channel tickscope_channel;

/*
 * Opens the point for this thread; the same call again on the same thread returns the same channel. Names: 1 to 47
 * letters, digits, '_', '-', '.'. Never NULL: where it can't be opened, the channel returned is off, and stderr says why.
 */
static inline tickscope_channel *tickscope_open(const char *point, enum tickscope_ordering ordering, unsigned flags);

/* The same with ticks of another clock. tickscope_stamp then reads that clock; mostly they come by tickscope_record. */
static inline tickscope_channel *tickscope_open_clock(const char *point, enum tickscope_counter counter,
                                                      enum tickscope_ordering ordering, unsigned flags);

/*
 * The calling thread's channel of a point, opened at the first use on each thread and kept in a thread-local pointer:
 *     tickscope_stamp(TICKSCOPE_POINT("sent", TICKSCOPE_BEFORE, 0), packet->id);
 * It costs one thread-local load and a branch more than a kept channel. The first opening in a process makes its pool,
 * in milliseconds: do it at the start. A thread's first use is not for signal handlers, and its end closes the channel.
 */
#define TICKSCOPE_POINT(point, ordering, flags)                                                                        \
    __extension__({                                                                                                    \
        static __thread tickscope_channel *tickscope__kept;                                                            \
        if (__builtin_expect(tickscope__kept == 0, 0)) tickscope__kept = tickscope__open_kept(point, ordering, flags); \
        tickscope__kept;                                                                                               \
    })
static inline tickscope_channel *tickscope__open_kept(const char *point, enum tickscope_ordering ordering,
                                                      unsigned flags);

/* Stamps id now. On a channel of another clock this reads that clock (50 ns more); one that can't be read is refused. */
TICKSCOPE__HOT void tickscope_stamp(tickscope_channel *channel, int64_t id);

/* Stamps id with what it carries. */
TICKSCOPE__HOT void tickscope_stamp_with(tickscope_channel *channel, int64_t id, struct tickscope_extra extra);

/*
 * Stamps id with a tick that was read already, by tickscope_now or by the kernel, from the channel's own counter. The
 * ordering of the channel must be true of that reading. A tick of 0 is refused and counted.
 */
TICKSCOPE__HOT void tickscope_record(tickscope_channel *channel, int64_t id, int64_t tick);
TICKSCOPE__HOT void tickscope_record_with(tickscope_channel *channel, int64_t id, int64_t tick,
                                          struct tickscope_extra extra);

/*
 * Relates a clock to the counter: tickscope_bracket reads counter, clock, counter eight times and keeps the narrowest as
 * one stamp of the point clock-bracket.NAME: tick: the counter before, id: the clock in ns, value: the counter after.
 * Points of that prefix are opened in no other way.
 */
static inline tickscope_channel *tickscope_open_bracket(enum tickscope_counter counter);
static inline void tickscope_bracket(tickscope_channel *channel);

/* Closes this thread's channel; later stamps on it are refused and counted. */
static inline void tickscope_close(tickscope_channel *channel);

/* Reads the counter as stamps do, in ticks. */
static inline int64_t tickscope_now(enum tickscope_ordering ordering);

/* Reads another clock as stamps do, in ns; 0: it can't be read. */
static inline int64_t tickscope_clock_now(enum tickscope_counter counter);

/* ---- the layout: docs/block-format.md, crates/stamp/src/block.rs ------------------------------------------------- */

#define TICKSCOPE_VERSION 3
#define TICKSCOPE__NAME_BYTES 48
#define TICKSCOPE__LEAST_ENTRIES 256 /* for channels; a pool has one for each block where those are more */
#define TICKSCOPE__SHARED_ENTRIES 64 /* after them: for what threads without a channel lose, one a point */
#define TICKSCOPE__KEY_BYTES 16
#define TICKSCOPE__POOL_MAGIC UINT64_C(0x4c4f4f504b434954) /* "TICKPOOL" */
#define TICKSCOPE__BLOCK_MAGIC UINT32_C(0x4b4c4254)        /* "TBLK" */
#define TICKSCOPE__SUCCESSOR_MAGIC UINT32_C(0x43435553)    /* "SUCC" */
#define TICKSCOPE__UNIT_BYTES 16
#define TICKSCOPE__HEADER_UNITS 12
#define TICKSCOPE__FEWEST_BLOCKS 4

struct tickscope__pool_header {
    uint64_t magic;
    uint32_t version, entry_offset, entry_bytes, entry_count;
    uint64_t block_offset;
    uint32_t block_bytes, block_count;
    uint64_t instance;
    uint8_t boot_id[16];
    int32_t pid;
    uint8_t counter, when_full;
    uint16_t zero;
    int64_t process_start;
    uint32_t epoch, injected;
    int64_t created_tick;
    char node[TICKSCOPE__NAME_BYTES], command[TICKSCOPE__NAME_BYTES];
    uint32_t state, channels;
    uint8_t key[TICKSCOPE__KEY_BYTES];
    uint8_t zero_to_256[40];
    uint64_t leases;
    uint8_t zero_to_320[56];
    uint32_t hint;
    uint8_t zero_to_384[60];
    uint64_t without_channel, channels_refused, after_close;
    uint8_t zero_to_4096[3688];
};

struct tickscope__entry {
    uint64_t policy, parameters[2];
    uint8_t zero_to_64[40];
    uint32_t state, serial;
    int32_t number, thread;
    uint8_t ordering, shape, counter, zero_to_88[5];
    int64_t opened_tick;
    uint8_t zero_to_128[32];
    uint64_t dropped, refused, stalls, lost;
    int64_t lost_first, lost_last;
    uint8_t zero_to_192[16];
    char point[TICKSCOPE__NAME_BYTES];
    uint8_t zero_to_256[16];
};

struct tickscope__block_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint32_t state, serial, number, policy_epoch;
    uint64_t instance;
    uint8_t boot_id[16];
    int32_t pid, thread;
    int64_t process_start;
    uint8_t ordering, shape, counter, zero;
    uint32_t epoch;
    uint64_t lost;
    int64_t lost_first, lost_last;
    char point[TICKSCOPE__NAME_BYTES];
    uint64_t parameter;
    uint32_t policy, successor; /* successor: unit of the block where the first one's description lies; 0: none */
    uint8_t zero_to_192[32];
};

/*
 * A later thread's channel of the same point, whose records follow in a block that an ended thread left partly filled.
 * It takes the place of records: their tick is not zero here either. Written after the one before points to it.
 */
struct tickscope__successor {
    uint32_t next; /* unit of the block where the next one lies; 0: none */
    uint32_t serial;
    uint64_t whole; /* low half: the magic, high half: the thread; written last */
    int64_t opened_tick;
    int64_t one;
};

struct tickscope__slim_record {
    int64_t id, tick;
};

struct tickscope__wide_record {
    int64_t id, tick, value;
    int32_t kind, cpu;
};

struct tickscope__full_record {
    struct tickscope__wide_record wide;
    int64_t parent; /* the id itself: none */
    int32_t attempt, batch;
};

enum { TICKSCOPE__POOL_OPEN = 0, TICKSCOPE__POOL_CLOSED = 1 };
enum {
    TICKSCOPE__ENTRY_FREE,
    TICKSCOPE__ENTRY_OPENING,
    TICKSCOPE__ENTRY_OPEN,
    TICKSCOPE__ENTRY_CLOSED,
    TICKSCOPE__ENTRY_SHARED
};
enum { TICKSCOPE__BLOCK_FREE, TICKSCOPE__BLOCK_LEASED, TICKSCOPE__BLOCK_RELEASED };
enum { TICKSCOPE__POLICY_NULL = 0, TICKSCOPE__POLICY_BUFFERED = 1 };
/* Names of the policies, each at its number. */
static const char *const tickscope__policies[] = {"null", "buffered"};
enum { TICKSCOPE__DROP = 0, TICKSCOPE__WAIT = 1 };

TICKSCOPE__ASSERT(sizeof(struct tickscope__pool_header) == 4096, "pool header");
TICKSCOPE__ASSERT(offsetof(struct tickscope__pool_header, state) == 192, "pool header");
TICKSCOPE__ASSERT(offsetof(struct tickscope__pool_header, without_channel) == 384, "pool header");
TICKSCOPE__ASSERT(sizeof(struct tickscope__entry) == 256, "channel entry");
TICKSCOPE__ASSERT(offsetof(struct tickscope__entry, counter) == 82, "channel entry");
TICKSCOPE__ASSERT(offsetof(struct tickscope__entry, dropped) == 128, "channel entry");
TICKSCOPE__ASSERT(sizeof(struct tickscope__block_header) == 192, "block header");
TICKSCOPE__ASSERT(sizeof(struct tickscope__block_header) == TICKSCOPE__HEADER_UNITS * TICKSCOPE__UNIT_BYTES, "block header");
TICKSCOPE__ASSERT(offsetof(struct tickscope__block_header, counter) == 66, "block header");
TICKSCOPE__ASSERT(offsetof(struct tickscope__block_header, point) == 96, "block header");
TICKSCOPE__ASSERT(offsetof(struct tickscope__block_header, successor) == 156, "block header");
TICKSCOPE__ASSERT(sizeof(struct tickscope__successor) == 2 * TICKSCOPE__UNIT_BYTES, "successor");
TICKSCOPE__ASSERT(sizeof(struct tickscope__slim_record) == TICKSCOPE__UNIT_BYTES, "record");
TICKSCOPE__ASSERT(sizeof(struct tickscope__wide_record) == 2 * TICKSCOPE__UNIT_BYTES, "record");
TICKSCOPE__ASSERT(sizeof(struct tickscope__full_record) == 3 * TICKSCOPE__UNIT_BYTES, "record");

/* ---- the counter ------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define TICKSCOPE__COUNTER 1
TICKSCOPE__HOT int64_t tickscope__plain(void) {
    uint32_t low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (int64_t)((uint64_t)high << 32 | low);
}
/* The lfence keeps every later instruction from starting until the counter has been read. */
TICKSCOPE__HOT int64_t tickscope__before(void) {
    uint32_t low, high;
    __asm__ __volatile__("rdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
    return (int64_t)((uint64_t)high << 32 | low);
}
/* The lfence keeps the reading from starting until every earlier load has its value. */
TICKSCOPE__HOT int64_t tickscope__after(void) {
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc" : "=a"(low), "=d"(high)::"memory");
    return (int64_t)((uint64_t)high << 32 | low);
}
/* Keeps a clock's reading where it stands: nothing later starts, and every earlier load has its value. */
TICKSCOPE__HOT void tickscope__fence(void) {
    __asm__ __volatile__("lfence" ::: "memory");
}
/*
 * Compare and exchange without the lock prefix: one instruction, hence whole to signal handlers of this thread, and to
 * nobody else. Only for words that no other thread writes.
 */
TICKSCOPE__HOT int tickscope__own_exchange(uint64_t *word, uint64_t *expected, uint64_t desired) {
    unsigned char done;
    __asm__ __volatile__("cmpxchgq %3, %1\n\tsete %0"
                         : "=q"(done), "+m"(*word), "+a"(*expected)
                         : "r"(desired)
                         : "memory", "cc");
    return done;
}
/* Add and return what was there, without the lock prefix, as above; measured 1.5 ns cheaper than compare and exchange. */
TICKSCOPE__HOT uint64_t tickscope__own_fetch_add(uint64_t *word, uint64_t addend) {
    __asm__ __volatile__("xaddq %0, %1" : "+r"(addend), "+m"(*word)::"memory", "cc");
    return addend;
}
/* Add without the lock prefix, as above. */
TICKSCOPE__HOT void tickscope__own_add(uint64_t *word, uint64_t addend) {
    __asm__ __volatile__("addq %1, %0" : "+m"(*word) : "r"(addend) : "memory", "cc");
}
#else /* aarch64: written against the architecture's manual, untested on a machine */
#define TICKSCOPE__COUNTER 2
TICKSCOPE__HOT int64_t tickscope__plain(void) {
    int64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
}
/* The isb keeps every later instruction from starting until the counter has been read. */
TICKSCOPE__HOT int64_t tickscope__before(void) {
    int64_t ticks;
    __asm__ __volatile__("mrs %0, cntvct_el0\n\tisb" : "=r"(ticks)::"memory");
    return ticks;
}
/* The dsb waits for earlier loads, the isb keeps the reading from starting before that. */
TICKSCOPE__HOT int64_t tickscope__after(void) {
    int64_t ticks;
    __asm__ __volatile__("dsb ld\n\tisb\n\tmrs %0, cntvct_el0" : "=r"(ticks)::"memory");
    return ticks;
}
TICKSCOPE__HOT void tickscope__fence(void) {
    __asm__ __volatile__("dsb ld\n\tisb" ::: "memory");
}
TICKSCOPE__HOT int tickscope__own_exchange(uint64_t *word, uint64_t *expected, uint64_t desired) {
    return __atomic_compare_exchange_n(word, expected, desired, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
TICKSCOPE__HOT uint64_t tickscope__own_fetch_add(uint64_t *word, uint64_t addend) {
    return __atomic_fetch_add(word, addend, __ATOMIC_RELAXED);
}
TICKSCOPE__HOT void tickscope__own_add(uint64_t *word, uint64_t addend) {
    __atomic_fetch_add(word, addend, __ATOMIC_RELAXED);
}
#endif
/* No system call: a load from the thread's rseq area, or the vDSO; 15 ns cheaper than the core number that rdtscp brings. */
TICKSCOPE__HOT int32_t tickscope__cpu(void) {
    return sched_getcpu();
}

TICKSCOPE__HOT int64_t tickscope__read(int ordering) {
    if (ordering == TICKSCOPE_BEFORE) return tickscope__before();
    if (ordering == TICKSCOPE_AFTER) return tickscope__after();
    return tickscope__plain();
}

/* ---- the stamp --------------------------------------------------------------------------------------------------- */

/* A policy number that no channel has: the inline path then leaves everything to the slow one. */
#define TICKSCOPE__NEVER UINT32_C(0xffffffff)

struct tickscope_channel {
    /* The hot path's line. */
    uint64_t next;          /* high half: blocks leased so far; low half: unit of the pool where the next record goes */
    unsigned char *blocks;  /* unit 0 */
    const uint64_t *policy; /* the entry's policy word, or one of this process's own */
    uint32_t unit_mask;     /* units a block, less one: these bits of a unit are its place in its block */
    uint32_t fast_slim;     /* the policy number under which tickscope_stamp may go on inline */
    uint32_t fast_wide;     /* the same for tickscope_stamp_with */
    uint8_t ordering, shape; /* shape: units of 16 bytes a record */
    uint16_t in_use;
    struct tickscope__entry *entry;
    int64_t retry_tick; /* no block was free: not before this tick is one looked for again */
    uint32_t fast_full; /* the same for tickscope_stamp_with on a channel of three units a record */
    /* Cold. */
    int32_t thread;
    uint32_t flags;
    uint32_t serial;
    uint8_t counter, brackets; /* what its ticks are of, and which clock it relates to them: tickscope_counter */
    uint8_t zero_to_80[2];
    uint32_t successor; /* unit of its block where its description as a successor lies; 0: the block began as its own */
    tickscope_channel *following; /* the next of its thread's, or of those whose threads have ended */
    char point[TICKSCOPE__NAME_BYTES];
} __attribute__((aligned(64)));

TICKSCOPE__COLD void tickscope__stamp_slow(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra);
TICKSCOPE__COLD void tickscope__record_slow(tickscope_channel *channel, int64_t id, int64_t tick,
                                            const struct tickscope_extra *extra);
TICKSCOPE__COLD void tickscope__record_carrying(tickscope_channel *channel, int64_t id, int64_t tick, int32_t kind,
                                                int64_t value, const int64_t *parent, int32_t attempt, int32_t batch);
/* What tickscope_stamp and tickscope_record carry. */
static const struct tickscope_extra tickscope__nothing = {0, 0, 0, 0, 0};

/* Whether the channel's block is full, or it has none: next then stands in a header, where no record goes. */
TICKSCOPE__HOT int tickscope__is_full(const tickscope_channel *channel, uint64_t next) {
    return ((uint32_t)next & channel->unit_mask) < TICKSCOPE__HEADER_UNITS;
}

/*
 * Takes the next record of the channel's block; 0: the block is full. A signal handler between the check and the add may
 * have taken the last record: the add then went past the end, by at most the three units of one record, because whoever comes
 * meanwhile finds next in a header, hence the block full, and adds nothing; and it is taken back before those who were
 * interrupted go on. Where a handler has leased a block meanwhile, there is nothing to take back.
 * The blocks' address comes first: in a child that a handler forked right here, a unit of the parent's must not be
 * taken for one of the pool that the child has opened since.
 */
TICKSCOPE__HOT int tickscope__reserve(tickscope_channel *channel, uint32_t units, unsigned char **record) {
    unsigned char *blocks = *(unsigned char *volatile *)&channel->blocks;
    if (__builtin_expect(tickscope__is_full(channel, __atomic_load_n(&channel->next, __ATOMIC_RELAXED)), 0)) return 0;
    uint64_t next = tickscope__own_fetch_add(&channel->next, units);
    if (__builtin_expect(tickscope__is_full(channel, next), 0)) {
        uint64_t past = next + units;
        tickscope__own_exchange(&channel->next, &past, next);
        return 0;
    }
    *record = blocks + (uint64_t)(uint32_t)next * TICKSCOPE__UNIT_BYTES;
    return 1;
}

TICKSCOPE__HOT void tickscope__commit(unsigned char *record, int64_t id, int64_t tick) {
    struct tickscope__slim_record *slim = (struct tickscope__slim_record *)(void *)record;
    __atomic_store_n(&slim->id, id, __ATOMIC_RELAXED);
    __atomic_store_n(&slim->tick, tick, __ATOMIC_RELEASE); /* the record is whole before its tick is seen */
}

TICKSCOPE__HOT void tickscope_stamp(tickscope_channel *channel, int64_t id) {
    int64_t tick = 0;
    unsigned char *record;
    if (__builtin_expect(channel == 0, 0)) {
        tickscope__stamp_slow(channel, id, &tickscope__nothing);
        return;
    }
    uint32_t policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    uint8_t ordering = channel->ordering;
    if (__builtin_expect(policy != channel->fast_slim, 0)) {
        if (policy != TICKSCOPE__POLICY_NULL) tickscope__stamp_slow(channel, id, &tickscope__nothing);
        return;
    }
    /* An `after` reading is taken at once, the others as late as can be: that keeps intervals narrow. */
    if (ordering == TICKSCOPE_AFTER) tick = tickscope__after();
    if (__builtin_expect(!tickscope__reserve(channel, 1, &record), 0)) {
        tickscope__stamp_slow(channel, id, &tickscope__nothing);
        return;
    }
    if (ordering == TICKSCOPE_PLAIN) tick = tickscope__plain();
    if (ordering == TICKSCOPE_BEFORE) tick = tickscope__before();
    tickscope__commit(record, id, tick);
}

TICKSCOPE__HOT void tickscope__commit_wide(unsigned char *record, int64_t id, int64_t tick, int32_t kind, int64_t value) {
    struct tickscope__wide_record *wide = (struct tickscope__wide_record *)(void *)record;
    __atomic_store_n(&wide->value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&wide->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&wide->cpu, tickscope__cpu(), __ATOMIC_RELAXED);
    tickscope__commit(record, id, tick);
}

TICKSCOPE__HOT void tickscope__commit_full(unsigned char *record, int64_t id, int64_t tick,
                                           const struct tickscope_extra *extra) {
    struct tickscope__full_record *full = (struct tickscope__full_record *)(void *)record;
    __atomic_store_n(&full->parent, extra->parent ? *extra->parent : id, __ATOMIC_RELAXED);
    __atomic_store_n(&full->attempt, extra->attempt, __ATOMIC_RELAXED);
    __atomic_store_n(&full->batch, extra->batch, __ATOMIC_RELAXED);
    tickscope__commit_wide(record, id, tick, extra->kind, extra->value);
}

/* What a stamp carries, one by one: were a struct handed over, every wide stamp would store it to memory first. */
#define TICKSCOPE__EACH(extra) (extra).kind, (extra).value, (extra).parent, (extra).attempt, (extra).batch
#define TICKSCOPE__EXTRA(extra) struct tickscope_extra extra = {kind, attempt, value, parent, batch}

/* A stamp of a full channel; any other that is not wide is left to the slow path. */
__attribute__((weak, visibility("hidden"), noinline)) void tickscope__stamp_full(
    tickscope_channel *channel, int64_t id, int32_t kind, int64_t value, const int64_t *parent, int32_t attempt,
    int32_t batch) {
    TICKSCOPE__EXTRA(extra);
    unsigned char *record;
    if (channel && (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED) == channel->fast_full) {
        int64_t tick = tickscope__read(channel->ordering);
        if (tickscope__reserve(channel, 3, &record)) {
            tickscope__commit_full(record, id, tick, &extra);
            return;
        }
    }
    tickscope__stamp_slow(channel, id, &extra);
}

TICKSCOPE__HOT void tickscope_stamp_with(tickscope_channel *channel, int64_t id, struct tickscope_extra extra) {
    int64_t tick;
    unsigned char *record;
    if (__builtin_expect(channel == 0, 0)) {
        tickscope__stamp_full(channel, id, TICKSCOPE__EACH(extra));
        return;
    }
    uint32_t policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    if (__builtin_expect(policy != channel->fast_wide, 0)) {
        if (policy != TICKSCOPE__POLICY_NULL) tickscope__stamp_full(channel, id, TICKSCOPE__EACH(extra));
        return;
    }
    tick = tickscope__read(channel->ordering);
    if (__builtin_expect(!tickscope__reserve(channel, 2, &record), 0)) {
        tickscope__stamp_full(channel, id, TICKSCOPE__EACH(extra));
        return;
    }
    tickscope__commit_wide(record, id, tick, extra.kind, extra.value);
}

/* Whether a tick may be recorded inline: the channel keeps its stamps, in records of that many units. */
TICKSCOPE__HOT int tickscope__records(const tickscope_channel *channel, uint32_t policy, uint32_t units, int64_t tick) {
    return policy == TICKSCOPE__POLICY_BUFFERED && channel->shape == units && tick != 0;
}

TICKSCOPE__HOT void tickscope_record(tickscope_channel *channel, int64_t id, int64_t tick) {
    unsigned char *record;
    uint32_t policy = channel ? (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED) : TICKSCOPE__NEVER;
    if (policy == TICKSCOPE__POLICY_NULL) return;
    if (__builtin_expect(!tickscope__records(channel, policy, 1, tick) || !tickscope__reserve(channel, 1, &record), 0)) {
        tickscope__record_slow(channel, id, tick, &tickscope__nothing);
        return;
    }
    tickscope__commit(record, id, tick);
}

TICKSCOPE__HOT void tickscope_record_with(tickscope_channel *channel, int64_t id, int64_t tick,
                                          struct tickscope_extra extra) {
    unsigned char *record;
    uint32_t policy = channel ? (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED) : TICKSCOPE__NEVER;
    if (policy == TICKSCOPE__POLICY_NULL) return;
    if (__builtin_expect(!tickscope__records(channel, policy, 2, tick) || !tickscope__reserve(channel, 2, &record), 0)) {
        tickscope__record_carrying(channel, id, tick, TICKSCOPE__EACH(extra));
        return;
    }
    tickscope__commit_wide(record, id, tick, extra.kind, extra.value);
}

/* ---- the process's pool ------------------------------------------------------------------------------------------ */

/*
 * Handles are mapped a chunk at a time, and unmapped never. One is used again only when the thread that opened it is
 * gone, or for the same point on the same thread: so a stale one is refused, and leads into nobody else's block.
 */
#define TICKSCOPE__CHUNK 340
struct tickscope__chunk {
    struct tickscope__chunk *before;
    uint32_t used;
    tickscope_channel handles[TICKSCOPE__CHUNK];
};

/* The rest of a block whose channel was closed before it was full. */
struct tickscope__spare {
    uint32_t unit;           /* of the pool, where the next record goes */
    uint32_t successor;      /* unit of the block of the last successor's description; 0: there is none */
    uint32_t serial, number; /* in the block's header: of another block once the collector has taken this one */
};

/* A map put before a clock: crates/tick/src/injection.rs; of its values those are shown that lie on the stairs. */
struct tickscope__map {
    int64_t anchor, offset, drift_ppb, wander_ppb, wander_period;
    int64_t step_numerator, step_denominator, uneven; /* crates/tick/src/stairs.rs; all of step 1: every value */
};

/* What happens to an injected CLOCK_REALTIME: from `from` on it stands `gain` ns further, or gains `gain` ppb until `until`. */
struct tickscope__change {
    int64_t from, until, gain;
    int is_step;
};
#define TICKSCOPE__CHANGES 8

struct tickscope__process {
    uint32_t busy; /* guards everything below; taken with signals blocked */
    uint32_t ready;
    uint32_t complaints, crowding_told;
    int cancel_state; /* of the thread that is busy, to be restored */
    struct tickscope__chunk *chunk; /* the last one */
    tickscope_channel *ended_first, *ended_last; /* handles whose threads have ended, the oldest first */
    struct tickscope__spare *spares;
    uint32_t spare_count, null_entries; /* the latter: of channels closed under null, left to be told */
    uint32_t entry_hint;   /* where to look for a free entry first */
    uint32_t channel_entries; /* entries before the shared ones */
    uint64_t block_offset;
    struct tickscope__pool_header *pool; /* 0: no pool, points are off */
    struct tickscope__entry *entries;
    int lock_fd; /* holds the pool's lock; -1: none */
    int32_t pid;
    pthread_key_t thread_end;
    sigset_t mask_at_fork;
    /* Configuration, from the environment. */
    char directory[4000];
    char policies[1024];
    char node[TICKSCOPE__NAME_BYTES];
    uint64_t block_count;
    uint32_t block_bytes;
    uint32_t when_full;
    int64_t group; /* that may read and collect too; -1: none */
    uint8_t key[TICKSCOPE__KEY_BYTES];
    uint32_t injected, realtime_injected;
    struct tickscope__map map, realtime_map;
    uint32_t change_count;
    struct tickscope__change changes[TICKSCOPE__CHANGES];
    int32_t phc_clock; /* the dynamic clock of the network card in use; 0: none */
};

TICKSCOPE__ONCE struct tickscope__process tickscope__process;
/* Policy words of this process's own, that a channel's handle points to when its entry's does not apply. */
TICKSCOPE__ONCE uint64_t tickscope__word_off;    /* = null */
TICKSCOPE__ONCE uint64_t tickscope__word_closed; /* = TICKSCOPE__CLOSED once started */
TICKSCOPE__ONCE uint64_t tickscope__word_forked; /* = TICKSCOPE__FORKED once started */
TICKSCOPE__ONCE uint64_t tickscope__word_waiting; /* = TICKSCOPE__WAITING once started: for a free entry */
TICKSCOPE__ONCE uint64_t tickscope__word_unopened; /* = TICKSCOPE__UNOPENED once started */
TICKSCOPE__ONCE tickscope_channel tickscope__off_channel;
/* What a point that no channel can be opened for leads to: its stamps are counted. */
TICKSCOPE__ONCE tickscope_channel tickscope__unopened_channel;
#define TICKSCOPE__CLOSED UINT32_C(0xfffffffe)
#define TICKSCOPE__FORKED UINT32_C(0xfffffffd)
#define TICKSCOPE__WAITING UINT32_C(0xfffffffc)
#define TICKSCOPE__UNOPENED UINT32_C(0xfffffffb)

TICKSCOPE__COLD void tickscope__complain(const char *expected, const char *found, const char *remedy) {
    char line[512];
    if (__atomic_fetch_add(&tickscope__process.complaints, 1, __ATOMIC_RELAXED) >= 8) return;
    int length = snprintf(line, sizeof line, "tickscope: expected %s, found %s. %s\n", expected, found, remedy);
    if (length > (int)sizeof line - 1) length = (int)sizeof line - 1;
    if (length > 0 && write(2, line, (size_t)length) < 0) return; /* nothing better can be done with it */
}

__extension__ typedef __int128 tickscope__wide;

TICKSCOPE__COLD tickscope__wide tickscope__floor(tickscope__wide dividend, tickscope__wide divisor) {
    return dividend / divisor - (dividend % divisor < 0);
}

/* The value of a stair: exactly as crates/tick/src/stairs.rs. */
TICKSCOPE__COLD int64_t tickscope__stair(const struct tickscope__map *map, tickscope__wide stair) {
    int64_t even = (int64_t)tickscope__floor(stair * map->step_numerator, map->step_denominator);
    if (map->uneven == 0) return even;
    uint64_t z = (uint64_t)stair + UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return even + (int64_t)((z ^ (z >> 31)) % ((uint64_t)map->uneven + 1));
}

/* The last value at or below `ticks` that the stairs show. */
TICKSCOPE__COLD int64_t tickscope__shown(const struct tickscope__map *map, int64_t ticks) {
    if (map->step_numerator == map->step_denominator) return ticks;
    tickscope__wide stair =
        tickscope__floor(((tickscope__wide)ticks + 1) * map->step_denominator - 1, map->step_numerator);
    int64_t value = tickscope__stair(map, stair);
    return value <= ticks ? value : tickscope__stair(map, stair - 1);
}

/* Injection without its stairs: exactly as crates/tick/src/injection.rs. */
TICKSCOPE__COLD int64_t tickscope__behind_stairs(const struct tickscope__map *map, int64_t raw) {
    tickscope__wide d = (tickscope__wide)raw - map->anchor, period = map->wander_period;
    tickscope__wide phase = d - tickscope__floor(d, period) * period;
    tickscope__wide p = 2 * phase < period ? phase : phase - period / 2;
    tickscope__wide wander = (2 * phase < period ? 1 : -1) * (tickscope__wide)map->wander_ppb * p * (period - 2 * p);
    tickscope__wide drift = d * map->drift_ppb, drifted = tickscope__floor(drift, 1000000000);
    tickscope__wide rest = (drift - drifted * 1000000000) * period + wander;
    return (int64_t)(raw + (tickscope__wide)map->offset + drifted + tickscope__floor(rest, 1000000000 * period));
}

TICKSCOPE__COLD int64_t tickscope__injected(const struct tickscope__map *map, int64_t raw) {
    return tickscope__shown(map, tickscope__behind_stairs(map, raw));
}

/* What this node reads where CLOCK_REALTIME, or the kernel in a packet's time-stamp, truly says raw_ns. */
TICKSCOPE__COLD int64_t tickscope__realtime_as_read(int64_t raw_ns) {
    const struct tickscope__process *own = &tickscope__process;
    if (!own->realtime_injected) return raw_ns;
    tickscope__wide read_ns = tickscope__behind_stairs(&own->realtime_map, raw_ns);
    for (uint32_t at = 0; at < own->change_count; at++) {
        const struct tickscope__change *change = &own->changes[at];
        if (raw_ns < change->from) continue;
        int64_t until = raw_ns < change->until ? raw_ns : change->until;
        tickscope__wide span = (tickscope__wide)until - change->from;
        read_ns += change->is_step ? change->gain : tickscope__floor(change->gain * span, 1000000000);
    }
    return tickscope__shown(&own->realtime_map, (int64_t)read_ns);
}

/* The kernel's name for a clock; 0: this process reads none of that kind. */
TICKSCOPE__COLD int tickscope__clock_id(int counter, clockid_t *clock) {
    if (counter == TICKSCOPE_REALTIME) *clock = CLOCK_REALTIME;
    else if (counter == TICKSCOPE_MONOTONIC) *clock = CLOCK_MONOTONIC;
    else if (counter == TICKSCOPE_MONOTONIC_RAW) *clock = CLOCK_MONOTONIC_RAW;
    else *clock = (clockid_t)tickscope__process.phc_clock;
    return counter != TICKSCOPE_PHC || tickscope__process.phc_clock != 0;
}

TICKSCOPE__COLD int64_t tickscope__clock_now(int counter) {
    struct timespec now;
    clockid_t clock;
    if (!tickscope__clock_id(counter, &clock)) return 0;
    tickscope__fence();
    int failed = clock_gettime(clock, &now);
    tickscope__fence();
    if (failed) return 0;
    int64_t raw_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    return counter == TICKSCOPE_REALTIME ? tickscope__realtime_as_read(raw_ns) : raw_ns;
}

static inline int64_t tickscope_now(enum tickscope_ordering ordering);

TICKSCOPE__COLD int64_t tickscope__now(int ordering) {
    int64_t raw = tickscope__read(ordering);
    return tickscope__process.injected ? tickscope__injected(&tickscope__process.map, raw) : raw;
}

TICKSCOPE__COLD void tickscope__hold(sigset_t *before) {
    sigset_t all;
    struct timespec nap = {0, 50000};
    int cancel;
    /* A thread that is cancelled in here would never let go; one of higher priority that spun would keep others from it. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    while (__atomic_exchange_n(&tickscope__process.busy, 1, __ATOMIC_ACQUIRE)) nanosleep(&nap, 0);
    tickscope__process.cancel_state = cancel;
}

TICKSCOPE__COLD void tickscope__let_go(const sigset_t *before) {
    int cancel = tickscope__process.cancel_state;
    __atomic_store_n(&tickscope__process.busy, 0, __ATOMIC_RELEASE);
    pthread_sigmask(SIG_SETMASK, before, 0);
    pthread_setcancelstate(cancel, 0);
}

TICKSCOPE__COLD size_t tickscope__slurp(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, room - 1);
    close(fd);
    text[length < 0 ? 0 : length] = 0;
    return length < 0 ? 0 : (size_t)length;
}

TICKSCOPE__COLD int tickscope__valid_name(const char *name) {
    size_t length = 0;
    if (name == 0 || name[0] == '.' || name[0] == 0) return 0;
    for (; name[length]; length++) {
        char c = name[length];
        int allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      c == '-' || c == '.';
        if (!allowed || length >= TICKSCOPE__NAME_BYTES - 1) return 0;
    }
    return 1;
}

/* A whole number from the environment; `otherwise` where it is unset; complains and gives -1 where it is out of range. */
TICKSCOPE__COLD int64_t tickscope__number(const char *name, int64_t otherwise, int64_t least, int64_t most) {
    const char *text = getenv(name);
    char *end;
    char expected[160];
    if (text == 0 || text[0] == 0) return otherwise;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno == 0 && *end == 0 && number >= least && number <= most) return number;
    snprintf(expected, sizeof expected, "%s as a whole number from %lld to %lld", name, (long long)least, (long long)most);
    tickscope__complain(expected, text, "Points are off; correct it or unset it.");
    return -1;
}

/* `count` whole numbers with colons between; what follows the last, or 0 where they are not there. */
TICKSCOPE__COLD const char *tickscope__parse_numbers(const char *text, int64_t *numbers, int count) {
    for (int at = 0; at < count; at++) {
        char *end;
        if (at > 0 && *text++ != ':') return 0;
        errno = 0;
        numbers[at] = strtoll(text, &end, 10);
        if (errno || end == text) return 0;
        text = end;
    }
    return text;
}

/* anchor:offset:drift_ppb:wander_ppb:wander_period, and perhaps :step_numerator:step_denominator:uneven; what follows, or
 * 0 where it is no map. */
TICKSCOPE__COLD const char *tickscope__parse_map(const char *text, struct tickscope__map *map) {
    int64_t number[5], stairs[3] = {1, 1, 0}, steepest = 100000000;
    text = tickscope__parse_numbers(text, number, 5);
    if (text && *text == ':') text = tickscope__parse_numbers(text + 1, stairs, 3);
    if (text == 0 || number[4] < 2 || number[4] % 2 || number[4] >= INT64_C(1) << 46) return 0;
    if (number[2] <= -steepest || number[2] >= steepest || number[3] <= -steepest || number[3] >= steepest) return 0;
    if (llabs(number[2]) + llabs(number[3]) >= steepest) return 0;
    map->anchor = number[0], map->offset = number[1], map->drift_ppb = number[2];
    map->wander_ppb = number[3], map->wander_period = number[4];
    if (stairs[0] < 1 || stairs[0] >= INT64_C(1) << 31 || stairs[1] < 1 || stairs[1] > stairs[0]) return 0;
    if (stairs[2] < 0 || stairs[2] >= stairs[0] / stairs[1]) return 0;
    map->step_numerator = stairs[0], map->step_denominator = stairs[1], map->uneven = stairs[2];
    return text;
}

/* ;step@AT:NS and ;slew@FROM:UNTIL:PPB, at most eight; 0: it is something else. */
TICKSCOPE__COLD int tickscope__parse_changes(const char *text) {
    struct tickscope__process *own = &tickscope__process;
    while (*text) {
        struct tickscope__change *change = &own->changes[own->change_count];
        int64_t number[3];
        if (own->change_count == TICKSCOPE__CHANGES) return 0;
        change->is_step = strncmp(text, ";step@", 6) == 0;
        if (!change->is_step && strncmp(text, ";slew@", 6) != 0) return 0;
        text = tickscope__parse_numbers(text + 6, number, change->is_step ? 2 : 3);
        if (text == 0) return 0;
        change->from = number[0];
        change->until = change->is_step ? INT64_MAX : number[1];
        change->gain = change->is_step ? number[1] : number[2];
        if (change->until < change->from) return 0;
        if (!change->is_step && (change->gain < -100000000 || change->gain > 100000000)) return 0;
        own->change_count++;
    }
    return 1;
}

/* The map put before the counter, read anew by whoever asks until the process has started. */
TICKSCOPE__COLD int tickscope__inject_counter(void) {
    struct tickscope__process *own = &tickscope__process;
    const char *text = getenv("TICKSCOPE_INJECT"), *rest;
    if (text == 0 || text[0] == 0) return 1;
    rest = tickscope__parse_map(text, &own->map);
    if (rest == 0 || *rest) {
        tickscope__complain("TICKSCOPE_INJECT as anchor:offset:drift_ppb:wander_ppb:wander_period, and perhaps "
                            ":step_numerator:step_denominator:uneven", text,
                            "Points are off; correct it, or unset it to read the true counter.");
        return 0;
    }
    own->injected = 1;
    return 1;
}

TICKSCOPE__COLD int tickscope__configure_injection(void) {
    struct tickscope__process *own = &tickscope__process;
    const char *realtime = getenv("TICKSCOPE_INJECT_REALTIME"), *rest;
    if (!tickscope__inject_counter()) return 0;
    if (realtime && realtime[0]) {
        rest = tickscope__parse_map(realtime, &own->realtime_map);
        if (rest == 0 || !tickscope__parse_changes(rest)) {
            tickscope__complain("TICKSCOPE_INJECT_REALTIME as a map like that of TICKSCOPE_INJECT and then at most 8 of "
                                ";step@AT:NS and ;slew@FROM:UNTIL:PPB",
                                realtime, "Points are off; correct it, or unset it to read the true clock.");
            return 0;
        }
        own->realtime_injected = 1;
    }
    return 1;
}

/* What 32 hexadecimal digits say; 0: they are something else. */
TICKSCOPE__COLD int tickscope__parse_hex(const char *text, uint8_t *bytes, size_t count) {
    for (size_t at = 0; at < 2 * count; at++) {
        char c = text[at];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return 0;
        bytes[at / 2] = (uint8_t)(bytes[at / 2] << 4 | digit);
    }
    return text[2 * count] == 0;
}

TICKSCOPE__COLD int tickscope__configure_key(void) {
    const char *key = getenv("TICKSCOPE_KEY");
    if (key == 0 || key[0] == 0 || tickscope__parse_hex(key, tickscope__process.key, TICKSCOPE__KEY_BYTES)) return 1;
    /* The value is a secret, and stays one. */
    tickscope__complain("TICKSCOPE_KEY as 32 hexadecimal digits in lower case", "something else",
                        "Points are off; take it from the collector, or unset it.");
    return 0;
}

TICKSCOPE__COLD int tickscope__configure(void) {
    struct tickscope__process *own = &tickscope__process;
    const char *directory = getenv("TICKSCOPE_DIR"), *node = getenv("TICKSCOPE_NODE");
    const char *policies = getenv("TICKSCOPE_POLICY"), *when_full = getenv("TICKSCOPE_WHEN_FULL");
    if (!tickscope__configure_injection()) return 0;
    if (directory == 0 || directory[0] == 0) return 0; /* not asked to measure */
    int64_t block_bytes = tickscope__number("TICKSCOPE_BLOCK_BYTES", 16384, 4096, 65536);
    int64_t pool_bytes = tickscope__number("TICKSCOPE_POOL_BYTES", 16 << 20, 4096, (int64_t)1 << 35);
    const char *group = getenv("TICKSCOPE_GROUP");
    own->group = group && group[0] ? tickscope__number("TICKSCOPE_GROUP", -1, 0, INT64_C(0xfffffffe)) : -1;
    if (block_bytes < 0 || pool_bytes < 0 || (group && group[0] && own->group < 0)) return 0;
    if (!tickscope__configure_key()) return 0;
    if (block_bytes & (block_bytes - 1)) {
        tickscope__complain("TICKSCOPE_BLOCK_BYTES as a power of two", getenv("TICKSCOPE_BLOCK_BYTES"), "Points are off; unset it for 16384.");
        return 0;
    }
    if (when_full && when_full[0] && strcmp(when_full, "drop") && strcmp(when_full, "wait")) {
        tickscope__complain("TICKSCOPE_WHEN_FULL as drop or wait", when_full, "Points are off; unset it for drop.");
        return 0;
    }
    if (strlen(directory) >= sizeof own->directory || (policies && strlen(policies) >= sizeof own->policies)) {
        tickscope__complain("TICKSCOPE_DIR below 4000 bytes and TICKSCOPE_POLICY below 1024", "longer ones",
                            "Points are off; shorten them.");
        return 0;
    }
    if (node && node[0] && (!tickscope__valid_name(node) || strchr(node, '.'))) {
        tickscope__complain("TICKSCOPE_NODE as 1 to 47 letters, digits, '_', '-'", node, "Points are off; name this node so.");
        return 0;
    }
    strcpy(own->directory, directory);
    strcpy(own->policies, policies ? policies : "");
    strcpy(own->node, node && node[0] ? node : "node");
    own->block_bytes = (uint32_t)block_bytes;
    own->block_count = (uint64_t)(pool_bytes / block_bytes);
    if (own->block_count < TICKSCOPE__FEWEST_BLOCKS) own->block_count = TICKSCOPE__FEWEST_BLOCKS;
    /* A multiple of 16, so that the blocks begin on a page. */
    uint64_t entries = own->block_count < TICKSCOPE__LEAST_ENTRIES ? TICKSCOPE__LEAST_ENTRIES : own->block_count;
    own->channel_entries = (uint32_t)((entries + 15) / 16 * 16);
    own->block_offset = sizeof(struct tickscope__pool_header) +
                        (own->channel_entries + TICKSCOPE__SHARED_ENTRIES) * sizeof(struct tickscope__entry);
    own->when_full = when_full && strcmp(when_full, "wait") == 0 ? TICKSCOPE__WAIT : TICKSCOPE__DROP;
    return 1;
}

TICKSCOPE__COLD void tickscope__describe_process(struct tickscope__pool_header *header) {
    char text[1024];
    size_t byte = 0;
    memset(text, 0, sizeof text);
    tickscope__slurp("/proc/sys/kernel/random/boot_id", text, sizeof text);
    for (const char *c = text; *c && byte < 32; c++) {
        int digit = *c >= '0' && *c <= '9' ? *c - '0' : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10 : -1;
        if (digit < 0) continue;
        header->boot_id[byte / 2] |= (uint8_t)(byte % 2 ? digit : digit << 4);
        byte++;
    }
    if (tickscope__slurp("/proc/self/stat", text, sizeof text)) {
        const char *field = strrchr(text, ')'); /* the command before it may hold spaces */
        for (int number = 2; field && number < 22; number++) field = strchr(field + 1, ' ');
        if (field) header->process_start = strtoll(field + 1, 0, 10);
    }
    size_t length = tickscope__slurp("/proc/self/comm", text, TICKSCOPE__NAME_BYTES);
    for (size_t at = 0; at < length && text[at] != '\n'; at++) {
        char one[2] = {text[at], 0};
        header->command[at] = at > 0 && one[0] == '.' ? '.' : tickscope__valid_name(one) ? one[0] : '_';
    }
}

#define TICKSCOPE__PATH_BYTES 4200
/* prefix, a number in that base with at least so many digits, suffix; plain copying, for signal handlers too. */
TICKSCOPE__COLD void tickscope__file_name(char *name, const char *prefix, uint64_t number, unsigned base, int digits,
                                          const char *suffix) {
    char reversed[24];
    int count = 0;
    for (; number || count < digits; number /= base) reversed[count++] = "0123456789abcdef"[number % base];
    for (const char *c = prefix; *c; c++) *name++ = *c;
    while (count) *name++ = reversed[--count];
    for (const char *c = suffix; *c; c++) *name++ = *c;
    *name = 0;
}

#define TICKSCOPE__FILE_NAME_BYTES 64

TICKSCOPE__COLD uint64_t tickscope__random(void) {
    uint64_t number = 0;
    if (syscall(SYS_getrandom, &number, sizeof number, 0) != (long)sizeof number)
        number = (uint64_t)tickscope__plain() ^ (uint64_t)getpid() << 40;
    return number;
}

/* Rights of what this process makes: its user's alone, or a group's too where TICKSCOPE_GROUP names one. */
TICKSCOPE__COLD int tickscope__restrict(int fd, mode_t own, mode_t with_group) {
    int64_t group = tickscope__process.group;
    if (group >= 0 && fchown(fd, (uid_t)-1, (gid_t)group) != 0) return -1;
    return fchmod(fd, group >= 0 ? with_group : own); /* whatever the umask */
}

/* Opens uid-N of the stamp directory, if it is this user's and nobody else may write there; -1: errno says why not. */
TICKSCOPE__COLD int tickscope__open_directory(int base, const char *name) {
    struct stat found;
    if (mkdirat(base, name, 0700) == 0) {
        if (fchmodat(base, name, 0700, 0) != 0) return -1; /* a umask may have taken even our own rights */
    } else if (errno != EEXIST) return -1;
    int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    if (fstat(fd, &found) == 0 && found.st_uid == geteuid() && tickscope__restrict(fd, 0700, 0770) == 0) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/*
 * The directory of this process's user within the stamp directory. Somebody else may have taken the name: then there is
 * one that nobody could guess.
 */
TICKSCOPE__COLD int tickscope__own_directory(void) {
    char name[TICKSCOPE__FILE_NAME_BYTES], other[TICKSCOPE__FILE_NAME_BYTES];
    int base = open(tickscope__process.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base < 0) return -1;
    tickscope__file_name(name, "uid-", geteuid(), 10, 1, "");
    int fd = tickscope__open_directory(base, name);
    if (fd < 0 && (errno == EPERM || errno == EACCES || errno == ELOOP || errno == ENOTDIR)) {
        tickscope__file_name(other, name, tickscope__random(), 16, 16, "");
        memmove(other + strlen(name) + 1, other + strlen(name), 17);
        other[strlen(name)] = '-';
        fd = tickscope__open_directory(base, other);
    }
    int error = errno;
    close(base);
    errno = error;
    return fd;
}

/* Leaves an empty file that tells the collector why this process has no pool: it needs no space. */
TICKSCOPE__COLD void tickscope__refused(const char *what, int error, uint64_t bytes) {
    char name[TICKSCOPE__FILE_NAME_BYTES], found[128], expected[512];
    int directory = tickscope__own_directory();
    if (directory < 0) directory = open(tickscope__process.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(name, sizeof name, "refused-%d-%d", (int)getpid(), error);
    int fd = openat(directory, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && tickscope__restrict(fd, 0600, 0660) != 0) unlinkat(directory, name, 0);
    if (fd >= 0) close(fd);
    if (directory >= 0) close(directory);
    snprintf(expected, sizeof expected, "to %s a pool of %llu bytes in %.300s", what, (unsigned long long)bytes, tickscope__process.directory);
    snprintf(found, sizeof found, "errno %d (%s)", error, strerror(error));
    int missing = error == ENOENT || error == ENOTDIR, barred = error == EACCES || error == EPERM || error == EROFS;
    tickscope__complain(expected, found,
                        missing ? "Points are off; make that directory first (mkdir -m 700), on a tmpfs." : barred ?
                        "Points are off; check the rights of that directory: this user must be able to write." :
                        "Points are off; free or enlarge that tmpfs, or set TICKSCOPE_POOL_BYTES lower.");
}

/* Gives a new file its size and maps it; MAP_FAILED: errno says why not. */
TICKSCOPE__COLD void *tickscope__fill(int fd, uint64_t bytes) {
    struct rlimit limit;
    /* Beyond `ulimit -f` the kernel sends SIGXFSZ, which ends a program that does not expect it. */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
        errno = EFBIG;
        return MAP_FAILED;
    }
    if (tickscope__restrict(fd, 0600, 0660) != 0) return MAP_FAILED;
    int error = posix_fallocate(fd, 0, (off_t)bytes);
    if (error == 0) return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    errno = error;
    return MAP_FAILED;
}

TICKSCOPE__COLD void tickscope__describe_pool(struct tickscope__pool_header *header, uint64_t instance) {
    struct tickscope__process *own = &tickscope__process;
    header->version = TICKSCOPE_VERSION;
    header->entry_offset = sizeof(struct tickscope__pool_header);
    header->entry_bytes = sizeof(struct tickscope__entry);
    header->entry_count = own->channel_entries + TICKSCOPE__SHARED_ENTRIES;
    header->block_offset = own->block_offset;
    header->block_bytes = own->block_bytes;
    header->block_count = (uint32_t)own->block_count;
    header->instance = instance;
    header->pid = (int32_t)getpid();
    header->counter = TICKSCOPE__COUNTER;
    header->when_full = (uint8_t)own->when_full;
    header->injected = own->injected | own->realtime_injected;
    header->created_tick = tickscope__now(TICKSCOPE_PLAIN);
    memcpy(header->node, own->node, TICKSCOPE__NAME_BYTES);
    memcpy(header->key, own->key, TICKSCOPE__KEY_BYTES);
    tickscope__describe_process(header);
    __atomic_store_n(&header->magic, TICKSCOPE__POOL_MAGIC, __ATOMIC_RELEASE);
}

/* Makes a pool in that directory: sized before it is mapped, locked before it has its name, named when it is whole. */
TICKSCOPE__COLD const char *tickscope__make_pool_in(int directory, uint64_t bytes) {
    struct tickscope__process *own = &tickscope__process;
    char hidden[TICKSCOPE__FILE_NAME_BYTES], name[TICKSCOPE__FILE_NAME_BYTES];
    struct flock whole;
    uint64_t instance = tickscope__random();
    tickscope__file_name(hidden, ".pool-", instance, 16, 16, ".ticks");
    tickscope__file_name(name, "pool-", instance, 16, 16, ".ticks");
    int fd = openat(directory, hidden, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return "create";
    void *map = tickscope__fill(fd, bytes);
    const char *what = "fill";
    if (map != MAP_FAILED) {
        struct tickscope__pool_header *header = (struct tickscope__pool_header *)map;
        tickscope__describe_pool(header, instance);
        memset(&whole, 0, sizeof whole);
        whole.l_type = F_WRLCK;
        whole.l_whence = SEEK_SET;
        whole.l_len = 1;
        what = "lock and name";
        if (fcntl(fd, F_OFD_SETLK, &whole) == 0 && renameat(directory, hidden, directory, name) == 0) {
            own->lock_fd = fd;
            own->pid = header->pid;
            own->entries = (struct tickscope__entry *)(void *)((char *)map + header->entry_offset);
            own->spare_count = 0;
            own->pool = header;
            return 0;
        }
    }
    int error = errno;
    unlinkat(directory, hidden, 0);
    if (map != MAP_FAILED) munmap(map, bytes);
    close(fd);
    errno = error;
    return what;
}

/* Makes this process's pool, in the directory of the user that it runs as now. */
TICKSCOPE__COLD int tickscope__make_pool(void) {
    struct tickscope__process *own = &tickscope__process;
    uint64_t bytes = own->block_offset + own->block_count * own->block_bytes;
    int directory = tickscope__own_directory();
    const char *failed = directory < 0 ? "create" : tickscope__make_pool_in(directory, bytes);
    int error = errno;
    if (directory >= 0) close(directory);
    if (failed) tickscope__refused(failed, error, bytes);
    return failed == 0;
}

TICKSCOPE__COLD uint64_t tickscope__pool_bytes_mapped(const struct tickscope__pool_header *header) {
    return header->block_offset + (uint64_t)header->block_count * header->block_bytes;
}

/* ---- fork, the end of a thread, the end of the process ------------------------------------------------------------ */

TICKSCOPE__COLD void tickscope__before_fork(void) {
    tickscope__hold(&tickscope__process.mask_at_fork); /* signals too: a handler in the child must not meet the old handles */
}

TICKSCOPE__COLD void tickscope__after_fork_in_parent(void) {
    sigset_t mask = tickscope__process.mask_at_fork;
    tickscope__let_go(&mask);
}

/*
 * Puts memory of the child's own where the parent's pool was, as empty as a new one. Not a hole: fork may have been called
 * in a signal handler that interrupted a stamp, and that stamp goes on there.
 */
TICKSCOPE__COLD void tickscope__forget_pool(struct tickscope__pool_header *pool) {
    unsigned char description[offsetof(struct tickscope__pool_header, state)];
    uint64_t bytes = tickscope__pool_bytes_mapped(pool);
    memcpy(description, pool, sizeof description);
    void *own = mmap(pool, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (own == MAP_FAILED) munmap(pool, bytes); /* rather a crash than writing to the parent's */
    else memcpy(own, description, sizeof description);
}

/* The child's handles must never write to the parent's blocks: cut them off; the first stamp opens a pool. */
TICKSCOPE__COLD void tickscope__after_fork_in_child(void) {
    struct tickscope__process *own = &tickscope__process;
    sigset_t mask = own->mask_at_fork;
    for (struct tickscope__chunk *chunk = own->chunk; chunk; chunk = chunk->before) {
        for (uint32_t at = 0; at < chunk->used; at++) {
            tickscope_channel *channel = &chunk->handles[at];
            if (!channel->in_use) continue;
            channel->policy = &tickscope__word_forked;
            channel->fast_slim = channel->fast_wide = channel->fast_full = TICKSCOPE__NEVER;
            channel->thread = 0;
            channel->next = 0;
        }
    }
    own->spare_count = 0;
    if (own->pool) tickscope__forget_pool(own->pool);
    if (own->lock_fd >= 0) close(own->lock_fd);
    own->pool = 0;
    own->entries = 0;
    own->lock_fd = -1;
    tickscope__let_go(&mask);
}

/* The pool that the channel's handle leads into: in a forked child, what stands in the place of its parent's. */
static inline struct tickscope__pool_header *tickscope__pool_of(const tickscope_channel *channel) {
    return (struct tickscope__pool_header *)(void *)(channel->blocks - tickscope__process.block_offset);
}

static inline struct tickscope__block_header *tickscope__block_of_unit(const tickscope_channel *channel,
                                                                       uint32_t unit) {
    uint64_t first = unit & ~channel->unit_mask;
    return (struct tickscope__block_header *)(void *)(channel->blocks + first * TICKSCOPE__UNIT_BYTES);
}

/* Units that a successor's description takes: whole records. */
static inline uint32_t tickscope__successor_units(uint32_t shape) {
    return shape == 1 ? 2 : shape;
}

/* Lets go of the channel's partly filled block: the collector may take it, or a later thread go on in it. */
TICKSCOPE__COLD void tickscope__leave_block_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    uint32_t unit = (uint32_t)channel->next;
    struct tickscope__block_header *block = tickscope__block_of_unit(channel, unit);
    uint32_t left = channel->unit_mask + 1 - (unit & channel->unit_mask);
    if (left >= tickscope__successor_units(channel->shape) + channel->shape && own->spare_count < own->block_count) {
        struct tickscope__spare *spare = &own->spares[own->spare_count];
        spare->unit = unit;
        spare->successor = channel->successor;
        spare->serial = block->serial;
        spare->number = block->number;
        __atomic_store_n(&own->spare_count, own->spare_count + 1, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&block->state, TICKSCOPE__BLOCK_RELEASED, __ATOMIC_RELEASE);
}

TICKSCOPE__COLD void tickscope__close_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    struct tickscope__entry *entry = channel->entry;
    int entered = entry && channel->policy == &entry->policy; /* not in a forked child that has not stamped on it */
    if (!channel->in_use) return;
    channel->policy = &tickscope__word_closed;
    channel->fast_slim = channel->fast_wide = channel->fast_full = TICKSCOPE__NEVER;
    channel->in_use = 0, channel->entry = 0;
    if (!entered) return;
    /* A full block is complete without our word. */
    if (!tickscope__is_full(channel, channel->next)) tickscope__leave_block_held(channel);
    /* What the entry says stands in the blocks too, but for these counts, and under null; a few of these are enough. */
    int told = !(entry->dropped | entry->refused | entry->stalls | entry->lost);
    if (told && (uint32_t)entry->policy == TICKSCOPE__POLICY_NULL && own->null_entries++ < 64) told = 0;
    if (told) own->entry_hint = (uint32_t)(entry - own->entries);
    __atomic_store_n(&entry->state, told ? TICKSCOPE__ENTRY_FREE : TICKSCOPE__ENTRY_CLOSED, __ATOMIC_RELEASE);
    __atomic_fetch_add(&tickscope__pool_of(channel)->leases, 1, __ATOMIC_RELEASE); /* there is something to collect */
}

/* Puts the handle where those wait whose threads have ended. */
TICKSCOPE__COLD void tickscope__retire_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    channel->following = 0;
    if (own->ended_last) own->ended_last->following = channel;
    else own->ended_first = channel;
    own->ended_last = channel;
}

/* Runs with the first of the thread's channels, and again where a later destructor opens one. */
TICKSCOPE__COLD void tickscope__thread_ends(void *first) {
    int32_t thread = (int32_t)syscall(SYS_gettid);
    tickscope_channel *channel = (tickscope_channel *)first, *following;
    sigset_t mask;
    tickscope__hold(&mask);
    for (; channel; channel = following) {
        following = channel->following;
        if (channel->thread == thread || channel->thread == 0) tickscope__close_held(channel); /* 0: forked since */
        channel->thread = thread;
        tickscope__retire_held(channel);
    }
    tickscope__let_go(&mask);
}

/* Other threads may still be stamping: blocks are left as they are, for the collector to take once the lock is free. */
TICKSCOPE__COLD void tickscope__process_ends(void) {
    struct tickscope__pool_header *pool = tickscope__process.pool;
    if (pool && tickscope__process.pid == (int32_t)getpid())
        __atomic_store_n(&pool->state, TICKSCOPE__POOL_CLOSED, __ATOMIC_RELEASE);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

TICKSCOPE__COLD void tickscope__start_held(void) {
    struct tickscope__process *own = &tickscope__process;
    own->ready = 1;
    own->lock_fd = -1;
    tickscope__word_closed = TICKSCOPE__CLOSED;
    tickscope__word_forked = TICKSCOPE__FORKED;
    tickscope__word_waiting = TICKSCOPE__WAITING;
    tickscope__word_unopened = TICKSCOPE__UNOPENED;
    if (!tickscope__configure()) return;
    void *spares = mmap(0, own->block_count * sizeof(struct tickscope__spare), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (spares == MAP_FAILED || pthread_key_create(&own->thread_end, tickscope__thread_ends) != 0 ||
        pthread_atfork(tickscope__before_fork, tickscope__after_fork_in_parent, tickscope__after_fork_in_child) != 0) {
        tickscope__complain("memory for channel handles, a thread key and fork handlers", strerror(errno), "Points are off; free memory.");
        own->directory[0] = 0;
        return;
    }
    own->spares = (struct tickscope__spare *)spares;
    atexit(tickscope__process_ends);
    if (!tickscope__make_pool()) own->directory[0] = 0;
}

/* The policy that TICKSCOPE_POLICY gives the point: glob=policy,... */
TICKSCOPE__COLD uint32_t tickscope__policy_of(const char *point) {
    char rules[1024], *policy, *rest = rules;
    strcpy(rules, tickscope__process.policies);
    while ((policy = strsep(&rest, ",")) != 0) {
        const char *glob = strsep(&policy, "=");
        if (policy == 0 || fnmatch(glob, point, 0) != 0) continue;
        for (uint32_t at = 0; at < sizeof tickscope__policies / sizeof *tickscope__policies; at++)
            if (strcmp(policy, tickscope__policies[at]) == 0) return at;
        tickscope__complain("TICKSCOPE_POLICY with the policies null and buffered", policy, "The point is off; choose one of them.");
        return TICKSCOPE__POLICY_NULL;
    }
    return TICKSCOPE__POLICY_BUFFERED;
}

/* Takes a free entry among those from `first` on; 0: there is none. */
TICKSCOPE__COLD struct tickscope__entry *tickscope__take_entry_held(uint32_t first, uint32_t count, uint32_t hint) {
    struct tickscope__entry *entries = tickscope__process.entries + first;
    for (uint32_t step = 0; step < count; step++) {
        struct tickscope__entry *entry = &entries[(hint + step) % count];
        uint32_t free_state = TICKSCOPE__ENTRY_FREE;
        if (__atomic_load_n(&entry->state, __ATOMIC_RELAXED) == TICKSCOPE__ENTRY_FREE &&
            __atomic_compare_exchange_n(&entry->state, &free_state, TICKSCOPE__ENTRY_OPENING, 0, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return entry;
    }
    return 0;
}

TICKSCOPE__COLD void tickscope__describe_entry_held(struct tickscope__entry *entry, const tickscope_channel *channel,
                                                    uint32_t state) {
    memset(&entry->dropped, 0, 48); /* to lost_last */
    uint32_t serial = __atomic_fetch_add(&tickscope__process.pool->channels, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->serial, serial, __ATOMIC_RELAXED);
    entry->number = 0;
    entry->thread = state == TICKSCOPE__ENTRY_SHARED ? 0 : channel->thread;
    entry->ordering = channel->ordering;
    entry->shape = channel->shape;
    entry->counter = channel->counter;
    entry->opened_tick = tickscope__now(TICKSCOPE_PLAIN);
    memcpy(entry->point, channel->point, TICKSCOPE__NAME_BYTES);
    __atomic_store_n(&entry->policy, tickscope__policy_of(channel->point), __ATOMIC_RELAXED);
    entry->parameters[0] = entry->parameters[1] = 0;
    if (state == TICKSCOPE__ENTRY_SHARED) entry->lost_first = INT64_MAX, entry->lost_last = INT64_MIN;
    __atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);
}

/* The handle as it is for a pool in which it has no block yet. */
TICKSCOPE__COLD void tickscope__reset_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    channel->blocks = (unsigned char *)own->pool + own->block_offset;
    channel->unit_mask = own->block_bytes / TICKSCOPE__UNIT_BYTES - 1;
    channel->next = 0;
    channel->successor = 0;
    channel->retry_tick = INT64_MIN;
    channel->fast_slim = channel->fast_wide = channel->fast_full = TICKSCOPE__NEVER;
}

/* Gives the handle an entry of the present pool; 0: there is none free. */
TICKSCOPE__COLD int tickscope__enter_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    struct tickscope__entry *entry = tickscope__take_entry_held(0, own->channel_entries, own->entry_hint);
    if (entry == 0) return 0;
    own->entry_hint = (uint32_t)(entry - own->entries) + 1;
    tickscope__reset_held(channel);
    tickscope__describe_entry_held(entry, channel, TICKSCOPE__ENTRY_OPEN);
    channel->entry = entry;
    channel->serial = entry->serial;
    int inlined = !own->injected && channel->counter == TICKSCOPE_COUNTER;
    if (inlined && channel->shape == 1) channel->fast_slim = TICKSCOPE__POLICY_BUFFERED;
    if (inlined && channel->shape == 2) channel->fast_wide = TICKSCOPE__POLICY_BUFFERED;
    if (inlined && channel->shape == 3) channel->fast_full = TICKSCOPE__POLICY_BUFFERED;
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* a handler sees the handle whole once the policy applies */
    channel->policy = &entry->policy;
    return 1;
}

/* Whether both are of one point: nothing but the thread tells them apart. */
#define TICKSCOPE__SAME_POINT(one, other)                                                        \
    ((one)->ordering == (other)->ordering && (one)->shape == (other)->shape &&                   \
     memcmp((one)->point, (other)->point, TICKSCOPE__NAME_BYTES) == 0)

/* The entry that counts what threads without a channel lose at this point; 0: all of those are other points'. */
TICKSCOPE__COLD struct tickscope__entry *tickscope__shared_entry_held(const tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    for (uint32_t at = own->channel_entries; at < own->channel_entries + TICKSCOPE__SHARED_ENTRIES; at++) {
        struct tickscope__entry *entry = &own->entries[at];
        int shared = entry->state == TICKSCOPE__ENTRY_SHARED && entry->counter == channel->counter;
        if (shared && TICKSCOPE__SAME_POINT(entry, channel)) return entry;
    }
    struct tickscope__entry *entry = tickscope__take_entry_held(own->channel_entries, TICKSCOPE__SHARED_ENTRIES, 0);
    if (entry) tickscope__describe_entry_held(entry, channel, TICKSCOPE__ENTRY_SHARED);
    return entry;
}

/* Ticks after a failed search before the next one: a pool that is full should cost little to find full. */
#define TICKSCOPE__RETRY_TICKS 100000

/* No entry is free: the channel's stamps are counted as lost until one is. */
TICKSCOPE__COLD void tickscope__wait_for_entry_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    tickscope__reset_held(channel);
    if (tickscope__policy_of(channel->point) == TICKSCOPE__POLICY_NULL) {
        channel->policy = &tickscope__word_off;
        return;
    }
    channel->entry = tickscope__shared_entry_held(channel);
    channel->retry_tick = tickscope__plain() + TICKSCOPE__RETRY_TICKS;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    channel->policy = &tickscope__word_waiting;
    if (__atomic_exchange_n(&own->crowding_told, 1, __ATOMIC_RELAXED)) return;
    char expected[96];
    snprintf(expected, sizeof expected, "at most %u channels open at a time in a pool of this size",
             own->channel_entries);
    tickscope__complain(expected, "more",
                        "Stamps of the others are counted as lost until one is free; set TICKSCOPE_POOL_BYTES higher.");
}

/* What opening a channel asks for. */
struct tickscope__wish {
    const char *point;
    int counter, brackets, ordering;
    unsigned flags;
};

#define TICKSCOPE__BRACKET_PREFIX "clock-bracket."

TICKSCOPE__COLD int tickscope__is_clock(int counter) {
    return counter >= TICKSCOPE_REALTIME && counter <= TICKSCOPE_PHC;
}

/* Why a channel can't be opened: what was expected; 0: it can. */
TICKSCOPE__COLD const char *tickscope__refusal(const struct tickscope__wish *wish) {
    if (!tickscope__valid_name(wish->point) || wish->ordering < TICKSCOPE_PLAIN || wish->ordering > TICKSCOPE_AFTER)
        return "a point's name of 1 to 47 letters, digits, '_', '-', '.', and an ordering";
    if (wish->counter != TICKSCOPE_COUNTER && !tickscope__is_clock(wish->counter)) return "a counter of tickscope_counter";
    int reserved = strncmp(wish->point, TICKSCOPE__BRACKET_PREFIX, strlen(TICKSCOPE__BRACKET_PREFIX)) == 0;
    return reserved && !wish->brackets ? "tickscope_open_bracket for a point of that name" : 0;
}

/* A handle that nobody uses; 0: there is no memory for one. */
TICKSCOPE__COLD tickscope_channel *tickscope__unused_handle_held(void) {
    struct tickscope__process *own = &tickscope__process;
    for (int tries = 0; tries < 4 && own->ended_first; tries++) {
        tickscope_channel *oldest = own->ended_first;
        own->ended_first = oldest->following;
        if (own->ended_first == 0) own->ended_last = 0;
        /* Its thread may not be quite gone: a destructor may stamp yet. */
        if (oldest->thread <= 0 || syscall(SYS_tgkill, getpid(), oldest->thread, 0) != 0) return oldest;
        tickscope__retire_held(oldest);
    }
    if (own->chunk == 0 || own->chunk->used == TICKSCOPE__CHUNK) {
        size_t bytes = sizeof(struct tickscope__chunk);
        void *more = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED) return 0;
        struct tickscope__chunk *chunk = (struct tickscope__chunk *)more;
        chunk->before = own->chunk;
        own->chunk = chunk;
    }
    return &own->chunk->handles[own->chunk->used++];
}

/* This thread's handle of the point, whether open or closed; 0: it has none. */
TICKSCOPE__COLD tickscope_channel *tickscope__own_handle_held(const struct tickscope__wish *wish, int32_t thread) {
    tickscope_channel *channel = (tickscope_channel *)pthread_getspecific(tickscope__process.thread_end);
    for (; channel; channel = channel->following)
        if (channel->thread == thread && channel->ordering == wish->ordering && channel->flags == wish->flags &&
            channel->counter == wish->counter && strcmp(channel->point, wish->point) == 0)
            return channel;
    return 0;
}

/* A new handle of the point for this thread; 0: there is no memory for one, or for making the thread's end known. */
TICKSCOPE__COLD tickscope_channel *tickscope__new_handle_held(const struct tickscope__wish *wish, int32_t thread) {
    pthread_key_t key = tickscope__process.thread_end;
    tickscope_channel *channel = tickscope__unused_handle_held();
    if (channel == 0) return 0;
    channel->policy = &tickscope__word_off;
    channel->thread = thread;
    channel->following = (tickscope_channel *)pthread_getspecific(key);
    if (pthread_setspecific(key, channel) != 0) {
        tickscope__retire_held(channel);
        return 0;
    }
    channel->ordering = (uint8_t)wish->ordering;
    channel->flags = wish->flags;
    channel->shape = wish->flags & TICKSCOPE_FULL ? 3 : wish->flags & TICKSCOPE_WIDE ? 2 : 1;
    channel->counter = (uint8_t)wish->counter;
    channel->brackets = (uint8_t)wish->brackets;
    memset(channel->point, 0, sizeof channel->point);
    strcpy(channel->point, wish->point);
    return channel;
}

TICKSCOPE__COLD tickscope_channel *tickscope__unopened_held(const char *expected, const char *found) {
    tickscope__complain(expected, found, "Its stamps are refused and counted; correct it, or free memory.");
    __atomic_fetch_add(&tickscope__process.pool->channels_refused, 1, __ATOMIC_RELAXED);
    return &tickscope__unopened_channel;
}

TICKSCOPE__COLD tickscope_channel *tickscope__open_held(const struct tickscope__wish *wish) {
    struct tickscope__process *own = &tickscope__process;
    int32_t thread = (int32_t)syscall(SYS_gettid);
    if (!own->ready) tickscope__start_held();
    tickscope__off_channel.policy = &tickscope__word_off;
    tickscope__unopened_channel.policy = &tickscope__word_unopened;
    if (own->directory[0] == 0) return &tickscope__off_channel;
    if (own->pool == 0 && !tickscope__make_pool()) return &tickscope__off_channel;
    const char *refusal = tickscope__refusal(wish);
    if (refusal)
        return tickscope__unopened_held(refusal, wish->point ? wish->point : "NULL");
    tickscope_channel *channel = tickscope__own_handle_held(wish, thread);
    if (channel && channel->in_use) return channel;
    if (channel == 0) channel = tickscope__new_handle_held(wish, thread);
    if (channel == 0) return tickscope__unopened_held("memory for a channel", "none");
    channel->in_use = 1;
    if (!tickscope__enter_held(channel)) tickscope__wait_for_entry_held(channel);
    return channel;
}

TICKSCOPE__COLD tickscope_channel *tickscope__open(const char *point, int counter, int brackets, int ordering, unsigned flags) {
    struct tickscope__wish wish = {point, counter, brackets, ordering, flags};
    sigset_t mask;
    tickscope__hold(&mask);
    tickscope_channel *channel = tickscope__open_held(&wish);
    tickscope__let_go(&mask);
    return channel;
}

TICKSCOPE__COLD void tickscope__close(tickscope_channel *channel) {
    sigset_t mask;
    tickscope__hold(&mask);
    if (channel && channel->in_use) {
        if (channel->thread != 0 && channel->thread != (int32_t)syscall(SYS_gettid))
            tickscope__complain("tickscope_close on the thread that opened the channel", channel->point,
                                "It stays open until that thread ends.");
        else
            tickscope__close_held(channel);
    }
    tickscope__let_go(&mask);
}

/* The first stamp after fork: a pool of the child's own, and the same point on it. Async-signal-safe calls only. */
TICKSCOPE__COLD int tickscope__reopen(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    sigset_t mask;
    tickscope__hold(&mask);
    int open = channel->policy != &tickscope__word_forked;
    if (!open && own->directory[0] != 0 && (own->pool || tickscope__make_pool())) {
        channel->thread = (int32_t)syscall(SYS_gettid);
        if (!tickscope__enter_held(channel)) tickscope__wait_for_entry_held(channel);
        open = 1;
    }
    if (!open) channel->policy = &tickscope__word_off;
    tickscope__let_go(&mask);
    return open;
}

/* ---- leasing ------------------------------------------------------------------------------------------------------ */

static inline struct tickscope__block_header *tickscope__block(tickscope_channel *channel, uint32_t number) {
    uint64_t offset = (uint64_t)number * tickscope__pool_of(channel)->block_bytes;
    return (struct tickscope__block_header *)(void *)(channel->blocks + offset);
}

/* Claims a free block, looking at each once; UINT32_MAX: none. */
TICKSCOPE__COLD uint32_t tickscope__claim(tickscope_channel *channel) {
    struct tickscope__pool_header *pool = tickscope__pool_of(channel);
    uint32_t start = __atomic_load_n(&pool->hint, __ATOMIC_RELAXED);
    for (uint32_t step = 0; step < pool->block_count; step++) {
        uint32_t number = (start + step) % pool->block_count, free_state = TICKSCOPE__BLOCK_FREE;
        struct tickscope__block_header *block = tickscope__block(channel, number);
        if (__atomic_load_n(&block->state, __ATOMIC_RELAXED) != TICKSCOPE__BLOCK_FREE) continue;
        /* Acquire: what the collector zeroed is zero here. */
        if (!__atomic_compare_exchange_n(&block->state, &free_state, TICKSCOPE__BLOCK_LEASED, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        __atomic_store_n(&pool->hint, (number + 1) % pool->block_count, __ATOMIC_RELAXED);
        return number;
    }
    return UINT32_MAX;
}

/* The unit of a block where a channel's records begin, so that they end with the block. */
static inline uint32_t tickscope__first_unit(const tickscope_channel *channel) {
    uint32_t units = channel->unit_mask + 1;
    return TICKSCOPE__HEADER_UNITS + (units - TICKSCOPE__HEADER_UNITS) % channel->shape;
}

/* Policy, epoch and parameter of one switch, as crates/stamp/src/policy.rs says. */
TICKSCOPE__COLD uint64_t tickscope__read_policy(const struct tickscope__entry *entry, uint64_t *parameter) {
    uint64_t before, after = __atomic_load_n(&entry->policy, __ATOMIC_ACQUIRE);
    do {
        before = after;
        *parameter = __atomic_load_n(&entry->parameters[before >> 32 & 1], __ATOMIC_ACQUIRE);
        after = __atomic_load_n(&entry->policy, __ATOMIC_ACQUIRE);
    } while (after != before);
    return after;
}

TICKSCOPE__COLD void tickscope__describe_block(tickscope_channel *channel, struct tickscope__block_header *block,
                                               uint32_t number) {
    struct tickscope__pool_header *pool = tickscope__pool_of(channel);
    struct tickscope__entry *entry = channel->entry;
    block->version = TICKSCOPE_VERSION;
    block->header_bytes = (uint16_t)(tickscope__first_unit(channel) * TICKSCOPE__UNIT_BYTES);
    block->serial = channel->serial;
    block->number = number;
    uint64_t policy = tickscope__read_policy(entry, &block->parameter);
    block->policy_epoch = (uint32_t)(policy >> 32);
    block->policy = (uint32_t)policy;
    block->instance = pool->instance;
    memcpy(block->boot_id, pool->boot_id, sizeof block->boot_id);
    block->pid = pool->pid;
    block->thread = channel->thread;
    block->process_start = pool->process_start;
    block->ordering = channel->ordering;
    block->shape = channel->shape;
    block->counter = channel->counter ? channel->counter : pool->counter;
    block->epoch = pool->epoch;
    block->lost = entry->lost;
    block->lost_first = entry->lost_first;
    block->lost_last = entry->lost_last;
    memcpy(block->point, channel->point, TICKSCOPE__NAME_BYTES);
    __atomic_store_n(&block->magic, TICKSCOPE__BLOCK_MAGIC, __ATOMIC_RELEASE); /* the header is whole */
}

/* Describes the channel at the unit where another's records ended, and moves it behind that. */
TICKSCOPE__COLD void tickscope__succeed_held(tickscope_channel *channel, const struct tickscope__spare *spare) {
    struct tickscope__block_header *block = tickscope__block_of_unit(channel, spare->unit);
    unsigned char *place = channel->blocks + (uint64_t)spare->unit * TICKSCOPE__UNIT_BYTES;
    struct tickscope__successor *successor = (struct tickscope__successor *)(void *)place;
    uint32_t within = spare->unit & channel->unit_mask, *link = &block->successor;
    if (spare->successor) {
        unsigned char *last = (unsigned char *)block + (uint64_t)spare->successor * TICKSCOPE__UNIT_BYTES;
        link = &((struct tickscope__successor *)(void *)last)->next;
    }
    /* Release, and first: whoever sees what is written here knows that it is no record. */
    __atomic_store_n(link, within, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* so it is, too, where the process is killed right here */
    successor->serial = channel->serial;
    successor->opened_tick = channel->entry->opened_tick;
    __atomic_store_n(&successor->one, 1, __ATOMIC_RELAXED);
    uint64_t whole = (uint64_t)(uint32_t)channel->thread << 32 | TICKSCOPE__SUCCESSOR_MAGIC;
    __atomic_store_n(&successor->whole, whole, __ATOMIC_RELEASE);
    channel->successor = within;
    uint32_t behind = spare->unit + tickscope__successor_units(channel->shape);
    __atomic_store_n(&channel->next, (channel->next & ~(uint64_t)UINT32_MAX) | behind, __ATOMIC_RELAXED);
}

/* Whether the block of a spare is still what was left, and of this channel's point: 1; of another's: 0; taken: -1. */
TICKSCOPE__COLD int tickscope__fits(const tickscope_channel *channel, const struct tickscope__spare *spare) {
    const struct tickscope__block_header *block = tickscope__block_of_unit(channel, spare->unit);
    int counter = channel->counter ? channel->counter : tickscope__pool_of(channel)->counter;
    if (__atomic_load_n(&block->state, __ATOMIC_ACQUIRE) != TICKSCOPE__BLOCK_RELEASED) return -1;
    if (block->serial != spare->serial || block->number != spare->number) return -1;
    /* Leased under the policy that a new channel has: so what its header says of the policy is true of this one too. */
    return TICKSCOPE__SAME_POINT(block, channel) && block->counter == counter && block->policy_epoch == 0 &&
           (channel->entry->policy >> 32) == 0;
}

/* Spares that are looked at for one channel. */
#define TICKSCOPE__SPARES_TRIED 4096

/* Goes on in a block that another channel of the same point left partly filled; 0: there is none. */
TICKSCOPE__COLD int tickscope__succeed(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    sigset_t mask;
    int done = 0;
    if (__atomic_load_n(&own->spare_count, __ATOMIC_RELAXED) == 0) return 0;
    tickscope__hold(&mask);
    uint32_t last = own->spare_count > TICKSCOPE__SPARES_TRIED ? own->spare_count - TICKSCOPE__SPARES_TRIED : 0;
    for (uint32_t at = own->spare_count; at > last && !done; at--) {
        struct tickscope__spare spare = own->spares[at - 1];
        struct tickscope__block_header *block = tickscope__block_of_unit(channel, spare.unit);
        uint32_t released = TICKSCOPE__BLOCK_RELEASED;
        int fits = tickscope__fits(channel, &spare);
        if (fits == 0) continue;
        own->spares[at - 1] = own->spares[--own->spare_count];
        done = fits > 0 && __atomic_compare_exchange_n(&block->state, &released, TICKSCOPE__BLOCK_LEASED, 0,
                                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); /* else the collector's */
        if (done) tickscope__succeed_held(channel, &spare);
    }
    tickscope__let_go(&mask);
    if (done) __atomic_fetch_add(&tickscope__pool_of(channel)->leases, 1, __ATOMIC_RELEASE);
    return done;
}

/* Moves the full channel to a new block, or to the rest of one; 0: there is none. */
TICKSCOPE__COLD int tickscope__lease(tickscope_channel *channel) {
    struct tickscope__pool_header *pool = tickscope__pool_of(channel);
    uint64_t full = __atomic_load_n(&channel->next, __ATOMIC_RELAXED);
    if (!tickscope__is_full(channel, full)) return 1; /* a signal handler was here first */
    /* A thread that lives long takes blocks of its own. */
    if (full >> 32 == 0 && channel->successor == 0 && tickscope__succeed(channel)) return 1;
    uint32_t claimed = tickscope__claim(channel);
    if (claimed == UINT32_MAX) return tickscope__succeed(channel);
    struct tickscope__block_header *block = tickscope__block(channel, claimed);
    uint32_t number = (uint32_t)(full >> 32), units = channel->unit_mask + 1;
    tickscope__describe_block(channel, block, number);
    uint64_t lost = block->lost;
    uint64_t first = (uint64_t)claimed * units + tickscope__first_unit(channel);
    if (tickscope__own_exchange(&channel->next, &full, (uint64_t)(number + 1) << 32 | first)) {
        channel->successor = 0;
        tickscope__own_add(&channel->entry->lost, 0 - lost);
        __atomic_fetch_add(&pool->leases, 1, __ATOMIC_RELEASE);
    } else { /* a signal handler leased one meanwhile: this one goes back unused */
        memset(block->boot_id, 0, sizeof *block - offsetof(struct tickscope__block_header, boot_id));
        __atomic_store_n(&block->magic, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&block->state, TICKSCOPE__BLOCK_FREE, __ATOMIC_RELEASE);
    }
    return 1;
}

TICKSCOPE__COLD int tickscope__is_locked(int fd, off_t byte) {
    struct flock lock;
    memset(&lock, 0, sizeof lock);
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Whether a collector has locked byte 1 of this pool, or one that does not lock pools holds the directory. */
TICKSCOPE__COLD int tickscope__collector_lives(void) {
    if (tickscope__is_locked(tickscope__process.lock_fd, 1)) return 1;
    int directory = open(tickscope__process.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(directory, "collector.lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (directory >= 0) close(directory);
    if (fd < 0) return 0;
    int lives = tickscope__is_locked(fd, 0);
    close(fd);
    return lives;
}

/* Waits for a block while a collector lives, at most 1 s: 0: there is none. */
TICKSCOPE__COLD int tickscope__wait_for_block(tickscope_channel *channel) {
    struct timespec nap = {0, 50000};
    tickscope__own_add(&channel->entry->stalls, 1);
    for (int naps = 0; naps < 20000; naps++) {
        if (naps % 200 == 0 && !tickscope__collector_lives()) return 0;
        nanosleep(&nap, 0);
        if (tickscope__lease(channel)) return 1;
    }
    return 0;
}

/* Reads what the channel's ticks are of. */
TICKSCOPE__COLD int64_t tickscope__tick_of(const tickscope_channel *channel, int ordering) {
    return channel->counter ? tickscope__clock_now(channel->counter) : tickscope__now(ordering);
}

TICKSCOPE__COLD void tickscope__drop(tickscope_channel *channel, int64_t tick) {
    struct tickscope__entry *entry = channel->entry;
    if (entry->lost == 0) entry->lost_first = tick;
    entry->lost_last = tick;
    tickscope__own_add(&entry->lost, 1);
    tickscope__own_add(&entry->dropped, 1);
}


/* A record for one stamp, leasing as needed; 0: dropped and counted, under `tick` or, where that is 0, the present one. */
TICKSCOPE__COLD unsigned char *tickscope__reserve_leasing(tickscope_channel *channel, int64_t tick) {
    unsigned char *record;
    while (!tickscope__reserve(channel, channel->shape, &record)) {
        int64_t now = tickscope__plain();
        if (now >= channel->retry_tick) {
            if (tickscope__lease(channel)) continue;
            if (tickscope__process.when_full == TICKSCOPE__WAIT && tickscope__wait_for_block(channel)) continue;
            channel->retry_tick = tickscope__plain() + TICKSCOPE__RETRY_TICKS;
        }
        tickscope__drop(channel, tick ? tick : tickscope__tick_of(channel, TICKSCOPE_PLAIN));
        return 0;
    }
    return record;
}

/* Counts a stamp of a channel that has no entry yet, under the point; several threads may be here at once. */
TICKSCOPE__COLD void tickscope__drop_shared(tickscope_channel *channel, int64_t tick) {
    struct tickscope__entry *entry = channel->entry;
    if (entry == 0) {
        if (tickscope__process.pool) __atomic_fetch_add(&tickscope__process.pool->without_channel, 1, __ATOMIC_RELAXED);
        return;
    }
    if (tick == 0) tick = tickscope__tick_of(channel, TICKSCOPE_PLAIN);
    int relaxed = __ATOMIC_RELAXED;
    int64_t first = __atomic_load_n(&entry->lost_first, __ATOMIC_RELAXED);
    int64_t last = __atomic_load_n(&entry->lost_last, __ATOMIC_RELAXED);
    while (tick < first && !__atomic_compare_exchange_n(&entry->lost_first, &first, tick, 0, relaxed, relaxed)) {}
    while (tick > last && !__atomic_compare_exchange_n(&entry->lost_last, &last, tick, 0, relaxed, relaxed)) {}
    __atomic_fetch_add(&entry->lost, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&entry->dropped, 1, __ATOMIC_RELAXED);
}

/* Gives a channel that waits an entry, if one is free by now; otherwise its stamp is counted as lost. */
TICKSCOPE__COLD int tickscope__enter_late(tickscope_channel *channel, int64_t tick) {
    int entered = 0;
    if (tickscope__plain() >= channel->retry_tick) {
        sigset_t mask;
        tickscope__hold(&mask);
        entered = channel->policy != &tickscope__word_waiting || tickscope__enter_held(channel);
        if (!entered) channel->retry_tick = tickscope__plain() + TICKSCOPE__RETRY_TICKS;
        tickscope__let_go(&mask);
    }
    if (!entered) tickscope__drop_shared(channel, tick);
    return entered;
}

/*
 * Whether the channel keeps stamps now; looks at everything but the common case: not open, closed, forked, waiting,
 * off. `tick`: of the stamp, 0: now.
 */
TICKSCOPE__COLD int tickscope__keeps(tickscope_channel *channel, int64_t tick) {
    struct tickscope__process *own = &tickscope__process;
    if (channel == 0) {
        if (own->pool) __atomic_fetch_add(&own->pool->without_channel, 1, __ATOMIC_RELAXED);
        tickscope__complain("tickscope_open before tickscope_stamp", "a stamp on NULL", "It is refused and counted; open the point first.");
        return 0;
    }
    uint32_t policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    if (policy == TICKSCOPE__FORKED) {
        if (!tickscope__reopen(channel)) return 0;
        policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    }
    if (policy == TICKSCOPE__UNOPENED) {
        if (own->pool) __atomic_fetch_add(&own->pool->without_channel, 1, __ATOMIC_RELAXED);
        return 0;
    }
    if (policy == TICKSCOPE__WAITING) {
        if (!tickscope__enter_late(channel, tick)) return 0;
        policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    }
    if (policy == TICKSCOPE__CLOSED) {
        if (own->pool) __atomic_fetch_add(&own->pool->after_close, 1, __ATOMIC_RELAXED);
        tickscope__complain("no stamp after tickscope_close", channel->point, "It is refused and counted; close after the last one.");
        return 0;
    }
    if (policy != TICKSCOPE__POLICY_NULL && policy != TICKSCOPE__POLICY_BUFFERED)
        tickscope__own_add(&channel->entry->refused, 1);
    return policy == TICKSCOPE__POLICY_BUFFERED;
}

/* Fills a record of the channel's own shape. */
TICKSCOPE__COLD void tickscope__commit_shaped(const tickscope_channel *channel, unsigned char *record, int64_t id,
                                              int64_t tick, const struct tickscope_extra *extra) {
    if (channel->shape == 3) tickscope__commit_full(record, id, tick, extra);
    else if (channel->shape == 2) tickscope__commit_wide(record, id, tick, extra->kind, extra->value);
    else tickscope__commit(record, id, tick);
}

TICKSCOPE__COLD void tickscope__record_uncommon(tickscope_channel *channel, int64_t id, int64_t tick,
                                                const struct tickscope_extra *extra) {
    if (tick == 0) { /* reads as "not committed": the only tick that cannot be kept */
        tickscope__own_add(&channel->entry->refused, 1);
        return;
    }
    unsigned char *record = tickscope__reserve_leasing(channel, tick);
    if (record) tickscope__commit_shaped(channel, record, id, tick, extra);
}

/* A stamp between a call and the look at its error leaves errno alone. */
TICKSCOPE__COLD void tickscope__record_slow(tickscope_channel *channel, int64_t id, int64_t tick,
                                            const struct tickscope_extra *extra) {
    int error = errno;
    if (tickscope__keeps(channel, tick)) tickscope__record_uncommon(channel, id, tick, extra);
    errno = error;
}

TICKSCOPE__COLD void tickscope__record_carrying(tickscope_channel *channel, int64_t id, int64_t tick, int32_t kind,
                                                int64_t value, const int64_t *parent, int32_t attempt, int32_t batch) {
    TICKSCOPE__EXTRA(extra);
    tickscope__record_slow(channel, id, tick, &extra);
}

/* Channels of another clock, the injected map, a stamp through the call for another shape, a full block. */
TICKSCOPE__COLD void tickscope__stamp_uncommon(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra) {
    /* The counter as late as can be, as in tickscope_stamp; a clock is read first: it may turn out unreadable. */
    int late = channel->counter == TICKSCOPE_COUNTER && channel->ordering != TICKSCOPE_AFTER;
    if (!late) {
        tickscope__record_uncommon(channel, id, tickscope__tick_of(channel, channel->ordering), extra);
        return;
    }
    unsigned char *record = tickscope__reserve_leasing(channel, 0);
    if (record == 0) return;
    int64_t tick = tickscope__now(channel->ordering);
    if (tick == 0) tickscope__own_add(&channel->entry->refused, 1);
    else tickscope__commit_shaped(channel, record, id, tick, extra);
}

TICKSCOPE__COLD void tickscope__stamp_slow(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra) {
    int error = errno;
    if (tickscope__keeps(channel, 0)) tickscope__stamp_uncommon(channel, id, extra);
    errno = error;
}

/* ---- brackets ----------------------------------------------------------------------------------------------------- */

/* Readings of which a bracket keeps the narrowest: one interruption costs nothing. */
#define TICKSCOPE__BRACKET_TRIES 8

/* The narrowest of some readings of a clock between two of the counter, as this node reads both; 0: it can't be read. */
TICKSCOPE__COLD int tickscope__read_between(int counter, int64_t *before, int64_t *clock_ns, int64_t *after) {
    const struct tickscope__process *own = &tickscope__process;
    clockid_t clock;
    if (!tickscope__clock_id(counter, &clock)) return 0;
    for (int at = 0; at < TICKSCOPE__BRACKET_TRIES; at++) {
        struct timespec now;
        int64_t first = tickscope__before();
        int failed = clock_gettime(clock, &now);
        int64_t last = tickscope__after();
        if (failed) return 0;
        if (at > 0 && last - first >= *after - *before) continue;
        *before = first, *after = last;
        *clock_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    }
    if (own->injected) *before = tickscope__injected(&own->map, *before), *after = tickscope__injected(&own->map, *after);
    if (counter == TICKSCOPE_REALTIME) *clock_ns = tickscope__realtime_as_read(*clock_ns);
    return 1;
}

TICKSCOPE__COLD void tickscope__bracket(tickscope_channel *channel) {
    int error = errno;
    int64_t before = 0, clock_ns = 0, after = 0;
    if (channel && channel->brackets && tickscope__read_between(channel->brackets, &before, &clock_ns, &after)) {
        struct tickscope_extra extra = tickscope__nothing;
        extra.value = after;
        tickscope_record_with(channel, clock_ns, before, extra);
    } else if (tickscope__keeps(channel, 0)) {
        tickscope__own_add(&channel->entry->refused, 1);
        tickscope__complain("a channel of tickscope_open_bracket and a clock that can be read", channel->point,
                            "The bracket is refused and counted.");
    }
    errno = error;
}

TICKSCOPE__COLD tickscope_channel *tickscope__open_bracket(int counter) {
    const char *point = counter == TICKSCOPE_REALTIME        ? TICKSCOPE__BRACKET_PREFIX "realtime"
                        : counter == TICKSCOPE_MONOTONIC     ? TICKSCOPE__BRACKET_PREFIX "monotonic"
                        : counter == TICKSCOPE_MONOTONIC_RAW ? TICKSCOPE__BRACKET_PREFIX "monotonic-raw"
                        : counter == TICKSCOPE_PHC           ? TICKSCOPE__BRACKET_PREFIX "phc"
                                                             : "a bracket of no other clock"; /* refused: no name */
    return tickscope__open(point, TICKSCOPE_COUNTER, counter, TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
}

/* ---- what programs call -------------------------------------------------------------------------------------------- */

static inline tickscope_channel *tickscope_open(const char *point, enum tickscope_ordering ordering, unsigned flags) {
    return tickscope__open(point, TICKSCOPE_COUNTER, 0, (int)ordering, flags);
}

static inline tickscope_channel *tickscope__open_kept(const char *point, enum tickscope_ordering ordering,
                                                      unsigned flags) {
    int error = errno;
    tickscope_channel *channel = tickscope_open(point, ordering, flags);
    errno = error;
    return channel;
}

static inline tickscope_channel *tickscope_open_clock(const char *point, enum tickscope_counter counter,
                                                      enum tickscope_ordering ordering, unsigned flags) {
    return tickscope__open(point, (int)counter, 0, (int)ordering, flags);
}

static inline tickscope_channel *tickscope_open_bracket(enum tickscope_counter counter) {
    return tickscope__open_bracket((int)counter);
}

static inline void tickscope_bracket(tickscope_channel *channel) {
    if (channel && (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED) == TICKSCOPE__POLICY_NULL) return;
    tickscope__bracket(channel);
}

static inline void tickscope_close(tickscope_channel *channel) {
    tickscope__close(channel);
}

static inline int64_t tickscope_now(enum tickscope_ordering ordering) {
    return tickscope__now((int)ordering);
}

static inline int64_t tickscope_clock_now(enum tickscope_counter counter) {
    return tickscope__is_clock((int)counter) ? tickscope__clock_now((int)counter) : 0;
}

#ifdef __cplusplus
}
#endif

#endif /* TICKSCOPE_H */
