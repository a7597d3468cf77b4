package tickscope.opentelemetry;

import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SpanProcessor;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import tickscope.Ids;
import tickscope.Ordering;
import tickscope.Point;

/**
 * Two stamps of each span: at the points {@code NAME.begin} and {@code NAME.end}, NAME as the span was named at its
 * start, whatever it is renamed to, with {@code _} for what no point's name has. Of a name of more than 41 letters
 * the point has the first 32, {@code -}, and 8 digits of a hash of the whole: names that begin alike stay apart.
 *
 * <p>The id is that of the trace ({@link Ids#ofTrace}), so that spans of one trace are joined over all services, or
 * with {@code tickscope.opentelemetry.id=span} the span's own 64 bits, for spans that a trace has many of.
 *
 * <p>Assumes: what starts a span does so before a request can leave, or after it came in; the span's kind tells which.
 * Guarantees: a stamp is of the instant of the call, not of the times that the span carries; spans of more names than
 * {@link #MOST_NAMES} are stamped too, at the points {@code other-spans}. Deliberately absent: spans that the sampler
 * left out, which no processor sees.
 */
public final class SpanStamps implements SpanProcessor {
    /** The setting: {@code trace}, as without it, or {@code span}. */
    public static final String ID = "tickscope.opentelemetry.id";
    /** Names of spans that have points of their own: each takes channels of the pool. */
    public static final int MOST_NAMES = 100;
    private static final String OTHERS = "other-spans";
    private static final int LETTERS = 47 - ".begin".length(), HASH_DIGITS = 8;
    private static final int PARTS = 16;

    private final boolean isOfSpan;
    /** By the name of a span: the points of its kinds, at their begin and their end. */
    private final Map<String, Point[][]> points = new ConcurrentHashMap<>();

    /** The points of spans that have begun, in parts that no two threads often meet in; a lost span is none of them. */
    private final Map<ReadableSpan, Point[]>[] begun = parts();

    private SpanStamps(boolean isOfSpan) {
        this.isOfSpan = isOfSpan;
    }

    @SuppressWarnings({"unchecked", "rawtypes"}) // an array has no type of what is in it
    private static Map<ReadableSpan, Point[]>[] parts() {
        Map[] parts = new Map[PARTS];
        Arrays.setAll(parts, i -> Collections.synchronizedMap(new WeakHashMap<>()));
        return parts;
    }

    private Map<ReadableSpan, Point[]> begun(ReadableSpan span) {
        return begun[Math.floorMod(System.identityHashCode(span), PARTS)];
    }

    /** A processor whose ids are of {@code trace} or {@code span}; anything else is an exception that says so. */
    public static SpanStamps of(String id) {
        if (!id.equals("trace") && !id.equals("span")) {
            throw new IllegalArgumentException("expected " + ID + " as trace or span; found '" + id + "'");
        }
        return new SpanStamps(id.equals("span"));
    }

    @Override
    public void onStart(Context parent, ReadWriteSpan span) {
        Point[] points = pointsOf(span.getName())[span.getKind().ordinal()];
        begun(span).put(span, points);
        points[0].stamp(idOf(span));
    }

    @Override
    public void onEnd(ReadableSpan span) {
        Point[] points = begun(span).remove(span);
        if (points == null) { // nobody told of its start
            points = pointsOf(span.getName())[span.getKind().ordinal()];
        }
        points[1].stamp(idOf(span));
    }

    @Override
    public boolean isStartRequired() {
        return true;
    }

    @Override
    public boolean isEndRequired() {
        return true;
    }

    private long idOf(ReadableSpan span) {
        SpanContext context = span.getSpanContext();
        return isOfSpan ? Long.parseUnsignedLong(context.getSpanId(), 16) : Ids.ofTrace(context.getTraceId());
    }

    private Point[][] pointsOf(String name) {
        Point[][] known = points.get(name);
        if (known != null) {
            return known;
        }
        if (points.size() >= MOST_NAMES && !name.equals(OTHERS)) {
            if (!points.containsKey(OTHERS)) {
                System.err.println("tickscope: spans have more than " + MOST_NAMES + " names; the others are stamped"
                    + " at " + OTHERS + ".begin and " + OTHERS + ".end. Give spans names without ids");
            }
            return pointsOf(OTHERS);
        }
        return points.computeIfAbsent(name, SpanStamps::made);
    }

    private static Point[][] made(String name) {
        String letters = name.replaceAll("[^A-Za-z0-9._-]", "_").replaceFirst("^(\\.|$)", "_");
        String cut = letters.length() <= LETTERS ? letters : letters.substring(0, LETTERS - 1 - HASH_DIGITS) + "-"
            + HexFormat.of().toHexDigits(Ids.of(name)).substring(0, HASH_DIGITS);
        SpanKind[] kinds = SpanKind.values();
        Point[][] made = new Point[kinds.length][];
        for (SpanKind kind : kinds) {
            made[kind.ordinal()] = new Point[] {
                Point.of(cut + ".begin", begin(kind)), Point.of(cut + ".end", end(kind)),
            };
        }
        return made;
    }

    /** What comes in is there before its span, what goes out leaves after it began. */
    private static Ordering begin(SpanKind kind) {
        return kind == SpanKind.SERVER || kind == SpanKind.CONSUMER ? Ordering.AFTER : Ordering.BEFORE;
    }

    /** A server's answer may have left before or after its span ends. */
    private static Ordering end(SpanKind kind) {
        return kind == SpanKind.CLIENT || kind == SpanKind.INTERNAL ? Ordering.AFTER : Ordering.PLAIN;
    }
}
