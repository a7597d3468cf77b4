package tickscope;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.nio.channels.Channels;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Optional;
import java.util.Set;

/**
 * The machine's counter by the library in the jar: on Java 22 and later by calls of the foreign-function interface
 * without a change of the thread's state, before that by JNI.
 *
 * <p>The interface is named by words, so that one jar is built by any JDK from 17 on; a handle that is found so is as
 * quick as any. Each copy of this class unpacks a file of its own, for a JVM loads a file for one class loader only; it
 * is gone as soon as it is loaded.
 */
final class NativeCounter {
    private static final String[] NAMES = {"plain", "before", "after"};
    private static final Set<PosixFilePermission> OWN = PosixFilePermissions.fromString("rw-------");
    /** So small that hardly any direct memory is needed for it. */
    private static final int WRITTEN_AT_ONCE = 4096;

    private NativeCounter() {}

    /** Readings without arguments, by number of their ordering. */
    static MethodHandle[] readings() throws Throwable {
        Path library = Undisturbed.made(NativeCounter::unpacked);
        try {
            return isForeign() ? foreign(library) : jni(library);
        } finally {
            Files.deleteIfExists(library);
        }
    }

    static String told() {
        String by = isForeign() ? "by a foreign function" : "by JNI";
        return (Counter.machines() == Layout.TSC ? "the TSC, " : "CNTVCT_EL0, ") + by;
    }

    /** Why there are no readings, with what mends it where the JVM was told to allow none. */
    static String reason(Throwable failed) {
        Throwable cause = failed instanceof InvocationTargetException ? failed.getCause() : failed;
        if (!(cause instanceof IllegalCallerException)) {
            return cause.toString();
        }
        Module own = NativeCounter.class.getModule();
        return cause + ". Run java with --enable-native-access=" + (own.isNamed() ? own.getName() : "ALL-UNNAMED");
    }

    private static native long plain();

    private static native long before();

    private static native long after();

    private static boolean isForeign() {
        return Runtime.version().feature() >= 22;
    }

    /** A file that nobody but this user has ever been able to write, under a name that nobody can guess. */
    static Path unpacked() throws IOException {
        String name = "/tickscope/" + System.getProperty("os.arch") + "/libtickscope.so";
        try (InputStream library = NativeCounter.class.getResourceAsStream(name)) {
            if (library == null) {
                throw new IOException("the jar has no " + name);
            }
            String unique = HexFormat.of().toHexDigits(new SecureRandom().nextLong());
            Path file = Path.of(System.getProperty("java.io.tmpdir"), "tickscope" + unique + ".so");
            byte[] bytes = library.readAllBytes();
            try {
                write(file, bytes);
                expectOwn(file, bytes.length);
                return file;
            } catch (IOException | RuntimeException | Error e) {
                Files.deleteIfExists(file);
                throw e;
            }
        }
    }

    /** Writes a new file through the descriptor that made it, so that no other file of that name is written. */
    private static void write(Path file, byte[] bytes) throws IOException {
        var isNew = Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        try (OutputStream into = Channels.newOutputStream(
                Files.newByteChannel(file, isNew, PosixFilePermissions.asFileAttribute(OWN)))) {
            for (int at = 0; at < bytes.length; at += WRITTEN_AT_ONCE) {
                into.write(bytes, at, Math.min(WRITTEN_AT_ONCE, bytes.length - at));
            }
        }
    }

    private static void expectOwn(Path file, int length) throws IOException {
        var found = Files.readAttributes(file, "unix:uid,mode,size", LinkOption.NOFOLLOW_LINKS);
        boolean isOwn = found.get("uid").equals(Settings.effectiveUser()) && found.get("mode").equals(0100600);
        if (!isOwn || !found.get("size").equals((long) length)) {
            throw new IOException("expected " + file + " as a file of " + length + " bytes that this user alone can"
                + " write, found " + found + ". Set java.io.tmpdir to a directory that is this user's alone");
        }
    }

    private static MethodHandle[] jni(Path library) throws ReflectiveOperationException {
        System.load(library.toString());
        MethodHandle[] readings = new MethodHandle[NAMES.length];
        for (int i = 0; i < NAMES.length; i++) {
            MethodType type = MethodType.methodType(long.class);
            readings[i] = MethodHandles.lookup().findStatic(NativeCounter.class, NAMES[i], type);
        }
        return readings;
    }

    private static MethodHandle[] foreign(Path library) throws ReflectiveOperationException {
        Class<?> arena = named("Arena"), lookup = named("SymbolLookup"), linker = named("Linker");
        Class<?> layout = named("MemoryLayout"), function = named("FunctionDescriptor");
        Class<?> option = named("Linker$Option");
        Class<?> layouts = layout.arrayType(), options = option.arrayType();
        Object forEver = arena.getMethod("global").invoke(null);
        Object symbols = lookup.getMethod("libraryLookup", Path.class, arena).invoke(null, library, forEver);
        Object word = named("ValueLayout").getField("JAVA_LONG").get(null);
        Object none = Array.newInstance(layout, 0);
        Object reading = function.getMethod("of", layout, layouts).invoke(null, word, none);
        Object isShort = Array.newInstance(option, 1);
        Array.set(isShort, 0, option.getMethod("critical", boolean.class).invoke(null, false));
        Object own = linker.getMethod("nativeLinker").invoke(null);
        var call = linker.getMethod("downcallHandle", named("MemorySegment"), function, options);
        MethodHandle[] readings = new MethodHandle[NAMES.length];
        for (int i = 0; i < NAMES.length; i++) {
            var found = lookup.getMethod("find", String.class).invoke(symbols, "tickscope_java_" + NAMES[i]);
            readings[i] = (MethodHandle) call.invoke(own, ((Optional<?>) found).get(), reading, isShort);
        }
        return readings;
    }

    private static Class<?> named(String name) throws ClassNotFoundException {
        return Class.forName("java.lang.foreign." + name);
    }
}
