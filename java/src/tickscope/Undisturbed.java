package tickscope;

import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;

/** What an interrupt of its thread must not end: a channel of Java is closed for good by one. */
final class Undisturbed {
    /** More interrupts than a program has for one thread within the milliseconds that this takes. */
    private static final int MOST_INTERRUPTS = 1000;

    /** Makes something, and leaves nothing of it behind where it throws. */
    interface Making<T> {
        T made() throws IOException;
    }

    private Undisturbed() {}

    /** Begins anew after each interrupt; the thread is told of them afterwards. */
    static <T> T made(Making<T> making) throws IOException {
        boolean isInterrupted = false;
        try {
            for (int interrupts = 0;; interrupts++) {
                isInterrupted |= Thread.interrupted();
                try {
                    return making.made();
                } catch (ClosedByInterruptException e) {
                    if (interrupts == MOST_INTERRUPTS) {
                        throw e;
                    }
                }
            }
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
