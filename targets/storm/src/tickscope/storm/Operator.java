package tickscope.storm;

import java.util.Map;
import java.util.function.LongConsumer;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import tickscope.Ordering;
import tickscope.storm.Redis.Place;

/**
 * One operator as a bolt: a stamp before it computes and one after, and what it gives is emitted. Where the stream ends
 * it is told so, and tells the next.
 */
final class Operator extends BaseBasicBolt {
    private static final long serialVersionUID = 1;

    private final Place redis;
    private final String name;
    private final Actor.Making making;
    private transient LongConsumer in;
    private transient LongConsumer out;
    private transient Actor actor;

    Operator(Place redis, String name, Actor.Making making) {
        this.redis = redis;
        this.name = name;
        this.making = making;
    }

    @Override
    public void prepare(Map<String, Object> settings, TopologyContext context) {
        in = Mark.of(name + "-in", Ordering.BEFORE);
        out = Mark.of(name + "-out", Ordering.AFTER);
        actor = making.get();
        YahooBenchmark.begin(redis, name);
    }

    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
        if (tuple.getBoolean(1)) {
            actor.end();
            collector.emit(new Values(null, true));
            return;
        }
        Object value = tuple.getValue(0);
        long id = actor.id(value);
        in.accept(id);
        Object next = actor.of(value);
        out.accept(id);
        if (next != null) {
            collector.emit(new Values(next, false));
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("tuple", "end"));
    }
}
