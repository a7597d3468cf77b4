package tickscope;

import java.math.BigInteger;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A policy, by its number and parameter in the pool (docs/policies.md). */
final class Policy {
    /** What a channel does under a policy of a later version. */
    static final int REFUSES = -1;
    static final Policy BUFFERED = new Policy(Layout.BUFFERED, 0);
    /** By number; those of {@code x of y} begin with a digit. */
    private static final List<String> NAMES = List.of(
        "null", "buffered", "all", "every", "x of y", "count", "first-last", "return-trip", "keep", "own");
    private static final Pattern WORDS = Pattern.compile("[ \\t\\n\\f\\r]+");
    private static final Pattern SPAN = Pattern.compile("([0-9]+)(ns|us|ms|s|m|h)");
    /** The parameter of {@code first-last} without a marker. */
    static final long NO_MARKER = Long.MIN_VALUE;
    private static final long DAY_NS = 86_400_000_000_000L, SHARE_MOST = 0xffff_ffffL;

    final int number;
    final long parameter;

    private Policy(int number, long parameter) {
        this.number = number;
        this.parameter = parameter;
    }

    /** The policy of that text, by the grammar of every language; null: it is none. */
    static Policy of(String text) {
        String[] words = WORDS.split(text.strip());
        int number = NAMES.indexOf(words[0]);
        if (words.length == 1) {
            return number == Layout.FIRST_LAST ? new Policy(number, NO_MARKER) : valid(number, 0);
        }
        if (words.length == 3 && words[1].equals("of")) {
            long x = whole(words[0], SHARE_MOST), y = whole(words[2], SHARE_MOST);
            return x < 0 || y < 0 ? null : valid(Layout.X_OF_Y, x << 32 | y);
        }
        if (words.length != 2) {
            return null;
        }
        switch (number) {
            case Layout.EVERY: return valid(number, whole(words[1], Long.MAX_VALUE));
            case Layout.COUNT:
            case Layout.KEEP: return valid(number, span(words[1]));
            case Layout.FIRST_LAST: return endingWith(words[1]);
            default: return null;
        }
    }

    private static Policy endingWith(String marker) {
        boolean isNegative = marker.startsWith("-");
        long id = whole(isNegative ? marker.substring(1) : marker, Long.MAX_VALUE);
        return id < 0 ? null : new Policy(Layout.FIRST_LAST, isNegative ? -id : id);
    }

    /** A whole number up to a greatest; -1: it is none. */
    private static long whole(String text, long most) {
        if (!text.matches("[0-9]+") || new BigInteger(text).compareTo(BigInteger.valueOf(most)) > 0) {
            return -1;
        }
        return new BigInteger(text).longValue();
    }

    /** A length of time up to a day, in nanoseconds; below 0: it is none. */
    private static long span(String text) {
        Matcher span = SPAN.matcher(text);
        return span.matches() ? whole(span.group(1), DAY_NS / ns(span.group(2))) * ns(span.group(2)) : -1;
    }

    private static Policy valid(int number, long parameter) {
        return rule(number, parameter) == REFUSES ? null : new Policy(number, parameter);
    }

    /** What a channel does under it: its number, or {@link #REFUSES}. */
    static int rule(int number, long parameter) {
        long x = parameter >>> 32, y = parameter & 0xffff_ffffL;
        switch (number) {
            case Layout.NULL:
            case Layout.BUFFERED:
            case Layout.ALL:
            case Layout.FIRST_LAST:
            case Layout.OWN:
            case Layout.RETURN_TRIP: return number;
            case Layout.EVERY: return parameter >= 1 ? number : REFUSES;
            case Layout.X_OF_Y: return 0 < x && x < y ? number : REFUSES;
            case Layout.KEEP:
            case Layout.COUNT: return parameter >= 1000 && parameter <= DAY_NS ? number : REFUSES;
            default: return REFUSES;
        }
    }

    private static long ns(String unit) {
        switch (unit) {
            case "ns": return 1;
            case "us": return 1_000;
            case "ms": return 1_000_000;
            case "s": return 1_000_000_000;
            case "m": return 60_000_000_000L;
            default: return 3_600_000_000_000L;
        }
    }
}
