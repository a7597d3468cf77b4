package tickscope;

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
    private static final Pattern SHARE = Pattern.compile("([0-9]{1,9}) +of +([0-9]{1,9})");
    private static final Pattern EVERY = Pattern.compile("every +([0-9]{1,18})");
    private static final Pattern PERIOD = Pattern.compile("(count|keep) +([0-9]{1,9}) *(us|ms|s|m|h)");
    private static final Pattern FIRST_LAST = Pattern.compile("first-last(?: +(-?[0-9]{1,19}))?");
    /** The parameter of {@code first-last} without a marker. */
    static final long NO_MARKER = Long.MIN_VALUE;
    private static final long DAY_NS = 86_400_000_000_000L;

    final int number;
    final long parameter;

    private Policy(int number, long parameter) {
        this.number = number;
        this.parameter = parameter;
    }

    /** The policy of that text; null: it is none. */
    static Policy of(String text) {
        Matcher share = SHARE.matcher(text), every = EVERY.matcher(text), period = PERIOD.matcher(text);
        Matcher ends = FIRST_LAST.matcher(text);
        if (share.matches()) {
            return valid(Layout.X_OF_Y, Long.parseLong(share.group(1)) << 32 | Long.parseLong(share.group(2)));
        }
        if (every.matches()) {
            return valid(Layout.EVERY, Long.parseLong(every.group(1)));
        }
        if (period.matches()) {
            int number = period.group(1).equals("keep") ? Layout.KEEP : Layout.COUNT;
            return valid(number, Long.parseLong(period.group(2)) * ns(period.group(3)));
        }
        if (ends.matches()) {
            return ends.group(1) == null ? new Policy(Layout.FIRST_LAST, NO_MARKER) : endingWith(ends.group(1));
        }
        int number = NAMES.indexOf(text);
        return number < 0 || rule(number, 0) == REFUSES ? null : new Policy(number, 0);
    }

    private static Policy endingWith(String marker) {
        try {
            long id = Long.parseLong(marker);
            return id == NO_MARKER ? null : new Policy(Layout.FIRST_LAST, id);
        } catch (NumberFormatException e) {
            return null; // no id
        }
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
            case "us": return 1_000;
            case "ms": return 1_000_000;
            case "s": return 1_000_000_000;
            case "m": return 60_000_000_000L;
            default: return 3_600_000_000_000L;
        }
    }
}
