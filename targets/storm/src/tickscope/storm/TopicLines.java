package tickscope.storm;

import tickscope.kafka.Topic;
import tickscope.storm.Redis.Place;

/** Lines that are records of a topic of Kafka, so many; {@code ready} is printed once it is read from its beginning on. */
record TopicLines(String broker, String topic, long count) implements Lines.Source {
    @Override
    public void read(Place redis, Lines.Taker taker) throws Exception {
        try (Topic records = new Topic(broker, topic)) {
            System.out.println("ready");
            boolean[] begun = {false};
            records.read(count, line -> {
                if (!begun[0]) {
                    begun[0] = true;
                    redis.redis().ask("SET", "first_ns", Long.toString(System.nanoTime()));
                }
                taker.take(line);
            });
        }
    }

    @Override
    public String toString() {
        return topic + " of Kafka at " + broker;
    }
}
