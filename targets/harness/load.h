/*
 * A load that is sent when it is due: the C face of crate tickscope-load, which says what each part is for. The same
 * plan and seed give the same ticks and rows there, tick for tick: crates/load/tests/c_face.rs.
 *
 * Ticks are of any clock that runs at `hertz`: the counter, or one of the kernel's in nanoseconds. Every event is due
 * at its own tick: a late send shifts nothing, and a latency counts from the due tick. What cannot be is refused by the
 * text of what was expected; 0: all is well.
 *
 *     struct load_due due;
 *     struct load_lateness lateness = {.late_ticks = 1000};
 *     load_constant(&due, &plan);
 *     while (due.next != LOAD_NEVER) {
 *         int64_t now = tickscope_now(TICKSCOPE_BEFORE);
 *         if (now < due.next) continue;
 *         load_record(&lateness, load_next(&due), now, due.burst);
 *         ... send
 *     }
 *     load_fault(&lateness); // 0: the schedule was held
 */
#ifndef TICKSCOPE_LOAD_H
#define TICKSCOPE_LOAD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_NEVER INT64_MAX
#define LOAD_MOST_A_SECOND (UINT64_C(1) << 32)
#define LOAD_MOST_SECONDS UINT64_C(1000000)
#define LOAD_MOST_COUNTER_HERTZ (UINT64_C(1) << 34)
#define LOAD_MOST_BURST (UINT32_C(1) << 16)
#define LOAD_MOST_HELD (UINT64_C(1) << 27)
#define LOAD_MOST_USERS (UINT32_C(1) << 24)
#define LOAD_ONE_IN 1000 /* events may be late, or unsent */

__extension__ typedef unsigned __int128 load_wide;

/* So many events in so many seconds. */
struct load_rate {
    uint64_t events, seconds;
};

/* What is to be sent: at that rate, by a clock of that frequency, from `start` until before `until`. */
struct load_plan {
    struct load_rate rate;
    uint64_t hertz;
    int64_t start, until;
    uint32_t burst; /* events that are due at once */
};

/* ---- random numbers: SplitMix64, from any seed ------------------------------------------------------------------ */

static inline uint64_t load_bits(uint64_t *seed) {
    uint64_t mixed = *seed += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

static inline uint64_t load_below(uint64_t *seed, uint64_t limit) {
    return (uint64_t)((load_wide)load_bits(seed) * limit >> 64);
}

/* An exponential variate of mean 1 in units of 2^-40, by von Neumann's comparisons. */
static inline uint64_t load_exponential(uint64_t *seed) {
    for (uint64_t whole = 0;; whole++) {
        uint64_t first = load_bits(seed), last = first, next;
        int odd = 1;
        for (; (next = load_bits(seed)) < last; last = next) odd = !odd;
        if (odd) return (whole << 40) + (first >> 24);
    }
}

/* ---- due ticks --------------------------------------------------------------------------------------------------- */

struct load_due {
    int64_t next; /* LOAD_NEVER: nothing more is due */
    int64_t until;
    uint32_t burst;
    int64_t whole; /* of a constant interval: ticks, and part / of */
    uint64_t part, of, rest;
    int64_t *held; /* of a Poisson process, drawn ahead */
    size_t count, at;
};

/* So many events a second, to the nearest millionth of one. */
static inline const char *load_per_second(struct load_rate *rate, double hertz) {
    double millionths = hertz * 1e6 + 0.5;
    if (!(millionths >= 1 && millionths < (double)(LOAD_MOST_A_SECOND * LOAD_MOST_SECONDS) + 1))
        return "a rate from 0.000001 to 4294967296 events a second";
    rate->events = (uint64_t)millionths;
    rate->seconds = LOAD_MOST_SECONDS;
    return 0;
}

static inline const char *load__interval(const struct load_plan *plan, load_wide *ticks) {
    const struct load_rate *rate = &plan->rate;
    if (rate->seconds == 0 || rate->seconds > LOAD_MOST_SECONDS) return "a rate of events in 1 to 1000000 seconds";
    if (rate->events == 0 || rate->events > LOAD_MOST_A_SECOND * rate->seconds)
        return "a rate from 0.000001 to 4294967296 events a second";
    if (plan->hertz == 0 || plan->hertz > LOAD_MOST_COUNTER_HERTZ) return "a counter of 1 to 17179869184 Hz";
    if (plan->burst == 0 || plan->burst > LOAD_MOST_BURST) return "bursts of 1 to 65536 events";
    *ticks = (load_wide)plan->hertz * rate->seconds * plan->burst;
    return *ticks / rate->events > UINT64_C(1) << 62 ? "an interval of at most 2^62 ticks" : 0;
}

/* Adds a gap, if what comes then is still before the end. */
static inline int64_t load__after(int64_t tick, load_wide gap, int64_t until) {
    load_wide left = tick < until ? (load_wide)((uint64_t)until - (uint64_t)tick) : 0;
    return gap < left ? (int64_t)((uint64_t)tick + (uint64_t)gap) : LOAD_NEVER;
}

static inline const char *load_constant(struct load_due *due, const struct load_plan *plan) {
    load_wide ticks;
    const char *expected = load__interval(plan, &ticks);
    if (expected) return expected;
    memset(due, 0, sizeof *due);
    due->until = plan->until;
    due->burst = plan->burst;
    due->of = plan->rate.events;
    due->whole = (int64_t)(ticks / due->of);
    due->part = (uint64_t)(ticks % due->of);
    due->next = load__after(plan->start, 0, plan->until);
    return 0;
}

/* Draws all of them now; load_end frees them. */
static inline const char *load_poisson(struct load_due *due, const struct load_plan *plan, uint64_t seed) {
    load_wide ticks, of, rest = 0;
    size_t room = 0;
    const char *expected = load_constant(due, plan);
    if (expected) return expected;
    load__interval(plan, &ticks);
    of = (load_wide)due->of << 40;
    load_wide lasts = plan->until > plan->start ? (load_wide)((uint64_t)plan->until - (uint64_t)plan->start) : 0;
    if (lasts > (ticks * (LOAD_MOST_HELD + 1) - 1) / due->of)
        return "at most 134217728 due ticks, which are held in memory";
    for (int64_t last = plan->start;;) {
        load_wide drawn = load_exponential(&seed);
        if (drawn > (~(load_wide)0 - rest) / ticks) break; /* a gap beyond any end */
        rest += drawn * ticks;
        last = load__after(last, rest / of, plan->until);
        rest %= of;
        if (last == LOAD_NEVER) break;
        if (due->count == room) {
            int64_t *more = (int64_t *)realloc(due->held, (room = room ? 2 * room : 1024) * sizeof *more);
            if (more == 0) return "memory for all due ticks";
            due->held = more;
        }
        due->held[due->count++] = last;
    }
    due->whole = -1;
    due->next = due->count ? due->held[0] : LOAD_NEVER;
    return 0;
}

/* The tick that was due next; what follows becomes the next. */
static inline int64_t load_next(struct load_due *due) {
    int64_t tick = due->next;
    if (tick == LOAD_NEVER) return tick;
    if (due->whole < 0) {
        due->next = ++due->at < due->count ? due->held[due->at] : LOAD_NEVER;
        return tick;
    }
    due->rest += due->part;
    int carry = due->rest >= due->of;
    if (carry) due->rest -= due->of;
    due->next = load__after(tick, (load_wide)due->whole + (load_wide)carry, due->until);
    return tick;
}

/* ---- lateness ---------------------------------------------------------------------------------------------------- */

struct load_lateness {
    uint64_t late_ticks; /* an event that is sent more than that after its due tick is late */
    uint64_t sent, late, early, unsent, lost, worst_ticks; /* lost: load_lost of a capped bucket */
    uint64_t buckets[976]; /* single ticks up to 32, then 16 an octave */
};

/* Takes events that were sent together. */
static inline void load_record(struct load_lateness *lateness, int64_t due, int64_t sent, uint32_t events) {
    uint64_t ticks = (uint64_t)sent - (uint64_t)due;
    unsigned octave = ticks < 32 ? 0 : 59 - (unsigned)__builtin_clzll(ticks);
    lateness->sent += events;
    if (sent < due) {
        lateness->early += events;
        return;
    }
    if (ticks > lateness->late_ticks) lateness->late += events;
    if (ticks > lateness->worst_ticks) lateness->worst_ticks = ticks;
    lateness->buckets[(octave << 4) + (unsigned)(ticks >> octave)] += events;
}

/* Ends a load: what is due by now and was not sent counts as unsent. */
static inline void load_end(struct load_due *due, struct load_lateness *lateness, int64_t now) {
    for (; due->next <= now && due->next != LOAD_NEVER; load_next(due)) lateness->unsent += due->burst;
    free(due->held);
    due->held = 0;
    due->next = LOAD_NEVER;
}

/* What so many of a thousand do not exceed, rounded up by at most 1/16; 0 where nothing was sent. */
static inline uint64_t load_quantile_ticks(const struct load_lateness *lateness, uint32_t of_1000) {
    load_wide rank = ((load_wide)(lateness->sent - lateness->early) * of_1000 + 999) / 1000, below = 0;
    for (uint64_t bucket = 0; bucket < 976; bucket++) {
        below += lateness->buckets[bucket];
        if (below < (rank ? rank : 1)) continue;
        unsigned octave = bucket < 32 ? 0 : (unsigned)(bucket >> 4) - 1;
        uint64_t last = (uint64_t)(((load_wide)(bucket - (octave << 4) + 1) << octave) - 1);
        return last < lateness->worst_ticks ? last : lateness->worst_ticks;
    }
    return 0;
}

/* Why the trial is invalid; 0: the schedule was held. */
static inline const char *load_fault(const struct load_lateness *lateness) {
    load_wide sent = lateness->sent;
    if (sent == 0) return "nothing-sent";
    if (lateness->early) return "early";
    if ((load_wide)lateness->late * LOAD_ONE_IN > sent) return "late";
    if ((load_wide)lateness->unsent * LOAD_ONE_IN > sent + lateness->unsent) return "unsent";
    if ((load_wide)lateness->lost * LOAD_ONE_IN > sent + lateness->lost) return "lost-credit";
    return 0;
}

/* ---- the token bucket -------------------------------------------------------------------------------------------- */

struct load_bucket {
    uint64_t events; /* parts of a packet that a tick earns */
    uint32_t most, offered;
    int capped;
    int64_t last;
    load_wide packet, credit, lost;
};

/* `plan` gives rate, frequency and start; `most` is B. As published, capped is 0. */
static inline const char *load_fill(struct load_bucket *bucket, const struct load_plan *plan, uint32_t most,
                                    int capped) {
    struct load_bucket empty = {.events = plan->rate.events, .most = most, .capped = capped, .last = plan->start};
    const char *expected = load__interval(plan, &empty.packet);
    if (expected || most == 0) return expected ? expected : "an offer of 1 packet or more";
    empty.packet /= plan->burst;
    *bucket = empty;
    return 0;
}

/* How many packets may be sent at tick `now`; -1: the counter stepped back. */
static inline int64_t load_offer(struct load_bucket *bucket, int64_t now) {
    load_wide most = bucket->most * bucket->packet;
    if (now < bucket->last) return -1;
    bucket->credit += (load_wide)((uint64_t)now - (uint64_t)bucket->last) * bucket->events;
    bucket->last = now;
    if (bucket->capped && bucket->credit > most) {
        bucket->lost += bucket->credit - most;
        bucket->credit = most;
    }
    return bucket->offered = (uint32_t)((bucket->credit < most ? bucket->credit : most) / bucket->packet);
}

/* Pays for so many of those that were offered; 0: they are more, and nothing is paid. */
static inline int load_pay(struct load_bucket *bucket, uint32_t sent) {
    if (sent > bucket->offered) return 0;
    bucket->offered -= sent;
    bucket->credit -= sent * bucket->packet;
    return 1;
}

/* When the next packet that may be sent was earned; LOAD_NEVER: there is no credit for one. */
static inline int64_t load_earned(const struct load_bucket *bucket) {
    if (bucket->credit < bucket->packet) return LOAD_NEVER;
    return (int64_t)((uint64_t)bucket->last - (uint64_t)((bucket->credit - bucket->packet) / bucket->events));
}

/* Packets that the cap threw away, rounded up. */
static inline uint64_t load_lost(const struct load_bucket *bucket) {
    return (uint64_t)((bucket->lost + bucket->packet - 1) / bucket->packet);
}

/* ---- traces and ids ---------------------------------------------------------------------------------------------- */

#define LOAD_CONTROL (UINT32_C(1) << 31) /* of a row: an update; the other bits are the user */

/* Draws rows, to be freed: updates by a coin, control to data; users in proportion to 1 / rank. 0: see *expected. */
static inline uint32_t *load_trace(uint32_t users, const uint32_t control_to_data[2], size_t count, uint64_t seed,
                                   const char **expected) {
    uint64_t coins = (uint64_t)control_to_data[0] + control_to_data[1];
    *expected = coins == 0 ? "a ratio of control and data" : "1 to 16777216 users";
    if (coins == 0 || users == 0 || users > LOAD_MOST_USERS) return 0;
    *expected = "memory for the trace";
    uint64_t *sums = (uint64_t *)malloc(users * sizeof *sums);
    uint32_t *rows = (uint32_t *)malloc((count ? count : 1) * sizeof *rows);
    if (sums == 0 || rows == 0) return free(sums), free(rows), (uint32_t *)0;
    for (uint64_t rank = 1, sum = 0; rank <= users; rank++) sums[rank - 1] = sum += (UINT64_C(1) << 52) / rank;
    for (size_t row = 0; row < count; row++) {
        uint32_t control = load_below(&seed, coins) < control_to_data[0] ? LOAD_CONTROL : 0;
        uint64_t drawn = load_below(&seed, sums[users - 1]);
        uint32_t least = 0, beyond = users - 1;
        while (least < beyond) {
            uint32_t middle = least + (beyond - least) / 2;
            if (sums[middle] <= drawn) least = middle + 1;
            else beyond = middle;
        }
        rows[row] = least | control;
    }
    free(sums);
    return rows;
}

/* Writes an id into eight bytes, the lowest first. */
static inline void load_write_id(unsigned char *place, int64_t id) {
    for (int byte = 0; byte < 8; byte++) place[byte] = (unsigned char)((uint64_t)id >> 8 * byte);
}

#endif
