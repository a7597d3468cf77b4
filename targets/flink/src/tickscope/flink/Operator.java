package tickscope.flink;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.storm.Actor;

/** One actor as an operator: a stamp before it computes and one after, and what it gives goes on to the next. */
final class Operator<I, O> extends AbstractStreamOperator<O> implements OneInputStreamOperator<I, O> {
    private static final long serialVersionUID = 1;

    private final String name;
    private final Class<O> gives;
    private final Actor.Making making;
    private transient Point in;
    private transient Point out;
    private transient Actor actor;

    Operator(String name, Class<O> gives, Actor.Making making) {
        this.name = name;
        this.gives = gives;
        this.making = making;
    }

    @Override
    public void open() throws Exception {
        super.open();
        in = Point.of(name + "-in", Ordering.BEFORE);
        out = Point.of(name + "-out", Ordering.AFTER);
        actor = making.get();
    }

    @Override
    public void processElement(StreamRecord<I> tuple) {
        I value = tuple.getValue();
        long id = actor.id(value);
        in.stamp(id);
        Object next = actor.of(value);
        out.stamp(id);
        if (next != null) {
            output.collect(new StreamRecord<>(gives.cast(next)));
        }
    }

    /** The stream has ended, and did not fail. */
    @Override
    public void finish() throws Exception {
        actor.end();
        super.finish();
    }
}
