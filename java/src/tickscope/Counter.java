package tickscope;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.util.Locale;

/**
 * What stamps are read from, chosen once: the machine's counter by native code, else {@code System.nanoTime} as the
 * clock that it is, CLOCK_MONOTONIC. {@code -Dtickscope.counter=} or {@code TICKSCOPE_COUNTER} asks for
 * {@code native}, {@code monotonic} or {@code jfr}.
 *
 * <p>{@code jfr} is {@code jdk.jfr.internal.JVM.counterTime()}, which is no counter to rely on: HotSpot takes a
 * constant off it that can be known to the width of a bracket only, and no block has room for such a width; on AMD it is
 * nanoseconds; and no fence stands before or behind it. So it must prove to be the counter itself ({@link Proof}), is
 * read at {@code PLAIN} points alone, and is told and left where it fails.
 */
final class Counter {
    /** The field {@code counter} of entries and blocks: 0, the machine's, or the number of a clock. */
    static final int STAMPED;
    /** Whether a reading has no fences of its own, so that those of Java must do. */
    private static final boolean FENCES;
    /** Where such readings are stored: by many threads, of which no two meet often. */
    private static final long[] STORED = new long[64 * 8];
    private static final VarHandle STORE = MethodHandles.arrayElementVarHandle(long[].class);
    private static final MethodHandle PLAIN, BEFORE, AFTER;
    private static final String WHAT, FAILURE;
    private static final String OPTION = "tickscope.counter";
    private static final int READINGS = 1000;

    static {
        String asked = System.getProperty(OPTION, System.getenv().getOrDefault("TICKSCOPE_COUNTER", ""));
        MethodHandle[] read = null;
        String what = "", failure = null;
        boolean isKnown = asked.matches("|native|monotonic|jfr");
        if (!isKnown) {
            failure = "expected " + OPTION + " as native, monotonic or jfr; found '" + asked + "'";
        } else if (!asked.equals("monotonic")) {
            try {
                read = NativeCounter.readings();
                what = NativeCounter.told();
                expectToGoOn(read[2]);
            } catch (Throwable e) {
                read = null;
                String why = "no native code can read the counter here: " + e;
                failure = asked.isEmpty() ? null : why;
                what = "System.nanoTime(), CLOCK_MONOTONIC in ns; " + why;
                Complaint.say(failure == null ? why + "; stamps are of System.nanoTime(), CLOCK_MONOTONIC" : why);
            }
        } else {
            what = "System.nanoTime(), CLOCK_MONOTONIC in ns; asked for";
        }
        boolean isNative = read != null;
        MethodHandle nanoTime = nanoTime();
        MethodHandle plain = isNative ? read[0] : nanoTime;
        if (isNative && asked.equals("jfr")) {
            try {
                MethodHandle candidate = counterTime();
                String refusal = Proof.refusal(brackets(read, candidate), bracketsLater(read, candidate));
                plain = refusal == null ? candidate : plain;
                what += refusal == null ? "; counterTime() is proven to be it, and read at plain points"
                    : "; counterTime() is not it: " + refusal;
            } catch (Throwable e) {
                what += "; counterTime() cannot be called: " + e
                    + ". Run java with --add-exports jdk.jfr/jdk.jfr.internal=ALL-UNNAMED";
            }
            Complaint.say("stamps are of " + what);
        }
        PLAIN = plain;
        BEFORE = isNative ? read[1] : nanoTime;
        AFTER = isNative ? read[2] : nanoTime;
        STAMPED = isNative ? 0 : Layout.MONOTONIC;
        FENCES = !isNative;
        WHAT = what;
        FAILURE = failure;
    }

    private Counter() {}

    /** Chooses; an exception says why what was asked for is not to be had. */
    static void choose() {
        if (FAILURE != null) {
            throw new IllegalArgumentException(FAILURE);
        }
        machines();
    }

    /** Reads in that ordering. */
    static long now(int ordering) {
        try {
            if (FENCES) {
                return fenced();
            }
            switch (ordering) {
                case 1: return (long) BEFORE.invokeExact();
                case 2: return (long) AFTER.invokeExact();
                default: return (long) PLAIN.invokeExact();
            }
        } catch (Throwable e) {
            throw new AssertionError(e); // a reading throws nothing
        }
    }

    /**
     * A reading that keeps its place. A JIT may move one of nanoTime past loads, so a fence stands before it; a volatile
     * store of what was read stands behind it, and nothing that follows can be done before that store.
     */
    private static long fenced() throws Throwable {
        VarHandle.fullFence();
        long read = (long) PLAIN.invokeExact();
        STORE.setVolatile(STORED, (int) (Thread.currentThread().getId() & 63) * 8, read);
        return read;
    }

    /** Number of the machine's counter, whatever is stamped. */
    static int machines() {
        switch (System.getProperty("os.arch")) {
            case "amd64": return Layout.TSC;
            case "aarch64": return Layout.CNTVCT;
            default: throw new IllegalArgumentException(
                "expected x86-64 or aarch64, found " + System.getProperty("os.arch"));
        }
    }

    static String told() {
        if (FAILURE != null) {
            return "none: " + FAILURE;
        }
        return String.format(Locale.ROOT, "%s; a reading costs %.1f ns here", WHAT, costNs());
    }

    /** The best of some rounds. */
    private static double costNs() {
        long best = Long.MAX_VALUE;
        long sum = 0;
        for (int round = 0; round < 100; round++) {
            long begun = System.nanoTime();
            for (int i = 0; i < READINGS; i++) {
                sum += now(0);
            }
            best = Math.min(best, System.nanoTime() - begun);
        }
        return (sum == 0 ? 0 : best) / (double) READINGS;
    }

    private static void expectToGoOn(MethodHandle read) throws Throwable {
        long first = (long) read.invokeExact(), last = first;
        for (int i = 0; i < READINGS; i++) {
            long next = (long) read.invokeExact();
            if (next < last) {
                throw new IllegalStateException("expected a counter that goes on, found " + next + " after " + last);
            }
            last = next;
        }
        if (last == first) {
            throw new IllegalStateException("expected a counter that goes on, found " + first + " all the time");
        }
    }

    private static long[][] brackets(MethodHandle[] read, MethodHandle candidate) throws Throwable {
        long[][] brackets = new long[READINGS][];
        for (int i = 0; i < READINGS; i++) {
            long before = (long) read[1].invokeExact(), found = (long) candidate.invokeExact();
            brackets[i] = new long[] {before, found, (long) read[2].invokeExact()};
        }
        return brackets;
    }

    /** Brackets some 20 ms later, in which a rate that is another one shows. */
    private static long[][] bracketsLater(MethodHandle[] read, MethodHandle candidate) throws Throwable {
        Thread.sleep(20);
        return brackets(read, candidate);
    }

    private static MethodHandle nanoTime() {
        try {
            return MethodHandles.publicLookup().findStatic(System.class, "nanoTime", MethodType.methodType(long.class));
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e); // every Java has it
        }
    }

    private static MethodHandle counterTime() throws ReflectiveOperationException {
        Class<?> jvm = Class.forName("jdk.jfr.internal.JVM");
        return MethodHandles.lookup().findStatic(jvm, "counterTime", MethodType.methodType(long.class));
    }
}
