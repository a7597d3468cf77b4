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
    private final int entry, serial, thread, ordering, kind;
    private int slot, end, block, blocks;
    /** Policy and epoch as the entry has them, and what was made of them; {@link Policy#REFUSES} where it is not one. */
    private long adopted, parameter, seen;
    private int rule, firstOfPolicy;
    private boolean isLooking;
    private long lookAgainNs;
    @SuppressWarnings("unused") // by CLAIMED
    private int claimed;

    /** A channel in an entry that is this one's, and opens it. */
    Channel(Pool pool, int entry, int serial, int thread, Policy policy, String point, Ordering ordering) {
        this.pool = pool;
        this.memory = pool.memory;
        this.point = point;
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
        rule = Policy.rule(policy.number, parameter);
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
        if (!keeps(id)) {
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
        if (!keeps(id)) {
            return;
        }
        if (tick != 0 && slot >= end && !lease()) {
            drop(tick);
        } else {
            commit(id, tick);
        }
    }

    /** Whether a stamp of that id is stored, by the policy as it is now. */
    private boolean keeps(long id) {
        long word = memory.acquire(entry + Layout.POLICY);
        if (word != adopted && (int) word != Layout.NULL) {
            adopt(word);
        }
        switch ((int) word == Layout.NULL ? Layout.NULL : rule) {
            case Layout.BUFFERED:
            case Layout.RETURN_TRIP:
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
                memory.countOwn(entry + Layout.REFUSED);
                return false;
        }
    }

    /** Goes by another policy from here on; the block ends, for its header says another one. */
    private void adopt(long word) {
        do {
            adopted = word;
            parameter = memory.acquire(entry + Layout.PARAMETERS + (int) (word >>> 32 & 1) * 8);
            word = memory.acquire(entry + Layout.POLICY);
        } while (word != adopted);
        rule = Policy.rule((int) adopted, parameter);
        seen = 0;
        if (slot < end) {
            memory.release(block + Layout.BLOCK_END, (slot - block) / Layout.RECORD_BYTES);
            memory.count(Layout.LEASES);
            slot = end;
        }
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
        if (isLooking && System.nanoTime() - lookAgainNs < 0) {
            return false;
        }
        int free = pool.freeBlock();
        isLooking = free == 0;
        if (isLooking) {
            lookAgainNs = System.nanoTime() + LOOK_AGAIN_NS;
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

    /** Ends it: its last block goes to the collector. Nobody stamps on it any more. */
    void close() {
        if (slot < end) {
            memory.release(block + Layout.BLOCK_STATE, Layout.RELEASED);
        }
        slot = end;
        memory.release(entry + Layout.ENTRY_STATE, Layout.ENTRY_CLOSED);
    }
}
