package tickscope;

import java.io.IOException;
import java.io.InputStream;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Optional;

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

    private NativeCounter() {}

    /** Readings without arguments, by number of their ordering. */
    static MethodHandle[] readings() throws Throwable {
        boolean isInterrupted = Thread.interrupted(); // or the file that is written would be closed at once
        try {
            Path library = unpacked();
            try {
                return isForeign() ? foreign(library) : jni(library);
            } finally {
                Files.deleteIfExists(library);
            }
        } finally {
            if (isInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    static String told() {
        String by = isForeign() ? "by a foreign function" : "by JNI";
        return (Counter.machines() == Layout.TSC ? "the TSC, " : "CNTVCT_EL0, ") + by + "; it was seen to go on";
    }

    private static native long plain();

    private static native long before();

    private static native long after();

    private static boolean isForeign() {
        return Runtime.version().feature() >= 22;
    }

    private static Path unpacked() throws IOException {
        String name = "/tickscope/" + System.getProperty("os.arch") + "/libtickscope.so";
        try (InputStream library = NativeCounter.class.getResourceAsStream(name)) {
            if (library == null) {
                throw new IOException("the jar has no " + name);
            }
            Path file = Files.createTempFile("tickscope", ".so"); // 0600, of a name that nobody can guess
            Files.copy(library, file, StandardCopyOption.REPLACE_EXISTING);
            return file;
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
