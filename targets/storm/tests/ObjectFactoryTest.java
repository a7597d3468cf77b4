package tickscope.storm;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import tickscope.storm.Operators.Raw;

/** The object factory without an engine, and the forms of events; ends with an error where one is wrong. */
final class ObjectFactoryTest {
    /** Numbers of one thread from 0 on; it says that it waits at each 5th. */
    private record Numbers(int thread, long count, Exception failure, long[] given)
            implements ObjectFactory.Source<long[]> {
        @Override
        public long[] next() throws IOException {
            if (given[0] == count) {
                if (failure instanceof IOException torn) {
                    throw torn;
                }
                if (failure instanceof RuntimeException malformed) {
                    throw malformed;
                }
                return null;
            }
            return new long[] {thread, given[0]++};
        }

        @Override
        public boolean waits() {
            return given[0] % 5 == 0;
        }
    }

    public static void main(String[] unused) throws Exception {
        for (int bucket : new int[] {1, 3, 512}) {
            for (int threads : new int[] {1, 2, 5}) {
                everyObjectOnceInOrder(bucket, threads);
            }
        }
        waitingSourcesHoldNothingBack();
        aThreadThatFails(new IOException("torn"));
        aThreadThatFails(new IllegalArgumentException("malformed"));
        forms();
        System.exit(0);
    }

    private static void everyObjectOnceInOrder(int bucket, int threads) {
        long count = 100_003; // more than all queues hold, and a last bucket that is not full
        List<ObjectFactory.Source<long[]>> sources = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            sources.add(new Numbers(thread, count, null, new long[1]));
        }
        long[] next = new long[threads];
        try (ObjectFactory<long[]> factory = new ObjectFactory<>(sources, bucket)) {
            while (!factory.hasEnded()) {
                List<long[]> objects = factory.poll();
                for (long[] object : objects == null ? List.<long[]>of() : objects) {
                    expect(next[(int) object[0]]++, object[1]);
                }
                expect(true, objects == null || objects.size() <= Math.min(bucket, 5));
            }
        }
        for (long seen : next) {
            expect(count, seen);
        }
    }

    private static void waitingSourcesHoldNothingBack() throws Exception {
        Object gate = new Object();
        boolean[] open = {false};
        int[] given = {0};
        ObjectFactory.Source<Integer> source = new ObjectFactory.Source<>() {
            @Override
            public Integer next() {
                if (given[0] == 1) {
                    synchronized (gate) {
                        while (!open[0]) {
                            try {
                                gate.wait();
                            } catch (InterruptedException e) {
                                return null;
                            }
                        }
                    }
                    return null;
                }
                return given[0]++;
            }

            @Override
            public boolean waits() {
                return true;
            }
        };
        try (ObjectFactory<Integer> factory = new ObjectFactory<>(List.of(source), 256)) {
            List<Integer> first = null;
            while (first == null) { // else it hangs here, and the runner's limit ends it
                first = factory.poll();
            }
            expect(List.of(0), first);
            synchronized (gate) {
                open[0] = true;
                gate.notifyAll();
            }
        }
    }

    private static void aThreadThatFails(Exception why) {
        ObjectFactory.Source<long[]> torn = new Numbers(0, 3, why, new long[1]);
        try (ObjectFactory<long[]> factory = new ObjectFactory<>(List.of(torn), 8)) {
            while (!factory.hasEnded()) {
                factory.poll();
            }
            throw new AssertionError("expected the failure of the thread, found an end");
        } catch (IllegalStateException e) {
            expect(why, e.getCause());
        }
    }

    private static void forms() {
        String[] texts = {"u", "", "ad-7", "banner", "view", "1767225609999", "1.2.3.4"};
        for (long id : new long[] {0, 42, Long.MAX_VALUE}) {
            Raw event = Raw.of(id, texts);
            for (String form : new String[] {"json", "kryo", "flat"}) {
                Codec codec = Codec.of(form);
                expect(event, codec.read(codec.write(event)));
                expect(event, codec.read(codec.write(event)));
            }
        }
    }

    private static void expect(Object expected, Object found) {
        if (!expected.equals(found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }
}
