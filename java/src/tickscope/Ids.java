package tickscope;

import java.nio.charset.StandardCharsets;

/**
 * Ids of what has a name instead of a number: SipHash-2-4 of its bytes under the key 00 01 .. 0f, as in every language
 * of tickscope (docs/ids.md). Deliberately absent: keeping the originals, for records of Java have no room for them.
 */
public final class Ids {
    private static final long KEY_0 = 0x0706050403020100L, KEY_1 = 0x0f0e0d0c0b0a0908L;

    private long v0 = KEY_0 ^ 0x736f6d6570736575L, v1 = KEY_1 ^ 0x646f72616e646f6dL;
    private long v2 = KEY_0 ^ 0x6c7967656e657261L, v3 = KEY_1 ^ 0x7465646279746573L;

    private Ids() {}

    /** Id of a text: of its UTF-8. */
    public static long of(String text) {
        return of(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Id of bytes. */
    public static long of(byte[] bytes) {
        Ids hash = new Ids();
        int whole = bytes.length / 8 * 8;
        for (int at = 0; at < whole; at += 8) {
            hash.take(word(bytes, at, at + 8));
        }
        return hash.end((long) bytes.length << 56 | word(bytes, whole, bytes.length));
    }

    /** Id of a trace by the 32 hexadecimal digits of its {@code traceparent}. */
    public static long ofTrace(String digits) {
        Ids hash = new Ids();
        for (int at = 0; at < 32; at += 16) {
            hash.take(Long.reverseBytes(Long.parseUnsignedLong(digits, at, at + 16, 16)));
        }
        return hash.end(16L << 56);
    }

    private static long word(byte[] bytes, int from, int to) {
        long word = 0;
        for (int at = from; at < to; at++) {
            word |= (bytes[at] & 0xffL) << 8 * (at - from);
        }
        return word;
    }

    private void take(long word) {
        v3 ^= word;
        round();
        round();
        v0 ^= word;
    }

    private long end(long last) {
        take(last);
        v2 ^= 0xff;
        for (int i = 0; i < 4; i++) {
            round();
        }
        return v0 ^ v1 ^ v2 ^ v3;
    }

    private void round() {
        v0 += v1;
        v1 = Long.rotateLeft(v1, 13) ^ v0;
        v0 = Long.rotateLeft(v0, 32);
        v2 += v3;
        v3 = Long.rotateLeft(v3, 16) ^ v2;
        v0 += v3;
        v3 = Long.rotateLeft(v3, 21) ^ v0;
        v2 += v1;
        v1 = Long.rotateLeft(v1, 17) ^ v2;
        v2 = Long.rotateLeft(v2, 32);
    }
}
