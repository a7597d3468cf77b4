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
 * points are off and one line on stderr says why. The environment, read at load, else at the first opening:
 *
 *     TICKSCOPE_DIR          stamp directory, on tmpfs; unset: every point is off
 *     TICKSCOPE_NODE         this node's name
 *     TICKSCOPE_POLICY       glob=policy,...  first match wins; * stands for any letters, ? for one; policies:
 *         buffered           every stamp (the default); null: none
 *         all                every stamp, and each at once to a log, a file a channel in TICKSCOPE_LOGS
 *         every N            each n-th stamp of a channel
 *         X of Y             stamps of the first X of any Y consecutive ids
 *         count PERIOD       their number in each period (10ms, 5s): nothing else is stored
 *         first-last [MARKER]  the first stamp and the last; with a marker the last is the first of that id
 *         return-trip        every stamp; what ends a trace is sent back to where it began
 *         keep DURATION      the newest stamps, stored when somebody asks: tickscope_dump
 *         own                those that the program chooses: tickscope_choose
 *     TICKSCOPE_LOGS         directory of the logs of channels under all
 *     TICKSCOPE_POOL_BYTES   shared memory for blocks, default 16777216
 *     TICKSCOPE_BLOCK_BYTES  4096, 8192, 16384 (default), 32768 or 65536
 *     TICKSCOPE_WHEN_FULL    drop (the default: dropped and counted), wait (while a collector lives, 1 s at most) or
 *                            overwrite (the channel's own oldest full block goes)
 *     TICKSCOPE_GROUP        number of a group that may read and collect the stamps too; unset: this user alone
 *     TICKSCOPE_KEY          32 hexadecimal digits by which a collector run by root knows its programs' pools
 *     TICKSCOPE_INJECT       a known map put before the counter, for tests
 *     TICKSCOPE_INJECT_REALTIME  the same before CLOCK_REALTIME, with steps and slews
 *
 * Which calls may run where:
 *     tickscope_stamp, _record, _bracket      the thread that opened the channel, and signal handlers on it
 *     tickscope_open, _open_clock, _open_bracket    any thread, not signal handlers
 *     tickscope_now, tickscope_clock_now      anywhere; through the injected map once a channel was opened or a meter made
 *     tickscope_dump                          anywhere
 *     tickscope_close, _choose                the thread that opened the channel, not signal handlers
 * There is no limit on channels but the pool's memory: a stamp that finds no channel or no room is counted as lost,
 * under its point. An ended thread's handles, and the rest of its block, serve later threads.
 * fork: the child's channels go on in a pool of the child's own. exec: the program that follows opens its own. The end of
 * a thread closes its channels. Every shared object that includes this header has a pool of its own; where one is
 * unloaded, that and a descriptor stay to the process's end. vfork's child must not stamp; raw clone is not supported.
 * The pool is made at load, and seen from the first opening on. That makes one, in milliseconds, in a forked child, a
 * process that changed its user or closed all its descriptors, and where a file system has no O_TMPFILE. Its place is
 * what TICKSCOPE_DIR led to at load. Two descriptors are kept, above 2: where the pool can have none, points are off.
 */
#ifndef TICKSCOPE_H
#define TICKSCOPE_H

#if !defined(_GNU_SOURCE) && !defined(_FEATURES_H)
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#if defined(__x86_64__)
#include <cpuid.h>
#endif

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
#define TICKSCOPE__OUTLINE __attribute__((weak, visibility("hidden"), noinline))
#define TICKSCOPE__HOT static inline __attribute__((always_inline))

/* ---- what programs use ------------------------------------------------------------------------------------------ */

/* What a reading of the counter is ordered against. */
enum tickscope_ordering {
    TICKSCOPE_PLAIN = 0,  /* nothing: for stages, never evidence about clocks */
    TICKSCOPE_BEFORE = 1, /* read before anything that follows can be seen by others: put it right before a send */
    TICKSCOPE_AFTER = 2   /* not read until all that precedes was seen: right after a receive, or a store and a fence */
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
    TICKSCOPE_FULL = 2, /* stamps carry parent, attempt and batch too: 48 bytes */
    /* Only with one of the above, at points of the counter; they cost a call more, and what they read. */
    TICKSCOPE_RDTSCP = 4, /* x86-64: the core is read by the instruction that reads the counter, not beside it */
    TICKSCOPE_BOTH = 8    /* value: CLOCK_MONOTONIC_RAW in ns, read right after the counter, whatever is given */
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
 * It costs one thread-local load and a branch more than a kept channel. A pool is made when this object is loaded, but
 * a forked child's at its first opening or stamp, which takes milliseconds then. A thread's first use is not for signal
 * handlers, and its end closes the channel.
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
 * Stamps the n consecutive ids from id on by one stamp, on a channel of TICKSCOPE_FULL. n of 0 or less or above 2^31-1,
 * ids past the end of 64 bits, and several ids on any other channel are refused and counted. `batch` of what the stamp
 * carries is not asked.
 */
static inline void tickscope_stamp_batch(tickscope_channel *channel, int64_t id, int64_t n);
static inline void tickscope_stamp_batch_with(tickscope_channel *channel, int64_t id, int64_t n,
                                              struct tickscope_extra extra);
/* The same with a tick that was read already, as tickscope_record_with takes it. */
static inline void tickscope_record_batch_with(tickscope_channel *channel, int64_t id, int64_t n, int64_t tick,
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

/*
 * Has `keep` choose under the policy own: it is asked with `state` and each stamp's id and tick, and returns whether
 * the stamp is kept. Asked on this thread, and by signal handlers on it while it is being asked: it must stand that.
 * 0: nobody chooses, and stamps under that policy are refused and counted. So are those that `keep` makes of its own
 * channel, beyond a depth of four.
 */
static inline void tickscope_choose(tickscope_channel *channel, int (*keep)(void *state, int64_t id, int64_t tick),
                                    void *state);

/* Asks the collector to store what this process's channels under the policy keep hold. */
static inline void tickscope_dump(void);

/* Reads the counter as stamps do, in ticks. */
static inline int64_t tickscope_now(enum tickscope_ordering ordering);

/* Reads another clock as stamps do, in ns; 0: it can't be read. */
static inline int64_t tickscope_clock_now(enum tickscope_counter counter);

/* ---- the layout: docs/block-format.md, crates/stamp/src/block.rs ------------------------------------------------- */

#define TICKSCOPE_VERSION 4
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
    uint64_t without_channel, channels_refused, after_close, dumps, unwritten;
    int64_t late_from, late_until, reading_ps; /* ticks around the making of a pool that its program waited for; */
    char reading[448], zero_to_4096[3200];     /* what a reading costs and is, where a program says it: not in C */
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
    uint64_t counted, seen; /* stamps under `count`, and under `every`, since the channel was opened */
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
    uint32_t end;               /* unit where its records end, because another policy began; 0: at the block's end */
    uint32_t following;         /* block of the pool, plus 1, that the channel leased next; 0: none yet */
    uint32_t first_of_policy;   /* number of the channel's first block under the policy */
    uint8_t zero_to_192[20];
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
    /* batch: -n: the stamp stands for the n consecutive ids from its own on */
    int32_t attempt, batch;
};

enum { TICKSCOPE__POOL_OPEN = 0, TICKSCOPE__POOL_CLOSED = 1 };
enum {
    TICKSCOPE__ENTRY_FREE, TICKSCOPE__ENTRY_OPENING, TICKSCOPE__ENTRY_OPEN,
    TICKSCOPE__ENTRY_CLOSED, TICKSCOPE__ENTRY_SHARED
};
enum { TICKSCOPE__BLOCK_FREE, TICKSCOPE__BLOCK_LEASED, TICKSCOPE__BLOCK_RELEASED, TICKSCOPE__BLOCK_OVERWRITTEN = 5 };
enum {
    TICKSCOPE__POLICY_NULL, TICKSCOPE__POLICY_BUFFERED, TICKSCOPE__POLICY_ALL, TICKSCOPE__POLICY_EVERY,
    TICKSCOPE__POLICY_X_OF_Y, TICKSCOPE__POLICY_COUNT, TICKSCOPE__POLICY_FIRST_LAST,
    TICKSCOPE__POLICY_RETURN_TRIP, TICKSCOPE__POLICY_KEEP, TICKSCOPE__POLICY_OWN
};
/* Names of the policies, each at its number. */
static const char *const tickscope__policies[] = {"null",       "buffered",    "all",  "every", "x-of-y", "count",
                                                  "first-last", "return-trip", "keep", "own"};
enum { TICKSCOPE__DROP = 0, TICKSCOPE__WAIT = 1, TICKSCOPE__OVERWRITE = 2 };

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
TICKSCOPE__ASSERT(offsetof(struct tickscope__block_header, end) == 160, "block header");
TICKSCOPE__ASSERT(offsetof(struct tickscope__entry, counted) == 176, "channel entry");
TICKSCOPE__ASSERT(offsetof(struct tickscope__pool_header, dumps) == 408, "pool header");
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
/* The tick and the core that it was read on, by one instruction; it waits until every earlier load has its value. */
TICKSCOPE__HOT int64_t tickscope__with_core(int32_t *core) {
    uint32_t low, high, aux;
    __asm__ __volatile__("rdtscp" : "=a"(low), "=d"(high), "=c"(aux)::"memory");
    *core = (int32_t)(aux & 0xfff); /* Linux keeps the node of memory above it */
    return (int64_t)((uint64_t)high << 32 | low);
}
static inline int tickscope__has_core(void) {
    uint32_t a, b, c, d;
    return __get_cpuid(0x80000001u, &a, &b, &c, &d) && (d >> 27 & 1);
}
#else /* aarch64: no program of this architecture was measured; its stamps are tested in an emulator */
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
/* No instruction here reads both: channels that ask for it are refused. */
TICKSCOPE__HOT int64_t tickscope__with_core(int32_t *core) {
    *core = -1;
    return tickscope__plain();
}
static inline int tickscope__has_core(void) {
    return 0;
}
#endif

/* ThreadSanitizer sees no access of an instruction written here: for it, one thread's words are moved by builtins. */
#if defined(__SANITIZE_THREAD__)
#define TICKSCOPE__BUILTINS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TICKSCOPE__BUILTINS 1
#endif
#endif
/* What is stored before is seen before what is stored after. */
TICKSCOPE__HOT void tickscope__release_fence(void) {
#if defined(TICKSCOPE__BUILTINS) /* it knows no fences */
    static uint64_t word;
    __atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

#if defined(__x86_64__) && !defined(TICKSCOPE__BUILTINS)
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
#else
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

/* A policy word that no channel has: the inline path then leaves everything to the dispatch. */
#define TICKSCOPE__NEVER UINT64_MAX

struct tickscope_channel {
    /* The hot path's line. */
    uint64_t next;          /* high half: blocks leased so far; low half: unit of the pool where the next record goes */
    unsigned char *blocks;  /* unit 0 */
    const uint64_t *policy; /* the entry's policy word, or one of this process's own */
    uint64_t fast_slim;     /* the policy word under which tickscope_stamp may go on inline */
    uint64_t fast_wide;     /* the same for tickscope_stamp_with */
    uint64_t adopted;       /* the policy word that the rule is of */
    struct tickscope__entry *entry;
    uint32_t unit_mask;      /* units a block, less one: these bits of a unit are its place in its block */
    uint8_t ordering, shape; /* shape: units of 16 bytes a record */
    uint8_t rule;            /* number of the adopted policy; TICKSCOPE__STORES_ALL: every stamp is stored */
    uint8_t in_use;
    /* What follows from the adopted policy. */
    uint64_t y;                   /* the n of every n too */
    uint64_t reciprocal;          /* of x of y: floor of (2^64 - 1) / y */
    uint32_t half, x;             /* remainder of 2^63 by y; below that remainder ids are kept */
    uint64_t kept_next;           /* under every n: the count at which the next stamp is kept */
    uint64_t stores;              /* the policy word under which every stamp goes to a block */
    uint64_t fast_full;           /* as fast_wide, for a channel of three units a record */
    int64_t retry_tick;           /* no block was free: not before this tick is one looked for again */
    int64_t claim_tick;           /* the same of a channel that overwrites its own blocks meanwhile */
    /* Cold. */
    uint64_t level;     /* under first-last, low half: stamps within one another; high half: see end_left_over */
    uint64_t parameter; /* of the adopted policy */
    int (*keep)(void *state, int64_t id, int64_t tick); /* under own: what chooses; 0: nobody */
    void *keep_state;
    /* Of a channel that overwrites: place in the pool, plus 1, and number of its oldest block, and place of its newest. */
    uint32_t oldest, oldest_number;
    uint32_t newest;                /* under first-last: TICKSCOPE__ENDED behind the marker */
    int32_t log;                    /* under all: descriptor of its log, plus 1; 0: it has none */
    int32_t thread;
    uint32_t flags;
    uint32_t serial;
    uint32_t successor; /* unit of its block where its description as a successor lies; 0: the block began as its own */
    uint8_t counter, brackets; /* what its ticks are of, and which clock it relates to them: tickscope_counter */
    uint8_t inlined;           /* its shape, if its ticks are the counter as it is; else 0 */
    uint8_t asked;             /* under own: how often what chooses is being asked now, by stamps within one another */
    uint32_t first_of_policy; /* number of the first block under the adopted policy */
    tickscope_channel *following; /* the next of its thread's, or of those whose threads have ended */
    char point[TICKSCOPE__NAME_BYTES];
    uint64_t log_length, log_mark; /* mark: position of its descriptor, above 512 GiB: no file of the program has it */
} __attribute__((aligned(64)));
TICKSCOPE__ASSERT(sizeof(tickscope_channel) == 320, "channel");
TICKSCOPE__ASSERT(offsetof(tickscope_channel, y) == 64, "channel");

/* The rules of policies that store every stamp, and of those of a later version. */
enum { TICKSCOPE__STORES_ALL = 254, TICKSCOPE__UNKNOWN = 255 };
#define TICKSCOPE__ENDED UINT32_MAX
/* Handlers within one another that have slots of their own under first-last. */
#define TICKSCOPE__LEVELS 16

TICKSCOPE__COLD void tickscope__stamp_slow(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra);
TICKSCOPE__COLD void tickscope__record_slow(tickscope_channel *channel, int64_t id, int64_t tick,
                                            const struct tickscope_extra *extra);
TICKSCOPE__COLD void tickscope__record_carrying(tickscope_channel *channel, int64_t id, int64_t tick, int32_t kind,
                                                int64_t value, const int64_t *parent, int32_t attempt, int32_t batch);
TICKSCOPE__COLD void tickscope__store(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra);
TICKSCOPE__OUTLINE void tickscope__stamp_by_policy(tickscope_channel *channel, int64_t id);
__extension__ typedef unsigned __int128 tickscope__unsigned_wide;
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

/* Stores a slim stamp; 0: the block is full. */
TICKSCOPE__HOT int tickscope__stamp_slim(tickscope_channel *channel, int64_t id) {
    int64_t tick = 0;
    unsigned char *record;
    uint8_t ordering = channel->ordering;
    /* An `after` reading is taken at once, the others as late as can be: that keeps intervals narrow. */
    if (ordering == TICKSCOPE_AFTER) tick = tickscope__after();
    if (__builtin_expect(!tickscope__reserve(channel, 1, &record), 0)) return 0;
    if (ordering == TICKSCOPE_PLAIN) tick = tickscope__plain();
    if (ordering == TICKSCOPE_BEFORE) tick = tickscope__before();
    tickscope__commit(record, id, tick);
    return 1;
}

/* Whether x of y keeps stamps of that id: exactly as crates/stamp/src/policies/x_of_y.rs. */
TICKSCOPE__HOT int tickscope__keeps_id(const tickscope_channel *channel, int64_t id) {
    uint64_t moved = (uint64_t)id ^ UINT64_C(1) << 63, y = channel->y;
    uint64_t quotient = (uint64_t)((tickscope__unsigned_wide)moved * channel->reciprocal >> 64);
    uint64_t rest = moved - quotient * y;
    rest = rest >= y ? rest - y : rest;
    return (rest >= channel->half ? rest - channel->half : rest + y - channel->half) < channel->x;
}

/*
 * Whether count or x of y is done with a stamp: a call would cost more than they do. Everything else, and what a signal
 * handler changed meanwhile, is left to tickscope__stamp_by_policy.
 */
TICKSCOPE__HOT int tickscope__is_done(tickscope_channel *channel, int64_t id, uint64_t policy) {
    if (policy != __atomic_load_n(&channel->adopted, __ATOMIC_RELAXED)) return 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint8_t rule = __atomic_load_n(&channel->rule, __ATOMIC_RELAXED);
    int is_left_out = rule == TICKSCOPE__POLICY_X_OF_Y && !tickscope__keeps_id(channel, id);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (policy != __atomic_load_n(&channel->adopted, __ATOMIC_RELAXED)) return 0;
    if (rule == TICKSCOPE__POLICY_COUNT) {
        tickscope__own_add(&channel->entry->counted, 1);
        return 1;
    }
    return is_left_out;
}

TICKSCOPE__HOT void tickscope_stamp(tickscope_channel *channel, int64_t id) {
    if (__builtin_expect(channel == 0, 0)) {
        tickscope__stamp_slow(channel, id, &tickscope__nothing);
        return;
    }
    uint64_t policy = __atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    /* First, without a hint: a stamp that is off then takes one jump, not two. */
    if ((uint32_t)policy == TICKSCOPE__POLICY_NULL) return;
    if (policy == channel->fast_slim) {
        if (__builtin_expect(tickscope__stamp_slim(channel, id), 1)) return;
    } else if (tickscope__is_done(channel, id, policy)) {
        return;
    }
    tickscope__stamp_by_policy(channel, id);
}

/* Counts a stamp; whether it is an n-th. A signal handler may come at any instruction, and go beyond kept_next. */
TICKSCOPE__HOT int tickscope__keeps_nth(tickscope_channel *channel, uint64_t n) {
    uint64_t count = tickscope__own_fetch_add(&channel->entry->seen, 1) + 1;
    uint64_t next = __atomic_load_n(&channel->kept_next, __ATOMIC_RELAXED);
    while ((int64_t)(count - next) >= 0)
        if (tickscope__own_exchange(&channel->kept_next, &next, next + n)) return 1;
    return 0;
}

enum { TICKSCOPE__DONE, TICKSCOPE__STORES, TICKSCOPE__UNCOMMON };

/* Decides about a stamp by its id and the rule that the channel has adopted; anything else is uncommon. */
TICKSCOPE__HOT int tickscope__decide(tickscope_channel *channel, int64_t id) {
    uint64_t policy = __atomic_load_n(channel->policy, __ATOMIC_RELAXED), n = channel->y;
    if (policy != __atomic_load_n(&channel->adopted, __ATOMIC_RELAXED)) return TICKSCOPE__UNCOMMON;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint8_t rule = __atomic_load_n(&channel->rule, __ATOMIC_RELAXED);
    int is_chosen = rule == TICKSCOPE__POLICY_X_OF_Y && tickscope__keeps_id(channel, id);
    /* A signal handler may have adopted another policy while the rule was read. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (policy != channel->adopted) return TICKSCOPE__UNCOMMON;
    switch (rule) {
    case TICKSCOPE__POLICY_X_OF_Y: return is_chosen;
    case TICKSCOPE__POLICY_EVERY: return tickscope__keeps_nth(channel, n);
    case TICKSCOPE__POLICY_COUNT: tickscope__own_add(&channel->entry->counted, 1); return TICKSCOPE__DONE;
    case TICKSCOPE__STORES_ALL: return TICKSCOPE__STORES;
    case TICKSCOPE__POLICY_NULL: return TICKSCOPE__DONE;
    default: return TICKSCOPE__UNCOMMON;
    }
}

/* A slim stamp that is not simply kept. Not cold: most stamps under x of y end here. */
TICKSCOPE__OUTLINE void tickscope__stamp_by_policy(tickscope_channel *channel, int64_t id) {
    int decision = tickscope__decide(channel, id);
    if (decision == TICKSCOPE__DONE) return;
    if (decision == TICKSCOPE__UNCOMMON) tickscope__stamp_slow(channel, id, &tickscope__nothing);
    else if (channel->inlined != 1 || !tickscope__stamp_slim(channel, id))
        tickscope__store(channel, id, &tickscope__nothing);
}

TICKSCOPE__HOT void tickscope__commit_on(unsigned char *record, int64_t id, int64_t tick, int32_t kind, int64_t value,
                                         int32_t core) {
    struct tickscope__wide_record *wide = (struct tickscope__wide_record *)(void *)record;
    __atomic_store_n(&wide->value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&wide->kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&wide->cpu, core, __ATOMIC_RELAXED);
    tickscope__commit(record, id, tick);
}

TICKSCOPE__HOT void tickscope__commit_wide(unsigned char *record, int64_t id, int64_t tick, int32_t kind, int64_t value) {
    tickscope__commit_on(record, id, tick, kind, value, tickscope__cpu());
}

TICKSCOPE__HOT void tickscope__commit_origin(unsigned char *record, int64_t id, const struct tickscope_extra *extra) {
    struct tickscope__full_record *full = (struct tickscope__full_record *)(void *)record;
    __atomic_store_n(&full->parent, extra->parent ? *extra->parent : id, __ATOMIC_RELAXED);
    __atomic_store_n(&full->attempt, extra->attempt, __ATOMIC_RELAXED);
    __atomic_store_n(&full->batch, extra->batch, __ATOMIC_RELAXED);
}

TICKSCOPE__HOT void tickscope__commit_full(unsigned char *record, int64_t id, int64_t tick,
                                           const struct tickscope_extra *extra) {
    tickscope__commit_origin(record, id, extra);
    tickscope__commit_wide(record, id, tick, extra->kind, extra->value);
}

/* What a stamp carries, one by one: were a struct handed over, every wide stamp would store it to memory first. */
#define TICKSCOPE__EACH(extra) (extra).kind, (extra).value, (extra).parent, (extra).attempt, (extra).batch
/* A batch that is not said is 0: below that a record says ids. */
#define TICKSCOPE__EXTRA(extra) struct tickscope_extra extra = {kind, attempt, value, parent, batch > 0 ? batch : 0}

TICKSCOPE__HOT void tickscope__stamp_extra(tickscope_channel *channel, int64_t id,
                                           const struct tickscope_extra *extra) {
    unsigned char *record;
    int decision = TICKSCOPE__UNCOMMON;
    if (channel && __atomic_load_n(channel->policy, __ATOMIC_RELAXED) == channel->fast_full) {
        int64_t tick = tickscope__read(channel->ordering);
        if (tickscope__reserve(channel, 3, &record)) {
            tickscope__commit_full(record, id, tick, extra);
            return;
        }
    }
    if (channel) decision = tickscope__decide(channel, id);
    if (decision == TICKSCOPE__STORES) tickscope__store(channel, id, extra);
    if (decision == TICKSCOPE__UNCOMMON) tickscope__stamp_slow(channel, id, extra);
}

/* A stamp of a full channel; one of a wide channel that is not simply kept. */
TICKSCOPE__OUTLINE void tickscope__stamp_full(tickscope_channel *channel, int64_t id, int32_t kind, int64_t value,
                                              const int64_t *parent, int32_t attempt, int32_t batch) {
    TICKSCOPE__EXTRA(extra);
    tickscope__stamp_extra(channel, id, &extra);
}

TICKSCOPE__HOT void tickscope_stamp_with(tickscope_channel *channel, int64_t id, struct tickscope_extra extra) {
    int64_t tick;
    unsigned char *record;
    if (__builtin_expect(channel == 0, 0)) {
        tickscope__stamp_full(channel, id, TICKSCOPE__EACH(extra));
        return;
    }
    uint64_t policy = __atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    if ((uint32_t)policy == TICKSCOPE__POLICY_NULL) return; /* first, as in tickscope_stamp */
    if (__builtin_expect(policy != channel->fast_wide, 0)) {
        tickscope__stamp_full(channel, id, TICKSCOPE__EACH(extra));
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
TICKSCOPE__HOT int tickscope__records(const tickscope_channel *channel, uint64_t policy, uint32_t units, int64_t tick) {
    return channel && policy == channel->stores && channel->shape == units && tick != 0;
}

TICKSCOPE__HOT void tickscope_record(tickscope_channel *channel, int64_t id, int64_t tick) {
    unsigned char *record;
    uint64_t policy = channel ? __atomic_load_n(channel->policy, __ATOMIC_RELAXED) : TICKSCOPE__NEVER;
    if ((uint32_t)policy == TICKSCOPE__POLICY_NULL) return;
    if (__builtin_expect(!tickscope__records(channel, policy, 1, tick) || !tickscope__reserve(channel, 1, &record), 0)) {
        tickscope__record_slow(channel, id, tick, &tickscope__nothing);
        return;
    }
    tickscope__commit(record, id, tick);
}

TICKSCOPE__HOT void tickscope_record_with(tickscope_channel *channel, int64_t id, int64_t tick,
                                          struct tickscope_extra extra) {
    unsigned char *record;
    uint64_t policy = channel ? __atomic_load_n(channel->policy, __ATOMIC_RELAXED) : TICKSCOPE__NEVER;
    if ((uint32_t)policy == TICKSCOPE__POLICY_NULL) return;
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
#define TICKSCOPE__CHUNK 204
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

/* What a descriptor led to once; an inode of 0: to nothing. */
struct tickscope__file {
    uint64_t device, inode;
};
#define TICKSCOPE__SAID_BYTES 1024
#define TICKSCOPE__PATH_BYTES 4000

struct tickscope__process {
    uint32_t busy; /* guards everything below; taken with signals blocked */
    uint32_t ready;
    uint32_t complaints, crowding_told, logs_told;
    int cancel_state; /* of the thread that is busy, to be restored */
    int32_t holder;   /* that thread; 0: none */
    uint32_t said_bytes;
    char said[TICKSCOPE__SAID_BYTES]; /* complaints that wait until it lets go */
    struct tickscope__file stderr_at_load;
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
    struct tickscope__file lock_file;
    int base_fd; /* the stamp directory, wherever the program goes; -1: none */
    struct tickscope__file base_file;
    uint8_t boot_id[16];
    int32_t pid; /* that made the pool; 0: there was none yet */
    uint32_t is_loading, is_unnamed; /* complaints are left to the first opening; nobody knows of the pool yet */
    uid_t user; /* that made it while this object was loaded */
    gid_t users_group;
    pthread_key_t thread_end;
    uint32_t has_key; /* not once this object is unloaded, or the process ends */
    sigset_t mask_at_fork;
    /* Configuration, from the environment. */
    char directory[TICKSCOPE__PATH_BYTES + 64], logs[TICKSCOPE__PATH_BYTES]; /* the former: with a file's name */
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

TICKSCOPE__COLD struct tickscope__file tickscope__file_of(int fd) {
    struct stat found;
    struct tickscope__file file = {0, 0};
    if (fstat(fd, &found) == 0) file.device = found.st_dev, file.inode = found.st_ino;
    return file;
}

/* Whether a descriptor leads there still: the program may have closed it, and got its number for a file of its own. */
TICKSCOPE__COLD int tickscope__leads_to(int fd, struct tickscope__file file) {
    struct tickscope__file now = tickscope__file_of(fd);
    return file.inode != 0 && now.device == file.device && now.inode == file.inode;
}

/*
 * Writes to stderr, if it is the file that it was when this object was loaded, and takes the text at once. No signal
 * comes of it: neither of a reader that is gone, nor of `ulimit -f`, nor of a terminal whose foreground is another's.
 */
TICKSCOPE__COLD void tickscope__say(const char *text, size_t length) {
    struct pollfd out = {2, POLLOUT, 0};
    struct timespec at_once = {0, 0};
    sigset_t ours, mask, pending;
    int error = errno, cancel;
    if (length == 0 || !tickscope__leads_to(2, tickscope__process.stderr_at_load)) return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    sigemptyset(&ours);
    sigaddset(&ours, SIGPIPE), sigaddset(&ours, SIGXFSZ), sigaddset(&ours, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &ours, &mask);
    sigpending(&pending);
    if (poll(&out, 1, 0) == 1 && out.revents == POLLOUT && write(2, text, length) < 0) {
        int raised = errno == EPIPE ? SIGPIPE : errno == EFBIG ? SIGXFSZ : 0;
        sigemptyset(&ours);
        if (raised) sigaddset(&ours, raised);
        /* One that was pending before is the program's. */
        if (raised && !sigismember(&pending, raised))
            while (sigtimedwait(&ours, 0, &at_once) < 0 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, &mask, 0);
    pthread_setcancelstate(cancel, 0);
    errno = error;
}

/* Whoever is busy says it when letting go: with its signals. */
TICKSCOPE__COLD void tickscope__complain(const char *expected, const char *found, const char *remedy) {
    struct tickscope__process *own = &tickscope__process;
    char line[512];
    if (own->is_loading) return;
    if (__atomic_fetch_add(&own->complaints, 1, __ATOMIC_RELAXED) >= 8) return;
    int length = snprintf(line, sizeof line, "tickscope: expected %s, found %s. %s\n", expected, found, remedy);
    if (length > (int)sizeof line - 1) length = (int)sizeof line - 1;
    if (length <= 0) return;
    if (__atomic_load_n(&own->holder, __ATOMIC_RELAXED) != (int32_t)syscall(SYS_gettid)) {
        tickscope__say(line, (size_t)length);
    } else if (own->said_bytes + (size_t)length <= sizeof own->said) {
        memcpy(own->said + own->said_bytes, line, (size_t)length);
        own->said_bytes += (uint32_t)length;
    }
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
    if (!__atomic_load_n(&own->realtime_injected, __ATOMIC_ACQUIRE)) return raw_ns;
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
    /* Acquire: another thread may be starting this process's measurement. */
    int is_injected = __atomic_load_n(&tickscope__process.injected, __ATOMIC_ACQUIRE);
    return is_injected ? tickscope__injected(&tickscope__process.map, raw) : raw;
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
    __atomic_store_n(&tickscope__process.holder, (int32_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
}

TICKSCOPE__COLD void tickscope__let_go(const sigset_t *before) {
    int cancel = tickscope__process.cancel_state;
    char said[TICKSCOPE__SAID_BYTES];
    size_t bytes = tickscope__process.said_bytes;
    memcpy(said, tickscope__process.said, bytes);
    tickscope__process.said_bytes = 0;
    __atomic_store_n(&tickscope__process.holder, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&tickscope__process.busy, 0, __ATOMIC_RELEASE);
    pthread_sigmask(SIG_SETMASK, before, 0);
    tickscope__say(said, bytes);
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
    struct tickscope__map map;
    if (own->injected || text == 0 || text[0] == 0) return 1;
    rest = tickscope__parse_map(text, &map);
    if (rest == 0 || *rest) {
        tickscope__complain("TICKSCOPE_INJECT as anchor:offset:drift_ppb:wander_ppb:wander_period, and perhaps "
                            ":step_numerator:step_denominator:uneven", text,
                            "Points are off; correct it, or unset it to read the true counter.");
        return 0;
    }
    own->map = map;
    __atomic_store_n(&own->injected, 1, __ATOMIC_RELEASE); /* the map is whole */
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
        __atomic_store_n(&own->realtime_injected, 1, __ATOMIC_RELEASE);
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

TICKSCOPE__COLD int tickscope__configure_when_full(void) {
    static const char *const words[] = {"drop", "wait", "overwrite"};
    const char *text = getenv("TICKSCOPE_WHEN_FULL");
    tickscope__process.when_full = TICKSCOPE__DROP;
    if (text == 0 || text[0] == 0) return 1;
    for (uint32_t at = TICKSCOPE__DROP; at <= TICKSCOPE__OVERWRITE; at++) {
        if (strcmp(text, words[at])) continue;
        tickscope__process.when_full = at;
        return 1;
    }
    tickscope__complain("TICKSCOPE_WHEN_FULL as drop, wait or overwrite", text, "Points are off; unset it for drop.");
    return 0;
}

/* ---- policies by their texts: crates/stamp/src/policies.rs ------------------------------------------------------- */

struct tickscope__choice {
    uint32_t policy;
    uint64_t parameter;
};

#define TICKSCOPE__NO_MARKER (UINT64_C(1) << 63)
#define TICKSCOPE__BLANKS " \t\n\f\r"
#define TICKSCOPE__LEAST_SPAN UINT64_C(1000)
#define TICKSCOPE__MOST_SPAN UINT64_C(86400000000000)

/* The digits that a text begins with, as a number up to `most`; what follows, or 0: there are none or too many. */
TICKSCOPE__COLD const char *tickscope__parse_digits(const char *text, uint64_t most, uint64_t *number) {
    const char *first = text;
    for (*number = 0; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (*number > (most - digit) / 10) return 0;
        *number = *number * 10 + digit;
    }
    return text == first ? 0 : text;
}

/* A word that is a whole number up to `most`, and nothing else. */
TICKSCOPE__COLD int tickscope__parse_whole(const char *text, uint64_t most, uint64_t *number) {
    const char *rest = tickscope__parse_digits(text, most, number);
    return rest && *rest == 0;
}

/* A length of time as 10ms or 5s, from a microsecond to a day, in nanoseconds. */
TICKSCOPE__COLD int tickscope__parse_span(const char *text, uint64_t *ns) {
    static const char *const names[] = {"h", "m", "s", "ms", "us", "ns"};
    static const uint64_t units[] = {UINT64_C(3600000000000), UINT64_C(60000000000), 1000000000, 1000000, 1000, 1};
    const char *unit = tickscope__parse_digits(text, UINT64_MAX, ns);
    for (size_t at = 0; unit && at < sizeof units / sizeof *units; at++) {
        if (strcmp(unit, names[at])) continue;
        if (*ns > TICKSCOPE__MOST_SPAN / units[at]) return 0;
        *ns *= units[at];
        return *ns >= TICKSCOPE__LEAST_SPAN;
    }
    return 0;
}

/* An id that can be a marker, as the parameter of first-last. */
TICKSCOPE__COLD int tickscope__parse_marker(const char *text, uint64_t *parameter) {
    int is_negative = *text == '-';
    if (!tickscope__parse_whole(text + is_negative, (uint64_t)INT64_MAX, parameter)) return 0;
    if (is_negative) *parameter = 0 - *parameter;
    return 1;
}

/* What the words of a policy's text say; 0: no policy. */
TICKSCOPE__COLD int tickscope__parse_words(char **words, int count, struct tickscope__choice *choice) {
    uint64_t x, *parameter = &choice->parameter;
    if (count == 1 && strcmp(words[0], "first-last") == 0) {
        choice->policy = TICKSCOPE__POLICY_FIRST_LAST, *parameter = TICKSCOPE__NO_MARKER;
        return 1;
    }
    if (count == 3 && strcmp(words[1], "of") == 0) {
        choice->policy = TICKSCOPE__POLICY_X_OF_Y;
        if (!tickscope__parse_whole(words[0], UINT32_MAX, &x)) return 0;
        if (!tickscope__parse_whole(words[2], UINT32_MAX, parameter)) return 0;
        int is_valid = 0 < x && x < *parameter;
        *parameter |= x << 32;
        return is_valid;
    }
    if (count != 1 && count != 2) return 0;
    for (choice->policy = 0; strcmp(words[0], tickscope__policies[choice->policy]) != 0;)
        if (++choice->policy == sizeof tickscope__policies / sizeof *tickscope__policies) return 0;
    *parameter = 0;
    switch (choice->policy) {
    case TICKSCOPE__POLICY_EVERY:
        return count == 2 && tickscope__parse_whole(words[1], (uint64_t)INT64_MAX, parameter) && *parameter > 0;
    case TICKSCOPE__POLICY_COUNT:
    case TICKSCOPE__POLICY_KEEP: return count == 2 && tickscope__parse_span(words[1], parameter);
    case TICKSCOPE__POLICY_FIRST_LAST: return tickscope__parse_marker(words[1], parameter); /* of two words */
    case TICKSCOPE__POLICY_X_OF_Y: return 0; /* its name is not how it is written */
    default: return count == 1;
    }
}

/* The policy of that text, which is cut into its words; 0: it is none. */
TICKSCOPE__COLD int tickscope__parse_policy(char *text, struct tickscope__choice *choice) {
    char *words[4], *word;
    int count = 0;
    while ((word = strsep(&text, TICKSCOPE__BLANKS)) != 0) {
        if (*word && count == 4) return 0;
        if (*word) words[count++] = word;
    }
    return count > 0 && tickscope__parse_words(words, count, choice);
}

/* Whether a name matches: * stands for any letters, ? for one. Blanks around the glob mean nothing: names hold none. */
TICKSCOPE__COLD int tickscope__matches(const char *glob, const char *name) {
    const char *behind = 0, *from = 0; /* where to go on behind the last star */
    glob += strspn(glob, TICKSCOPE__BLANKS);
    while (*name) {
        if (*glob == '*') behind = ++glob, from = name;
        else if (*glob == '?' || *glob == *name) glob++, name++;
        else if (behind) glob = behind, name = ++from;
        else return 0;
    }
    while (*glob == '*') glob++;
    return glob[strspn(glob, TICKSCOPE__BLANKS)] == 0;
}

/* Whether all of TICKSCOPE_POLICY can be read. */
TICKSCOPE__COLD int tickscope__configure_policies(void) {
    const char *policies = getenv("TICKSCOPE_POLICY");
    char rules[sizeof tickscope__process.policies], found[sizeof rules], *rule, *rest = rules;
    struct tickscope__choice choice;
    if (policies && strlen(policies) >= sizeof rules) {
        tickscope__complain("TICKSCOPE_POLICY below 1024 bytes", "a longer one", "Points are off; shorten it.");
        return 0;
    }
    strcpy(tickscope__process.policies, policies ? policies : "");
    strcpy(rules, tickscope__process.policies);
    while ((rule = strsep(&rest, ",")) != 0) {
        char *policy = strchr(rule, '=');
        if (rule[strspn(rule, TICKSCOPE__BLANKS)] == 0) continue;
        if (policy == 0) {
            tickscope__complain("TICKSCOPE_POLICY as glob=policy,...", rule, "Points are off; write send*=null, say.");
            return 0;
        }
        strcpy(found, policy + 1);
        if (tickscope__parse_policy(policy + 1, &choice)) continue;
        tickscope__complain("TICKSCOPE_POLICY with a policy: null, buffered, all, every N, X of Y, count PERIOD, "
                            "first-last [MARKER], return-trip, keep DURATION or own (N and Y at least 1, X below Y, "
                            "PERIOD and DURATION from 1us to 24h as 10ms or 5s, MARKER an id)",
                            found, "Points are off; correct it.");
        return 0;
    }
    return 1;
}

/* The policy that TICKSCOPE_POLICY gives the point: the first rule whose glob matches. */
TICKSCOPE__COLD struct tickscope__choice tickscope__policy_of(const char *point) {
    struct tickscope__choice choice = {TICKSCOPE__POLICY_BUFFERED, 0};
    char rules[sizeof tickscope__process.policies], *policy, *rest = rules;
    strcpy(rules, tickscope__process.policies);
    while ((policy = strsep(&rest, ",")) != 0) {
        const char *glob = strsep(&policy, "=");
        if (policy == 0 || !tickscope__matches(glob, point)) continue;
        tickscope__parse_policy(policy, &choice); /* it was looked at before */
        return choice;
    }
    return choice;
}

TICKSCOPE__COLD int tickscope__configure(void) {
    struct tickscope__process *own = &tickscope__process;
    const char *directory = getenv("TICKSCOPE_DIR"), *node = getenv("TICKSCOPE_NODE");
    const char *logs = getenv("TICKSCOPE_LOGS");
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
    if (!tickscope__configure_when_full()) return 0;
    if (strlen(directory) >= TICKSCOPE__PATH_BYTES || (logs && strlen(logs) >= sizeof own->logs)) {
        tickscope__complain("TICKSCOPE_DIR and TICKSCOPE_LOGS below 4000 bytes", "longer ones",
                            "Points are off; shorten them.");
        return 0;
    }
    if (!tickscope__configure_policies()) return 0;
    if (node && node[0] && (!tickscope__valid_name(node) || strchr(node, '.'))) {
        tickscope__complain("TICKSCOPE_NODE as 1 to 47 letters, digits, '_', '-'", node, "Points are off; name this node so.");
        return 0;
    }
    strcpy(own->directory, directory);
    strcpy(own->logs, logs ? logs : "");
    strcpy(own->node, node && node[0] ? node : "node");
    own->block_bytes = (uint32_t)block_bytes;
    own->block_count = (uint64_t)(pool_bytes / block_bytes);
    if (own->block_count < TICKSCOPE__FEWEST_BLOCKS) own->block_count = TICKSCOPE__FEWEST_BLOCKS;
    /* A multiple of 16, so that the blocks begin on a page. */
    uint64_t entries = own->block_count < TICKSCOPE__LEAST_ENTRIES ? TICKSCOPE__LEAST_ENTRIES : own->block_count;
    own->channel_entries = (uint32_t)((entries + 15) / 16 * 16);
    own->block_offset = sizeof(struct tickscope__pool_header) +
                        (own->channel_entries + TICKSCOPE__SHARED_ENTRIES) * sizeof(struct tickscope__entry);
    return 1;
}

/* Read once: a program that changes its root may have no /proc there. */
TICKSCOPE__COLD void tickscope__read_boot_id(void) {
    char text[64];
    size_t byte = 0;
    memset(text, 0, sizeof text);
    memset(tickscope__process.boot_id, 0, sizeof tickscope__process.boot_id);
    tickscope__slurp("/proc/sys/kernel/random/boot_id", text, sizeof text);
    for (const char *c = text; *c && byte < 32; c++) {
        int digit = *c >= '0' && *c <= '9' ? *c - '0' : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10 : -1;
        if (digit < 0) continue;
        tickscope__process.boot_id[byte / 2] |= (uint8_t)(byte % 2 ? digit : digit << 4);
        byte++;
    }
}

TICKSCOPE__COLD void tickscope__describe_process(struct tickscope__pool_header *header) {
    char text[1024];
    memcpy(header->boot_id, tickscope__process.boot_id, sizeof header->boot_id);
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

/* Descriptors that are kept begin here, or at half of what the process may have: the lower ones stay the program's. */
#define TICKSCOPE__LOWEST_KEPT 512

/* The same file under a high number, never that of stdin, stdout or stderr; -1: errno says why there is none. */
TICKSCOPE__COLD int tickscope__raised(int fd) {
    struct rlimit limit;
    int lowest = TICKSCOPE__LOWEST_KEPT;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 2 < (rlim_t)lowest) lowest = (int)limit.rlim_cur / 2;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, lowest > 2 ? lowest : 3);
    if (high < 0 && errno == EINVAL) errno = EMFILE; /* the limit is below that */
    return high;
}

/*
 * A new file under a high number before anything is in it, and as empty as it was: while it had a low one, which may be
 * that of a stderr that the program has closed, another thread may have written to it. -1: errno says why not.
 */
TICKSCOPE__COLD int tickscope__moved_up(int fd) {
    int high = fd < 0 ? -1 : tickscope__raised(fd);
    if (high < 0 && (fd < 0 || fd > 2)) return fd;
    int error = errno;
    close(fd);
    if (high >= 0 && ftruncate(high, 0) == 0) return high;
    if (high >= 0) error = errno, close(high);
    errno = error;
    return -1;
}

/* Keeps the stamp directory open; where it is not there yet, or no number is left, its name must do. */
TICKSCOPE__COLD void tickscope__keep_base_held(void) {
    struct tickscope__process *own = &tickscope__process;
    int fd = open(own->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    own->base_fd = tickscope__raised(fd);
    own->base_file = tickscope__file_of(own->base_fd);
    close(fd);
}

/*
 * Opens the stamp directory: what its name led to when the environment was read, whatever root or directory the program
 * has by now; what the name leads to now where that is removed, or its descriptor closed.
 */
TICKSCOPE__COLD int tickscope__open_base(void) {
    struct tickscope__process *own = &tickscope__process;
    struct stat found;
    int kept = tickscope__leads_to(own->base_fd, own->base_file) && fstat(own->base_fd, &found) == 0 && found.st_nlink;
    return openat(kept ? own->base_fd : AT_FDCWD, kept ? "." : own->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
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
    int base = tickscope__open_base();
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

#define TICKSCOPE__MISSING(error) ((error) == ENOENT || (error) == ENOTDIR)
#define TICKSCOPE__BARRED(error) ((error) == EACCES || (error) == EPERM || (error) == EROFS)
/* Leaves an empty file that tells the collector why there is no pool: it needs no space and no descriptor. */
TICKSCOPE__COLD void tickscope__refused(const char *what, int error, uint64_t bytes) {
    struct tickscope__process *own = &tickscope__process;
    char found[128], expected[512], *end = own->directory + strlen(own->directory);
    int directory = tickscope__own_directory();
    if (directory < 0) directory = tickscope__open_base();
    snprintf(end, TICKSCOPE__FILE_NAME_BYTES, "/refused-%d-%d", (int)getpid(), error);
    const char *name = directory < 0 ? own->directory : end + 1;
    int at = directory < 0 ? AT_FDCWD : directory;
    if (mknodat(at, name, S_IFREG | 0600, 0) == 0 && own->group >= 0 &&
        fchownat(at, name, (uid_t)-1, (gid_t)own->group, AT_SYMLINK_NOFOLLOW) != 0)
        unlinkat(at, name, 0);
    if (directory >= 0) close(directory);
    *end = 0;
    snprintf(expected, sizeof expected, "to %s a pool of %llu bytes in %.300s", what, (unsigned long long)bytes,
             own->directory);
    snprintf(found, sizeof found, "errno %d (%s)", error, strerror(error));
    tickscope__complain(expected, found,
                TICKSCOPE__MISSING(error) ? "Points are off; make that directory first (mkdir -m 700), on a tmpfs." :
                TICKSCOPE__BARRED(error) || error == ELOOP ? "Points are off; name a directory of its own, no link." :
                error == EMFILE ? "Points are off; raise ulimit -n: a pool takes a descriptor above 2." :
                error == EFBIG || error == ENOMEM ? "Points are off; raise ulimit -f or -v, or set a smaller pool." :
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

TICKSCOPE__COLD uint64_t tickscope__pool_bytes_mapped(const struct tickscope__pool_header *header) {
    return header->block_offset + (uint64_t)header->block_count * header->block_bytes;
}

/*
 * Puts other memory where the pool was, as empty as a new one, in a forked child. Not a hole: fork may have been called
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

/* Lets go of a pool that no handle leads into. Other threads may be counting in its header. */
TICKSCOPE__COLD void tickscope__leave_pool_held(void) {
    struct tickscope__process *own = &tickscope__process;
    tickscope__forget_pool(own->pool);
    if (tickscope__leads_to(own->lock_fd, own->lock_file)) close(own->lock_fd);
    own->pool = 0;
    own->entries = 0;
    own->lock_fd = -1;
    own->pid = 0;
    own->is_unnamed = 0;
}

/* Makes a pool of a new file, sized before it is mapped, whole and locked before it has a name. 0: it is there. */
TICKSCOPE__COLD const char *tickscope__fill_pool(int fd, uint64_t instance) {
    struct tickscope__process *own = &tickscope__process;
    uint64_t bytes = own->block_offset + own->block_count * own->block_bytes;
    struct flock whole;
    void *map = tickscope__fill(fd, bytes);
    if (map == MAP_FAILED) return "fill";
    struct tickscope__pool_header *header = (struct tickscope__pool_header *)map;
    tickscope__describe_pool(header, instance);
    memset(&whole, 0, sizeof whole);
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    whole.l_len = 1;
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        int error = errno;
        munmap(map, bytes);
        errno = error;
        return "lock";
    }
    own->lock_fd = fd;
    own->lock_file = tickscope__file_of(own->lock_fd);
    own->pid = header->pid;
    own->entries = (struct tickscope__entry *)(void *)((char *)map + header->entry_offset);
    __atomic_store_n(&own->spare_count, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&own->pool, header, __ATOMIC_RELEASE); /* its header is whole */
    return 0;
}

/* Makes a pool in that directory; it is whole before it has its name. */
TICKSCOPE__COLD const char *tickscope__make_pool_in(int directory) {
    char hidden[TICKSCOPE__FILE_NAME_BYTES], name[TICKSCOPE__FILE_NAME_BYTES];
    uint64_t instance = tickscope__random();
    tickscope__file_name(hidden, ".pool-", instance, 16, 16, ".ticks");
    tickscope__file_name(name, "pool-", instance, 16, 16, ".ticks");
    int fd = tickscope__moved_up(openat(directory, hidden, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600));
    const char *failed = fd < 0 ? "create" : tickscope__fill_pool(fd, instance);
    int error = errno;
    if (!failed && renameat(directory, hidden, directory, name) == 0) return 0;
    if (!failed) error = errno, failed = "name", tickscope__leave_pool_held();
    else if (fd >= 0) close(fd);
    unlinkat(directory, hidden, 0);
    errno = error;
    return failed;
}

/* Makes this process's pool, in the directory of the user that it runs as now. */
TICKSCOPE__COLD int tickscope__make_pool(void) {
    struct tickscope__process *own = &tickscope__process;
    int directory = tickscope__own_directory();
    const char *failed = directory < 0 ? "create" : tickscope__make_pool_in(directory);
    int error = errno;
    if (directory >= 0) close(directory);
    if (failed) tickscope__refused(failed, error, own->block_offset + own->block_count * own->block_bytes);
    return failed == 0;
}

/* Says that the program waited for its pool since that tick. */
TICKSCOPE__COLD int tickscope__waited_held(int64_t since) {
    struct tickscope__pool_header *pool = tickscope__process.pool;
    __atomic_store_n(&pool->late_from, since, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->late_until, tickscope__now(TICKSCOPE_PLAIN), __ATOMIC_RELEASE);
    return 1;
}

/* A pool of a file without a name: nobody sees it, and nothing is left of it, however the process ends. */
TICKSCOPE__COLD void tickscope__make_unnamed_pool_held(void) {
    struct tickscope__process *own = &tickscope__process;
    struct timespec now = {0, 0};
    int64_t since = tickscope__now(TICKSCOPE_PLAIN), hertz = sysconf(_SC_CLK_TCK);
    int fd = tickscope__moved_up(open(own->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd < 0) return; /* not every file system has them */
    own->is_unnamed = tickscope__fill_pool(fd, tickscope__random()) == 0;
    own->user = geteuid(), own->users_group = getegid();
    if (!own->is_unnamed) close(fd);
    else if (clock_gettime(CLOCK_BOOTTIME, &now) == 0 && now.tv_sec * hertz - own->pool->process_start > hertz)
        tickscope__waited_held(since); /* loaded late: the process began more than a second ago */
}

/*
 * Gives the pool its name. One of a user or group that the process is of no more, or whose descriptor the program has
 * closed, is left for one that is made now.
 */
TICKSCOPE__COLD int tickscope__name_pool_held(void) {
    struct tickscope__process *own = &tickscope__process;
    char file[TICKSCOPE__FILE_NAME_BYTES], name[TICKSCOPE__FILE_NAME_BYTES];
    int is_ours = own->user == geteuid() && own->users_group == getegid();
    int directory = is_ours && tickscope__leads_to(own->lock_fd, own->lock_file) ? tickscope__own_directory() : -1;
    tickscope__file_name(file, "/proc/self/fd/", (uint64_t)own->lock_fd, 10, 1, "");
    tickscope__file_name(name, "pool-", own->pool->instance, 16, 16, ".ticks");
    int named = directory >= 0 && (linkat(AT_FDCWD, file, directory, name, AT_SYMLINK_FOLLOW) == 0 || /* or, root without /proc: */
                                   linkat(own->lock_fd, "", directory, name, AT_EMPTY_PATH) == 0);
    if (directory >= 0) close(directory);
    own->is_unnamed = 0;
    if (!named) tickscope__leave_pool_held();
    return named;
}

/* Whether there is a pool that a collector sees; made and named here, if not before. */
TICKSCOPE__COLD int tickscope__has_pool_held(void) {
    struct tickscope__process *own = &tickscope__process;
    if (own->pool && (!own->is_unnamed || tickscope__name_pool_held())) return 1;
    int64_t since = tickscope__now(TICKSCOPE_PLAIN);
    if (tickscope__make_pool()) return tickscope__waited_held(since);
    if (own->pid == 0) own->directory[0] = 0;
    return 0;
}

/* ---- fork, the end of a thread, the end of the process ------------------------------------------------------------ */

TICKSCOPE__COLD void tickscope__before_fork(void) {
    tickscope__hold(&tickscope__process.mask_at_fork); /* signals too: a handler in the child must not meet the old handles */
}

TICKSCOPE__COLD void tickscope__after_fork_in_parent(void) {
    sigset_t mask = tickscope__process.mask_at_fork;
    tickscope__let_go(&mask);
}

/* Leaves every stamp to the slow path. */
static inline void tickscope__forbid_inline(tickscope_channel *channel) {
    channel->fast_slim = channel->fast_wide = channel->fast_full = TICKSCOPE__NEVER;
    channel->stores = channel->adopted = TICKSCOPE__NEVER;
}

/* Whether the log's descriptor leads to it: the program may have closed that, and got it for a file of its own. */
TICKSCOPE__COLD int tickscope__has_log(const tickscope_channel *channel) {
    return channel->log > 0 && lseek(channel->log - 1, 0, SEEK_CUR) == (off_t)channel->log_mark;
}

TICKSCOPE__COLD void tickscope__close_log(tickscope_channel *channel) {
    if (tickscope__has_log(channel)) close(channel->log - 1);
    channel->log = 0;
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
            tickscope__forbid_inline(channel);
            tickscope__close_log(channel);
            channel->thread = 0, channel->next = 0;
            channel->level = (uint32_t)channel->level; /* blocks that were to be ended are the parent's */
        }
    }
    own->spare_count = 0;
    int32_t parent = own->is_unnamed ? 0 : own->pid;
    if (own->pool) tickscope__leave_pool_held();
    own->pid = parent;
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

/* Whether a channel that finds no free block takes its own oldest one. */
static inline int tickscope__overwrites(const tickscope_channel *channel) {
    return tickscope__process.when_full == TICKSCOPE__OVERWRITE || (uint32_t)channel->adopted == TICKSCOPE__POLICY_KEEP;
}

/*
 * Whether the rest of a block may go to another channel of the point: what its header says of the policy is true of
 * both, and nobody counts its stamps by its number.
 */
static inline int tickscope__shares_blocks(const tickscope_channel *channel) {
    return !tickscope__overwrites(channel) && channel->rule != TICKSCOPE__POLICY_FIRST_LAST;
}

/* Lets go of the channel's partly filled block: the collector may take it, or a later thread go on in it. */
TICKSCOPE__COLD void tickscope__leave_block_held(tickscope_channel *channel, int shares) {
    struct tickscope__process *own = &tickscope__process;
    uint32_t unit = (uint32_t)channel->next;
    struct tickscope__block_header *block = tickscope__block_of_unit(channel, unit);
    uint32_t left = channel->unit_mask + 1 - (unit & channel->unit_mask);
    int has_room = left >= tickscope__successor_units(channel->shape) + channel->shape;
    if (shares && has_room && own->spare_count < own->block_count) {
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
    int shares = tickscope__shares_blocks(channel);
    if (!channel->in_use) return;
    channel->policy = &tickscope__word_closed;
    tickscope__forbid_inline(channel);
    tickscope__close_log(channel);
    channel->keep = 0;
    channel->in_use = 0, channel->entry = 0;
    if (!entered) return;
    /* A full block is complete without our word. */
    if (!tickscope__is_full(channel, channel->next)) tickscope__leave_block_held(channel, shares);
    /* What the entry says stands in the blocks too, but for these counts, and under null; a few of these are enough. */
    int told = !(entry->dropped | entry->refused | entry->stalls | entry->lost | entry->counted | entry->seen);
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
    struct tickscope__process *own = &tickscope__process;
    sigset_t mask;
    tickscope__hold(&mask);
    struct tickscope__pool_header *pool = own->pool;
    if (own->is_unnamed && pool) { /* this object may be unloaded, and the process go on */
        /* Nothing leads into it; another thread may be counting on its first page. */
        uint64_t bytes = tickscope__pool_bytes_mapped(pool), page = (uint64_t)sysconf(_SC_PAGESIZE);
        tickscope__leave_pool_held();
        if (bytes > page) munmap((char *)pool + page, bytes - page);
    } else if (pool && own->pid == (int32_t)getpid())
        __atomic_store_n(&pool->state, TICKSCOPE__POOL_CLOSED, __ATOMIC_RELEASE);
    if (tickscope__leads_to(own->base_fd, own->base_file)) close(own->base_fd);
    own->base_fd = -1;
    tickscope__let_go(&mask);
}

/*
 * When this object is unloaded: the ends of threads then must not lead into it; fork and exit forget it by themselves.
 * When the process ends, too: what threads open then, their ends do not close.
 */
__attribute__((destructor)) TICKSCOPE__COLD void tickscope__unloaded(void) {
    if (__atomic_exchange_n(&tickscope__process.has_key, 0, __ATOMIC_ACQ_REL))
        pthread_key_delete(tickscope__process.thread_end);
}

/* The first of this thread's channels. */
TICKSCOPE__COLD tickscope_channel *tickscope__first_channel(void) {
    uint32_t has_key = __atomic_load_n(&tickscope__process.has_key, __ATOMIC_ACQUIRE);
    return has_key ? (tickscope_channel *)pthread_getspecific(tickscope__process.thread_end) : 0;
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

TICKSCOPE__COLD void tickscope__start_held(void) {
    struct tickscope__process *own = &tickscope__process;
    own->ready = 1;
    own->lock_fd = own->base_fd = -1;
    tickscope__word_closed = TICKSCOPE__CLOSED;
    tickscope__word_forked = TICKSCOPE__FORKED;
    tickscope__word_waiting = TICKSCOPE__WAITING;
    tickscope__word_unopened = TICKSCOPE__UNOPENED;
    tickscope__off_channel.policy = &tickscope__word_off; /* once: other threads stamp on them */
    tickscope__unopened_channel.policy = &tickscope__word_unopened;
    if (!tickscope__configure()) return;
    void *spares = mmap(0, own->block_count * sizeof(struct tickscope__spare), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (spares == MAP_FAILED || pthread_key_create(&own->thread_end, tickscope__thread_ends) != 0 ||
        pthread_atfork(tickscope__before_fork, tickscope__after_fork_in_parent, tickscope__after_fork_in_child) != 0) {
        tickscope__complain("memory for channel handles, a thread key and fork handlers", strerror(errno), "Points are off; free memory.");
        own->directory[0] = 0;
        return;
    }
    own->has_key = 1;
    own->spares = (struct tickscope__spare *)spares;
    tickscope__read_boot_id();
    tickscope__keep_base_held();
    atexit(tickscope__process_ends);
}

/*
 * When this object is loaded, before main: what gets number 2 later may be a file of the program's; and a pool takes
 * milliseconds, which the first stamp must not. What fails is left to the first opening, which tells of it.
 */
__attribute__((constructor)) TICKSCOPE__COLD void tickscope__loaded(void) {
    struct tickscope__process *own = &tickscope__process;
    const char *directory = getenv("TICKSCOPE_DIR");
    sigset_t mask;
    int error = errno;
    if (own->stderr_at_load.inode == 0) own->stderr_at_load = tickscope__file_of(2);
    if (directory && directory[0]) {
        tickscope__hold(&mask);
        own->is_loading = 1;
        if (!own->ready) {
            tickscope__start_held();
            if (own->directory[0]) tickscope__make_unnamed_pool_held();
            else own->ready = 0;
        }
        own->is_loading = 0;
        tickscope__let_go(&mask);
    }
    errno = error;
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
    memset(&entry->dropped, 0, 64); /* to seen */
    uint32_t serial = __atomic_fetch_add(&tickscope__process.pool->channels, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->serial, serial, __ATOMIC_RELAXED);
    entry->number = 0;
    entry->thread = state == TICKSCOPE__ENTRY_SHARED ? 0 : channel->thread;
    entry->ordering = channel->ordering;
    entry->shape = channel->shape;
    entry->counter = channel->counter;
    entry->opened_tick = tickscope__now(TICKSCOPE_PLAIN);
    memcpy(entry->point, channel->point, TICKSCOPE__NAME_BYTES);
    struct tickscope__choice choice = tickscope__policy_of(channel->point);
    __atomic_store_n(&entry->policy, choice.policy, __ATOMIC_RELAXED);
    entry->parameters[0] = choice.parameter, entry->parameters[1] = 0;
    if (state == TICKSCOPE__ENTRY_SHARED) entry->lost_first = INT64_MAX, entry->lost_last = INT64_MIN;
    __atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);
}

/* Flags of channels whose stamps bring more from one reading than the tick: the inline path is not for them. */
#define TICKSCOPE__TOGETHER ((unsigned)TICKSCOPE_RDTSCP | (unsigned)TICKSCOPE_BOTH)

/* The handle as it is for a pool in which it has no block yet. */
TICKSCOPE__COLD void tickscope__reset_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    channel->blocks = (unsigned char *)own->pool + own->block_offset;
    channel->unit_mask = own->block_bytes / TICKSCOPE__UNIT_BYTES - 1;
    channel->next = 0;
    channel->successor = 0;
    channel->retry_tick = channel->claim_tick = INT64_MIN;
    int is_plain = channel->counter == TICKSCOPE_COUNTER && !(channel->flags & TICKSCOPE__TOGETHER);
    channel->inlined = !own->injected && is_plain ? channel->shape : 0;
    tickscope__forbid_inline(channel);
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

/* The rule of a policy and its parameter; one that no text gives is of a later version. Some look at no parameter. */
TICKSCOPE__COLD uint8_t tickscope__rule_of(uint32_t policy, uint64_t parameter) {
    uint64_t x = parameter >> 32, y = parameter & UINT32_MAX;
    int is_valid, stores;
    switch (policy) {
    case TICKSCOPE__POLICY_EVERY: is_valid = parameter > 0 && parameter <= (uint64_t)INT64_MAX; break;
    case TICKSCOPE__POLICY_X_OF_Y: is_valid = 0 < x && x < y; break;
    case TICKSCOPE__POLICY_FIRST_LAST: is_valid = 1; break;
    case TICKSCOPE__POLICY_COUNT: case TICKSCOPE__POLICY_KEEP:
        is_valid = parameter >= TICKSCOPE__LEAST_SPAN && parameter <= TICKSCOPE__MOST_SPAN;
        break;
    default: is_valid = policy <= TICKSCOPE__POLICY_OWN;
    }
    stores = policy == TICKSCOPE__POLICY_BUFFERED || policy == TICKSCOPE__POLICY_RETURN_TRIP ||
             policy == TICKSCOPE__POLICY_KEEP;
    if (!is_valid) return TICKSCOPE__UNKNOWN;
    if (stores) return TICKSCOPE__STORES_ALL;
    return (uint8_t)policy;
}

/* Works out what the channel does under a policy from now on. With signals blocked. */
TICKSCOPE__COLD void tickscope__take_on(tickscope_channel *channel, uint64_t policy, uint64_t parameter) {
    uint8_t rule = tickscope__rule_of((uint32_t)policy, parameter);
    uint64_t y = 1;
    if (rule == TICKSCOPE__POLICY_X_OF_Y) y = parameter & UINT32_MAX;
    if (rule == TICKSCOPE__POLICY_EVERY) y = parameter;
    channel->parameter = parameter, channel->rule = rule;
    channel->y = y;
    channel->x = (uint32_t)(parameter >> 32);
    channel->reciprocal = UINT64_MAX / y;
    channel->half = (uint32_t)((UINT64_C(1) << 63) % y);
    channel->kept_next = channel->entry->seen + y;
    channel->oldest = channel->oldest_number = channel->newest = 0;
    channel->first_of_policy = (uint32_t)(__atomic_load_n(&channel->next, __ATOMIC_RELAXED) >> 32);
    channel->stores = rule == TICKSCOPE__STORES_ALL ? policy : TICKSCOPE__NEVER;
    channel->fast_slim = channel->inlined == 1 ? channel->stores : TICKSCOPE__NEVER;
    channel->fast_wide = channel->inlined == 2 ? channel->stores : TICKSCOPE__NEVER;
    channel->fast_full = channel->inlined == 3 ? channel->stores : TICKSCOPE__NEVER;
    channel->adopted = policy;
}

/* A descriptor of the log of that name, at that position; -1: errno says why there is none. */
TICKSCOPE__COLD int tickscope__create_log(const char *name, off_t mark) {
    struct tickscope__process *own = &tickscope__process;
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    errno = ENOENT;
    int directory = own->logs[0] ? open(own->logs, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (directory < 0) return -1;
    int log = openat(directory, name, flags, 0600), high = -1;
    if (log >= 0 && lseek(log, mark, SEEK_SET) == mark) high = tickscope__raised(log);
    int error = errno;
    if (log >= 0 && high < 0) unlinkat(directory, name, 0);
    if (log >= 0) close(log);
    close(directory);
    errno = error;
    return high;
}

/*
 * Writes a record behind the others of the log; what it does not take whole, it does not take. As channel/log.rs: not
 * beyond `ulimit -f`, where the kernel sends SIGXFSZ, and never to a pipe or socket, which take nothing at an offset.
 */
TICKSCOPE__COLD void tickscope__write_log(tickscope_channel *channel, const unsigned char *record) {
    uint64_t bytes = (uint64_t)channel->shape * TICKSCOPE__UNIT_BYTES;
    uint64_t length = tickscope__own_fetch_add(&channel->log_length, bytes); /* first: a handler goes behind it */
    int log = channel->log - 1;
    struct rlimit limit;
    struct stat found;
    int fits = getrlimit(RLIMIT_FSIZE, &limit) == 0 && length + bytes <= limit.rlim_cur; /* infinity is the largest */
    ssize_t written = fits && tickscope__has_log(channel) ? pwrite(log, record, bytes, (off_t)length) : -1;
    if (written == (ssize_t)bytes) return;
    tickscope__own_fetch_add(&channel->log_length, -bytes);
    if (written > 0 && (fstat(log, &found) != 0 || ftruncate(log, found.st_size - written) != 0))
        tickscope__close_log(channel); /* it ends so */
    __atomic_fetch_add(&tickscope__pool_of(channel)->unwritten, 1, __ATOMIC_RELAXED);
}

/* Opens the log of a channel whose policy is all; that there is none is told once, with what helps. */
TICKSCOPE__COLD void tickscope__open_log_held(tickscope_channel *channel) {
    struct tickscope__process *own = &tickscope__process;
    char name[TICKSCOPE__FILE_NAME_BYTES], serial[TICKSCOPE__FILE_NAME_BYTES], found[512];
    if (channel->rule != TICKSCOPE__POLICY_ALL || channel->log > 0) return;
    tickscope__file_name(serial, "-", channel->serial, 10, 1, ".log");
    tickscope__file_name(name, "", own->pool->instance, 16, 16, serial);
    channel->log_length = 0, channel->log_mark = tickscope__random() >> 25 | UINT64_C(1) << 39;
    int log = tickscope__create_log(name, (off_t)channel->log_mark), error = errno;
    if (log >= 0) {
        channel->log = log + 1;
        return;
    }
    if (own->logs_told++) return;
    snprintf(found, sizeof found, "%.300s (%s)", own->logs[0] ? own->logs : "none", strerror(error));
#define TICKSCOPE__NO_LOG "Their stamps are kept as under buffered"
    tickscope__complain("TICKSCOPE_LOGS to name a directory for the logs of channels under the policy all", found,
                        TICKSCOPE__MISSING(error) ? TICKSCOPE__NO_LOG "; make that directory, and name it." :
                        TICKSCOPE__BARRED(error) ? TICKSCOPE__NO_LOG "; name a directory that this user can write." :
                        error == EMFILE ? TICKSCOPE__NO_LOG "; raise ulimit -n: a log takes a descriptor." :
                        TICKSCOPE__NO_LOG ".");
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
    uint64_t parameter, policy = tickscope__read_policy(entry, &parameter);
    tickscope__take_on(channel, policy, parameter);
    tickscope__open_log_held(channel);
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
    if (tickscope__policy_of(channel->point).policy == TICKSCOPE__POLICY_NULL) {
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
#define TICKSCOPE__ID_ORIGINAL "id-original" /* opened by tickscope_id.h, with this instead of a clock: */
#define TICKSCOPE__ORIGINALS 255

TICKSCOPE__COLD int tickscope__is_clock(int counter) {
    return counter >= TICKSCOPE_REALTIME && counter <= TICKSCOPE_PHC;
}

/* Why a channel can't be opened: what was expected; 0: it can. */
TICKSCOPE__COLD const char *tickscope__refusal(const struct tickscope__wish *wish) {
    if (!tickscope__valid_name(wish->point) || wish->ordering < TICKSCOPE_PLAIN || wish->ordering > TICKSCOPE_AFTER)
        return "a point's name of 1 to 47 letters, digits, '_', '-', '.', and an ordering";
    if (wish->counter != TICKSCOPE_COUNTER && !tickscope__is_clock(wish->counter)) return "a counter of tickscope_counter";
    unsigned together = wish->flags & TICKSCOPE__TOGETHER, room = TICKSCOPE_WIDE | TICKSCOPE_FULL;
    if (together && (wish->counter != TICKSCOPE_COUNTER || !(wish->flags & room)))
        return "TICKSCOPE_WIDE or TICKSCOPE_FULL, and no other clock, with TICKSCOPE_RDTSCP and TICKSCOPE_BOTH";
    if ((together & TICKSCOPE_RDTSCP) && !tickscope__has_core())
        return "an x86-64 processor with rdtscp for TICKSCOPE_RDTSCP; without it the core is read beside the counter";
    int reserved = strncmp(wish->point, TICKSCOPE__BRACKET_PREFIX, strlen(TICKSCOPE__BRACKET_PREFIX)) == 0;
    if (reserved && !wish->brackets) return "tickscope_open_bracket for a point of that name";
    int originals = strcmp(wish->point, TICKSCOPE__ID_ORIGINAL) == 0 && wish->brackets != TICKSCOPE__ORIGINALS;
    return originals ? "tickscope_keep_id for a point of that name" : 0;
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
    tickscope_channel *channel = tickscope__first_channel();
    for (; channel; channel = channel->following)
        if (channel->thread == thread && channel->ordering == wish->ordering && channel->flags == wish->flags &&
            channel->counter == wish->counter && strcmp(channel->point, wish->point) == 0)
            return channel;
    return 0;
}

/* A new handle of the point for this thread; 0: there is no memory for one, or for making the thread's end known. */
TICKSCOPE__COLD tickscope_channel *tickscope__new_handle_held(const struct tickscope__wish *wish, int32_t thread) {
    tickscope_channel *channel = tickscope__unused_handle_held();
    if (channel == 0) return 0;
    channel->policy = &tickscope__word_off;
    channel->thread = thread;
    channel->following = tickscope__first_channel();
    if (tickscope__process.has_key && pthread_setspecific(tickscope__process.thread_end, channel) != 0) {
        tickscope__retire_held(channel);
        return 0;
    }
    channel->ordering = (uint8_t)wish->ordering;
    channel->flags = wish->flags;
    channel->shape = wish->flags & TICKSCOPE_FULL ? 3 : wish->flags & TICKSCOPE_WIDE ? 2 : 1;
    channel->counter = (uint8_t)wish->counter;
    channel->brackets = (uint8_t)wish->brackets;
    channel->level = 0;
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
    if (own->directory[0] == 0) return &tickscope__off_channel;
    if (!tickscope__has_pool_held()) return &tickscope__off_channel;
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
    if (!open && own->directory[0] != 0 && tickscope__has_pool_held()) {
        channel->thread = (int32_t)syscall(SYS_gettid);
        if (!tickscope__enter_held(channel)) tickscope__wait_for_entry_held(channel);
        open = 1;
    }
    if (!open) channel->policy = &tickscope__word_off;
    tickscope__let_go(&mask);
    return open;
}

/* ---- leasing ------------------------------------------------------------------------------------------------------ */

static inline struct tickscope__block_header *tickscope__block(struct tickscope__pool_header *pool, uint32_t number) {
    uint64_t offset = tickscope__process.block_offset + (uint64_t)number * pool->block_bytes;
    return (struct tickscope__block_header *)(void *)((unsigned char *)pool + offset);
}

/* Claims a free block, looking at each once; UINT32_MAX: none. */
TICKSCOPE__COLD uint32_t tickscope__claim(struct tickscope__pool_header *pool) {
    uint32_t start = __atomic_load_n(&pool->hint, __ATOMIC_RELAXED);
    for (uint32_t step = 0; step < pool->block_count; step++) {
        uint32_t number = (start + step) % pool->block_count, free_state = TICKSCOPE__BLOCK_FREE;
        struct tickscope__block_header *block = tickscope__block(pool, number);
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

TICKSCOPE__COLD void tickscope__describe_block(tickscope_channel *channel, struct tickscope__pool_header *pool,
                                               const struct tickscope__entry *entry,
                                               struct tickscope__block_header *block, uint32_t number) {
    block->version = TICKSCOPE_VERSION;
    block->header_bytes = (uint16_t)(tickscope__first_unit(channel) * TICKSCOPE__UNIT_BYTES);
    block->serial = channel->serial, block->number = number;
    block->first_of_policy = channel->first_of_policy;
    /* What its records will be under, whatever the entry says by now. */
    block->policy_epoch = (uint32_t)(channel->adopted >> 32), block->policy = (uint32_t)channel->adopted;
    block->parameter = channel->parameter, block->instance = pool->instance;
    memcpy(block->boot_id, pool->boot_id, sizeof block->boot_id);
    block->pid = pool->pid, block->thread = channel->thread;
    block->process_start = pool->process_start;
    block->ordering = channel->ordering, block->shape = channel->shape;
    block->counter = channel->counter ? channel->counter : pool->counter;
    block->epoch = pool->epoch;
    block->lost = entry->lost;
    block->lost_first = entry->lost_first, block->lost_last = entry->lost_last;
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

/* Whether a name in a block is the channel's; read by words, for the collector may be zeroing it. */
TICKSCOPE__COLD int tickscope__is_named(const struct tickscope__block_header *block, const tickscope_channel *channel) {
    uint64_t name[TICKSCOPE__NAME_BYTES / 8];
    for (size_t at = 0; at < TICKSCOPE__NAME_BYTES / 8; at++)
        name[at] = __atomic_load_n((const uint64_t *)(const void *)block->point + at, __ATOMIC_RELAXED);
    return memcmp(name, channel->point, TICKSCOPE__NAME_BYTES) == 0;
}

/*
 * Whether the block of a spare is still what was left, and of this channel's point: 1; of another's: 0; taken: -1. The
 * collector may take it at any moment: what is found counts only if the block can be claimed then.
 */
TICKSCOPE__COLD int tickscope__fits(const tickscope_channel *channel, const struct tickscope__spare *spare) {
    const struct tickscope__block_header *block = tickscope__block_of_unit(channel, spare->unit);
    int counter = channel->counter ? channel->counter : tickscope__pool_of(channel)->counter;
    int relaxed = __ATOMIC_RELAXED;
    if (__atomic_load_n(&block->state, __ATOMIC_ACQUIRE) != TICKSCOPE__BLOCK_RELEASED) return -1;
    if (__atomic_load_n(&block->serial, relaxed) != spare->serial) return -1;
    if (__atomic_load_n(&block->number, relaxed) != spare->number) return -1;
    /* Leased under the policy that a new channel has: so what its header says of the policy is true of this one too. */
    return __atomic_load_n(&block->ordering, relaxed) == channel->ordering &&
           __atomic_load_n(&block->shape, relaxed) == channel->shape &&
           __atomic_load_n(&block->counter, relaxed) == counter && tickscope__is_named(block, channel) &&
           __atomic_load_n(&block->policy_epoch, relaxed) == 0 &&
           (__atomic_load_n(&channel->entry->policy, relaxed) >> 32) == 0;
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
        own->spares[at - 1] = own->spares[own->spare_count - 1];
        __atomic_store_n(&own->spare_count, own->spare_count - 1, __ATOMIC_RELAXED);
        done = fits > 0 && __atomic_compare_exchange_n(&block->state, &released, TICKSCOPE__BLOCK_LEASED, 0,
                                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED); /* else the collector's */
        if (done) tickscope__succeed_held(channel, &spare);
    }
    tickscope__let_go(&mask);
    if (done) __atomic_fetch_add(&tickscope__pool_of(channel)->leases, 1, __ATOMIC_RELEASE);
    return done;
}

/* Remembers the order in which blocks were leased, so that the oldest can be found: each says which one followed. */
TICKSCOPE__COLD void tickscope__link(tickscope_channel *channel, struct tickscope__pool_header *pool, uint32_t place,
                                     uint32_t number) {
    uint32_t last = channel->newest;
    channel->newest = place + 1;
    /* The collector may have freed it, and another channel have it: whoever follows the link looks at the numbers. */
    if (last) __atomic_store_n(&tickscope__block(pool, last - 1)->following, place + 1, __ATOMIC_RELAXED);
    else channel->oldest = place + 1, channel->oldest_number = number;
}

/* Zeroes all of a block of one's own but its state. */
TICKSCOPE__COLD void tickscope__clear(const tickscope_channel *channel, struct tickscope__block_header *block) {
    size_t kept = offsetof(struct tickscope__block_header, serial);
    __atomic_store_n(&block->magic, 0, __ATOMIC_RELAXED);
    tickscope__release_fence(); /* no record goes while the header still stands */
    memset(&block->serial, 0, ((size_t)channel->unit_mask + 1) * TICKSCOPE__UNIT_BYTES - kept);
}

/*
 * Moves the channel whose cursor stands at `full` to a block of the pool that it has claimed. Pool and entry are those
 * of before the claim: in a child that a handler forked since, and in which it stamped, what was begun in the parent's
 * ends there.
 */
TICKSCOPE__COLD void tickscope__move_to(tickscope_channel *channel, struct tickscope__pool_header *pool,
                                        struct tickscope__entry *entry, uint64_t full, uint32_t claimed) {
    struct tickscope__block_header *block = tickscope__block(pool, claimed);
    uint32_t number = (uint32_t)(full >> 32), units = channel->unit_mask + 1;
    tickscope__describe_block(channel, pool, entry, block, number);
    uint64_t lost = block->lost;
    uint64_t first = (uint64_t)claimed * units + tickscope__first_unit(channel);
    int first_last = channel->rule == TICKSCOPE__POLICY_FIRST_LAST;
    /* A stamp that a handler interrupted under another policy goes behind the slots that are written in turn. */
    if (first_last) first += (1 + 2 * TICKSCOPE__LEVELS) * channel->shape;
    if (tickscope__own_exchange(&channel->next, &full, (uint64_t)(number + 1) << 32 | first)) {
        channel->successor = 0;
        tickscope__own_add(&entry->lost, 0 - lost);
        if (tickscope__overwrites(channel) && !first_last) tickscope__link(channel, pool, claimed, number);
        __atomic_fetch_add(&pool->leases, 1, __ATOMIC_RELEASE);
    } else { /* a signal handler leased one meanwhile: this one goes back unused */
        tickscope__clear(channel, block);
        __atomic_store_n(&block->state, TICKSCOPE__BLOCK_FREE, __ATOMIC_RELEASE);
    }
}

/* Moves the full channel to a new block, or to the rest of one; 0: there is none. */
TICKSCOPE__COLD int tickscope__lease(tickscope_channel *channel) {
    struct tickscope__pool_header *pool = tickscope__pool_of(channel);
    struct tickscope__entry *entry = channel->entry;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint64_t full = __atomic_load_n(&channel->next, __ATOMIC_RELAXED);
    int shares = tickscope__shares_blocks(channel);
    if (!tickscope__is_full(channel, full)) return 1; /* a signal handler was here first */
    /* A thread that lives long takes blocks of its own. */
    if (shares && full >> 32 == 0 && channel->successor == 0 && tickscope__succeed(channel)) return 1;
    uint32_t claimed = tickscope__claim(pool);
    if (claimed == UINT32_MAX) return shares && tickscope__succeed(channel);
    tickscope__move_to(channel, pool, entry, full, claimed);
    return 1;
}

/* Whether every record of a block of one's own is committed: from the end, for the last is the last to be. */
TICKSCOPE__COLD int tickscope__is_complete(const tickscope_channel *channel, struct tickscope__block_header *block) {
    uint32_t end = __atomic_load_n(&block->end, __ATOMIC_ACQUIRE), first = tickscope__first_unit(channel);
    for (uint32_t unit = end ? end : channel->unit_mask + 1; unit >= first + channel->shape;) {
        unit -= channel->shape;
        void *record = (unsigned char *)block + (size_t)unit * TICKSCOPE__UNIT_BYTES;
        if (__atomic_load_n(&((struct tickscope__slim_record *)record)->tick, __ATOMIC_ACQUIRE) == 0) return 0;
    }
    return 1;
}

/* Whether the block is this channel's, not released and not taken. */
TICKSCOPE__COLD int tickscope__is_own(const tickscope_channel *channel, struct tickscope__block_header *block) {
    uint32_t state = __atomic_load_n(&block->state, __ATOMIC_ACQUIRE);
    uint32_t magic = __atomic_load_n(&block->magic, __ATOMIC_ACQUIRE);
    /* Of another policy's stamps nobody counts what is overwritten. */
    int is_of_policy = block->serial == channel->serial && block->policy_epoch == (uint32_t)(channel->adopted >> 32);
    return state == TICKSCOPE__BLOCK_LEASED && magic == TICKSCOPE__BLOCK_MAGIC && is_of_policy;
}

/* Takes the channel's oldest block, as it knows it, to be as empty as a claimed one; UINT32_MAX: it cannot be taken. */
TICKSCOPE__COLD uint32_t tickscope__overwrite(tickscope_channel *channel) {
    if (channel->oldest == 0) return UINT32_MAX;
    uint32_t place = channel->oldest - 1, leased = TICKSCOPE__BLOCK_LEASED;
    struct tickscope__block_header *block = tickscope__block(tickscope__pool_of(channel), place);
    uint32_t following = __atomic_load_n(&block->following, __ATOMIC_RELAXED);
    if (!tickscope__is_own(channel, block) || block->number != channel->oldest_number) return UINT32_MAX;
    if (!tickscope__is_complete(channel, block) ||
        !__atomic_compare_exchange_n(&block->state, &leased, TICKSCOPE__BLOCK_OVERWRITTEN, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return UINT32_MAX; /* the collector has it */
    if (channel->newest == channel->oldest) channel->newest = 0; /* it was the only one */
    channel->oldest = following;
    channel->oldest_number++;
    tickscope__clear(channel, block);
    __atomic_store_n(&block->state, TICKSCOPE__BLOCK_LEASED, __ATOMIC_RELEASE); /* whoever sees that sees it zeroed */
    return place;
}

/* The oldest full block of the channel, as empty as a claimed one; UINT32_MAX: it has none. */
TICKSCOPE__COLD uint32_t tickscope__take_oldest(tickscope_channel *channel) {
    uint32_t taken = tickscope__overwrite(channel);
    if (taken != UINT32_MAX) return taken;
    /* The collector has taken that one: look for it. */
    channel->oldest = 0;
    for (uint32_t at = 0; at < tickscope__pool_of(channel)->block_count; at++) {
        struct tickscope__block_header *block = tickscope__block(tickscope__pool_of(channel), at);
        if (!tickscope__is_own(channel, block)) continue;
        if (channel->oldest && block->number >= channel->oldest_number) continue;
        channel->oldest = at + 1, channel->oldest_number = block->number;
    }
    return tickscope__overwrite(channel);
}

TICKSCOPE__COLD void tickscope__block_signals(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

/* Moves the channel to its own oldest full block, whose stamps are gone then; 0: it has none. */
TICKSCOPE__COLD int tickscope__overwrite_oldest(tickscope_channel *channel) {
    sigset_t mask;
    tickscope__block_signals(&mask);
    uint64_t full = __atomic_load_n(&channel->next, __ATOMIC_RELAXED);
    int moved = !tickscope__is_full(channel, full); /* a signal handler was here first */
    uint32_t taken = moved ? UINT32_MAX : tickscope__take_oldest(channel);
    if (taken != UINT32_MAX) {
        tickscope__move_to(channel, tickscope__pool_of(channel), channel->entry, full, taken);
        moved = 1;
    }
    pthread_sigmask(SIG_SETMASK, &mask, 0);
    return moved;
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
    int lock = tickscope__process.lock_fd;
    if (tickscope__leads_to(lock, tickscope__process.lock_file) && tickscope__is_locked(lock, 1)) return 1;
    int directory = tickscope__open_base();
    int fd = openat(directory, "collector.lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (directory >= 0) close(directory);
    if (fd < 0) return 0;
    int lives = tickscope__is_locked(fd, 0);
    close(fd);
    return lives;
}

/* Waits for a block while a collector lives, at most 1 s: 0: there is none. */
TICKSCOPE__COLD int tickscope__wait_for_block(tickscope_channel *channel) {
    struct timespec nap = {0, 50000}, began, now;
    tickscope__own_add(&channel->entry->stalls, 1);
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (int naps = 0;; naps++) {
        if (naps % 200 == 0 && !tickscope__collector_lives()) return 0;
        nanosleep(&nap, 0);
        if (tickscope__lease(channel)) return 1;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - began.tv_sec) * 1000000000L + now.tv_nsec - began.tv_nsec > 1000000000L) return 0;
    }
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

/*
 * Ticks after a failed search while the channel has blocks of its own to overwrite: longer, for a look at each block
 * of a large pool takes longer than writing one.
 */
#define TICKSCOPE__OVERWRITING_TICKS 25000000

/* Moves the full channel to another block, by whatever its policy and its program allow; 0: there is none. */
TICKSCOPE__COLD int tickscope__has_lease(tickscope_channel *channel) {
    int64_t now = tickscope__plain();
    if (now < channel->retry_tick) return 0;
    int claims = now >= channel->claim_tick;
    if (claims && tickscope__lease(channel)) return 1;
    if (tickscope__overwrites(channel)) {
        if (tickscope__overwrite_oldest(channel)) {
            if (claims) channel->claim_tick = now + TICKSCOPE__OVERWRITING_TICKS;
            return 1;
        }
        channel->claim_tick = INT64_MIN; /* the collector has all full blocks, and frees them in a moment */
    } else if (tickscope__process.when_full == TICKSCOPE__WAIT && tickscope__wait_for_block(channel)) return 1;
    channel->retry_tick = tickscope__plain() + TICKSCOPE__RETRY_TICKS;
    return 0;
}

/* A record for one stamp, leasing as needed; 0: dropped and counted, under `tick` or, where that is 0, the present one. */
TICKSCOPE__COLD unsigned char *tickscope__reserve_leasing(tickscope_channel *channel, int64_t tick) {
    unsigned char *record;
    while (!tickscope__reserve(channel, channel->shape, &record)) {
        if (tickscope__has_lease(channel)) continue;
        tickscope__drop(channel, tick ? tick : tickscope__tick_of(channel, TICKSCOPE_PLAIN));
        return 0;
    }
    return record;
}

/* Counts in the pool's header, if there is a pool; acquire: another thread may have just made it. */
#define TICKSCOPE__COUNT(field)                                                                              \
    do {                                                                                                     \
        struct tickscope__pool_header *pool = __atomic_load_n(&tickscope__process.pool, __ATOMIC_ACQUIRE);   \
        if (pool) __atomic_fetch_add(&pool->field, 1, __ATOMIC_RELAXED);                                     \
    } while (0)

/* Counts a stamp of a channel that has no entry yet, under the point; several threads may be here at once. */
TICKSCOPE__COLD void tickscope__drop_shared(tickscope_channel *channel, int64_t tick) {
    struct tickscope__entry *entry = channel->entry;
    if (entry == 0) {
        TICKSCOPE__COUNT(without_channel);
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

/* Ends the channel's block; one that more stamps under first-last than `within` are in, the outermost of them ends. */
TICKSCOPE__COLD void tickscope__end_block(tickscope_channel *channel, uint32_t within) {
    uint64_t full = __atomic_load_n(&channel->next, __ATOMIC_RELAXED), found = full, level = channel->level;
    uint32_t units = channel->unit_mask + 1, place = (uint32_t)full / units + 1, end = (uint32_t)full % units;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (channel->rule == TICKSCOPE__POLICY_FIRST_LAST) end = (uint32_t)level <= within ? units : 0;
    /* To where no record goes, with the number of the next block. First: whoever moves it ends the block. */
    int moves = !tickscope__is_full(channel, full);
    if (!moves || !tickscope__own_exchange(&channel->next, &found, full & ~(uint64_t)UINT32_MAX)) return;
    struct tickscope__block_header *block = tickscope__block_of_unit(channel, (uint32_t)full);
    if (end) __atomic_store_n(&block->end, end, __ATOMIC_RELEASE);
    else { /* with signals blocked, as a policy is adopted: a marker ends a block in the outermost stamp alone */
        __atomic_store_n(&block->following, (uint32_t)(level >> 32), __ATOMIC_RELAXED);
        __atomic_store_n(&channel->level, (uint64_t)place << 32 | (uint32_t)level, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&tickscope__pool_of(channel)->leases, 1, __ATOMIC_RELEASE); /* there is something to collect */
}

/* Ends the blocks that handlers left over, unless one that has stamped since has: no stamp is within now. */
TICKSCOPE__COLD void tickscope__end_left_over(tickscope_channel *channel, uint64_t level) {
    while (!tickscope__own_exchange(&channel->level, &level, (uint32_t)level)) {}
    for (uint32_t place = (uint32_t)(level >> 32); place;) {
        struct tickscope__block_header *block = tickscope__block(tickscope__pool_of(channel), place - 1);
        place = __atomic_load_n(&block->following, __ATOMIC_RELAXED); /* before it ends: then it is the collector's */
        __atomic_store_n(&block->end, channel->unit_mask + 1, __ATOMIC_RELEASE);
    }
    __atomic_fetch_add(&tickscope__pool_of(channel)->leases, 1, __ATOMIC_RELEASE); /* there is something to collect */
}

/* Goes over to the policy that the entry names: the present block ends, and the next is of that policy alone. */
TICKSCOPE__COLD void tickscope__adopt(tickscope_channel *channel) {
    sigset_t mask, held;
    tickscope__block_signals(&mask);
    uint64_t parameter, policy = tickscope__read_policy(channel->entry, &parameter);
    if (policy != channel->adopted) {
        tickscope__end_block(channel, 0);
        tickscope__take_on(channel, policy, parameter);
        if (channel->rule == TICKSCOPE__POLICY_ALL) {
            tickscope__hold(&held);
            tickscope__open_log_held(channel);
            tickscope__let_go(&held);
        }
    }
    pthread_sigmask(SIG_SETMASK, &mask, 0);
}

/*
 * Whether the channel is open, not off, and has adopted its policy; looks at everything but the common case: not open,
 * closed, forked, waiting, off. `tick`: of the stamp, 0: now.
 */
TICKSCOPE__COLD int tickscope__is_ready(tickscope_channel *channel, int64_t tick) {
    if (channel == 0) {
        TICKSCOPE__COUNT(without_channel);
        tickscope__complain("tickscope_open before tickscope_stamp", "a stamp on NULL", "It is refused and counted; open the point first.");
        return 0;
    }
    uint32_t policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    if (policy == TICKSCOPE__FORKED) {
        if (!tickscope__reopen(channel)) return 0;
        policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    }
    if (policy == TICKSCOPE__UNOPENED) {
        TICKSCOPE__COUNT(without_channel);
        return 0;
    }
    if (policy == TICKSCOPE__WAITING) {
        if (!tickscope__enter_late(channel, tick)) return 0;
        policy = (uint32_t)__atomic_load_n(channel->policy, __ATOMIC_RELAXED);
    }
    if (policy == TICKSCOPE__CLOSED) {
        TICKSCOPE__COUNT(after_close);
        tickscope__complain("no stamp after tickscope_close", channel->point, "It is refused and counted; close after the last one.");
        return 0;
    }
    if (policy == TICKSCOPE__POLICY_NULL) return 0;
    if (__atomic_load_n(channel->policy, __ATOMIC_RELAXED) != channel->adopted) tickscope__adopt(channel);
    return 1;
}

/* No core: the instruction that read the counter told none. */
#define TICKSCOPE__UNTOLD (-2)

/* What a stamp reads: the tick, and what TICKSCOPE_RDTSCP and TICKSCOPE_BOTH read with it; 0: it can't be read. */
TICKSCOPE__COLD int64_t tickscope__read_stamp(const tickscope_channel *channel, struct tickscope_extra *extra,
                                              int32_t *core) {
    const struct tickscope__process *own = &tickscope__process;
    if (!(channel->flags & TICKSCOPE__TOGETHER)) return tickscope__tick_of(channel, channel->ordering);
    int64_t tick = channel->flags & TICKSCOPE_RDTSCP ? tickscope__with_core(core) : tickscope__read(channel->ordering);
    /* rdtscp waits for what precedes, as `after` does; what follows waits for it here. */
    if (channel->ordering == TICKSCOPE_BEFORE) tickscope__fence();
    if (channel->flags & TICKSCOPE_BOTH) {
        extra->value = tickscope__clock_now(TICKSCOPE_MONOTONIC_RAW);
        if (extra->value == 0) return 0;
    }
    return own->injected ? tickscope__injected(&own->map, tick) : tick;
}

/* Fills a record of the channel's own shape. */
TICKSCOPE__COLD void tickscope__commit_shaped(const tickscope_channel *channel, unsigned char *record, int64_t id,
                                              int64_t tick, const struct tickscope_extra *extra, int32_t core) {
    if (channel->shape == 1) {
        tickscope__commit(record, id, tick);
        return;
    }
    if (channel->shape == 3) tickscope__commit_origin(record, id, extra);
    if (core == TICKSCOPE__UNTOLD) core = tickscope__cpu();
    tickscope__commit_on(record, id, tick, extra->kind, extra->value, core);
}

TICKSCOPE__COLD void tickscope__record_leasing(tickscope_channel *channel, int64_t id, int64_t tick,
                                               const struct tickscope_extra *extra, int32_t core) {
    unsigned char *record = tickscope__reserve_leasing(channel, tick);
    if (record == 0) return;
    tickscope__commit_shaped(channel, record, id, tick, extra, core);
    if (channel->rule != TICKSCOPE__POLICY_ALL) return;
    /* The collector may have taken the block since, and zeroed it. */
    struct tickscope__full_record copy;
    tickscope__commit_shaped(channel, (unsigned char *)&copy, id, tick, extra, core);
    tickscope__write_log(channel, (const unsigned char *)&copy);
}

/* The slot of a block under first-last that a stamp goes to, at that depth of handlers. */
TICKSCOPE__COLD unsigned char *tickscope__slot(const tickscope_channel *channel, unsigned char *first, uint32_t level) {
    size_t bytes = (size_t)channel->shape * TICKSCOPE__UNIT_BYTES;
    unsigned char *pair = first + (1 + 2 * level) * bytes, *other = pair + bytes;
    if (level == 0 && ((struct tickscope__slim_record *)(void *)first)->tick == 0) return first;
    int64_t tick = ((struct tickscope__slim_record *)(void *)pair)->tick;
    return tick <= ((struct tickscope__slim_record *)(void *)other)->tick ? pair : other;
}

/*
 * A stamp under first-last: it is the first, or takes the place of the last but one; 0: a signal handler has moved the
 * channel meanwhile, so decide anew. The block is read once: a handler that adopts another policy ends it.
 */
TICKSCOPE__COLD int tickscope__keep_first_and_last(tickscope_channel *channel, int64_t id, int64_t tick,
                                                   const struct tickscope_extra *extra, int32_t core,
                                                   uint64_t adopted) {
    uint32_t level = (uint32_t)tickscope__own_fetch_add(&channel->level, 1);
    unsigned char *blocks = *(unsigned char *volatile *)&channel->blocks;
    uint64_t next = __atomic_load_n(&channel->next, __ATOMIC_RELAXED);
    int done = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&channel->adopted, __ATOMIC_RELAXED) != adopted) done = 0;
    else if (channel->newest == TICKSCOPE__ENDED) done = 1;
    else if (level >= TICKSCOPE__LEVELS) tickscope__own_add(&channel->entry->refused, 1);
    else if (tickscope__is_full(channel, next)) {
        done = !tickscope__has_lease(channel);
        if (done) tickscope__drop(channel, tick);
    } else {
        uint32_t unit = ((uint32_t)next & ~channel->unit_mask) + tickscope__first_unit(channel);
        unsigned char *slot = tickscope__slot(channel, blocks + (uint64_t)unit * TICKSCOPE__UNIT_BYTES, level);
        __atomic_store_n(&((struct tickscope__slim_record *)(void *)slot)->tick, 0, __ATOMIC_RELAXED);
        /* A kill here leaves a slot without a tick, and the other slot whole. */
        tickscope__release_fence();
        tickscope__commit_shaped(channel, slot, id, tick, extra, core);
        int is_marker = channel->parameter != TICKSCOPE__NO_MARKER && channel->parameter == (uint64_t)id;
        if (is_marker && channel->adopted == adopted) channel->newest = TICKSCOPE__ENDED;
    }
    /* Also where a handler within this stamp has seen the marker. */
    if (level == 0 && channel->newest == TICKSCOPE__ENDED) tickscope__end_block(channel, 1);
    uint64_t left = tickscope__own_fetch_add(&channel->level, UINT64_MAX) - 1;
    if ((uint32_t)left == 0 && left) tickscope__end_left_over(channel, left);
    return done;
}

/* How often what chooses may be being asked at a time: stamps that it makes of its own channel ask it again. */
#define TICKSCOPE__MOST_ASKED 4
static inline void tickscope__no_longer_asked(uint8_t **asked) { --**asked; }

/*
 * A stamp under a policy that needs its tick to decide, or does more than store it; 0: its policy has changed this
 * instant, so decide anew. `tick`: as given; 0: now.
 */
TICKSCOPE__COLD int tickscope__keep_specially(tickscope_channel *channel, int64_t id, int64_t tick,
                                              const struct tickscope_extra *extra) {
    uint64_t adopted = channel->adopted;
    uint8_t rule = __atomic_load_n(&channel->rule, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(channel->policy, __ATOMIC_RELAXED) != adopted || channel->adopted != adopted) return 0;
    int is_own = rule == TICKSCOPE__POLICY_OWN, is_first_last = rule == TICKSCOPE__POLICY_FIRST_LAST;
    if (!is_own && !is_first_last && rule != TICKSCOPE__POLICY_ALL && rule != TICKSCOPE__UNKNOWN) return 0;
    int chooses = rule != TICKSCOPE__UNKNOWN && (!is_own || (channel->keep && channel->asked < TICKSCOPE__MOST_ASKED));
    struct tickscope_extra carried = *extra;
    int32_t core = TICKSCOPE__UNTOLD;
    if (chooses && tick == 0) tick = tickscope__read_stamp(channel, &carried, &core);
    if (!chooses || tick == 0) {
        tickscope__own_add(&channel->entry->refused, 1);
        return 1;
    }
    if (is_first_last) return tickscope__keep_first_and_last(channel, id, tick, &carried, core, adopted);
    /* Taken back also where a C++ exception ends it. A handler leaves the count as it found it. */
    uint8_t *asked __attribute__((cleanup(tickscope__no_longer_asked))) = &channel->asked;
    ++*asked;
    if (!is_own || channel->keep(channel->keep_state, id, tick))
        tickscope__record_leasing(channel, id, tick, &carried, core);
    return 1;
}

/* Stores a stamp that is to be kept: where the block is full, of another clock, through the injected map. */
TICKSCOPE__COLD void tickscope__store_now(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra) {
    /* The counter as late as can be, as in tickscope_stamp; a clock is read first: it may turn out unreadable. */
    int late = channel->counter == TICKSCOPE_COUNTER && channel->ordering != TICKSCOPE_AFTER;
    struct tickscope_extra carried = *extra;
    int32_t core = TICKSCOPE__UNTOLD;
    int64_t tick = late ? 0 : tickscope__read_stamp(channel, &carried, &core);
    unsigned char *record = late || tick ? tickscope__reserve_leasing(channel, tick) : 0;
    if (record && late) tick = tickscope__read_stamp(channel, &carried, &core);
    if (record && tick) tickscope__commit_shaped(channel, record, id, tick, &carried, core);
    else if (record || (!late && tick == 0)) tickscope__own_add(&channel->entry->refused, 1);
}

TICKSCOPE__COLD void tickscope__store(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra) {
    int error = errno;
    tickscope__store_now(channel, id, extra);
    errno = error;
}

/*
 * A stamp or record that the inline path and the dispatch left. One between a call and the look at its error leaves
 * errno alone. A tick of 0 reads as "not committed": the only one that cannot be kept.
 */
TICKSCOPE__COLD void tickscope__keep(tickscope_channel *channel, int64_t id, int is_given, int64_t tick,
                                     const struct tickscope_extra *extra) {
    int error = errno;
    while (tickscope__is_ready(channel, tick)) {
        int refused = is_given && tick == 0;
        int decision = refused ? TICKSCOPE__DONE : tickscope__decide(channel, id);
        if (refused) tickscope__own_add(&channel->entry->refused, 1);
        if (decision == TICKSCOPE__STORES && is_given)
            tickscope__record_leasing(channel, id, tick, extra, TICKSCOPE__UNTOLD);
        if (decision == TICKSCOPE__STORES && !is_given) tickscope__store_now(channel, id, extra);
        if (decision != TICKSCOPE__UNCOMMON || tickscope__keep_specially(channel, id, tick, extra)) break;
    }
    errno = error;
}

TICKSCOPE__COLD void tickscope__record_slow(tickscope_channel *channel, int64_t id, int64_t tick,
                                            const struct tickscope_extra *extra) {
    tickscope__keep(channel, id, 1, tick, extra);
}

TICKSCOPE__COLD void tickscope__record_carrying(tickscope_channel *channel, int64_t id, int64_t tick, int32_t kind,
                                                int64_t value, const int64_t *parent, int32_t attempt, int32_t batch) {
    TICKSCOPE__EXTRA(extra);
    tickscope__record_slow(channel, id, tick, &extra);
}

TICKSCOPE__COLD void tickscope__stamp_slow(tickscope_channel *channel, int64_t id, const struct tickscope_extra *extra) {
    tickscope__keep(channel, id, 0, 0, extra);
}

/* With signals blocked: a handler finds the function and its state, or neither. */
TICKSCOPE__COLD void tickscope__choose(tickscope_channel *channel, int (*keep)(void *state, int64_t id, int64_t tick),
                                       void *state) {
    sigset_t mask;
    if (channel == 0 || !channel->in_use) return;
    tickscope__block_signals(&mask);
    channel->keep_state = state;
    channel->keep = keep;
    pthread_sigmask(SIG_SETMASK, &mask, 0);
}

/* ---- batches ---------------------------------------------------------------------------------------------------- */

/* The remainder of an id by y, from 0 on. */
TICKSCOPE__COLD int64_t tickscope__remainder(int64_t id, int64_t y) {
    return id % y + (id % y < 0 ? y : 0);
}

/*
 * Of the n ids from *id on those from the first to the last that x of y keeps, as the first and their number; 0: none.
 * Exactly as crates/stamp/src/policies/x_of_y.rs.
 */
TICKSCOPE__COLD int64_t tickscope__hull(const tickscope_channel *channel, int64_t *id, int64_t n) {
    int64_t x = (int64_t)channel->x, y = (int64_t)channel->y, last = *id + (n - 1);
    int64_t skipped = tickscope__keeps_id(channel, *id) ? 0 : y - tickscope__remainder(*id, y);
    int64_t dropped = tickscope__keeps_id(channel, last) ? 0 : tickscope__remainder(last, y) - (x - 1);
    if (n - skipped - dropped <= 0) return 0;
    *id += skipped;
    return n - skipped - dropped;
}

/*
 * Says in what a stamp carries that it stands for n ids, from *id on; 0: no stamp is to be taken, and a refused one is
 * counted: it is no range of ids, or the channel's records have no room to say so. `tick`: of the stamp, 0: now.
 */
TICKSCOPE__COLD int tickscope__of_ids(tickscope_channel *channel, int64_t *id, int64_t n, int64_t tick,
                                      struct tickscope_extra *extra) {
    int is_range = n > 0 && n <= INT32_MAX && *id <= INT64_MAX - (n - 1), error = errno;
    int is_sound = is_range && (channel == 0 || channel->shape == 3 || n == 1);
    if (!is_sound || channel == 0 || __atomic_load_n(channel->policy, __ATOMIC_RELAXED) != channel->fast_full) {
        int is_ready = tickscope__is_ready(channel, tick);
        if (is_ready && !is_sound) tickscope__own_add(&channel->entry->refused, 1);
        if (is_ready && is_sound && channel->rule == TICKSCOPE__POLICY_X_OF_Y) n = tickscope__hull(channel, id, n);
        errno = error;
        if (!is_ready || !is_sound || n == 0) return 0;
    }
    extra->batch = -(int32_t)n;
    return 1;
}

TICKSCOPE__OUTLINE void tickscope__stamp_batch(tickscope_channel *channel, int64_t id, int64_t n,
                                               const struct tickscope_extra *carried) {
    struct tickscope_extra extra = *carried;
    if (tickscope__of_ids(channel, &id, n, 0, &extra)) tickscope__stamp_extra(channel, id, &extra);
}

TICKSCOPE__COLD void tickscope__record_batch(tickscope_channel *channel, int64_t id, int64_t n, int64_t tick,
                                             const struct tickscope_extra *carried) {
    struct tickscope_extra extra = *carried;
    if (tickscope__of_ids(channel, &id, n, tick, &extra)) tickscope__record_slow(channel, id, tick, &extra);
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
    } else if (tickscope__is_ready(channel, 0)) {
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

static inline void tickscope_stamp_batch(tickscope_channel *channel, int64_t id, int64_t n) {
    tickscope__stamp_batch(channel, id, n, &tickscope__nothing);
}

static inline void tickscope_stamp_batch_with(tickscope_channel *channel, int64_t id, int64_t n,
                                              struct tickscope_extra extra) {
    tickscope__stamp_batch(channel, id, n, &extra);
}

static inline void tickscope_record_batch_with(tickscope_channel *channel, int64_t id, int64_t n, int64_t tick,
                                               struct tickscope_extra extra) {
    tickscope__record_batch(channel, id, n, tick, &extra);
}

static inline void tickscope_close(tickscope_channel *channel) {
    tickscope__close(channel);
}

static inline void tickscope_choose(tickscope_channel *channel, int (*keep)(void *state, int64_t id, int64_t tick),
                                    void *state) {
    tickscope__choose(channel, keep, state);
}

static inline void tickscope_dump(void) {
    struct tickscope__pool_header *pool = __atomic_load_n(&tickscope__process.pool, __ATOMIC_RELAXED);
    if (pool) __atomic_fetch_add(&pool->dumps, 1, __ATOMIC_RELEASE);
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
