import com.sun.management.ThreadMXBean;
import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import tickscope.Ids;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.Tickscope;

/** Programs of test_java.py, by their first word; each prints what the test asks for, as words of a line. */
public final class Programs {
    private static final int MANY = 100_000;

    /** The point of all programs, and with it the library: loaded by the first stamp. */
    private static final class Passed {
        static final Point POINT = Point.of("passed", Ordering.PLAIN);
    }

    public static void main(String[] words) throws Exception {
        int count = words.length > 1 && words[1].matches("[0-9]+") ? Integer.parseInt(words[1]) : 0;
        switch (words[0]) {
            case "one": one(); break;
            case "counter": counter(); break;
            case "interrupted": interrupted(); break;
            case "disturbed": disturbed(); break;
            case "threads": threads(count); break;
            case "cleared": cleared(count); break;
            case "many": many(count); break;
            case "virtual": virtual(count); break;
            case "for-ever": forEver(count, Path.of(words[2])); break;
            case "bytes": bytes(); break;
            case "loaders": loaders(words); break;
            case "parent": parent(); break;
            case "collected": collected(count); break;
            case "ids": ids(words); break;
            case "chooses": chooses(); break;
            default: System.exit(64);
        }
    }

    private static void one() {
        long before = Tickscope.now(Ordering.BEFORE);
        Passed.POINT.stamp(1);
        System.out.println(before + " " + Tickscope.now(Ordering.AFTER));
        System.out.println(Tickscope.isOn() + " " + Tickscope.counter());
    }

    /** Asks for the counter before anything else. */
    private static void counter() {
        System.out.println(Tickscope.counter());
        Passed.POINT.stamp(1);
        System.out.println(Tickscope.isOn());
    }

    /** A thread that shall end loads the library. */
    private static void interrupted() {
        Thread.currentThread().interrupt();
        Passed.POINT.stamp(1);
        System.out.println(Tickscope.isOn() + " " + Thread.interrupted() + " " + Tickscope.counter());
    }

    /** The thread that loads the library is interrupted again and again meanwhile. */
    private static void disturbed() {
        Thread disturbed = Thread.currentThread();
        AtomicBoolean isLoaded = new AtomicBoolean();
        new Thread(() -> {
            for (int i = 0; i < 300 && !isLoaded.get(); i++) {
                disturbed.interrupt();
                LockSupport.parkNanos(1_000_000);
            }
        }).start();
        Passed.POINT.stamp(1);
        isLoaded.set(true);
        System.out.println(Tickscope.isOn() + " " + Thread.interrupted() + " " + Tickscope.counter());
    }

    /** Tasks of the common pool, which clears after each what is local to its thread. */
    private static void cleared(int count) {
        for (int i = 0; i < count; i++) {
            long id = i;
            CompletableFuture.runAsync(() -> Passed.POINT.stamp(id)).join();
        }
        CompletableFuture.runAsync(Passed.POINT::close).join();
    }

    /** As many threads that live at once, each with a stamp; then whether the program can still open a file. */
    private static void many(int count) throws Exception {
        CountDownLatch stamped = new CountDownLatch(count), over = new CountDownLatch(1);
        for (int i = 0; i < count; i++) {
            long id = i;
            new Thread(() -> {
                Passed.POINT.stamp(id);
                stamped.countDown();
                try {
                    over.await();
                } catch (InterruptedException e) {
                    throw new AssertionError(e); // by nobody
                }
            }).start();
        }
        stamped.await();
        try (InputStream file = new FileInputStream("/proc/self/comm")) {
            System.out.println("opened");
        }
        over.countDown();
    }

    /** Threads that each end after a stamp; then one of this thread, which waits for the end of its input. */
    private static void threads(int count) throws Exception {
        for (int i = 0; i < count; i++) {
            long id = i;
            Thread thread = new Thread(() -> Passed.POINT.stamp(id));
            thread.start();
            thread.join();
        }
        Passed.POINT.stamp(count);
        System.out.println("stamped");
        System.in.read();
    }

    /** As many virtual threads, three stamps each; Java 17 can name neither them nor what starts them. */
    private static void virtual(int count) throws Exception {
        Method start = Executors.class.getMethod("newVirtualThreadPerTaskExecutor");
        ExecutorService threads = (ExecutorService) start.invoke(null);
        for (int i = 0; i < count; i++) {
            long id = 3L * i;
            threads.execute(() -> {
                Passed.POINT.stamp(id);
                Thread.yield();
                Passed.POINT.stamp(id + 1);
                Passed.POINT.record(id + 2, Tickscope.now(Ordering.PLAIN));
            });
        }
        threads.shutdown();
        System.out.println(threads.awaitTermination(10, TimeUnit.MINUTES));
    }

    /** Threads that stamp their own ids until they are killed, and say in a file how many calls of each returned. */
    private static void forEver(int count, Path progress) throws Exception {
        FileChannel file = FileChannel.open(progress, StandardOpenOption.READ, StandardOpenOption.WRITE);
        MappedByteBuffer returned = file.map(FileChannel.MapMode.READ_WRITE, 0, 8L * count);
        returned.order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < count; i++) {
            int own = i;
            new Thread(() -> {
                Point point = Point.of("point-" + own, Ordering.BEFORE);
                for (long id = 0;; id++) {
                    point.stamp(id);
                    returned.putLong(8 * own, id + 1);
                }
            }).start();
        }
        System.out.println("stamps");
    }

    /** Bytes that a round of stamps allocates, once one allocates nothing or after many rounds. */
    private static void bytes() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long own = Thread.currentThread().getId(), allocated = -1;
        for (int round = 0; round < 50 && allocated != 0; round++) {
            long before = threads.getThreadAllocatedBytes(own);
            for (int id = 0; id < MANY; id++) {
                Passed.POINT.stamp(id);
            }
            allocated = threads.getThreadAllocatedBytes(own) - before;
        }
        System.out.println(allocated);
    }

    /** The library again from each jar that is named, by class loaders of their own, beside this program's. */
    private static void loaders(String[] jars) throws Exception {
        Passed.POINT.stamp(0);
        for (int i = 1; i < jars.length; i++) {
            URL[] jar = {Path.of(jars[i]).toUri().toURL()};
            ClassLoader loader = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader());
            Class<?> ordering = loader.loadClass("tickscope.Ordering"), point = loader.loadClass("tickscope.Point");
            Object plain = ordering.getField("PLAIN").get(null);
            Object passed = point.getMethod("of", String.class, ordering).invoke(null, "passed", plain);
            point.getMethod("stamp", long.class).invoke(passed, (long) i);
        }
    }

    /** Ids of texts, then of the trace that is named last. */
    private static void ids(String[] words) {
        for (int i = 1; i < words.length - 1; i++) {
            System.out.println(Ids.of(words[i]));
        }
        System.out.println(Ids.ofTrace(words[words.length - 1]));
    }

    /** Of many things that pass two points, every tenth waits for a garbage collection: its id, and when it waited. */
    private static void chooses() {
        Point passed = Point.of("passed", Ordering.PLAIN);
        passed.stamp(1);
        passed.stamp(2);
        passed.choose((id, tick) -> id % 2 == 1 && tick > 0);
        for (long id = 3; id < 10; id++) {
            passed.stamp(id);
        }
        passed.choose((id, tick) -> {
            passed.stamp(id + 1);
            return true;
        });
        passed.stamp(97);
        passed.choose((id, tick) -> {
            throw new IllegalStateException();
        });
        for (long id = 20; id < 24; id++) {
            try {
                passed.stamp(id);
            } catch (IllegalStateException e) {
                System.out.println("threw");
            }
        }
        passed.choose((id, tick) -> true);
        passed.stamp(15);
    }

    private static void collected(int count) {
        Point begun = Point.of("begun", Ordering.BEFORE), done = Point.of("done", Ordering.AFTER);
        for (long id = 0; id < count; id++) {
            begun.stamp(id);
            if (id % 10 == 3) {
                long before = System.nanoTime();
                System.gc();
                System.out.println("collected " + id + " " + before + " " + System.nanoTime());
            }
            done.stamp(id);
        }
    }

    /** A program with a child that outlives it. */
    private static void parent() throws Exception {
        Passed.POINT.stamp(1);
        Process child = new ProcessBuilder("sleep", "600").start();
        Passed.POINT.stamp(2);
        System.out.println(child.pid());
        Thread.sleep(Long.MAX_VALUE);
    }
}
