package tickscope.storm;

import java.io.Serializable;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToLongFunction;

/** What one operator of a stream computes, whatever engine runs it; an engine's operator stamps before and after. */
public interface Actor {
    /** The id of a tuple. */
    long id(Object tuple);

    /** What follows of it; null: nothing. */
    Object of(Object tuple);

    /** The stream has ended. */
    default void end() {}

    /** Makes an actor where it runs. */
    interface Making extends Supplier<Actor>, Serializable {}

    /** An actor whose tuples are of one class, and which keeps nothing. */
    static <T> Actor of(Class<T> type, ToLongFunction<T> id, Function<T, Object> of) {
        return new Actor() {
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
}
