package tickscope.storm;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.Serializable;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.LongConsumer;
import java.util.function.UnaryOperator;

/**
 * What the six operators of the Yahoo streaming benchmark compute, without an engine and without a clock.
 *
 * <p>They are those of {@code yahoo/streaming-benchmarks}: deserialise, filter, project, join, count by campaign and
 * window. Deliberately absent: its windows' update times, and its race between a count and its flush.
 */
public final class Operators {
    /** Milliseconds of a window. */
    public static final long WINDOW_MS = 10_000;

    private Operators() {}

    /** An event with the fields that an operator looks at. */
    public record Event(long id, String ad, String type, long timeMs) implements Serializable {
        /** Whether it is one of those that are counted. */
        public boolean isView() {
            return type.equals("view");
        }

        /** What is left of it for the join. */
        public Projected projected() {
            return new Projected(id, ad, timeMs);
        }
    }

    /** An event of which ad and time are left. */
    public record Projected(long id, String ad, long timeMs) implements Serializable {}

    /** An event with all its fields, as it arrives. */
    public record Raw(
            long id, String user, String page, String ad, String adType, String type, String time, String ip) {
        /** How many texts it has. */
        static final int TEXTS = 7;

        /** The text of that number, in their order. */
        String text(int at) {
            return switch (at) {
                case 0 -> user;
                case 1 -> page;
                case 2 -> ad;
                case 3 -> adType;
                case 4 -> type;
                case 5 -> time;
                default -> ip;
            };
        }

        /** An event of these texts. */
        static Raw of(long id, String[] texts) {
            return new Raw(id, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6]);
        }

        /** What the operators look at. */
        Event event() {
            return new Event(id, ad, type, Long.parseLong(time));
        }
    }

    /**
     * Reads an event: one JSON object of texts, all of whose seven fields are looked up, as the benchmark does.
     *
     * @throws IllegalArgumentException if a field is missing
     */
    public static Event deserialise(byte[] line) {
        return raw(line).event();
    }

    static Raw raw(byte[] line) {
        Map<String, String> fields = fields(new String(line, UTF_8));
        long id = Long.parseLong(field(fields, "id"));
        return new Raw(id, field(fields, "user_id"), field(fields, "page_id"), field(fields, "ad_id"),
                field(fields, "ad_type"), field(fields, "event_type"), field(fields, "event_time"),
                field(fields, "ip_address"));
    }

    private static String field(Map<String, String> fields, String name) {
        String value = fields.get(name);
        if (value == null) {
            throw new IllegalArgumentException("expected an event with " + name + ", found " + fields);
        }
        return value;
    }

    /** The fields of a flat JSON object whose names and values are texts without escapes. */
    private static Map<String, String> fields(String object) {
        Map<String, String> fields = new HashMap<>();
        int at = 0;
        while ((at = object.indexOf('"', at)) >= 0) {
            int nameEnds = object.indexOf('"', at + 1);
            int begins = object.indexOf('"', nameEnds + 1);
            int ends = object.indexOf('"', begins + 1);
            if (nameEnds < 0 || begins < 0 || ends < 0) {
                throw new IllegalArgumentException("expected texts in pairs, found " + object);
            }
            fields.put(object.substring(at + 1, nameEnds), object.substring(begins + 1, ends));
            at = ends + 1;
        }
        return fields;
    }

    /** The campaigns of ads: asked for once, and remembered. */
    public static final class Join {
        private final UnaryOperator<String> lookUp;
        private final Map<String, String> known = new HashMap<>();

        /** A join that asks this for the campaign of an ad; null: there is none. */
        public Join(UnaryOperator<String> lookUp) {
            this.lookUp = lookUp;
        }

        /** The campaign of an event's ad; null: it has none, and is not counted. */
        public String campaign(Projected event) {
            return known.computeIfAbsent(event.ad(), lookUp);
        }
    }

    /** Views by campaign and window that were not flushed yet. */
    public static final class Windows {
        private final Map<String, Map<Long, Long>> counts = new HashMap<>();
        private long[] ids = new long[1024];
        private int counted;

        /** Counts an event. */
        public void count(long id, String campaign, long timeMs) {
            counts.computeIfAbsent(campaign, unused -> new HashMap<>()).merge(timeMs / WINDOW_MS, 1L, Long::sum);
            if (counted == ids.length) {
                ids = Arrays.copyOf(ids, 2 * counted);
            }
            ids[counted++] = id;
        }

        /** Gives away what was counted since the last time, and then the ids of that. */
        public void flush(Flush flush, LongConsumer flushed) {
            counts.forEach((campaign, windows) ->
                    windows.forEach((window, views) -> flush.add(campaign, window, views)));
            counts.clear();
            for (int at = 0; at < counted; at++) {
                flushed.accept(ids[at]);
            }
            counted = 0;
        }
    }

    /** Takes views of a window. */
    public interface Flush {
        /** So many more of that campaign and window, which is a number of windows since 1970. */
        void add(String campaign, long window, long views);
    }
}
