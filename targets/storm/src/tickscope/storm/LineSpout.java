package tickscope.storm;

import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.function.LongConsumer;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;
import tickscope.Ordering;
import tickscope.storm.Redis.Place;

/**
 * Lines of a source as tuples; once it has ended, {@link #END} as the last. What finds no room in its queue stays where
 * the source has it, so that nothing is lost.
 */
final class LineSpout extends BaseRichSpout {
    static final byte[] END = {};
    private static final long serialVersionUID = 1;
    private static final int QUEUED = 4096;
    private static final LongConsumer RECEIVED = Mark.of("received", Ordering.AFTER);
    private static final LongConsumer EMITTED = Mark.of("emitted", Ordering.BEFORE);

    private final Lines.Source source;
    private final Place redis;
    private transient BlockingQueue<byte[]> lines;
    private transient SpoutOutputCollector collector;

    LineSpout(Lines.Source source, Place redis) {
        this.source = source;
        this.redis = redis;
    }

    @Override
    public void open(Map<String, Object> settings, TopologyContext context, SpoutOutputCollector opened) {
        YahooBenchmark.begin(redis, YahooBenchmark.SPOUT);
        collector = opened;
        lines = new ArrayBlockingQueue<>(QUEUED);
        Thread reader = new Thread(this::read, "lines");
        reader.setDaemon(true);
        reader.start();
    }

    private void read() {
        try {
            source.read(redis, line -> {
                RECEIVED.accept(Lines.idOf(line));
                lines.put(line);
            });
            lines.put(END);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (Exception e) {
            YahooBenchmark.fail(redis, "cannot read lines at " + source + ": " + e);
        }
    }

    @Override
    public void nextTuple() {
        byte[] line = lines.poll();
        if (line == null) {
            return;
        }
        if (line.length > 0) {
            EMITTED.accept(Lines.idOf(line));
        }
        collector.emit(new Values(line, line.length == 0));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("tuple", "end"));
    }
}
