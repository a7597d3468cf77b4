package tickscope;

import java.util.Locale;

/**
 * Whether what somebody else reads is the counter: each reading lies between two of the counter's own, at both ends of
 * some time. Each says of the difference to the counter that it is no smaller than {@code before - found} and no
 * larger than {@code after - found}; it is the counter only if 0 can be all of them.
 *
 * <p>Deliberately absent: a constant that is added to a reading. It would be known to the width of a bracket, tens of
 * ticks, and every stamp would be wrong by up to that.
 */
final class Proof {
    private Proof() {}

    /** Why it is not the counter; null: it is. A bracket is before, found, after. */
    static String refusal(long[][] first, long[][] later) {
        long[] begun = difference(first), ended = difference(later);
        long least = Math.max(begun[0], ended[0]), most = Math.min(begun[1], ended[1]);
        if (least > most) {
            return String.format(Locale.ROOT, "its rate is %.6f of the counter's", rate(first[0], later[0]));
        }
        if (least > 0 || most < 0) {
            return "it lies " + least + " to " + most + " ticks from the counter, how many is not known";
        }
        return null;
    }

    /** Least and most of what lies between a reading and the counter, if it is one number. */
    private static long[] difference(long[][] brackets) {
        long least = Long.MIN_VALUE, most = Long.MAX_VALUE;
        for (long[] bracket : brackets) {
            least = Math.max(least, bracket[0] - bracket[1]);
            most = Math.min(most, bracket[2] - bracket[1]);
        }
        return new long[] {least, most};
    }

    private static double rate(long[] first, long[] later) {
        return (double) (later[1] - first[1]) / (later[0] - first[0]);
    }
}
