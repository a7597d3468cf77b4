/*
 * codecs - records of 16 bytes through general codecs, as Cloudprofiler's buffered handler compresses them.
 *
 *     codecs CPU OTHER_CPU RECORDS ROUNDS IDS      IDS: sequential, or random (of 20 bits)
 *
 * The records are real: ticks of this processor's counter with 1 to 8 dependent reads of a table of 8 MiB between two.
 * They are cut into blocks of 1 MiB; a thread on the first processor takes them all, or two threads take them in turn.
 * A round does every codec with one and with two threads, there and back, and compares what came back. Prints a line of
 * JSON each.
 */
#include "rounds.h"

#include <lz4.h>
#include <lzo/lzo1x.h>
#include <zstd.h>

enum { BLOCK_BYTES = 1 << 20, TABLE = 1 << 20, MOST_THREADS = 2 };

static void fail(const char *what) {
    fprintf(stderr, "codecs: %s\n", what);
    exit(1);
}

static void *memory(size_t bytes) {
    void *got = calloc(bytes, 1);
    if (got == 0) fail("expected memory for the records, found none");
    return got;
}

/* ---- codecs: from `source` to `target`, which has room; the number of bytes there, 0: it failed ----------------- */

static size_t none_in(void *state, const char *source, size_t bytes, char *target, size_t room) {
    (void)state, (void)room;
    return memcpy(target, source, bytes), bytes;
}

static void *zstd_state(void) { return ZSTD_createCCtx(); }
static size_t zstd_in(void *state, const char *source, size_t bytes, char *target, size_t room) {
    size_t made = ZSTD_compressCCtx((ZSTD_CCtx *)state, target, room, source, bytes, 1);
    return ZSTD_isError(made) ? 0 : made;
}
static size_t zstd_out(void *state, const char *source, size_t bytes, char *target, size_t room) {
    (void)state;
    size_t made = ZSTD_decompress(target, room, source, bytes);
    return ZSTD_isError(made) ? 0 : made;
}

static void *lz4_state(void) { return memory((size_t)LZ4_sizeofState()); }
static size_t lz4_in(void *state, const char *source, size_t bytes, char *target, size_t room) {
    return (size_t)LZ4_compress_fast_extState(state, source, target, (int)bytes, (int)room, 1);
}
static size_t lz4_out(void *state, const char *source, size_t bytes, char *target, size_t room) {
    (void)state;
    int made = LZ4_decompress_safe(source, target, (int)bytes, (int)room);
    return made < 0 ? 0 : (size_t)made;
}

static void *lzo_state(void) { return memory(LZO1X_1_MEM_COMPRESS); }
static size_t lzo_in(void *state, const char *source, size_t bytes, char *target, size_t room) {
    lzo_uint made = room;
    const unsigned char *from = (const unsigned char *)source;
    return lzo1x_1_compress(from, bytes, (unsigned char *)target, &made, state) == LZO_E_OK ? made : 0;
}
static size_t lzo_out(void *state, const char *source, size_t bytes, char *target, size_t room) {
    lzo_uint made = room;
    const unsigned char *from = (const unsigned char *)source;
    return lzo1x_decompress_safe(from, bytes, (unsigned char *)target, &made, state) == LZO_E_OK ? made : 0;
}

typedef size_t pass(void *state, const char *source, size_t bytes, char *target, size_t room);

static const struct codec {
    const char *name;
    void *(*state)(void);
    pass *in, *out;
} codecs[] = {
    {"none", lz4_state, none_in, none_in},
    {"zstd-1", zstd_state, zstd_in, zstd_out},
    {"lz4", lz4_state, lz4_in, lz4_out},
    {"lzo1x-1", lzo_state, lzo_in, lzo_out},
};
enum { CODECS = sizeof codecs / sizeof *codecs };

/* ---- threads over blocks ---------------------------------------------------------------------------------------- */

static struct {
    char *records, *packed, *back;
    size_t blocks, slot; /* slot: room of a packed block */
    size_t *sizes;       /* of the packed blocks */
} all;

struct worker {
    const struct codec *codec;
    int cpu, first, step, packing;
    void *state;
};

static void *work(void *words) {
    struct worker *own = (struct worker *)words;
    pin(own->cpu);
    for (size_t at = (size_t)own->first; at < all.blocks; at += (size_t)own->step) {
        char *plain = (own->packing ? all.records : all.back) + at * BLOCK_BYTES, *packed = all.packed + at * all.slot;
        if (own->packing) {
            all.sizes[at] = own->codec->in(own->state, plain, BLOCK_BYTES, packed, all.slot);
            if (all.sizes[at] == 0) fail("expected a codec to compress, found that it does not");
        } else if (own->codec->out(own->state, packed, all.sizes[at], plain, BLOCK_BYTES) != BLOCK_BYTES) {
            fail("expected a block back, found less");
        }
    }
    return 0;
}

/* Seconds that all blocks took. */
static double seconds(struct worker *workers, int threads, int packing) {
    pthread_t others[MOST_THREADS];
    int64_t start = clock_monotonic();
    for (int at = 0; at < threads; at++) {
        workers[at].first = at, workers[at].step = threads, workers[at].packing = packing;
        if (at > 0 && pthread_create(&others[at], 0, work, &workers[at]) != 0) fail("expected a thread, found none");
    }
    work(&workers[0]);
    for (int at = 1; at < threads; at++) pthread_join(others[at], 0);
    return (double)(clock_monotonic() - start) / 1e9;
}

static void round_of(const struct codec *codec, struct worker *workers, int threads) {
    double in = seconds(workers, threads, 1), out = seconds(workers, threads, 0), bytes = 0;
    for (size_t at = 0; at < all.blocks; at++) bytes += (double)all.sizes[at];
    if (memcmp(all.records, all.back, all.blocks * BLOCK_BYTES) != 0) fail("expected the records back, found others");
    double plain = (double)(all.blocks * BLOCK_BYTES);
    printf("{\"codec\": \"%s\", \"threads\": %d, \"ratio\": %.4f, \"in_mb_s\": %.2f, \"back_mb_s\": %.2f}\n",
           codec->name, threads, plain / bytes, plain / in / 1e6, plain / out / 1e6);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static void capture(int random_ids) {
    struct tickscope__slim_record *records = (struct tickscope__slim_record *)(void *)all.records;
    uint64_t *table = (uint64_t *)memory(TABLE * sizeof *table), place = 0;
    for (size_t at = 0; at < TABLE; at++) table[at] = random_below(TABLE);
    for (size_t at = 0; at < all.blocks * (BLOCK_BYTES / sizeof *records); at++) {
        for (uint32_t reads = 1 + random_below(8); reads > 0; reads--) place = (table[place] + at) % TABLE;
        KEEP(place);
        records[at].id = random_ids ? (int64_t)random_below(1 << 20) : (int64_t)at;
        records[at].tick = tickscope__plain();
    }
    free(table);
}

int main(int argc, char **argv) {
    if (argc != 6) fail("expected CPU OTHER_CPU RECORDS ROUNDS IDS");
    all.blocks = (size_t)atoll(argv[3]) * sizeof(struct tickscope__slim_record) / BLOCK_BYTES;
    all.slot = BLOCK_BYTES + BLOCK_BYTES / 8; /* above what any of them needs for what it can't compress */
    all.records = (char *)memory(all.blocks * BLOCK_BYTES), all.back = (char *)memory(all.blocks * BLOCK_BYTES);
    all.packed = (char *)memory(all.blocks * all.slot);
    all.sizes = (size_t *)memory(all.blocks * sizeof *all.sizes);
    if (all.blocks == 0 || lzo_init() != LZO_E_OK) fail("expected records for a block, and lzo");
    pin(atoi(argv[1]));
    capture(!strcmp(argv[5], "random"));
    struct worker workers[CODECS][MOST_THREADS];
    for (int at = 0; at < CODECS * MOST_THREADS; at++) {
        int which = at / MOST_THREADS, thread = at % MOST_THREADS;
        workers[which][thread] = (struct worker){.codec = &codecs[which], .cpu = atoi(argv[1 + thread])};
        workers[which][thread].state = codecs[which].state();
    }
    for (int64_t round = 0; round < atoll(argv[4]); round++)
        for (int at = 0; at < CODECS * MOST_THREADS; at++)
            round_of(&codecs[at / MOST_THREADS], workers[at / MOST_THREADS], 1 + at % MOST_THREADS);
    return 0;
}
