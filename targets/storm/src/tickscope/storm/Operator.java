package tickscope.storm;

import java.io.Serializable;
import java.util.Map;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import tickscope.Ordering;
import tickscope.Point;

/**
 * One operator as a bolt: a stamp before it computes and one after, and what it gives is emitted. Where the stream ends
 * it is told so, and tells the next.
 */
final class Operator extends BaseBasicBolt {
    private static final long serialVersionUID = 1;

    private final String name;
    private final Making making;
    private transient Point in;
    private transient Point out;
    private transient Compute compute;

    Operator(String name, Making making) {
        this.name = name;
        this.making = making;
    }

    /** Makes the operator where it runs. */
    interface Making extends Supplier<Compute>, Serializable {}

    /** What it computes. */
    interface Compute {
        /** The id of a tuple. */
        long id(Object tuple);

        /** What follows of it; null: nothing. */
        Object of(Object tuple);

        /** The stream has ended. */
        default void end() {}
    }

    /** An operator whose tuples are of one class. */
    static <T> Compute of(Class<T> type, ToLongFunction<T> id, java.util.function.Function<T, Object> of) {
        return new Compute() {
            @Override
            public long id(Object tuple) {
                return id.applyAsLong(type.cast(tuple));
            }

            @Override
            public Object of(Object tuple) {
                return of.apply(type.cast(tuple));
            }
        };
    }

    @Override
    public void prepare(Map<String, Object> settings, TopologyContext context) {
        in = Point.of(name + "-in", Ordering.BEFORE);
        out = Point.of(name + "-out", Ordering.AFTER);
        compute = making.get();
    }

    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
        if (tuple.getBoolean(1)) {
            compute.end();
            collector.emit(new Values(null, true));
            return;
        }
        Object value = tuple.getValue(0);
        long id = compute.id(value);
        in.stamp(id);
        Object next = compute.of(value);
        out.stamp(id);
        if (next != null) {
            collector.emit(new Values(next, false));
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("tuple", "end"));
    }
}
