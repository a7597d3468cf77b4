package tickscope;

/** What holds for all points of this process. */
public final class Tickscope {
    private Tickscope() {}

    /** Whether points are on: {@code TICKSCOPE_DIR} is set, and a pool could be made in it. */
    public static boolean isOn() {
        return Pool.HERE != null;
    }

    /** The present tick, for {@link Point#record}; 0 where points are off. */
    public static long now(Ordering ordering) {
        return Pool.HERE == null ? 0 : Counter.now(ordering.ordinal());
    }

    /** Asks the collector to store what this process's channels under the policy {@code keep} hold. */
    public static void dump() {
        if (Pool.HERE != null) {
            Pool.HERE.count(Layout.DUMPS);
        }
    }

    /**
     * What stamps are read from, in words: which counter or clock, why this one, how it was checked, and what a reading
     * costs here, measured at this call.
     */
    public static String counter() {
        return Counter.toldWithCost();
    }
}
