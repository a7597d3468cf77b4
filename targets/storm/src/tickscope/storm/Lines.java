package tickscope.storm;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import tickscope.storm.Redis.Place;

/** Lines, each an event with its id as 19 digits in front, and those of a TCP connection. */
public final class Lines {
    private static final int ID_AT = "{\"id\": \"".length();
    private static final int ID_DIGITS = 19;

    private Lines() {}

    /** Takes a line. */
    public interface Taker {
        /** The next. */
        void take(byte[] line) throws Exception;
    }

    /** Where lines come from. */
    interface Source extends Serializable {
        /** Gives them to {@code taker}, and returns at their end; {@code first_ns} in Redis is when the first was there. */
        void read(Place redis, Taker taker) throws Exception;
    }

    /** Those of one connection to that port. */
    record Connection(String host, int port) implements Source {
        @Override
        public void read(Place redis, Taker taker) throws Exception {
            Lines.read(host, port, redis, taker);
        }

        @Override
        public String toString() {
            return host + ":" + port;
        }
    }

    /** The id in a line. */
    public static long idOf(byte[] line) {
        long id = 0;
        for (int at = ID_AT; at < ID_AT + ID_DIGITS; at++) {
            id = 10 * id + line[at] - '0';
        }
        return id;
    }

    /** A socket that listens there; {@code listening} in Redis says so. */
    @SuppressWarnings("resource") // it is the caller's
    static ServerSocket listen(String host, int port, Place redis) throws IOException {
        ServerSocket server = new ServerSocket();
        server.setReuseAddress(true);
        server.bind(new InetSocketAddress(host, port));
        redis.redis().ask("SET", "listening", host);
        return server;
    }

    /** Gives the lines of one connection to {@code taker}, and returns at its end. */
    public static void read(String host, int port, Place redis, Taker taker) throws Exception {
        try (ServerSocket server = listen(host, port, redis); Socket socket = server.accept()) {
            InputStream in = new BufferedInputStream(socket.getInputStream(), 1 << 16);
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            byte[] next = next(in, line);
            redis.redis().ask("SET", "first_ns", Long.toString(System.nanoTime()));
            for (; next != null; next = next(in, line)) {
                taker.take(next);
            }
        }
    }

    /** The next line, without its end; null: there is none. */
    static byte[] next(InputStream in, ByteArrayOutputStream line) throws IOException {
        line.reset();
        for (int letter; (letter = in.read()) != '\n'; line.write(letter)) {
            if (letter < 0) {
                if (line.size() > 0) {
                    throw new IOException("expected whole lines, found one that ends after " + line.size() + " bytes");
                }
                return null;
            }
        }
        return line.toByteArray();
    }
}
