package tickscope;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The log of a channel under the policy {@code all}: each record at once, by a call of the kernel; no interrupt of a
 * thread closes it. What it does not take is counted; the record lies in a block all the same.
 */
final class Log {
    /** Descriptors that stay the program's, or half of what it may have: as in C, docs/policies.md. */
    private static final long RESERVE = 512;
    private static final String NO_ROOM = "Too many open files";
    private static final AtomicInteger OPEN = new AtomicInteger();

    private final byte[] record = new byte[Layout.RECORD_BYTES];
    private final ByteBuffer words = ByteBuffer.wrap(record).order(ByteOrder.LITTLE_ENDIAN);
    private FileOutputStream file;
    private long length;

    private Log(FileOutputStream file) {
        this.file = file;
    }

    /** A new log in a directory; an exception says why there is none. */
    static Log create(String directory, long instance, int serial) throws IOException {
        try {
            if (OPEN.incrementAndGet() > Undisturbed.made(Log::most)) {
                throw new FileSystemException(directory, null, NO_ROOM + " but those that stay the program's");
            }
            return new Log(file(directory, instance, serial));
        } catch (IOException | RuntimeException | Error e) {
            OPEN.decrementAndGet();
            throw e;
        }
    }

    /** Whether there is no log for want of descriptors. */
    static boolean isReserve(Exception cause) {
        return cause.getMessage() != null && cause.getMessage().contains(NO_ROOM);
    }

    /** Logs that a process may have at once. */
    private static long most() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/limits"))) {
            if (line.startsWith("Max open files")) {
                String soft = line.split("\\s{2,}")[1];
                long most = soft.equals("unlimited") ? Long.MAX_VALUE : Long.parseLong(soft);
                return most - Math.min(RESERVE, most / 2);
            }
        }
        throw new IOException("expected Max open files in /proc/self/limits, found none");
    }

    private static FileOutputStream file(String directory, long instance, int serial) throws IOException {
        Path place = Path.of(directory, String.format("%016x-%d.log", instance, serial));
        Files.createFile(place, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        try {
            return new FileOutputStream(place.toFile(), true);
        } catch (IOException e) {
            Files.deleteIfExists(place);
            throw e;
        }
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
            OPEN.decrementAndGet();
        }
    }
}
