package tickscope.flink;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.storm.Lines;
import tickscope.storm.Redis.Place;

/**
 * Lines of a TCP connection, read where the one tuple of the source before it arrives, until the connection ends. What the next
 * operator has no room for stays in the socket.
 */
final class LineSource extends AbstractStreamOperator<byte[]> implements OneInputStreamOperator<Long, byte[]> {
    private static final long serialVersionUID = 1;
    private static final Point RECEIVED = Point.of("received", Ordering.AFTER);
    private static final Point EMITTED = Point.of("emitted", Ordering.BEFORE);

    private final String host;
    private final int port;
    private final Place redis;

    LineSource(String host, int port, Place redis) {
        this.host = host;
        this.port = port;
        this.redis = redis;
    }

    @Override
    public void processElement(StreamRecord<Long> one) throws Exception {
        Lines.read(host, port, redis, line -> {
            long id = Lines.idOf(line);
            RECEIVED.stamp(id);
            EMITTED.stamp(id);
            output.collect(new StreamRecord<>(line));
        });
    }
}
