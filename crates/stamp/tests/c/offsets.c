/* Prints every offset of tickscope.h's structs as "struct field offset size", and the policies, for tests/layout.rs. */
#include "tickscope.h"

#define FIELD(type, field) \
    printf(#type " " #field " %zu %zu\n", offsetof(struct tickscope__##type, field), \
           sizeof(((struct tickscope__##type *)0)->field))

int main(void) {
    FIELD(pool_header, magic), FIELD(pool_header, version), FIELD(pool_header, entry_offset);
    FIELD(pool_header, entry_bytes), FIELD(pool_header, entry_count), FIELD(pool_header, block_offset);
    FIELD(pool_header, block_bytes), FIELD(pool_header, block_count), FIELD(pool_header, instance);
    FIELD(pool_header, boot_id), FIELD(pool_header, pid), FIELD(pool_header, counter), FIELD(pool_header, when_full);
    FIELD(pool_header, process_start), FIELD(pool_header, epoch), FIELD(pool_header, injected);
    FIELD(pool_header, created_tick), FIELD(pool_header, node), FIELD(pool_header, command), FIELD(pool_header, state);
    FIELD(pool_header, channels), FIELD(pool_header, key), FIELD(pool_header, leases), FIELD(pool_header, hint);
    FIELD(pool_header, without_channel), FIELD(pool_header, channels_refused), FIELD(pool_header, after_close);
    FIELD(pool_header, dumps), FIELD(pool_header, unwritten), FIELD(pool_header, late_from);
    FIELD(pool_header, late_until), FIELD(pool_header, reading_ps), FIELD(pool_header, reading);
    FIELD(entry, policy), FIELD(entry, parameters), FIELD(entry, state),
        FIELD(entry, serial), FIELD(entry, number), FIELD(entry, thread);
    FIELD(entry, ordering), FIELD(entry, shape), FIELD(entry, counter),
        FIELD(entry, opened_tick), FIELD(entry, dropped), FIELD(entry, refused);
    FIELD(entry, stalls), FIELD(entry, lost), FIELD(entry, lost_first), FIELD(entry, lost_last);
    FIELD(entry, counted), FIELD(entry, seen), FIELD(entry, point);
    FIELD(block_header, magic), FIELD(block_header, version),
        FIELD(block_header, header_bytes), FIELD(block_header, state);
    FIELD(block_header, serial), FIELD(block_header, number), FIELD(block_header, policy_epoch);
    FIELD(block_header, instance), FIELD(block_header, boot_id), FIELD(block_header, pid), FIELD(block_header, thread);
    FIELD(block_header, process_start), FIELD(block_header, ordering), FIELD(block_header, shape);
    FIELD(block_header, counter), FIELD(block_header, epoch),
        FIELD(block_header, lost), FIELD(block_header, lost_first);
    FIELD(block_header, lost_last), FIELD(block_header, point),
        FIELD(block_header, parameter), FIELD(block_header, policy), FIELD(block_header, successor);
    FIELD(block_header, end), FIELD(block_header, following);
    FIELD(block_header, first_of_policy);
    FIELD(successor, next), FIELD(successor, serial), FIELD(successor, whole);
    FIELD(successor, opened_tick), FIELD(successor, one);
    FIELD(slim_record, id), FIELD(slim_record, tick);
    FIELD(wide_record, id), FIELD(wide_record, tick), FIELD(wide_record, value),
        FIELD(wide_record, kind), FIELD(wide_record, cpu);
    FIELD(full_record, wide), FIELD(full_record, parent), FIELD(full_record, attempt), FIELD(full_record, batch);
    printf("pool_header = %zu 0\nentry = %zu 0\nblock_header = %zu 0\n", sizeof(struct tickscope__pool_header),
           sizeof(struct tickscope__entry), sizeof(struct tickscope__block_header));
    printf("pool_magic = %llu 0\nblock_magic = %llu 0\nversion = %d 0\n", (unsigned long long)TICKSCOPE__POOL_MAGIC,
           (unsigned long long)TICKSCOPE__BLOCK_MAGIC, TICKSCOPE_VERSION);
    printf("successor_magic = %llu 0\n", (unsigned long long)TICKSCOPE__SUCCESSOR_MAGIC);
    printf("entries = %d %d\n", TICKSCOPE__LEAST_ENTRIES, TICKSCOPE__SHARED_ENTRIES);
    for (size_t at = 0; at < sizeof tickscope__policies / sizeof *tickscope__policies; at++)
        printf("policy %s %zu 0\n", tickscope__policies[at], at);
    return 0;
}
