package tickscope.storm;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.locks.LockSupport;
import org.jctools.queues.SpscArrayQueue;

/**
 * Deserialises in threads of its own, so that who drains it takes finished objects: Cloudprofiler's object factory.
 *
 * <p>Each thread has a source and a queue between one producer and one consumer, of buckets, so that the hand-over is
 * paid once for many objects. Guarantees: no object is dropped; those of one thread come in its order; a bucket that
 * is not full is handed over where its source has nothing more for now, so that no object waits for later ones. A
 * queue that is full holds its thread up. Deliberately absent: order between threads.
 */
final class ObjectFactory<T> implements AutoCloseable {
    /** Buckets that a queue holds. */
    private static final int QUEUED = 64;
    /** Looks at a full queue before its thread sleeps between them. */
    private static final int SPINS = 100;

    private static final long NAP_NS = 20_000;

    /** Objects of one thread. */
    interface Source<T> {
        /** The next one, deserialised; null: there are no more. */
        T next() throws IOException;

        /** Whether the next one is not here yet. */
        boolean waits() throws IOException;
    }

    private final List<Line<T>> lines = new ArrayList<>();
    private final int bucket;
    private volatile boolean closed;
    private int turn;

    /** A thread for each source; `bucket`: objects that are handed over at once, at most. */
    ObjectFactory(List<Source<T>> sources, int bucket) {
        if (bucket < 1 || sources.isEmpty()) {
            throw new IllegalArgumentException("expected a source and a bucket of 1 or more objects, found "
                    + sources.size() + " sources and " + bucket);
        }
        this.bucket = bucket;
        for (Source<T> source : sources) {
            Line<T> line = new Line<>(source);
            lines.add(line);
            line.thread = new Thread(() -> produce(line), "object-factory-" + lines.size());
            line.thread.setDaemon(true);
        }
        lines.forEach(line -> line.thread.start());
    }

    private static final class Line<T> {
        final Source<T> source;
        final Queue<List<T>> queue = new SpscArrayQueue<>(QUEUED);
        Thread thread;
        volatile boolean ended;
        volatile Exception failure;

        Line(Source<T> source) {
            this.source = source;
        }
    }

    private void produce(Line<T> line) {
        try {
            List<T> filling = new ArrayList<>(bucket);
            for (T object; !closed && (object = line.source.next()) != null; ) {
                filling.add(object);
                if (filling.size() == bucket || line.source.waits()) {
                    put(line, filling);
                    filling = new ArrayList<>(bucket);
                }
            }
            put(line, filling);
        } catch (Exception e) { // a malformed object, too: else its thread would seem to have come to its end
            line.failure = e;
        } finally {
            line.ended = true;
        }
    }

    private void put(Line<T> line, List<T> filled) {
        int spins = 0;
        while (!filled.isEmpty() && !line.queue.offer(filled) && !closed) {
            if (++spins < SPINS) {
                Thread.onSpinWait();
            } else {
                LockSupport.parkNanos(NAP_NS);
            }
        }
    }

    /** The next bucket, the threads in turn; null: none is ready. One thread calls it. */
    List<T> poll() {
        for (int looked = 0; looked < lines.size(); looked++) {
            Line<T> line = lines.get(turn);
            turn = (turn + 1) % lines.size();
            List<T> filled = line.queue.poll();
            if (filled != null) {
                return filled;
            }
            if (line.failure != null) {
                throw new IllegalStateException(line.failure.getMessage(), line.failure);
            }
        }
        return null;
    }

    /** Whether every thread has ended and all was taken. */
    boolean hasEnded() {
        // In this order: a thread puts its last bucket before it says that it has ended.
        return lines.stream().allMatch(line -> line.ended && line.queue.isEmpty() && line.failure == null);
    }

    /** Ends the threads; what was not taken is dropped. */
    @Override
    public void close() {
        closed = true;
        lines.forEach(line -> line.thread.interrupt());
    }
}
