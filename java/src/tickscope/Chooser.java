package tickscope;

/** Chooses what is kept at a point under the policy {@code own}: {@link Point#choose}. */
@FunctionalInterface
public interface Chooser {
    /**
     * Whether a stamp is kept. Called on the thread that stamps, so by several threads at once where several stamp.
     * What it throws ends that stamp and reaches the caller. It is asked about stamps that it makes at its own point,
     * too, up to a depth of four; beyond that they are refused and counted.
     *
     * @param id of the stamp
     * @param tick of the stamp, of {@link Tickscope#counter}
     */
    boolean keeps(long id, long tick);
}
