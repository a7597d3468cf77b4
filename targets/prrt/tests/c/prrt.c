/* Both ends of PRRT by prrt.h over a path in virtual time, 5 ms each way, that loses one of twenty datagrams: prints
 * what came of 4000 payloads, and ends with 1 where one came twice, changed, or late, or a misuse was taken. */
#include "prrt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOADS = 4000, ON_WAY = 512 };
#define MS 1000000LL

struct datagram {
    int64_t due;
    size_t bytes;
    unsigned char data[PRRT_MOST_DATAGRAM_BYTES];
};

struct path {
    struct datagram on_way[ON_WAY];
    size_t first, count;
    uint64_t random;
    unsigned lose_one_of;
};

static int failed;

static void expect(int holds, const char *what) {
    if (!holds) failed = 1, fprintf(stderr, "not so: %s (%s)\n", what, prrt_error());
}

static void put(struct path *path, const void *data, size_t bytes, int64_t now) {
    path->random = path->random * 6364136223846793005u + 1442695040888963407u;
    if (path->lose_one_of && (path->random >> 33) % path->lose_one_of == 0) return;
    expect(path->count < ON_WAY, "the path has room");
    struct datagram *last = &path->on_way[(path->first + path->count++) % ON_WAY];
    last->due = now + 5 * MS;
    last->bytes = bytes;
    memcpy(last->data, data, bytes);
}

static const struct datagram *next(struct path *path, int64_t now) {
    if (path->count == 0 || path->on_way[path->first].due > now) return NULL;
    const struct datagram *datagram = &path->on_way[path->first];
    path->first = (path->first + 1) % ON_WAY, path->count--;
    return datagram;
}

static size_t payload_of(uint64_t id, unsigned char *bytes) {
    size_t length = id % 7 == 0 ? 0 : 1 + id * 37 % PRRT_MOST_PAYLOAD_BYTES;
    for (size_t at = 0; at < length; at++) bytes[at] = (unsigned char)(id * 131 + at);
    return length;
}

static struct path there, back;
static int64_t submitted[PAYLOADS * 4];
static unsigned char handed[PAYLOADS * 4], expected[PRRT_MOST_PAYLOAD_BYTES];

static void deliver(prrt_receiver *receiver, int64_t now, unsigned *came, unsigned *recovered) {
    unsigned char payload[PRRT_MOST_PAYLOAD_BYTES];
    uint64_t id = 0;
    int was_recovered = -1, is_late = -2;
    ptrdiff_t bytes;
    while ((bytes = prrt_deliver(receiver, now, payload, &id, &was_recovered, &is_late)) >= 0) {
        expect(id < PAYLOADS * 4 && submitted[id] >= 0, "an id that was submitted");
        expect(!handed[id], "handed over once");
        expect((size_t)bytes == payload_of(id, expected) && !memcmp(payload, expected, (size_t)bytes), "as submitted");
        expect(now - submitted[id] <= 100 * MS, "in time");
        expect(is_late == 0 || (is_late == -1 && id < 40), "known to be in time once a round trip is");
        handed[id] = 1;
        ++*came;
        *recovered += was_recovered == 1;
    }
}

static void transfer(void) {
    struct prrt_constraints asked = { 0.01, 0, 100 * MS, 3 * MS, 20 * MS, 0 };
    prrt_sender *sender = prrt_sender_new(7, &asked);
    prrt_receiver *receiver = prrt_receiver_new(5 * MS, MS, 1000 * MS);
    unsigned char bytes[PRRT_MOST_DATAGRAM_BYTES];
    unsigned came = 0, recovered = 0, adapted = 0, sent = 0;
    there.lose_one_of = 20, back.lose_one_of = 11;
    memset(submitted, 0xff, sizeof submitted);
    for (int64_t now = 0; now < (PAYLOADS + 100) * MS; now += MS / 4) {
        if (now % MS == 0 && sent < PAYLOADS) {
            unsigned char payload[PRRT_MOST_PAYLOAD_BYTES];
            /* The payload is that of the id that it will get: ids go up by one but where a block was cut short. */
            static int64_t id = -1;
            size_t length = payload_of((uint64_t)(id + 1), payload);
            int64_t got = prrt_submit(sender, payload, length, now);
            expect(got == id + 1, "ids go up by one");
            submitted[id = got] = now;
            sent++;
        }
        ptrdiff_t length;
        while ((length = prrt_transmit(sender, now, bytes)) > 0) put(&there, bytes, (size_t)length, now);
        expect(length == 0, "a sender transmits");
        for (const struct datagram *datagram; (datagram = next(&there, now));)
            prrt_receiver_handle(receiver, datagram->data, datagram->bytes, now);
        deliver(receiver, now, &came, &recovered);
        while ((length = prrt_feedback(receiver, now, bytes)) > 0) put(&back, bytes, (size_t)length, now);
        expect(length == 0, "a receiver gives feedback");
        for (const struct datagram *datagram; (datagram = next(&back, now));)
            expect(prrt_sender_handle(sender, datagram->data, datagram->bytes, now) == 1, "a feedback is taken");
        if (now % (500 * MS) == 0) adapted += prrt_adapt(sender) == 1;
        if (sent == PAYLOADS) expect(prrt_flush(sender) == 0, "a stream's end");
    }
    expect(prrt_sender_wake_at(sender) == INT64_MAX, "all is over");
    printf("{\"came\": %u, \"recovered\": %u, \"adapted\": %u}\n", came, recovered, adapted);
    prrt_sender_free(sender);
    prrt_receiver_free(receiver);
}

static int says(const char *word) { return strstr(prrt_error(), word) != NULL; }

static void misuse(void) {
    struct prrt_constraints asked = { 1e-4, 0, 50 * MS, 2 * MS, 10 * MS, 0 }, wrong = asked;
    unsigned char bytes[2000] = { 0 };
    expect(!prrt_sender_new(7, NULL) && says("NULL"), "no constraints");
    wrong.residual_loss = 0;
    expect(!prrt_sender_new(7, &wrong) && says("residual_loss"), "no residual loss");
    wrong = asked, wrong.deadline_ns = 60000000001;
    expect(!prrt_sender_new(7, &wrong) && says("60 s at most"), "a deadline that no packet can say");
    wrong = asked, wrong.deadline_ns = 0;
    expect(!prrt_sender_new(7, &wrong) && says("deadline"), "no deadline");
    wrong = asked, wrong.rate_bps = -1;
    expect(!prrt_sender_new(7, &wrong) && says("rate_bps"), "a negative rate");
    expect(!prrt_receiver_new(0, 1, 1) && says("above 0"), "no time between feedbacks");
    expect(prrt_submit(NULL, bytes, 1, 0) == -1 && prrt_transmit(NULL, 0, bytes) == -1, "no sender");
    expect(prrt_receiver_handle(NULL, bytes, 1, 0) == -1 && prrt_feedback(NULL, 0, bytes) == -1, "no receiver");
    expect(prrt_adapt(NULL) == -1 && prrt_flush(NULL) == -1, "no sender to adapt");
    expect(prrt_sender_way(NULL, 1) == -1 && prrt_receiver_way(NULL, 1) == -1, "no end to tell the way");
    expect(prrt_sender_wake_at(NULL) == INT64_MAX && prrt_receiver_wake_at(NULL) == INT64_MAX, "nothing is due");
    prrt_sender_free(NULL), prrt_receiver_free(NULL);
    prrt_sender *sender = prrt_sender_new(7, &asked);
    prrt_receiver *receiver = prrt_receiver_new(5 * MS, MS, 1000 * MS);
    expect(prrt_submit(sender, bytes, PRRT_MOST_PAYLOAD_BYTES + 1, 0) == -1 && says("1426"), "too long");
    expect(prrt_submit(sender, NULL, 1, 0) == -1 && prrt_submit(sender, NULL, 0, 0) == 0, "only no bytes lie nowhere");
    expect(prrt_transmit(sender, 0, NULL) == -1, "no buffer for a packet");
    expect(prrt_deliver(receiver, 0, NULL, NULL, NULL, NULL) == -1, "no buffer for a payload");
    expect(prrt_receiver_handle(receiver, bytes, sizeof bytes, 0) == 0, "not a packet");
    expect(prrt_sender_handle(sender, bytes, sizeof bytes, 0) == 0, "not a feedback");
    expect(prrt_deliver(receiver, 0, bytes, NULL, NULL, NULL) == -1, "nothing to hand over");
    expect(prrt_adapt(sender) == 0, "nothing is known of the path");
    expect(prrt_receiver_moved(NULL, 1) == -1 && prrt_receiver_moved(receiver, 1) == 0, "another address");
    expect(prrt_sender_way(sender, 5 * MS) == 0 && prrt_receiver_way(receiver, -1) == 0, "a way, and none");
    prrt_sender_free(sender), prrt_receiver_free(receiver);
}

/* A deadline shorter than the path's way: no coding keeps it, and the constraint is named. */
static void infeasible(void) {
    struct prrt_constraints asked = { 1e-6, 0, 3 * MS, 2 * MS, 3 * MS, 0 };
    prrt_sender *sender = prrt_sender_new(9, &asked);
    prrt_receiver *receiver = prrt_receiver_new(5 * MS, MS, 1000 * MS);
    unsigned char bytes[PRRT_MOST_DATAGRAM_BYTES] = { 0 };
    int named = 0;
    memset(&there, 0, sizeof there), memset(&back, 0, sizeof back);
    there.lose_one_of = 3;
    for (int64_t now = 0; now < 4000 * MS && !named; now += MS / 4) {
        ptrdiff_t length;
        if (now % MS == 0) prrt_submit(sender, bytes, 100, now);
        while ((length = prrt_transmit(sender, now, bytes)) > 0) put(&there, bytes, (size_t)length, now);
        for (const struct datagram *datagram; (datagram = next(&there, now));)
            prrt_receiver_handle(receiver, datagram->data, datagram->bytes, now);
        while ((length = prrt_feedback(receiver, now, bytes)) > 0) put(&back, bytes, (size_t)length, now);
        for (const struct datagram *datagram; (datagram = next(&back, now));)
            prrt_sender_handle(sender, datagram->data, datagram->bytes, now);
        named = prrt_adapt(sender) == -1;
    }
    expect(named && says("Deadline"), "the constraint is named");
    fprintf(stderr, "%s\n", prrt_error());
    prrt_sender_free(sender), prrt_receiver_free(receiver);
}

int main(void) {
    misuse();
    infeasible();
    memset(&there, 0, sizeof there), memset(&back, 0, sizeof back);
    transfer();
    return failed;
}
