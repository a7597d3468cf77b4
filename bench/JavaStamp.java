import java.nio.file.Path;
import java.util.Locale;
import jdk.jfr.Event;
import jdk.jfr.Recording;
import jdk.jfr.StackTrace;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.Tickscope;

/**
 * What a stamp in Java costs, beside clocks and an event of the flight recorder: lines {@code block NAME	NS}, of which
 * each is the mean of a block of calls. Rounds go through all variants, so that those of a round are neighbours in time.
 *
 * <pre>java -cp tickscope.jar JavaStamp.java ROUNDS STAMPS RECORDING</pre>
 */
public final class JavaStamp {
    private static final int WARM_ROUNDS = 400;
    private static final Point PLAIN = Point.of("plain", Ordering.PLAIN);
    private static final Point BEFORE = Point.of("before", Ordering.BEFORE);
    private static final Point AFTER = Point.of("after", Ordering.AFTER);
    private static final Point GIVEN = Point.of("given", Ordering.PLAIN);
    private static final Point OFF = Point.of("off", Ordering.PLAIN);
    private static long kept;

    /** Makes so many calls. */
    private interface Block {
        void calls(int count);
    }

    @StackTrace(false)
    private static final class Passed extends Event {
        long id;
    }

    private static final String[] NAMES = {
        "nothing", "counter", "nanoTime", "plain", "before", "after", "record", "off", "JFR event",
    };
    private static final Block[] BLOCKS = {
        count -> { for (int id = 0; id < count; id++) kept += id; },
        count -> { for (int id = 0; id < count; id++) kept += Tickscope.now(Ordering.PLAIN); },
        count -> { for (int id = 0; id < count; id++) kept += System.nanoTime(); },
        count -> { for (int id = 0; id < count; id++) PLAIN.stamp(id); },
        count -> { for (int id = 0; id < count; id++) BEFORE.stamp(id); },
        count -> { for (int id = 0; id < count; id++) AFTER.stamp(id); },
        count -> { for (int id = 0; id < count; id++) GIVEN.record(id, id + 1); },
        count -> { for (int id = 0; id < count; id++) OFF.stamp(id); },
        JavaStamp::events,
    };

    private static void events(int count) {
        for (int id = 0; id < count; id++) {
            Passed passed = new Passed();
            passed.id = id;
            passed.commit();
        }
    }

    public static void main(String[] words) throws Exception {
        int rounds = Integer.parseInt(words[0]), stamps = Integer.parseInt(words[1]);
        try (Recording recording = new Recording()) {
            recording.setDestination(Path.of(words[2]));
            recording.start();
            for (int round = -WARM_ROUNDS; round < rounds; round++) {
                for (int i = 0; i < BLOCKS.length; i++) {
                    long begun = System.nanoTime();
                    BLOCKS[i].calls(stamps);
                    double ns = (double) (System.nanoTime() - begun) / stamps;
                    if (round >= 0) {
                        System.out.printf(Locale.ROOT, "block %s\t%.2f%n", NAMES[i], ns);
                    }
                }
            }
        }
        System.out.println("counter " + Tickscope.counter());
    }
}
