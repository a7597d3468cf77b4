package tickscope.storm;

import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.topology.TopologyBuilder;
import tickscope.Ordering;
import tickscope.storm.Actors.Joined;
import tickscope.storm.Operators.Event;
import tickscope.storm.Operators.Projected;
import tickscope.storm.Redis.Place;

/**
 * The Yahoo streaming benchmark on Storm in local mode:
 *
 * <pre>
 * YahooBenchmark ADDRESS PORT REDIS-HOST REDIS-PORT [THREADS]
 * YahooBenchmark kafka BROKER TOPIC COUNT REDIS-HOST REDIS-PORT
 * </pre>
 *
 * <p>Reads events at that port, or so many of a topic of Kafka, a line of JSON each, and counts views by campaign and window
 * into Redis, which knows the campaign of each ad. With THREADS an object factory of so many deserialises, each for a
 * connection of its own, in place of the first operator. Ends once the connection did, or the last was read, and all was
 * counted: sets {@code done} in Redis, and prints a line of JSON. With Kafka a view passes {@code stored} once Redis has it.
 */
public final class YahooBenchmark {
    private static final CountDownLatch DONE = new CountDownLatch(1);
    private static volatile String failure;

    private YahooBenchmark() {}

    /** Ends the benchmark: whoever waits for it at Redis is told why. */
    static void fail(Place redis, String why) {
        System.err.println(why);
        failure = why;
        DONE.countDown();
        redis.redis().ask("SET", "failed", why);
    }

    /** Fails where a part of the stream begins a second time: Storm starts a worker again that somebody killed. */
    static void begin(Place redis, String part) {
        redis.attend();
        if (!redis.redis().isFirst(part)) {
            fail(redis, part + " began a second time: the worker that it ran in is gone, with the tuples that it had");
        }
    }

    private static void end() {
        DONE.countDown();
    }

    /** Runs it to its end. */
    public static void main(String[] words) throws Exception {
        boolean byKafka = words.length == 6 && words[0].equals("kafka");
        if (!byKafka && words.length != 4 && words.length != 5) {
            System.err.println("expected ADDRESS PORT REDIS-HOST REDIS-PORT [THREADS], or kafka BROKER TOPIC COUNT"
                    + " REDIS-HOST REDIS-PORT, found '" + String.join(" ", words) + "'");
            System.exit(2);
        }
        try {
            Mark.begin();
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            System.exit(2);
        }
        int at = byKafka ? 4 : 2;
        Place redis = new Place(words[at], Integer.parseInt(words[at + 1]));
        redis.attend();
        StormTopology topology = byKafka
                ? topology(new TopicLines(words[1], words[2], Long.parseLong(words[3])),
                        () -> Mark.of("stored", Ordering.AFTER), redis)
                : atPort(words[0], Integer.parseInt(words[1]), words.length < 5 ? 0 : Integer.parseInt(words[4]), redis);
        try (LoopbackZookeeper zookeeper = new LoopbackZookeeper();
                LocalCluster cluster = new LocalCluster(zookeeper.host(), zookeeper.port())) {
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
        config.setFallBackOnJavaSerialization(false); // which would be six times the work, and nobody told
        List.of(Event.class, Projected.class, Joined.class).forEach(config::registerSerialization);
        config.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, 1);
        return config;
    }

    static final String SPOUT = "lines";

    /** Names of its operators, in their order. */
    static final List<String> OPERATORS = List.of(SPOUT, "deserialise", "filter", "project", "join", "count");

    /** A factory of so many threads, or none, reads at that port. */
    private static StormTopology atPort(String host, int port, int threads, Place redis) {
        if (threads == 0) {
            return topology(new Lines.Connection(host, port), Actors.NOBODY, redis);
        }
        TopologyBuilder topology = new TopologyBuilder();
        topology.setSpout("deserialise", new FactorySpout(host, port, threads, redis), 1);
        return counted(topology, Actors.NOBODY, redis);
    }

    static StormTopology topology(Lines.Source source, Actors.Hearing stored, Place redis) {
        TopologyBuilder topology = new TopologyBuilder();
        topology.setSpout(SPOUT, new LineSpout(source, redis), 1);
        operator(topology, redis, "deserialise", SPOUT, Actors.deserialise(redis));
        return counted(topology, stored, redis);
    }

    private static StormTopology counted(TopologyBuilder topology, Actors.Hearing stored, Place redis) {
        operator(topology, redis, "filter", "deserialise", Actors.filter());
        operator(topology, redis, "project", "filter", Actors.project());
        operator(topology, redis, "join", "project", Actors.join(redis));
        operator(topology, redis, "count", "join", Actors.count(redis, stored, YahooBenchmark::end));
        return topology.createTopology();
    }

    private static void operator(
            TopologyBuilder topology, Place redis, String name, String after, Actor.Making making) {
        topology.setBolt(name, new Operator(redis, name, making), 1).shuffleGrouping(after);
    }
}
