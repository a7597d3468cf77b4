package tickscope.kafka;

import tickscope.Ordering;
import tickscope.Point;

/**
 * Reads a topic of Kafka until it has as many records as are wanted: {@code Consumer BROKER TOPIC COUNT}. Each record begins with
 * its id, 64 bits with the lowest byte first. Prints {@code ready} once it reads; ends with 1 where the broker has gone.
 */
public final class Consumer {
    private static final Point RECEIVED = Point.of("received", Ordering.AFTER);

    private Consumer() {}

    public static void main(String[] words) throws Exception {
        if (words.length != 3) {
            System.err.println("usage: Consumer BROKER TOPIC COUNT");
            System.exit(2);
        }
        try (Topic topic = new Topic(words[0], words[1])) {
            System.out.println("ready");
            topic.read(Long.parseLong(words[2]), tuple -> RECEIVED.stamp(idOf(tuple)));
        }
    }

    private static long idOf(byte[] tuple) {
        long id = 0;
        for (int at = 7; at >= 0; at--) {
            id = id << 8 | tuple[at] & 0xff;
        }
        return id;
    }
}
