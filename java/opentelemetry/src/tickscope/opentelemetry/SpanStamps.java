package tickscope.opentelemetry;

import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SpanProcessor;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import tickscope.Ids;
import tickscope.Ordering;
import tickscope.Point;

/**
 * Two stamps of each span: at the points {@code NAME.begin} and {@code NAME.end}, NAME as the span was named at its
 * start, with {@code _} for what no point's name has, cut to 41 letters.
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
    private static final int LETTERS = 47 - ".begin".length();

    private final boolean isOfSpan;
    /** By the name of a span: the points of its kinds, at their begin and their end. */
    private final Map<String, Point[][]> points = new ConcurrentHashMap<>();

    private SpanStamps(boolean isOfSpan) {
        this.isOfSpan = isOfSpan;
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
        stamp(span, 0);
    }

    @Override
    public void onEnd(ReadableSpan span) {
        stamp(span, 1);
    }

    @Override
    public boolean isStartRequired() {
        return true;
    }

    @Override
    public boolean isEndRequired() {
        return true;
    }

    private void stamp(ReadableSpan span, int end) {
        SpanContext context = span.getSpanContext();
        long id = isOfSpan
            ? Long.parseUnsignedLong(context.getSpanId(), 16)
            : Ids.ofTrace(context.getTraceId());
        pointsOf(span.getName())[span.getKind().ordinal()][end].stamp(id);
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
        String cut = letters.substring(0, Math.min(LETTERS, letters.length()));
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
