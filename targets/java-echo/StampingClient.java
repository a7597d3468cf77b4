import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.Tickscope;

/**
 * A client of {@code udp-echo server} that stamps before each send and after each response. At its end it prints what
 * it counted, and what its stamps were read from, as a line of JSON.
 *
 * <pre>java -cp tickscope.jar StampingClient.java ADDRESS PORT RATE_HZ SECONDS</pre>
 */
public final class StampingClient {
    private static final long MAGIC = 0x304f484345535054L; // "TPSECHO0", as in udp-echo.c
    private static final int BYTES = 64;
    private static final Point SEND = Point.of("send", Ordering.BEFORE);
    private static final Point RESPONSE = Point.of("response", Ordering.AFTER);

    public static void main(String[] words) throws Exception {
        if (words.length != 4) {
            System.err.println(
                "StampingClient: expected ADDRESS PORT RATE_HZ SECONDS, found " + words.length + " words");
            System.exit(2);
        }
        double rateHz = Double.parseDouble(words[2]);
        long requests = (long) (rateHz * Double.parseDouble(words[3]));
        long received = 0;
        try (DatagramSocket socket = new DatagramSocket()) {
            socket.connect(InetAddress.getByName(words[0]), Integer.parseInt(words[1]));
            socket.setSoTimeout(100);
            ByteBuffer fields = ByteBuffer.allocate(BYTES).order(ByteOrder.LITTLE_ENDIAN);
            DatagramPacket packet = new DatagramPacket(fields.array(), BYTES);
            long start = System.nanoTime();
            for (long id = 0; id < requests; id++) {
                long due = start + (long) (id * 1e9 / rateHz);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
                }
                fields.putLong(0, MAGIC).putLong(8, 0).putLong(16, id);
                SEND.stamp(id);
                socket.send(packet);
                received += isAnswered(socket, packet, fields) ? 1 : 0;
            }
            while (received < requests && isAnswered(socket, packet, fields)) {
                received++; // late ones
            }
        }
        String counts = "{\"role\": \"java client\", \"sent\": %d, \"received\": %d, \"counter\": \"%s\"}%n";
        System.out.printf(counts, requests, received, Tickscope.counter());
    }

    /** Takes a response, whosever it is; one that does not come in time has no stamp, so it counts as missing. */
    private static boolean isAnswered(DatagramSocket socket, DatagramPacket packet, ByteBuffer fields)
        throws java.io.IOException {
        try {
            socket.receive(packet);
        } catch (SocketTimeoutException lost) {
            return false;
        }
        RESPONSE.stamp(fields.getLong(16));
        return true;
    }
}
