package tickscope.storm;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import tickscope.storm.Operators.Raw;

/**
 * How many events a second one thread takes: {@code FactoryRate LINES json|kryo|flat THREADS BUCKET SECONDS}.
 *
 * <p>The events of that file are in memory, serialised, before the time begins, and it is measured the third time. With 0
 * threads the one that takes them deserialises them itself, as a plain spout does; else an {@link ObjectFactory} of so many
 * threads does. Every event is looked at, and each thread's order is checked: one that is missing or out of order ends the
 * program with 1. Prints a line of JSON: besides the rate the processor time of an event, of the one that takes them and of
 * the whole JVM, which a machine that has more to do changes less.
 */
public final class FactoryRate {
    private static final long NAP_NS = 20_000;

    private FactoryRate() {}

    /** Runs it. */
    public static void main(String[] words) throws Exception {
        if (words.length != 5) {
            System.err.println("expected LINES json|kryo|flat THREADS BUCKET SECONDS, found " + words.length + " words");
            System.exit(2);
        }
        int threads = Integer.parseInt(words[2]);
        List<byte[]> tuples = serialised(Path.of(words[0]), words[1]);
        long bytes = tuples.stream().mapToLong(tuple -> tuple.length).sum() / tuples.size();
        long lengthNs = (long) (Double.parseDouble(words[4]) * 1e9);
        long taken = 0;
        double seconds = 0;
        Spent spent = null;
        for (int round = 0; round < 3; round++) { // the first two for the compiler of the JVM alone
            spent = Spent.now();
            long began = System.nanoTime();
            taken = threads == 0
                    ? alone(tuples, words[1], began + lengthNs)
                    : through(tuples, words[1], threads, Integer.parseInt(words[3]), began + lengthNs);
            seconds = (System.nanoTime() - began) / 1e9;
            spent = spent.since();
        }
        System.out.printf("{\"form\": \"%s\", \"threads\": %d, \"bytes\": %d, \"events\": %d, \"rate\": %.0f,"
                        + " \"taker_ns\": %.1f, \"all_ns\": %.1f}%n",
                words[1], threads, bytes, taken, taken / seconds, (double) spent.taker() / taken,
                (double) spent.all() / taken);
        System.exit(0);
    }

    /** Processor time in ns, of this thread and of the whole JVM. */
    private record Spent(long taker, long all) {
        static Spent now() {
            return new Spent(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime(),
                    ProcessHandle.current().info().totalCpuDuration().orElseThrow().toNanos());
        }

        Spent since() {
            Spent now = now();
            return new Spent(now.taker - taker, now.all - all);
        }
    }

    private static List<byte[]> serialised(Path lines, String form) throws Exception {
        Codec codec = Codec.of(form);
        List<byte[]> tuples = new ArrayList<>();
        long number = 0;
        for (String line : Files.readAllLines(lines)) {
            Raw event = Operators.raw(line.getBytes(UTF_8));
            tuples.add(codec.write(new Raw(number++, event.user(), event.page(), event.ad(), event.adType(), event.type(),
                    event.time(), event.ip())));
        }
        return tuples;
    }

    private static long alone(List<byte[]> tuples, String form, long until) throws Exception {
        Tuples source = new Tuples(tuples, form, 0, 1, until);
        Order order = new Order(tuples.size(), 1);
        for (Raw event; (event = source.next()) != null; ) {
            order.see(event);
        }
        return order.whole(source);
    }

    private static long through(List<byte[]> tuples, String form, int threads, int bucket, long until) {
        List<ObjectFactory.Source<Raw>> sources = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            sources.add(new Tuples(tuples, form, thread, threads, until));
        }
        Order order = new Order(tuples.size(), threads);
        try (ObjectFactory<Raw> factory = new ObjectFactory<>(sources, bucket)) {
            while (true) {
                List<Raw> events = factory.poll();
                if (events != null) {
                    events.forEach(order::see);
                } else if (factory.hasEnded()) {
                    return order.whole(sources.toArray(new Tuples[0]));
                } else {
                    LockSupport.parkNanos(NAP_NS); // where there are few processors the threads need them
                }
            }
        }
    }

    /** One thread's part of the events, over and over until its time is up. */
    private static final class Tuples implements ObjectFactory.Source<Raw> {
        /** Events between two looks at the clock. */
        private static final int LOOK = 256;

        private final List<byte[]> tuples;
        private final Codec codec;
        private final int step;
        private final long until;
        private int at;
        private volatile long given;

        Tuples(List<byte[]> tuples, String form, int first, int step, long until) {
            this.tuples = tuples;
            this.codec = Codec.of(form);
            this.step = step;
            this.until = until;
            at = first;
        }

        @Override
        public boolean waits() {
            return false;
        }

        @Override
        public Raw next() {
            if (given % LOOK == 0 && System.nanoTime() >= until) {
                return null;
            }
            Raw event = codec.read(tuples.get(at));
            at += step;
            if (at >= tuples.size()) {
                at %= step;
            }
            given = given + 1;
            return event;
        }
    }

    /** Looks at every event, and at the order of each thread's. */
    private static final class Order {
        private final int events;
        private final long[] next;
        private long seen;
        private long letters;

        Order(int events, int threads) {
            this.events = events;
            next = new long[threads];
            for (int thread = 0; thread < threads; thread++) {
                next[thread] = thread;
            }
            if (events % threads != 0) {
                throw new IllegalArgumentException("expected threads that divide " + events + " events, found " + threads);
            }
        }

        void see(Raw event) {
            int thread = (int) (event.id() % next.length);
            if (event.id() != next[thread]) {
                fail("expected event " + next[thread] + " of thread " + thread + ", found " + event.id());
            }
            next[thread] = event.id() + next.length < events ? event.id() + next.length : thread;
            for (int at = 0; at < Raw.TEXTS; at++) {
                letters += event.text(at).length();
            }
            seen++;
        }

        long whole(Tuples... sources) {
            long given = 0;
            for (Tuples source : sources) {
                given += source.given;
            }
            if (given != seen || letters == 0) {
                fail("expected " + given + " events, found " + seen);
            }
            return seen;
        }

        private static void fail(String why) {
            System.err.println(why);
            System.exit(1);
        }
    }
}
