package tickscope;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** What the library says on stderr. It stands on no other class, so that any may say something while it is loaded. */
final class Complaint {
    private static final long PATIENCE_MS = 200;

    private Complaint() {}

    /**
     * Writes a line to the process's stderr, whatever the program made of {@code System.err}. A stderr that nobody
     * reads holds up a thread of its own, and the program for that long at most.
     */
    static void say(String line) {
        Thread writer = new Thread(() -> write(line), "tickscope complains");
        writer.setDaemon(true);
        try {
            writer.start();
            writer.join(PATIENCE_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (OutOfMemoryError e) {
            return; // no thread is to be had
        }
    }

    private static void write(String line) {
        byte[] bytes = ("tickscope: " + line + "\n").getBytes(StandardCharsets.UTF_8);
        try {
            new FileOutputStream(FileDescriptor.err).write(bytes);
        } catch (IOException e) {
            return; // it has no stderr
        }
    }
}
