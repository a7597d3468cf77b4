import java.io.PrintWriter;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;

/**
 * A client of {@code udp-echo server} with nothing of tickscope in it: it only logs {@code System.nanoTime()}, before each
 * send and after each response, as lines {@code id,ns}. On Linux that clock is CLOCK_MONOTONIC.
 *
 * <pre>java EchoClient.java ADDRESS PORT SENT.csv RESPONSES.csv RATE_HZ SECONDS</pre>
 */
public final class EchoClient {
    private static final long MAGIC = 0x304f484345535054L; // "TPSECHO0", as in udp-echo.c
    private static final int BYTES = 64;

    public static void main(String[] words) throws Exception {
        if (words.length != 6) {
            System.err.println("EchoClient: expected ADDRESS PORT SENT.csv RESPONSES.csv RATE_HZ SECONDS, found "
                + words.length + " words");
            System.exit(2);
        }
        double rateHz = Double.parseDouble(words[4]);
        double seconds = Double.parseDouble(words[5]);
        long requests = (long) (rateHz * seconds);
        long received = 0;
        try (DatagramSocket socket = new DatagramSocket();
             PrintWriter sent = new PrintWriter(Path.of(words[2]).toFile());
             PrintWriter responses = new PrintWriter(Path.of(words[3]).toFile())) {
            socket.connect(InetAddress.getByName(words[0]), Integer.parseInt(words[1]));
            socket.setSoTimeout(100);
            sent.println("id,ns");
            responses.println("id,ns");
            byte[] bytes = new byte[BYTES];
            ByteBuffer fields = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            long start = System.nanoTime();
            for (long id = 0; id < requests; id++) {
                long due = start + (long) (id * 1e9 / rateHz);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
                }
                fields.putLong(0, MAGIC).putLong(8, 0).putLong(16, id);
                long before = System.nanoTime();
                socket.send(new DatagramPacket(bytes, BYTES));
                sent.println(id + "," + before);
                try {
                    DatagramPacket answer = new DatagramPacket(bytes, BYTES);
                    socket.receive(answer);
                    long after = System.nanoTime();
                    responses.println(fields.getLong(16) + "," + after);
                    received++;
                } catch (SocketTimeoutException lost) {
                    continue; // it has no line, so it counts as missing
                }
            }
        }
        System.out.println("{\"role\": \"java client\", \"sent\": " + requests + ", \"received\": " + received + "}");
    }
}
