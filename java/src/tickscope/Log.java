package tickscope;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;

/**
 * The log of a channel under the policy {@code all}: each record at once, by a call of the kernel; no interrupt of a
 * thread closes it. What it does not take is counted; the record lies in a block all the same.
 */
final class Log {
    private final byte[] record = new byte[Layout.RECORD_BYTES];
    private final ByteBuffer words = ByteBuffer.wrap(record).order(ByteOrder.LITTLE_ENDIAN);
    private FileOutputStream file;
    private long length;

    private Log(FileOutputStream file) {
        this.file = file;
    }

    /** A new log in a directory; an exception says why there is none. */
    static Log create(String directory, long instance, int serial) throws IOException {
        Path place = Path.of(directory, String.format("%016x-%d.log", instance, serial));
        Files.createFile(place, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        return new Log(new FileOutputStream(place.toFile(), true));
    }

    /** Writes a record behind the others; false: it was not taken, and nothing of it is there. */
    boolean write(long id, long tick) {
        if (file == null) {
            return false;
        }
        words.putLong(0, id).putLong(8, tick);
        try {
            file.write(record);
            length += record.length;
            return true;
        } catch (IOException e) {
            undo();
            return false;
        }
    }

    /** Takes a part of a record back; a log that keeps it ends there. */
    private void undo() {
        try {
            file.getChannel().truncate(length);
        } catch (IOException e) {
            close();
        }
    }

    void close() {
        if (file != null) {
            try {
                file.close();
            } catch (IOException e) {
                // What it took is the kernel's.
            }
            file = null;
        }
    }
}
