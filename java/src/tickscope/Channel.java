package tickscope;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * Stamps of one point by one thread at a time: rules 5 to 9 of docs/minimal-writer.md.
 *
 * <p>Assumes that its thread alone calls it, or that whoever calls it has claimed it. Guarantees: what {@link #stamp}
 * returned from is in shared memory; it allocates nothing, takes no lock and never waits. Its place in the pool is
 * plain fields, for a JVM runs no handler of a signal on a thread that stamps. All records of a block are of the policy
 * in its header.
 */
final class Channel {
    private static final VarHandle CLAIMED;
    /** How long no free block is looked for after none was found: a look at every stamp is slow in a full pool. */
    private static final long LOOK_AGAIN_NS = 100_000;
    /** The same under {@code keep}, which goes on in its own oldest block meanwhile. */
    private static final long OVERWRITES_FOR_NS = 10_000_000;

    static {
        try {
            CLAIMED = MethodHandles.lookup().findVarHandle(Channel.class, "claimed", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Pool pool;
    private final Memory memory;
    private final String point;
    private final Choice choice;
    private final int entry, serial, thread, ordering, kind;
    private int slot, end, block, blocks;
    /** Policy and epoch as the entry has them, and what was made of them; {@link Policy#REFUSES} where it is none. */
    private long adopted, parameter, seen;
    private int rule, firstOfPolicy;
    private boolean isLooking;
    /** Under {@code first-last}: the marker came. */
    private boolean isOver;
    private Log log;
    private long lookAgainNs;
    @SuppressWarnings("unused") // by CLAIMED
    private int claimed;

    /** A channel in an entry that is this one's, and opens it. */
    Channel(Pool pool, int entry, int serial, int thread, Policy policy, String point, Ordering ordering,
            Choice choice) {
        this.pool = pool;
        this.memory = pool.memory;
        this.point = point;
        this.choice = choice;
        this.entry = entry;
        this.serial = serial;
        this.thread = thread;
        this.ordering = ordering.ordinal();
        this.kind = Layout.kind(ordering, Counter.STAMPED);
        describe(policy);
    }

    private void describe(Policy policy) {
        memory.zero(entry, Layout.ENTRY_STATE);
        memory.zero(entry + Layout.ENTRY_SERIAL, Layout.ENTRY_BYTES - Layout.ENTRY_SERIAL);
        memory.put(entry + Layout.POLICY, policy.number);
        memory.put(entry + Layout.PARAMETERS, policy.parameter);
        adopted = policy.number;
        parameter = policy.parameter;
        goBy(Policy.rule(policy.number, parameter));
        memory.put(entry + Layout.ENTRY_SERIAL, serial);
        memory.put(entry + Layout.ENTRY_THREAD, thread);
        memory.put(entry + Layout.ENTRY_KIND, kind);
        memory.putName(entry + Layout.ENTRY_POINT, point);
        memory.release(entry + Layout.ENTRY_STATE, Layout.ENTRY_OPEN);
    }

    /** Takes the channel for the caller, if nobody else has it. */
    boolean claim() {
        return (int) CLAIMED.getAcquire(this) == 0 && CLAIMED.compareAndSet(this, 0, 1);
    }

    void letGo() {
        CLAIMED.setRelease(this, 0);
    }

    /** Stamps now. */
    void stamp(long id) {
        if (!keeps(id, false, 0)) {
            return;
        }
        if (slot < end || lease()) {
            commit(id, Counter.now(ordering));
        } else {
            drop(Counter.now(ordering));
        }
    }

    /** Stamps with a tick that was read already. */
    void record(long id, long tick) {
        if (!keeps(id, true, tick)) {
            return;
        }
        if (tick != 0 && slot >= end && !lease()) {
            drop(tick);
        } else {
            commit(id, tick);
        }
    }

    /** Whether a stamp of that id is to be stored, by the policy as it is now; under some policies it was, here. */
    private boolean keeps(long id, boolean isGiven, long tick) {
        long word = memory.acquire(entry + Layout.POLICY);
        if (word != adopted && (int) word != Layout.NULL) {
            adopt(word);
        }
        switch ((int) word == Layout.NULL ? Layout.NULL : rule) {
            case Layout.BUFFERED:
            case Layout.RETURN_TRIP:
            case Layout.KEEP:
                return true;
            case Layout.X_OF_Y:
                return Math.floorMod(id, parameter & 0xffff_ffffL) < parameter >>> 32;
            case Layout.EVERY:
                memory.countOwn(entry + Layout.SEEN);
                seen = seen + 1 < parameter ? seen + 1 : 0;
                return seen == 0;
            case Layout.COUNT:
                memory.countOwn(entry + Layout.COUNTED);
                return false;
            case Layout.NULL:
                return false;
            default:
                keepSpecially(id, isGiven ? tick : Counter.now(ordering));
                return false;
        }
    }

    /** A stamp under a policy that needs its tick to decide, or does more than store it. */
    private void keepSpecially(long id, long tick) {
        int chosen = tick == 0 || rule == Policy.REFUSES ? Choice.REFUSED
            : rule == Layout.OWN ? choice.of(id, tick) : Choice.KEPT;
        if (chosen == Choice.REFUSED) {
            memory.countOwn(entry + Layout.REFUSED);
        } else if (chosen == Choice.KEPT && rule == Layout.FIRST_LAST) {
            keepFirstAndLast(id, tick);
        } else if (chosen == Choice.KEPT) {
            keepNow(id, tick);
        }
    }

    private void keepNow(long id, long tick) {
        if (slot >= end && !lease()) {
            drop(tick);
            return;
        }
        commit(id, tick);
        if (rule == Layout.ALL && (log == null || !log.write(id, tick))) {
            memory.count(Layout.UNWRITTEN);
        }
    }

    /** The first stamp, or the one that takes the place of the last but one: a kill leaves one of the two whole. */
    private void keepFirstAndLast(long id, long tick) {
        if (isOver) {
            return;
        }
        if (slot >= end && !lease()) {
            drop(tick);
            return;
        }
        int first = slot, pair = first + Layout.RECORD_BYTES, other = pair + Layout.RECORD_BYTES;
        int at = tickAt(first) == 0 ? first : tickAt(pair) <= tickAt(other) ? pair : other;
        memory.putOpaque(at + 8, 0);
        VarHandle.releaseFence();
        memory.put(at, id);
        memory.release(at + 8, tick);
        isOver = parameter != Policy.NO_MARKER && parameter == id;
        if (isOver) {
            endBlock();
        }
    }

    private long tickAt(int at) {
        return memory.getLong(at + 8);
    }

    private void goBy(int next) {
        rule = next;
        isOver = false;
        if (rule == Layout.ALL && log == null) {
            log = pool.log(serial);
        }
    }

    /** The block ends where its records do; under {@code first-last}, where they lie in turn, at its own end. */
    private void endBlock() {
        if (slot < end) {
            int records = rule == Layout.FIRST_LAST ? end - block : slot - block;
            memory.release(block + Layout.BLOCK_END, records / Layout.RECORD_BYTES);
            memory.count(Layout.LEASES);
            slot = end;
        }
    }

    /** Goes by another policy from here on; the block ends, for its header says another one. */
    private void adopt(long word) {
        do {
            adopted = word;
            parameter = memory.acquire(entry + Layout.PARAMETERS + (int) (word >>> 32 & 1) * 8);
            word = memory.acquire(entry + Layout.POLICY);
        } while (word != adopted);
        endBlock();
        goBy(Policy.rule((int) adopted, parameter));
        seen = 0;
        firstOfPolicy = blocks;
    }

    private void commit(long id, long tick) {
        if (tick == 0) {
            memory.countOwn(entry + Layout.REFUSED);
            return;
        }
        memory.put(slot, id);
        memory.release(slot + 8, tick);
        slot += Layout.RECORD_BYTES;
    }

    private void drop(long tick) {
        memory.countOwn(entry + Layout.DROPPED);
        memory.put(entry + Layout.LOST_LAST, tick);
        if (memory.getLong(entry + Layout.LOST) == 0) {
            memory.put(entry + Layout.LOST_FIRST, tick);
        }
        memory.release(entry + Layout.LOST, memory.getLong(entry + Layout.LOST) + 1);
    }

    /** Goes on to a free block; false: there is none, or none was a moment ago. */
    private boolean lease() {
        boolean waits = isLooking && System.nanoTime() - lookAgainNs < 0;
        int free = waits ? 0 : pool.freeBlock();
        isLooking = waits || free == 0;
        if (isLooking && !waits) {
            lookAgainNs = System.nanoTime() + (rule == Layout.KEEP ? OVERWRITES_FOR_NS : LOOK_AGAIN_NS);
        }
        if (free == 0 && rule == Layout.KEEP) {
            free = overwritten();
        }
        if (free == 0) {
            return false;
        }
        memory.put(free + Layout.BLOCK_VERSION, Layout.VERSION | Layout.RECORDS << 16);
        memory.put(free + Layout.SERIAL, serial);
        memory.put(free + Layout.NUMBER, blocks);
        memory.put(free + Layout.BLOCK_INSTANCE, pool.instance);
        memory.put(free + Layout.THREAD, thread);
        memory.put(free + Layout.KIND, kind);
        memory.put(free + Layout.BLOCK_LOST, memory.getLong(entry + Layout.LOST));
        memory.put(free + Layout.BLOCK_LOST_FIRST, memory.getLong(entry + Layout.LOST_FIRST));
        memory.put(free + Layout.BLOCK_LOST_LAST, memory.getLong(entry + Layout.LOST_LAST));
        memory.putName(free + Layout.POINT, point);
        memory.put(free + Layout.BLOCK_EPOCH, (int) (adopted >>> 32));
        memory.put(free + Layout.BLOCK_PARAMETER, parameter);
        memory.put(free + Layout.BLOCK_POLICY, (int) adopted);
        memory.put(free + Layout.FIRST_OF_POLICY, firstOfPolicy);
        memory.release(free, Layout.BLOCK_MAGIC);
        memory.release(entry + Layout.LOST, 0L);
        memory.count(Layout.LEASES);
        block = free;
        slot = free + Layout.RECORDS;
        end = free + pool.blockBytes;
        blocks++;
        return true;
    }

    /** The channel's own oldest full block, emptied for it; 0: it has none, or the collector has it. */
    private int overwritten() {
        int oldest = pool.oldest(serial, firstOfPolicy);
        if (oldest == 0 || !memory.exchange(oldest + Layout.BLOCK_STATE, Layout.LEASED, Layout.OVERWRITTEN)) {
            return 0;
        }
        memory.put(oldest, 0L); // its magic first: whoever finds it so finds nothing in it
        VarHandle.releaseFence();
        memory.put(oldest + Layout.SERIAL, 0);
        memory.clear(oldest + 16, oldest + pool.blockBytes);
        memory.release(oldest + Layout.BLOCK_STATE, Layout.LEASED);
        return oldest;
    }

    /** Ends it: its last block goes to the collector. Nobody stamps on it any more. */
    void close() {
        if (slot < end) {
            memory.release(block + Layout.BLOCK_STATE, Layout.RELEASED);
        }
        slot = end;
        if (log != null) {
            log.close();
        }
        memory.release(entry + Layout.ENTRY_STATE, Layout.ENTRY_CLOSED);
    }
}
