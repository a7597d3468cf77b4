package tickscope;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** What the library says on stderr. It stands on no other class, so that any may say something while it is loaded. */
final class Complaint {
    private Complaint() {}

    /** Writes a line to the process's stderr, whatever the program made of {@code System.err}. */
    static void say(String line) {
        byte[] bytes = ("tickscope: " + line + "\n").getBytes(StandardCharsets.UTF_8);
        try {
            new FileOutputStream(FileDescriptor.err).write(bytes);
        } catch (IOException e) {
            return; // it has no stderr
        }
    }
}
