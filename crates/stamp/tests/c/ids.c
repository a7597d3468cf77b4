/* Ids of tickscope_id.h and stamps of several ids: what it is asked for is the first argument. */
#include "tickscope_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Hashes of the first 0 to 63 of the bytes 0, 1, 2, ... */
static void hash(void) {
    uint8_t bytes[63];
    for (int at = 0; at < 63; at++) bytes[at] = (uint8_t)at;
    for (size_t length = 0; length <= sizeof bytes; length++)
        printf("%" PRId64 "\n", tickscope_id_bytes(bytes, length));
}

/* What becomes of each line: what was expected, or what it says. */
static void parse(void) {
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        struct tickscope_traceparent parent;
        line[strcspn(line, "\n")] = 0;
        const char *why = tickscope_parse_traceparent(line, &parent);
        if (why) printf("%s\n", why);
        else printf("%" PRId64 " %" PRId64 " %d\n", parent.id, parent.span, parent.flags);
    }
}

static void batches(void) {
    tickscope_channel *full = tickscope_open("full", TICKSCOPE_BEFORE, TICKSCOPE_FULL);
    tickscope_channel *slim = tickscope_open("slim", TICKSCOPE_BEFORE, 0);
    struct tickscope_extra extra = {0, 0, 0, 0, 0};
    extra.kind = 3, extra.value = 9, extra.attempt = 2, extra.batch = 77;
    tickscope_stamp_batch(full, 100, 32);
    tickscope_stamp_batch_with(full, 132, 1, extra);
    tickscope_record_batch_with(full, INT64_MAX - INT32_MAX + 1, INT32_MAX, 5, extra);
    tickscope_stamp_batch(full, 1, 0);
    tickscope_stamp_batch(full, 1, -1);
    tickscope_stamp_batch(full, 1, (int64_t)INT32_MAX + 1);
    tickscope_stamp_batch(full, INT64_MAX, 2);
    tickscope_record_batch_with(full, 1, INT64_MIN, 5, extra);
    extra.batch = -32;
    tickscope_stamp_with(full, 7, extra);
    tickscope_record_with(full, 8, 6, extra);
    tickscope_stamp_batch(slim, 200, 1);
    tickscope_stamp_batch(slim, 201, 2);
}

static void keep(void) {
    uint8_t bytes[2000];
    for (size_t at = 0; at < sizeof bytes; at++) bytes[at] = (uint8_t)(at * 7);
    tickscope_keep_id_text("");
    tickscope_keep_id_text("order-7");
    tickscope_keep_id(bytes, 16);
    tickscope_keep_id(bytes, sizeof bytes);
    tickscope_stamp(tickscope_open("id-original", TICKSCOPE_PLAIN, 0), 1); /* is nobody else's */
    if (raise(SIGKILL)) return;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "hash")) hash();
    if (!strcmp(what, "parse")) parse();
    if (!strcmp(what, "batches")) batches();
    if (!strcmp(what, "keep")) keep();
    return 0;
}
