package tickscope;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.charset.StandardCharsets;

/** A mapped pool as words of 4 and 8 bytes, each stored at once. It is mapped as long as anybody holds it. */
final class Memory {
    private static final VarHandle INT = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private final MappedByteBuffer bytes;

    Memory(MappedByteBuffer bytes) {
        this.bytes = bytes;
    }

    /** Reads a word that others change: each time anew. */
    int look(int at) {
        return (int) INT.getOpaque(bytes, at);
    }

    /** Reads a word that others change, before all that follows. */
    long acquire(int at) {
        return (long) LONG.getAcquire(bytes, at);
    }

    int get(int at) {
        return (int) INT.get(bytes, at);
    }

    long getLong(int at) {
        return (long) LONG.get(bytes, at);
    }

    void put(int at, int word) {
        INT.set(bytes, at, word);
    }

    void put(int at, long word) {
        LONG.set(bytes, at, word);
    }

    void put(int at, byte[] some) {
        bytes.put(at, some);
    }

    /** Stores a name, padded with zeros. */
    void putName(int at, String name) {
        putText(at, Layout.NAME_BYTES, name);
    }

    /** Stores as much of a text as so many bytes take, padded with one zero or more. */
    void putText(int at, int length, String text) {
        byte[] padded = new byte[length];
        byte[] said = text.getBytes(StandardCharsets.UTF_8);
        System.arraycopy(said, 0, padded, 0, Math.min(said.length, padded.length - 1));
        put(at, padded);
    }

    /** Stores zeros over whole words of 8 bytes, and makes nothing anew for it. */
    void clear(int from, int end) {
        for (int at = from; at < end; at += 8) {
            put(at, 0L);
        }
    }

    /** Stores a word once, before whatever a fence keeps behind it. */
    void putOpaque(int at, long word) {
        LONG.setOpaque(bytes, at, word);
    }

    void zero(int at, int length) {
        put(at, new byte[length]);
    }

    /** Stores a word after all that was stored before is seen. */
    void release(int at, int word) {
        INT.setRelease(bytes, at, word);
    }

    void release(int at, long word) {
        LONG.setRelease(bytes, at, word);
    }

    boolean exchange(int at, int from, int to) {
        return (int) INT.compareAndExchangeAcquire(bytes, at, from, to) == from;
    }

    /** Adds one to a count that several threads add to. */
    void count(int at) {
        long ignored = (long) LONG.getAndAdd(bytes, at, 1L);
    }

    /** Adds one to a count of this thread alone. */
    void countOwn(int at) {
        LONG.setOpaque(bytes, at, (long) LONG.get(bytes, at) + 1);
    }
}
