package tickscope.flink;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import tickscope.storm.Actor;
import tickscope.storm.Actors;
import tickscope.storm.Operators.Event;
import tickscope.storm.Operators.Projected;
import tickscope.storm.Redis.Place;

/**
 * The Yahoo streaming benchmark on Flink's local cluster: {@code YahooBenchmark ADDRESS PORT REDIS-HOST REDIS-PORT}. The
 * actors are those that run on Storm, one task each and none chained, and no tuple waits for a buffer to be full.
 *
 * <p>Ends once the connection did and all of it was counted: {@code done} is set in Redis then, and a line of JSON printed.
 */
public final class YahooBenchmark {
    private static final String LOOPBACK = "127.0.0.1";

    private YahooBenchmark() {}

    /** Runs it to its end. */
    public static void main(String[] words) throws Exception {
        if (words.length != 4) {
            System.err.println("expected ADDRESS PORT REDIS-HOST REDIS-PORT, found " + words.length + " words");
            System.exit(2);
        }
        Place redis = new Place(words[2], Integer.parseInt(words[3]));
        redis.attend();
        Configuration settings = new Configuration();
        settings.set(TaskManagerOptions.NUM_TASK_SLOTS, 1);
        // Its local cluster would listen everywhere.
        settings.set(JobManagerOptions.BIND_HOST, LOOPBACK);
        settings.set(TaskManagerOptions.BIND_HOST, LOOPBACK);
        settings.set(TaskManagerOptions.HOST, LOOPBACK);
        settings.set(RestOptions.BIND_ADDRESS, LOOPBACK);
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
        flink.disableOperatorChaining();
        flink.setBufferTimeout(0);
        stream(flink, new LineSource(words[0], Integer.parseInt(words[1]), redis), redis);
        try {
            flink.execute("ysb");
        } catch (Exception e) {
            System.err.println("the stream failed: " + e);
            redis.redis().ask("SET", "failed", reason(e));
            System.exit(1);
        }
        System.out.println("{\"engine\": \"flink\", \"events\": " + redis.redis().ask("GET", "events") + "}");
        System.exit(0);
    }

    private static void stream(StreamExecutionEnvironment flink, LineSource source, Place redis) {
        // The source of one number, and whatever waits for it: the lines of one connection.
        DataStream<Long> one = flink.fromSource(new NumberSequenceSource(0, 0), WatermarkStrategy.noWatermarks(), "one");
        DataStream<byte[]> lines =
                one.transform("lines", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, source);
        DataStream<Event> events = operator(lines, "deserialise", Event.class, Actors.deserialise(redis));
        DataStream<Event> views = operator(events, "filter", Event.class, Actors.filter());
        DataStream<Projected> projected = operator(views, "project", Projected.class, Actors.project());
        DataStream<Actors.Joined> joined = operator(projected, "join", Actors.Joined.class, Actors.join(redis));
        operator(joined, "count", String.class, Actors.count(redis, Actors.NOBODY, () -> {}));
    }

    private static <I, O> DataStream<O> operator(DataStream<I> before, String name, Class<O> gives, Actor.Making making) {
        return before.transform(name, TypeInformation.of(gives), new Operator<I, O>(name, gives, making));
    }

    /** What was wrong at the bottom of it. */
    private static String reason(Throwable failure) {
        Throwable last = failure;
        while (last.getCause() != null) {
            last = last.getCause();
        }
        return last.toString();
    }
}
