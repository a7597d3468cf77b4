package tickscope;

/** Who chooses at a point, and how deep each thread is in being chosen for there. */
final class Choice {
    /** Answers of {@link #of}. */
    static final int KEPT = 1, LEFT_OUT = 0, REFUSED = -1;
    private static final int MOST_ASKED = 4;

    private final ThreadLocal<int[]> asked = ThreadLocal.withInitial(() -> new int[1]);
    private volatile Chooser chooser;

    void by(Chooser now) {
        chooser = now;
    }

    /** What becomes of a stamp. */
    int of(long id, long tick) {
        Chooser now = chooser;
        int[] depth = asked.get();
        if (now == null || depth[0] >= MOST_ASKED) {
            return REFUSED;
        }
        depth[0]++;
        try {
            return now.keeps(id, tick) ? KEPT : LEFT_OUT;
        } finally {
            depth[0]--;
        }
    }
}
