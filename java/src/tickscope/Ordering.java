package tickscope;

/** What a stamp is read before or after, as in {@code tickscope.h}. */
public enum Ordering {
    /** Nothing: for stages, never evidence about clocks. */
    PLAIN,
    /** Read before anything that follows can be seen by others: put it right before a send. */
    BEFORE,
    /** Not read until all that precedes was seen: put it right after a receive. */
    AFTER
}
