package tickscope.kafka;

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import tickscope.Ordering;
import tickscope.Point;

/**
 * Reads a topic of Kafka until it has as many records as are wanted: {@code Consumer BROKER TOPIC COUNT}. Each record begins with
 * its id, 64 bits with the lowest byte first. Prints {@code ready} once it reads.
 */
public final class Consumer {
    private static final Point RECEIVED = Point.of("received", Ordering.AFTER);

    private Consumer() {}

    public static void main(String[] words) throws InterruptedException {
        if (words.length != 3) {
            System.err.println("usage: Consumer BROKER TOPIC COUNT");
            System.exit(2);
        }
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("fetch.min.bytes", "1");
        long wanted = Long.parseLong(words[2]);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            List<TopicPartition> partitions = partitions(consumer, words[1]);
            while (partitions.isEmpty()) { // asking makes it
                Thread.sleep(100);
                partitions = partitions(consumer, words[1]);
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            partitions.forEach(consumer::position);
            System.out.println("ready");
            for (long received = 0; received < wanted; ) {
                for (ConsumerRecord<byte[], byte[]> found : consumer.poll(Duration.ofMillis(100))) {
                    RECEIVED.stamp(idOf(found.value()));
                    received++;
                }
            }
        }
    }

    private static List<TopicPartition> partitions(KafkaConsumer<?, ?> consumer, String topic) {
        return consumer.partitionsFor(topic, Duration.ofMinutes(1)).stream()
                .map(found -> new TopicPartition(found.topic(), found.partition()))
                .toList();
    }

    private static long idOf(byte[] tuple) {
        long id = 0;
        for (int at = 7; at >= 0; at--) {
            id = id << 8 | tuple[at] & 0xff;
        }
        return id;
    }
}
