package tickscope;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.util.Locale;

/**
 * What stamps are read from, chosen once: the machine's counter by native code, else {@code System.nanoTime} as the
 * clock that it is, CLOCK_MONOTONIC. {@code -Dtickscope.counter=} or {@code TICKSCOPE_COUNTER} asks for
 * {@code native} or {@code monotonic}.
 *
 * <p>Deliberately absent: {@code jdk.jfr.internal.JVM.counterTime()}, and any other reading that must be proven to be
 * the counter. Brackets of the counter's own readings leave an offset and a rate as open as they are wide and long, so
 * that such a proof is one to within tens of ticks, which no block has room to say; and whoever can take the brackets
 * has the counter.
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
    private static final String EXPECTED = "expected " + OPTION + " as native or monotonic; found '";
    private static final int READINGS = 1000, ROUNDS = 100;
    private static final String CHECKED = "checked: none of " + READINGS + " readings fell below the one before";
    /** Most that the measuring of a reading's cost adds to a program's start. */
    private static final long MOST_NS = 20_000_000;

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
            if (asked.equals("jfr")) {
                return monotonic("", EXPECTED + asked + "': counterTime() of JFR can be held against the counter to"
                    + " the width of a bracket only, and every stamp could be wrong by that. native costs no more");
            }
            if (!asked.matches("|native|monotonic")) {
                return monotonic("", EXPECTED + asked + "'");
            }
            if (asked.equals("monotonic")) {
                return monotonic("asked for", null);
            }
            try {
                MethodHandle[] read = NativeCounter.readings();
                expectToGoOn(read[2]);
                return new Choice(read, true, NativeCounter.told() + "; " + CHECKED, null);
            } catch (Throwable e) {
                String why = "no native code can read the counter here: " + NativeCounter.reason(e);
                if (asked.isEmpty()) {
                    Complaint.say(why + "; stamps are of System.nanoTime(), CLOCK_MONOTONIC");
                }
                return monotonic(why, asked.isEmpty() ? null : why);
            }
        }

        private static Choice monotonic(String why, String failure) {
            MethodHandle read = nanoTime();
            String what = "System.nanoTime(), CLOCK_MONOTONIC in ns; " + why + "; not checked to be that clock";
            return new Choice(new MethodHandle[] {read, read, read}, false, what, failure);
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

    /** What is read, by what, and how it was checked. */
    static String told() {
        return FAILURE != null ? "none: " + FAILURE : WHAT;
    }

    static String toldWithCost() {
        return FAILURE != null ? told() : String.format(Locale.ROOT, "%s; a reading costs %.1f ns here", WHAT,
            costPs() / 1000.0);
    }

    /** Picoseconds of a plain reading, in the best of some rounds. */
    static long costPs() {
        long best = Long.MAX_VALUE, sum = 0, first = System.nanoTime();
        for (int round = 0; round < ROUNDS && System.nanoTime() - first < MOST_NS; round++) {
            long begun = System.nanoTime();
            for (int i = 0; i < READINGS; i++) {
                sum += now(0);
            }
            best = Math.min(best, System.nanoTime() - begun);
        }
        return sum == 0 ? 0 : best * 1000 / READINGS;
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

    private static MethodHandle nanoTime() {
        try {
            return MethodHandles.publicLookup().findStatic(System.class, "nanoTime", MethodType.methodType(long.class));
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e); // every Java has it
        }
    }
}
