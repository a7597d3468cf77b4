package tickscope;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;

/**
 * What stamps are read from, chosen once: the machine's counter by native code, else {@code System.nanoTime} as the
 * clock that it is, CLOCK_MONOTONIC. {@code -Dtickscope.counter=} or {@code TICKSCOPE_COUNTER} asks for
 * {@code native}, {@code monotonic} or {@code jfr}.
 *
 * <p>{@code jfr} is {@code jdk.jfr.internal.JVM.counterTime()}, which is no counter to rely on: HotSpot takes a
 * constant off it that can be known to the width of a bracket only, and no block has room for such a width; on AMD it
 * is nanoseconds; and no fence stands before or behind it. So it must prove to be the counter itself ({@link Proof}),
 * is read at {@code PLAIN} points alone, and is told and left where it fails.
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
        Choice choice = Choice.of(System.getProperty(OPTION, System.getenv().getOrDefault("TICKSCOPE_COUNTER", "")));
        PLAIN = choice.read[0];
        BEFORE = choice.read[1];
        AFTER = choice.read[2];
        STAMPED = choice.isNative ? 0 : Layout.MONOTONIC;
        FENCES = !choice.isNative;
        WHAT = choice.what;
        FAILURE = choice.failure;
    }

    /** Readings by number of their ordering, what they are, and why they are not what was asked for, or null. */
    private static final class Choice {
        final MethodHandle[] read;
        final boolean isNative;
        final String what, failure;

        Choice(MethodHandle[] read, boolean isNative, String what, String failure) {
            this.read = read;
            this.isNative = isNative;
            this.what = what;
            this.failure = failure;
        }

        static Choice of(String asked) {
            if (!asked.matches("|native|monotonic|jfr")) {
                return monotonic("", "expected " + OPTION + " as native, monotonic or jfr; found '" + asked + "'");
            }
            if (asked.equals("monotonic")) {
                return monotonic("asked for", null);
            }
            try {
                MethodHandle[] read = NativeCounter.readings();
                expectToGoOn(read[2]);
                String what = asked.equals("jfr") ? counterTimeIfProven(read) : NativeCounter.told();
                return new Choice(read, true, what, null);
            } catch (Throwable e) {
                String why = "no native code can read the counter here: " + e;
                if (asked.isEmpty()) {
                    Complaint.say(why + "; stamps are of System.nanoTime(), CLOCK_MONOTONIC");
                }
                return monotonic(why, asked.isEmpty() ? null : why);
            }
        }

        private static Choice monotonic(String why, String failure) {
            MethodHandle read = nanoTime();
            String what = "System.nanoTime(), CLOCK_MONOTONIC in ns; " + why;
            return new Choice(new MethodHandle[] {read, read, read}, false, what, failure);
        }

        /** Has plain readings by {@code counterTime()}, if that is proven to be the counter; what it says of it. */
        private static String counterTimeIfProven(MethodHandle[] read) {
            String what = NativeCounter.told() + "; counterTime() ";
            try {
                MethodHandle candidate = counterTime();
                String refusal = Proof.refusal(brackets(read, candidate), bracketsLater(read, candidate));
                what += refusal == null ? "is proven to be it, and read at plain points" : "is not it: " + refusal;
                read[0] = refusal == null ? candidate : read[0];
            } catch (Throwable e) {
                what += "cannot be called: " + e + ". Run java with --add-exports jdk.jfr/jdk.jfr.internal=ALL-UNNAMED";
            }
            Complaint.say("stamps are of " + what);
            return what;
        }
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
     * A reading that keeps its place. A JIT may move one of nanoTime past loads, so a fence stands before it; a
     * volatile store of what was read stands behind it, and nothing that follows can be done before that store.
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
        for (long end = System.nanoTime() + 20_000_000; System.nanoTime() - end < 0;) {
            LockSupport.parkNanos(end - System.nanoTime()); // an interrupt ends no more than this
        }
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
