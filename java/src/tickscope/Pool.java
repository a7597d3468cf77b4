package tickscope;

import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The shared memory of this process (of this copy of the library in it): rules 1 to 4 of docs/minimal-writer.md.
 *
 * <p>It lives as long as the process holds a record lock on byte 0. The kernel drops a lock of that kind when the
 * process closes any descriptor of the file, so the file is opened once and never closed; a child does not inherit it.
 * Anything wrong is told once on stderr, and points are off: the program goes on.
 */
final class Pool {
    /** What this process stamps into; null: points are off. */
    static final Pool HERE = hereOrOff();

    private static final int ZEROS = 4096;

    final Memory memory;
    final long instance;
    final int blockBytes;
    private final Settings settings;
    private final int entryCount, firstBlock, end;
    private final List<Owned> owned = new ArrayList<>();
    @SuppressWarnings({"unused", "FieldCanBeLocal"}) // its descriptor is the lock
    private final FileChannel file;
    private volatile int hint;
    private boolean isLogTold, isTableTold;

    /** A channel and its thread, which it outlives: whoever opens the next one closes it. */
    static final class Owned {
        final Channel channel;
        private final WeakReference<Thread> thread;
        private final Map<Long, Owned> found;
        private final long number;

        /** Of a thread that can be found again by its number, as long as it lives. */
        private Owned(Thread thread, Channel channel, Map<Long, Owned> found) {
            this.thread = new WeakReference<>(thread);
            this.channel = channel;
            this.found = found;
            number = thread.getId();
            found.put(number, this);
        }

        /** Whether it is that thread's, for a program's own class of threads may give two the same number. */
        boolean isOf(Thread other) {
            return thread.get() == other;
        }

        private void close() {
            found.remove(number, this);
            channel.close();
        }

        private boolean hasEnded() {
            Thread alive = thread.get();
            return alive == null || !alive.isAlive();
        }
    }

    private static Pool hereOrOff() {
        try {
            Settings settings = Settings.of(System.getenv());
            if (settings == null) {
                return null;
            }
            Counter.choose();
            if (!settings.whenFull.equals("drop")) {
                Complaint.say("expected TICKSCOPE_WHEN_FULL as drop, the one that programs in Java have; found '"
                    + settings.whenFull + "'. Stamps that find no room are dropped and counted");
            }
            return Undisturbed.made(() -> new Pool(settings));
        } catch (Throwable e) { // of whatever kind: memory or stack may have run out
            sayOff(e);
            return null;
        }
    }

    private static void sayOff(Throwable cause) {
        try {
            boolean isSetting = cause instanceof IllegalArgumentException;
            Complaint.say((isSetting ? cause.getMessage() : "cannot make the pool: " + cause) + "; points are off");
        } catch (VirtualMachineError e) {
            // What ended the pool has left nothing to say it with.
        }
    }

    private Pool(Settings settings) throws IOException {
        this.settings = settings;
        instance = new SecureRandom().nextLong();
        blockBytes = settings.blockBytes;
        entryCount = (Math.max(256, settings.blockCount) + 15) / 16 * 16;
        firstBlock = Layout.HEADER_BYTES + entryCount * Layout.ENTRY_BYTES;
        end = firstBlock + settings.blockCount * blockBytes;
        hint = firstBlock;
        Path place = ownPlace(settings.directory);
        String name = "pool-" + HexFormat.of().toHexDigits(instance) + ".ticks";
        Path hidden = place.resolve("." + name);
        file = FileChannel.open(hidden, Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.READ,
            StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS), rights("rw-------"));
        try {
            takeSpace();
            memory = new Memory(file.map(FileChannel.MapMode.READ_WRITE, 0, end));
            describe();
            if (file.tryLock(0, 1, false) == null) {
                throw new IOException("somebody else has locked " + hidden);
            }
            Files.move(hidden, place.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException | RuntimeException | Error e) {
            file.close();
            Files.deleteIfExists(hidden);
            throw e;
        }
        Runtime.getRuntime().addShutdownHook(new Thread(this::endWell, "tickscope-end"));
    }

    /** The directory of this user's pools, made unless it is there; one that is another user's is refused. */
    private static Path ownPlace(String directory) throws IOException {
        int user = Settings.effectiveUser();
        Path place = Path.of(directory, "uid-" + user);
        try {
            Files.createDirectory(place, rights("rwx------"));
        } catch (FileAlreadyExistsException e) {
            boolean isReal = Files.isDirectory(place, LinkOption.NOFOLLOW_LINKS);
            if (!isReal || !Files.getAttribute(place, "unix:uid", LinkOption.NOFOLLOW_LINKS).equals(user)) {
                throw new IOException("expected " + place + " as a directory of user " + user);
            }
        }
        return place;
    }

    private static java.nio.file.attribute.FileAttribute<?> rights(String rights) {
        return PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(rights));
    }

    /** Writes zeros over the whole length: a file without its space ends the program when the tmpfs is full. */
    private void takeSpace() throws IOException {
        ByteBuffer zeros = ByteBuffer.allocateDirect(ZEROS); // the program may have little direct memory left
        ByteBuffer[] many = new ByteBuffer[16];
        Arrays.setAll(many, i -> zeros.duplicate());
        for (long at = 0; at < end; at += file.write(many)) {
            for (int i = 0; i < many.length; i++) {
                many[i].clear().limit((int) Math.max(0, Math.min(ZEROS, end - at - (long) i * ZEROS)));
            }
        }
    }

    private void describe() throws IOException {
        memory.put(Layout.POOL_VERSION, Layout.VERSION);
        memory.put(Layout.ENTRY_OFFSET, Layout.HEADER_BYTES);
        memory.put(Layout.ENTRY_BYTES_AT, Layout.ENTRY_BYTES);
        memory.put(Layout.ENTRY_COUNT, entryCount);
        memory.put(Layout.BLOCK_OFFSET, (long) firstBlock);
        memory.put(Layout.BLOCK_BYTES, blockBytes);
        memory.put(Layout.BLOCK_COUNT, settings.blockCount);
        memory.put(Layout.INSTANCE, instance);
        String boot = Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip().replace("-", "");
        memory.put(Layout.BOOT_ID, HexFormat.of().parseHex(boot));
        memory.put(Layout.PID, (int) ProcessHandle.current().pid());
        memory.put(Layout.COUNTER, Counter.machines());
        memory.putName(Layout.NODE, settings.node);
        memory.putName(Layout.COMMAND, Files.readString(Path.of("/proc/self/comm")).strip());
        memory.put(Layout.KEY, settings.key);
        memory.put(Layout.READING_PS, Counter.costPs());
        String reading = Counter.told() + "; Java " + System.getProperty("java.version");
        memory.putText(Layout.READING, Layout.READING_BYTES, reading);
        memory.release(0, Layout.POOL_MAGIC);
    }

    private void endWell() {
        memory.release(Layout.POOL_STATE, Layout.POOL_CLOSED);
    }

    /**
     * Opens a channel for a thread, which finds it again in a point's map, or for whoever claims it (no map); null:
     * there is no entry for it.
     */
    synchronized Channel open(String point, Ordering ordering, Choice choice, Map<Long, Owned> found) {
        closeEnded();
        int entry = freeEntry();
        if (entry == 0) {
            return null;
        }
        Policy policy = settings.policyOf(point);
        int serial = memory.get(Layout.CHANNELS);
        memory.release(Layout.CHANNELS, serial + 1);
        int number = found == null ? 0 : ownThread();
        Channel channel = new Channel(this, entry, serial, number, policy, point, ordering, choice);
        if (found != null) {
            owned.add(new Owned(Thread.currentThread(), channel, found));
        }
        return channel;
    }

    synchronized void close(Owned own) {
        if (owned.remove(own)) {
            own.close();
        }
    }

    private void closeEnded() {
        owned.removeIf(of -> {
            boolean hasEnded = of.hasEnded();
            if (hasEnded) {
                of.close();
            }
            return hasEnded;
        });
    }

    private int freeEntry() {
        int closed = 0;
        for (int at = Layout.HEADER_BYTES; at < firstBlock; at += Layout.ENTRY_BYTES) {
            closed += memory.look(at + Layout.ENTRY_STATE) == Layout.ENTRY_CLOSED ? 1 : 0;
            if (memory.exchange(at + Layout.ENTRY_STATE, Layout.ENTRY_FREE, Layout.ENTRY_OPENING)) {
                return at;
            }
        }
        if (!isTableTold) {
            isTableTold = true;
            String remedy = closed == 0 ? "Raise" : closed + " are closed, and wait for a collector: collect while it"
                + " runs, or raise";
            Complaint.say("all " + entryCount + " channels of the pool are in use; stamps of further threads and points"
                + " are counted, not stored. " + remedy + " TICKSCOPE_POOL_BYTES");
        }
        return 0;
    }

    /** The number that the kernel has for the thread that calls. */
    private static int ownThread() {
        try {
            return Integer.parseInt(Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString());
        } catch (IOException | RuntimeException e) {
            return 0; // not said
        }
    }

    /** A block that is the caller's from here on; 0: none is free. */
    int freeBlock() {
        int from = hint;
        int at = from;
        do {
            int next = at + blockBytes < end ? at + blockBytes : firstBlock;
            int state = at + Layout.BLOCK_STATE;
            if (memory.look(state) == Layout.FREE && memory.exchange(state, Layout.FREE, Layout.LEASED)) {
                hint = next;
                return at;
            }
            at = next;
        } while (at != from);
        return 0;
    }

    /** The oldest full block of a channel's own under its policy, whose number is the lowest; 0: it has none. */
    int oldest(int serial, int firstOfPolicy) {
        int oldest = 0;
        for (int at = firstBlock; at < end; at += blockBytes) {
            boolean isOwn = memory.look(at + Layout.BLOCK_STATE) == Layout.LEASED
                && memory.get(at) == Layout.BLOCK_MAGIC && memory.get(at + Layout.SERIAL) == serial
                && memory.get(at + Layout.NUMBER) >= firstOfPolicy;
            if (isOwn && (oldest == 0 || memory.get(at + Layout.NUMBER) < memory.get(oldest + Layout.NUMBER))) {
                oldest = at;
            }
        }
        return oldest;
    }

    /** The log of a channel; null: there is none, which is told once. */
    synchronized Log log(int serial) {
        String place = settings.logs.isEmpty() ? "none" : settings.logs;
        String remedy = "name a directory that this user can write";
        try {
            if (!settings.logs.isEmpty()) {
                return Log.create(settings.logs, instance, serial);
            }
        } catch (IOException | RuntimeException e) {
            place += " (" + e + ")";
            remedy = Log.isReserve(e) ? "raise ulimit -n: a log takes a descriptor" : remedy;
        }
        if (!isLogTold) {
            isLogTold = true;
            Complaint.say("expected TICKSCOPE_LOGS to name a directory for the logs of channels under the policy all;"
                + " found " + place + ". Their stamps are kept as under buffered; " + remedy);
        }
        return null;
    }

    /** Counts a stamp that has no channel, or a channel that has no valid name. */
    void count(int at) {
        memory.count(at);
    }
}
