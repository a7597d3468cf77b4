package tickscope.storm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.LongConsumer;
import jdk.jfr.Event;
import jdk.jfr.Name;
import jdk.jfr.Recording;
import jdk.jfr.StackTrace;
import kieker.common.record.flow.trace.operation.BeforeOperationEvent;
import kieker.monitoring.core.controller.IMonitoringController;
import kieker.monitoring.core.controller.MonitoringController;
import tickscope.Ordering;
import tickscope.Point;

/**
 * A place in the topology and whoever notes what passes it, chosen once a JVM by {@code -Dprofiler}: tickscope unless
 * it says {@code none}, {@code jfr} or {@code kieker}. All note the place, the id and a time, and none takes a stack;
 * {@code -Dprofiler.out} is JFR's file. Deliberately absent: aspects of Kieker, which would cost more than its record.
 */
final class Mark {
    private static final List<String> ALL = List.of("tickscope", "none", "jfr", "kieker");
    private static final String PROFILER = System.getProperty("profiler", ALL.get(0));

    private Mark() {}

    /** A passage, as JFR stores it. */
    @Name("tickscope.Passage")
    @StackTrace(false)
    static final class Passage extends Event {
        String place;
        long id;
    }

    /** Holds the recording, which only a JVM profiled by JFR has. */
    private static final class Jfr {
        @SuppressWarnings("resource") // it ends with the JVM, and is written then
        static void begin() {
            Recording recording = new Recording();
            recording.enable(Passage.class).withoutStackTrace();
            recording.setDumpOnExit(true);
            try {
                recording.setDestination(Path.of(System.getProperty("profiler.out", "passages.jfr")));
            } catch (IOException e) {
                throw new UncheckedIOException("cannot record for JFR", e);
            }
            recording.start();
        }

        static void note(String place, long id) {
            Passage passage = new Passage();
            passage.place = place;
            passage.id = id;
            passage.commit();
        }
    }

    /** Starts the profiler; an exception says what a wrong word should be. */
    static void begin() {
        if (!ALL.contains(PROFILER)) {
            throw new IllegalArgumentException("expected -Dprofiler as one of " + ALL + ", found '" + PROFILER + "'");
        }
        if (PROFILER.equals("jfr")) {
            Jfr.begin();
        }
    }

    /** The place of that name; takes the ids that pass it. */
    static LongConsumer of(String place, Ordering ordering) {
        return switch (PROFILER) {
            case "none" -> id -> {};
            case "jfr" -> id -> Jfr.note(place, id);
            case "kieker" -> {
                IMonitoringController kieker = MonitoringController.getInstance();
                yield id -> kieker.newMonitoringRecord(
                        new BeforeOperationEvent(kieker.getTimeSource().getTime(), id, 0, place, "ysb"));
            }
            default -> Point.of(place, ordering)::stamp;
        };
    }
}
