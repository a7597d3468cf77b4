package tickscope;

/**
 * Offsets, numbers and states of docs/block-format.md that a minimal writer needs. Offsets of the pool's header are
 * into the file, those of entries and blocks are into each.
 */
final class Layout {
    static final int VERSION = 4;
    static final long POOL_MAGIC = 0x4c4f4f504b434954L; // "TICKPOOL"
    static final int BLOCK_MAGIC = 0x4b4c4254; // "TBLK"
    static final int NAME_BYTES = 48;

    static final int POOL_VERSION = 8, ENTRY_OFFSET = 12, ENTRY_BYTES_AT = 16, ENTRY_COUNT = 20, BLOCK_OFFSET = 24;
    static final int BLOCK_BYTES = 32, BLOCK_COUNT = 36, INSTANCE = 40, BOOT_ID = 48, PID = 64, COUNTER = 68;
    static final int NODE = 96, COMMAND = 144, POOL_STATE = 192, CHANNELS = 196, KEY = 200, LEASES = 256;
    static final int WITHOUT_CHANNEL = 384, CHANNELS_REFUSED = 392, DUMPS = 408, UNWRITTEN = 416;
    static final int READING_PS = 440, READING = 448, READING_BYTES = 448;
    static final int HEADER_BYTES = 4096, ENTRY_BYTES = 256, RECORDS = 192, RECORD_BYTES = 16;
    static final int POOL_CLOSED = 1;

    static final int POLICY = 0, ENTRY_STATE = 64, ENTRY_SERIAL = 68, ENTRY_THREAD = 76, ENTRY_KIND = 80;
    static final int DROPPED = 128, REFUSED = 136, LOST = 152, LOST_FIRST = 160, LOST_LAST = 168, ENTRY_POINT = 192;
    static final int ENTRY_FREE = 0, ENTRY_OPENING = 1, ENTRY_OPEN = 2, ENTRY_CLOSED = 3;
    static final int PARAMETERS = 8, COUNTED = 176, SEEN = 184;
    static final int NULL = 0, BUFFERED = 1, ALL = 2, EVERY = 3, X_OF_Y = 4, COUNT = 5, FIRST_LAST = 6, RETURN_TRIP = 7;
    static final int KEEP = 8, OWN = 9;

    static final int BLOCK_VERSION = 4, BLOCK_STATE = 8, SERIAL = 12, NUMBER = 16, BLOCK_INSTANCE = 24, THREAD = 52;
    static final int KIND = 64, BLOCK_LOST = 72, BLOCK_LOST_FIRST = 80, BLOCK_LOST_LAST = 88, POINT = 96;
    static final int BLOCK_EPOCH = 20, BLOCK_PARAMETER = 144, BLOCK_POLICY = 152, BLOCK_END = 160;
    static final int FIRST_OF_POLICY = 168;
    static final int FREE = 0, LEASED = 1, RELEASED = 2, OVERWRITTEN = 5;

    static final int TSC = 1, CNTVCT = 2, MONOTONIC = 4;

    /** Ordering, shape and counter as the four bytes that entries and blocks have of them. */
    static int kind(Ordering ordering, int counter) {
        return ordering.ordinal() | 1 << 8 | counter << 16;
    }

    private Layout() {}
}
