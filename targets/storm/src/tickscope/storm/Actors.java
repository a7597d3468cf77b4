package tickscope.storm;

import java.io.Serializable;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import tickscope.storm.Operators.Event;
import tickscope.storm.Operators.Join;
import tickscope.storm.Operators.Projected;
import tickscope.storm.Operators.Windows;
import tickscope.storm.Redis.Place;

/**
 * The operators of the Yahoo streaming benchmark with what they stand on: campaigns in Redis, and counts that go there.
 * Deliberately absent: an engine.
 */
public final class Actors {
    private static final long FLUSH_NS = 1_000_000_000;

    private Actors() {}

    /** An event of a campaign. */
    public record Joined(long id, String campaign, long timeMs) implements Serializable {}

    /** Lines to events; at the end, how many there were. */
    public static Actor.Making deserialise(Place redis) {
        return () -> new Deserialise(redis.redis());
    }

    /** Views alone. */
    public static Actor.Making filter() {
        return () -> Actor.of(Event.class, Event::id, event -> event.isView() ? event : null);
    }

    /** What of a view the join looks at. */
    public static Actor.Making project() {
        return () -> Actor.of(Event.class, Event::id, Event::projected);
    }

    /** The campaign of an ad. */
    public static Actor.Making join(Place redis) {
        return () -> {
            Redis connection = redis.redis();
            Join join = new Join(ad -> connection.ask("GET", ad));
            return Actor.of(Projected.class, Projected::id, event -> {
                String campaign = join.campaign(event);
                return campaign == null ? null : new Joined(event.id(), campaign, event.timeMs());
            });
        };
    }

    /**
     * Views by campaign and window, added to Redis once a second and at the end, which it says there and here; {@code stored}
     * hears of each view once Redis has it.
     */
    public static Actor.Making count(Place redis, Hearing stored, Ending ending) {
        return () -> new Count(redis.redis(), stored.get(), ending);
    }

    /** Makes who hears of ids, where it runs. */
    public interface Hearing extends Supplier<LongConsumer>, Serializable {}

    /** Who hears of them and does nothing. */
    public static final Hearing NOBODY = () -> id -> {};

    /** Is called once the stream has ended and all is counted. */
    public interface Ending extends Runnable, Serializable {}

    private static final class Deserialise implements Actor {
        private final Redis redis;
        private long events;

        Deserialise(Redis redis) {
            this.redis = redis;
        }

        @Override
        public long id(Object tuple) {
            return Lines.idOf((byte[]) tuple);
        }

        @Override
        public Object of(Object tuple) {
            events++;
            return Operators.deserialise((byte[]) tuple);
        }

        @Override
        public void end() {
            redis.ask("INCRBY", "events", Long.toString(events));
        }
    }

    private static final class Count implements Actor {
        private final Redis redis;
        private final LongConsumer stored;
        private final Ending ending;
        private final Windows windows = new Windows();
        private long flushed = System.nanoTime();

        Count(Redis redis, LongConsumer stored, Ending ending) {
            this.redis = redis;
            this.stored = stored;
            this.ending = ending;
        }

        @Override
        public long id(Object tuple) {
            return ((Joined) tuple).id();
        }

        @Override
        public Object of(Object tuple) {
            Joined event = (Joined) tuple;
            windows.count(event.id(), event.campaign(), event.timeMs());
            if (System.nanoTime() - flushed > FLUSH_NS) {
                flush();
            }
            return null;
        }

        private void flush() {
            windows.flush(
                    (campaign, window, views) ->
                            redis.ask("HINCRBY", campaign, Long.toString(window), Long.toString(views)),
                    stored);
            flushed = System.nanoTime();
        }

        @Override
        public void end() {
            flush();
            redis.ask("SET", "last_ns", Long.toString(System.nanoTime()));
            redis.ask("SET", "done", redis.ask("GET", "events"));
            ending.run();
        }
    }
}
