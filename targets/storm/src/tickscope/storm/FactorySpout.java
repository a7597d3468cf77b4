package tickscope.storm;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.storm.Operators.Event;
import tickscope.storm.Redis.Place;

/**
 * Events out of an {@link ObjectFactory}: each thread of it reads the lines of a connection and deserialises them, and
 * the spout emits what is finished. Once every connection has ended and all was emitted, the end as the last.
 */
final class FactorySpout extends BaseRichSpout {
    private static final long serialVersionUID = 1;
    private static final int BUCKET = 256;
    private static final Point RECEIVED = Point.of("received", Ordering.AFTER);
    private static final Point IN = Point.of("deserialise-in", Ordering.BEFORE);
    private static final Point OUT = Point.of("deserialise-out", Ordering.AFTER);
    private static final Point EMITTED = Point.of("emitted", Ordering.BEFORE);

    private final String host;
    private final int port;
    private final int threads;
    private final Place redis;
    private transient volatile ObjectFactory<Event> factory;
    private transient SpoutOutputCollector collector;
    private transient boolean told;
    private transient long events;

    FactorySpout(String host, int port, int threads, Place redis) {
        this.host = host;
        this.port = port;
        this.redis = redis;
        this.threads = threads;
    }

    @Override
    public void open(Map<String, Object> settings, TopologyContext context, SpoutOutputCollector opened) {
        YahooBenchmark.begin(redis, YahooBenchmark.SPOUT);
        collector = opened;
        Thread accepts = new Thread(this::accept, "connections");
        accepts.setDaemon(true);
        accepts.start();
    }

    /** Waits for as many connections as there are threads. */
    private void accept() {
        try (ServerSocket server = Lines.listen(host, port, redis)) {
            List<ObjectFactory.Source<Event>> lines = new ArrayList<>();
            while (lines.size() < threads) {
                lines.add(new Events(server.accept()));
            }
            redis.redis().ask("SET", "first_ns", Long.toString(System.nanoTime()));
            factory = new ObjectFactory<>(lines, BUCKET);
        } catch (IOException e) {
            YahooBenchmark.fail(redis, "cannot read lines at " + host + ":" + port + ": " + e);
        }
    }

    /** Events of a connection's lines. */
    private static final class Events implements ObjectFactory.Source<Event> {
        private final InputStream in;
        private final ByteArrayOutputStream line = new ByteArrayOutputStream();

        Events(Socket socket) throws IOException {
            in = new BufferedInputStream(socket.getInputStream(), 1 << 16);
        }

        @Override
        public boolean waits() throws IOException {
            return in.available() == 0;
        }

        @Override
        public Event next() throws IOException {
            byte[] whole = Lines.next(in, line);
            if (whole == null) {
                return null;
            }
            long id = Lines.idOf(whole);
            RECEIVED.stamp(id);
            IN.stamp(id);
            Event event = Operators.deserialise(whole);
            OUT.stamp(id);
            return event;
        }
    }

    @Override
    public void nextTuple() {
        ObjectFactory<Event> made = factory;
        if (made == null || told) {
            return;
        }
        List<Event> bucket;
        try {
            bucket = made.poll();
        } catch (IllegalStateException e) {
            YahooBenchmark.fail(redis, "cannot read lines at " + host + ":" + port + ": " + e.getMessage());
            told = true;
            return;
        }
        if (bucket != null) {
            for (Event event : bucket) {
                events++;
                EMITTED.stamp(event.id());
                collector.emit(new Values(event, false));
            }
        } else if (made.hasEnded()) {
            told = true;
            redis.redis().ask("INCRBY", "events", Long.toString(events));
            collector.emit(new Values(null, true));
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("tuple", "end"));
    }
}
