package tickscope.kafka;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A topic of Kafka, all its partitions from their beginnings on, read by Kafka's own consumer; asking for it makes it.
 *
 * <p>The consumer would wait for ever for a broker that has gone, so one that sends nothing is asked whether it is there.
 * Deliberately absent: a group of consumers, and offsets that a broker keeps.
 */
public final class Topic implements AutoCloseable {
    /** Without a record for so long, the broker is asked. */
    private static final Duration QUIET = Duration.ofSeconds(1);
    /** The longest that its answer may take. */
    private static final Duration PATIENCE = Duration.ofSeconds(5);
    private static final long LOOK_MS = 100;

    private final String broker;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final List<TopicPartition> partitions;

    /** The topic of that name, once it is there; {@code broker} is HOST:PORT. */
    public Topic(String broker, String name) throws InterruptedException {
        this.broker = broker;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", broker);
        settings.put("fetch.min.bytes", "1");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        consumer = new KafkaConsumer<>(settings, bytes, bytes);
        try {
            partitions = partitions(name);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            partitions.forEach(consumer::position);
        } catch (InterruptedException | RuntimeException e) {
            consumer.close();
            throw e;
        }
    }

    private List<TopicPartition> partitions(String name) throws InterruptedException {
        while (true) {
            List<TopicPartition> found = consumer.partitionsFor(name, Duration.ofMinutes(1)).stream()
                    .map(partition -> new TopicPartition(partition.topic(), partition.partition()))
                    .toList();
            if (!found.isEmpty()) {
                return found;
            }
            Thread.sleep(LOOK_MS); // it is being made
        }
    }

    /** Takes the value of a record. */
    public interface Taker {
        /** The next. */
        void take(byte[] value) throws Exception;
    }

    /**
     * Gives the values of records to {@code taker} until there were so many, or more, where they came together.
     *
     * @throws IOException if the broker has gone, with how many were read
     */
    public void read(long wanted, Taker taker) throws Exception {
        for (long read = 0; read < wanted; ) {
            ConsumerRecords<byte[], byte[]> found = consumer.poll(QUIET);
            for (ConsumerRecord<byte[], byte[]> record : found) {
                taker.take(record.value());
                read++;
            }
            if (found.isEmpty() && !isThere()) {
                throw new IOException("the broker at " + broker + " does not answer any more: expected " + wanted
                        + " records, found " + read + ". See what ended it");
            }
        }
    }

    private boolean isThere() {
        try {
            consumer.endOffsets(partitions, PATIENCE);
            return true;
        } catch (TimeoutException e) {
            return false;
        }
    }

    @Override
    public void close() {
        consumer.close();
    }
}
