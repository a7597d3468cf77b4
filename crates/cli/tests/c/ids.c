/*
 * Orders that are text come apart into packets, which are received in batches and become blocks; each packet is sent
 * twice, the second time before the first is seen, and each attempt is seen.
 *
 *     ids RUN COUNT
 *     ids RUN TEXT TEXT       orders of these names
 */
#include "tickscope_id.h"

#include <stdio.h>

enum { PACKETS = 8 }; /* of an order, and of a block */

int main(int argc, char **argv) {
    int64_t count = argc > 3 ? argc - 2 : argc > 2 ? strtoll(argv[2], 0, 10) : 0;
    tickscope_channel *placed = tickscope_open("placed", TICKSCOPE_BEFORE, 0);
    tickscope_channel *cut = tickscope_open("cut", TICKSCOPE_BEFORE, TICKSCOPE_FULL);
    tickscope_channel *sent = tickscope_open("sent", TICKSCOPE_BEFORE, TICKSCOPE_FULL);
    tickscope_channel *seen = tickscope_open("seen", TICKSCOPE_AFTER, TICKSCOPE_FULL);
    tickscope_channel *polled = tickscope_open("polled", TICKSCOPE_AFTER, TICKSCOPE_FULL);
    tickscope_channel *stored = tickscope_open("stored", TICKSCOPE_AFTER, 0);
    for (int64_t number = 0; number < count; number++) {
        char name[64];
        if (argc > 3) snprintf(name, sizeof name, "%s", argv[2 + number]);
        else snprintf(name, sizeof name, "order number %lld of many", (long long)number);
        int64_t order = tickscope_keep_id_text(name), first = number * PACKETS;
        struct tickscope_extra extra = {0, 0, 0, 0, 0};
        tickscope_stamp(placed, order);
        for (int64_t packet = first; packet < first + PACKETS; packet++) {
            extra.parent = &order, extra.attempt = 0;
            tickscope_stamp_with(cut, packet, extra);
            extra.parent = 0;
            for (extra.attempt = 0; extra.attempt < 2; extra.attempt++) tickscope_stamp_with(sent, packet, extra);
            for (extra.attempt = 1; extra.attempt >= 0; extra.attempt--) tickscope_stamp_with(seen, packet, extra);
        }
        int64_t block = number + 1000000;
        extra.parent = &block, extra.attempt = 0;
        tickscope_stamp_batch_with(polled, first, PACKETS, extra);
        tickscope_stamp(stored, block);
    }
    return raise(SIGKILL);
}
