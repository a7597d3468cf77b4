/*
 * tickscope_id.h - ids that are text, or more than 64 bits, and the header traceparent.
 *
 *     int64_t id = tickscope_keep_id_text("order-7");       // where the id is born
 *     tickscope_stamp(placed, id);
 *     tickscope_stamp(shipped, tickscope_id_text("order-7")); // anywhere else
 *
 * A stamp's id has 64 bits: it is SipHash-2-4 of the original's bytes, the same in every language and on every host.
 * Where the id is born the original is kept too, as records of the point id-original in shared memory: so it outlives
 * SIGKILL as stamps do, the run names it, and two originals of one hash are found. crates/stamp/src/id.rs and
 * traceparent.rs are the same for Rust; docs/ids.md is the guide.
 *
 * tickscope_id_* and tickscope_parse_traceparent may be called anywhere; tickscope_keep_id* on any thread, not in
 * signal handlers.
 */
#ifndef TICKSCOPE_ID_H
#define TICKSCOPE_ID_H

#include "tickscope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of an original that one record holds, and that are kept at most: of a longer one the first, and its length. */
#define TICKSCOPE__ID_CHUNK 16
#define TICKSCOPE__ID_KEPT 1024

/* The id of something that has a name instead of a number: equal bytes have equal ids. */
static inline int64_t tickscope_id_bytes(const void *bytes, size_t length);
static inline int64_t tickscope_id_text(const char *text);

/* The same, and the original is kept: call it once for each, where the id is born. */
static inline int64_t tickscope_keep_id(const void *bytes, size_t length);
static inline int64_t tickscope_keep_id_text(const char *text);

/* The header traceparent of W3C Trace Context: 00-<32 digits>-<16 digits>-<2 digits>. */
struct tickscope_traceparent {
    uint8_t trace_id[16]; /* most significant byte first; not zero. tickscope_keep_id keeps it where the trace begins */
    int64_t id;           /* tickscope_id_bytes of it: the same in all spans of the trace */
    int64_t span;         /* the caller's, as 64 bits stand; not zero: a stamp's value */
    uint8_t flags;        /* 1: the caller recorded it */
};

/* Reads a header. 0: *parent is filled; else what was expected of it, and *parent is left alone. */
static inline const char *tickscope_parse_traceparent(const char *header, struct tickscope_traceparent *parent);

/* ---- the hash -------------------------------------------------------------------------------------------------- */

static inline uint64_t tickscope__rotated(uint64_t word, int bits) {
    return word << bits | word >> (64 - bits);
}

static inline uint64_t tickscope__little_endian(const uint8_t *bytes) {
    uint64_t word = 0;
    for (int at = 7; at >= 0; at--) word = word << 8 | bytes[at];
    return word;
}

static inline void tickscope__sip_rounds(uint64_t v[4], int rounds) {
    while (rounds-- > 0) {
        v[0] += v[1], v[2] += v[3];
        v[1] = tickscope__rotated(v[1], 13) ^ v[0], v[3] = tickscope__rotated(v[3], 16) ^ v[2];
        v[0] = tickscope__rotated(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = tickscope__rotated(v[1], 17) ^ v[2], v[3] = tickscope__rotated(v[3], 21) ^ v[0];
        v[2] = tickscope__rotated(v[2], 32);
    }
}

static inline void tickscope__sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    tickscope__sip_rounds(v, 2);
    v[0] ^= word;
}

/* SipHash-2-4 (J.-P. Aumasson, D. J. Bernstein, 2012; the reference is CC0) under the key 00 .. 0f of its vectors. */
static inline int64_t tickscope_id_bytes(const void *bytes, size_t length) {
    const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    uint64_t v[4] = {UINT64_C(0x736f6d6570736575) ^ key[0], UINT64_C(0x646f72616e646f6d) ^ key[1],
                     UINT64_C(0x6c7967656e657261) ^ key[0], UINT64_C(0x7465646279746573) ^ key[1]};
    const uint8_t *at = (const uint8_t *)bytes;
    uint8_t last[8] = {0};
    for (size_t left = length; left >= 8; left -= 8, at += 8) tickscope__sip_word(v, tickscope__little_endian(at));
    if (length % 8) memcpy(last, at, length % 8);
    last[7] = (uint8_t)length;
    tickscope__sip_word(v, tickscope__little_endian(last));
    v[2] ^= 0xff;
    tickscope__sip_rounds(v, 4);
    return (int64_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

static inline int64_t tickscope_id_text(const char *text) {
    return tickscope_id_bytes(text, strlen(text));
}

/* ---- originals ------------------------------------------------------------------------------------------------- */

/* The thread's channel of originals. */
TICKSCOPE__COLD tickscope_channel *tickscope__open_originals(void) {
    int error = errno;
    tickscope_channel *channel = tickscope__open(TICKSCOPE__ID_ORIGINAL, TICKSCOPE_COUNTER, TICKSCOPE__ORIGINALS,
                                                 TICKSCOPE_PLAIN, TICKSCOPE_FULL);
    errno = error;
    return channel;
}

/*
 * Records of one tick: the number of the part as kind, the original's length as attempt, 16 bytes of it as value and
 * parent.
 */
TICKSCOPE__COLD void tickscope__keep_original(tickscope_channel *channel, int64_t id, const uint8_t *bytes,
                                              size_t length) {
    size_t kept = length < TICKSCOPE__ID_KEPT ? length : TICKSCOPE__ID_KEPT, from = 0;
    int64_t tick = tickscope_now(TICKSCOPE_PLAIN);
    do {
        uint8_t part[TICKSCOPE__ID_CHUNK] = {0};
        size_t left = kept - from;
        if (left) memcpy(part, bytes + from, left < sizeof part ? left : sizeof part);
        int64_t second = (int64_t)tickscope__little_endian(part + 8);
        struct tickscope_extra extra = tickscope__nothing;
        extra.kind = (int32_t)(from / TICKSCOPE__ID_CHUNK);
        extra.attempt = length < INT32_MAX ? (int32_t)length : INT32_MAX;
        extra.value = (int64_t)tickscope__little_endian(part);
        extra.parent = &second;
        tickscope_record_with(channel, id, tick, extra);
        from += sizeof part;
    } while (from < kept);
}

static inline int64_t tickscope_keep_id(const void *bytes, size_t length) {
    static __thread tickscope_channel *channel;
    int64_t id = tickscope_id_bytes(bytes, length);
    if (__builtin_expect(channel == 0, 0)) channel = tickscope__open_originals();
    tickscope__keep_original(channel, id, (const uint8_t *)bytes, length);
    return id;
}

static inline int64_t tickscope_keep_id_text(const char *text) {
    return tickscope_keep_id(text, strlen(text));
}

/* ---- traceparent ----------------------------------------------------------------------------------------------- */

/* Reads twice as many lower-case hexadecimal digits; 0: there are others. */
static inline int tickscope__lower_hex(const char *text, uint8_t *bytes, size_t count) {
    for (size_t at = 0; at < 2 * count; at++) {
        char digit = text[at];
        int value = digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
        if (value < 0) return 0;
        bytes[at / 2] = (uint8_t)(at % 2 ? bytes[at / 2] << 4 | value : value);
    }
    return 1;
}

static inline const char *tickscope_parse_traceparent(const char *header, struct tickscope_traceparent *parent) {
    enum { LENGTH = 55 };
    static const uint8_t zero[16] = {0};
    struct tickscope_traceparent read;
    uint8_t version, span[8];
    if (strnlen(header, LENGTH) < LENGTH || header[2] != '-' || header[35] != '-' || header[52] != '-')
        return "fields of 2, 32, 16 and 2 digits with '-' between them";
    if (!tickscope__lower_hex(header, &version, 1) || !tickscope__lower_hex(header + 3, read.trace_id, 16) ||
        !tickscope__lower_hex(header + 36, span, 8) || !tickscope__lower_hex(header + 53, &read.flags, 1))
        return "hexadecimal digits in lower case";
    if (version == 0xff) return "a version other than ff";
    if (header[LENGTH] != 0 && (version == 0 || header[LENGTH] != '-')) return "nothing behind the flags";
    if (memcmp(read.trace_id, zero, 16) == 0) return "a trace id other than 0";
    if (memcmp(span, zero, 8) == 0) return "a span id other than 0";
    read.id = tickscope_id_bytes(read.trace_id, sizeof read.trace_id);
    read.span = 0;
    for (int at = 0; at < 8; at++) read.span = (int64_t)((uint64_t)read.span << 8 | span[at]);
    *parent = read;
    return 0;
}

#ifdef __cplusplus
}
#endif
#endif
