package tickscope.storm;

import java.io.Serializable;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.TopologyBuilder;
import tickscope.storm.Operators.Event;
import tickscope.storm.Operators.Join;
import tickscope.storm.Operators.Projected;
import tickscope.storm.Operators.Windows;

/**
 * The Yahoo streaming benchmark on Storm in local mode: {@code YahooBenchmark ADDRESS PORT REDIS-HOST REDIS-PORT
 * [THREADS]}. With THREADS an object factory of so many deserialises, each for a connection of its own, in place of the
 * first operator.
 *
 * <p>Reads events at that port, a line of JSON each, and counts views by campaign and window into Redis, which knows
 * the campaign of each ad. Ends once the connection did and all of it was counted: sets {@code done} in Redis, and prints a
 * line of JSON.
 */
public final class YahooBenchmark {
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static final long FLUSH_NS = 1_000_000_000;
    private static volatile String failure;

    private YahooBenchmark() {}

    /** Ends the benchmark: whoever waits for it at Redis is told why. */
    static void fail(Place redis, String why) {
        System.err.println(why);
        failure = why;
        DONE.countDown();
        redis.redis().ask("SET", "failed", why);
    }

    /** An event of a campaign. */
    private record Joined(long id, String campaign, long timeMs) implements Serializable {}

    /** Where Redis is. */
    record Place(String host, int port) implements Serializable {
        Redis redis() {
            return new Redis(host, port);
        }
    }

    /** Runs it to its end. */
    public static void main(String[] words) throws Exception {
        if (words.length != 4 && words.length != 5) {
            System.err.println("expected ADDRESS PORT REDIS-HOST REDIS-PORT [THREADS], found " + words.length + " words");
            System.exit(2);
        }
        Place redis = new Place(words[2], Integer.parseInt(words[3]));
        redis.redis().ask("PING");
        int threads = words.length < 5 ? 0 : Integer.parseInt(words[4]);
        StormTopology topology = topology(words[0], Integer.parseInt(words[1]), threads, redis);
        try (LocalCluster cluster = new LocalCluster()) {
            cluster.submitTopology("ysb", config(), topology);
            DONE.await();
            cluster.killTopology("ysb");
        }
        if (failure != null) {
            System.exit(1);
        }
        System.out.println("{\"engine\": \"storm\", \"events\": " + redis.redis().ask("GET", "events") + "}");
        System.exit(0);
    }

    static Config config() {
        Config config = new Config();
        config.setNumAckers(0);
        config.setDebug(false);
        config.setFallBackOnJavaSerialization(true);
        config.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, 1);
        return config;
    }

    /** Names of its operators, in their order. */
    static final List<String> OPERATORS = List.of("lines", "deserialise", "filter", "project", "join", "count");

    static StormTopology topology(String host, int port, int threads, Place redis) {
        TopologyBuilder topology = new TopologyBuilder();
        if (threads > 0) {
            topology.setSpout("deserialise", new FactorySpout(host, port, threads, redis), 1);
        } else {
            topology.setSpout("lines", new LineSpout(host, port, redis), 1);
            operator(topology, "deserialise", "lines", () -> new Deserialise(redis.redis()));
        }
        operator(topology, "filter", "deserialise",
                () -> Operator.of(Event.class, Event::id, event -> event.isView() ? event : null));
        operator(topology, "project", "filter", () -> Operator.of(Event.class, Event::id, Event::projected));
        operator(topology, "join", "project", () -> {
            Redis connection = redis.redis();
            Join join = new Join(ad -> connection.ask("GET", ad));
            return Operator.of(Projected.class, Projected::id, event -> {
                String campaign = join.campaign(event);
                return campaign == null ? null : new Joined(event.id(), campaign, event.timeMs());
            });
        });
        operator(topology, "count", "join", () -> new Count(redis.redis()));
        return topology.createTopology();
    }

    private static void operator(TopologyBuilder topology, String name, String after, Operator.Making making) {
        topology.setBolt(name, new Operator(name, making), 1).shuffleGrouping(after);
    }

    /** The first operator, which says at the end how many events there were. */
    private static final class Deserialise implements Operator.Compute {
        private final Redis redis;
        private long events;

        Deserialise(Redis redis) {
            this.redis = redis;
        }

        @Override
        public long id(Object tuple) {
            return LineSpout.idOf((byte[]) tuple);
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

    /** The last operator: counts, and adds what it counted to Redis once a second and at the end. */
    private static final class Count implements Operator.Compute {
        private final Redis redis;
        private final Windows windows = new Windows();
        private long flushed = System.nanoTime();

        Count(Redis redis) {
            this.redis = redis;
        }

        @Override
        public long id(Object tuple) {
            return ((Joined) tuple).id();
        }

        @Override
        public Object of(Object tuple) {
            Joined event = (Joined) tuple;
            windows.count(event.campaign(), event.timeMs());
            if (System.nanoTime() - flushed > FLUSH_NS) {
                flush();
            }
            return null;
        }

        private void flush() {
            windows.flush((campaign, window, views) ->
                    redis.ask("HINCRBY", campaign, Long.toString(window), Long.toString(views)));
            flushed = System.nanoTime();
        }

        @Override
        public void end() {
            flush();
            redis.ask("SET", "done", redis.ask("GET", "events"));
            DONE.countDown();
        }
    }
}
