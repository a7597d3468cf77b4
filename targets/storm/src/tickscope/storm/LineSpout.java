package tickscope.storm;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.storm.YahooBenchmark.Place;

/**
 * Lines of a TCP connection as tuples; once it has ended, {@link #END} as the last. What finds no room in its queue
 * stays in the socket, so that a sender is held up and nothing is lost.
 */
final class LineSpout extends BaseRichSpout {
    static final byte[] END = {};
    private static final long serialVersionUID = 1;
    private static final int QUEUED = 4096;
    /** Its id lies there as 19 digits. */
    private static final int ID_AT = "{\"id\": \"".length();

    private static final int ID_DIGITS = 19;
    private static final Point RECEIVED = Point.of("received", Ordering.AFTER);
    private static final Point EMITTED = Point.of("emitted", Ordering.BEFORE);

    private final String host;
    private final int port;
    private final Place redis;
    private transient BlockingQueue<byte[]> lines;
    private transient SpoutOutputCollector collector;

    LineSpout(String host, int port, Place redis) {
        this.host = host;
        this.port = port;
        this.redis = redis;
    }

    @Override
    public void open(Map<String, Object> settings, TopologyContext context, SpoutOutputCollector opened) {
        collector = opened;
        lines = new ArrayBlockingQueue<>(QUEUED);
        Thread reader = new Thread(this::read, "lines");
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try (ServerSocket server = new ServerSocket()) {
            server.setReuseAddress(true);
            server.bind(new InetSocketAddress(host, port));
            redis.redis().ask("SET", "listening", host);
            try (Socket socket = server.accept()) {
                InputStream in = new BufferedInputStream(socket.getInputStream(), 1 << 16);
                ByteArrayOutputStream line = new ByteArrayOutputStream();
                for (int letter; (letter = in.read()) >= 0; ) {
                    if (letter != '\n') {
                        line.write(letter);
                        continue;
                    }
                    byte[] whole = line.toByteArray();
                    line.reset();
                    RECEIVED.stamp(idOf(whole));
                    lines.put(whole);
                }
            }
            lines.put(END);
        } catch (IOException e) {
            YahooBenchmark.fail(redis, "cannot read lines at " + host + ":" + port + ": " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static long idOf(byte[] line) {
        long id = 0;
        for (int at = ID_AT; at < ID_AT + ID_DIGITS; at++) {
            id = 10 * id + line[at] - '0';
        }
        return id;
    }

    @Override
    public void nextTuple() {
        byte[] line = lines.poll();
        if (line == null) {
            return;
        }
        if (line.length > 0) {
            EMITTED.stamp(idOf(line));
        }
        collector.emit(new Values(line, line.length == 0));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("tuple", "end"));
    }
}
