package tickscope.storm;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A connection to Redis, as far as the benchmark needs it: a command, and its answer as text. */
public final class Redis {
    /** Where it is. */
    public record Place(String host, int port) implements Serializable {
        /** A connection to it. */
        public Redis redis() {
            return new Redis(host, port);
        }

        /** Says there that a JVM of the engine is here, until it ends: the recount misses one that has gone. */
        public void attend() {
            synchronized (ATTENDED) {
                if (ATTENDED.isEmpty()) {
                    ATTENDED.add(redis());
                    ATTENDED.get(0).ask("CLIENT", "SETNAME", "engine");
                }
            }
        }
    }

    /** This JVM's connection that says that it is here, once it does. */
    private static final List<Redis> ATTENDED = new ArrayList<>();

    private final InputStream in;
    private final OutputStream out;

    Redis(String host, int port) {
        try {
            @SuppressWarnings("resource") // it lives as long as the process
            Socket socket = new Socket(host, port);
            socket.setTcpNoDelay(true);
            in = new BufferedInputStream(socket.getInputStream());
            out = socket.getOutputStream();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot connect to Redis at " + host + ":" + port, e);
        }
    }

    /** The answer to a command; null: there is nothing under that key. */
    public String ask(String... words) {
        StringBuilder command = new StringBuilder("*" + words.length + "\r\n");
        for (String word : words) {
            command.append('$').append(word.getBytes(UTF_8).length).append("\r\n").append(word).append("\r\n");
        }
        try {
            out.write(command.toString().getBytes(UTF_8));
            return answer();
        } catch (IOException e) {
            throw new UncheckedIOException("Redis has gone: " + String.join(" ", words), e);
        }
    }

    /** Says that a part of the stream begins; false: it had begun before, where it has ended since. */
    boolean isFirst(String part) {
        return ask("INCR", begun(part)).equals("1");
    }

    /** The key under which it is how often that part has begun. */
    static String begun(String part) {
        return "begun " + part;
    }

    private String answer() throws IOException {
        String line = line();
        switch (line.charAt(0)) {
            case '+', ':':
                return line.substring(1);
            case '$':
                int length = Integer.parseInt(line.substring(1));
                return length < 0 ? null : new String(in.readNBytes(length + 2), 0, length, UTF_8);
            default:
                throw new IOException("expected an answer of Redis, found '" + line + "'");
        }
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int letter; (letter = in.read()) != '\n'; ) {
            if (letter < 0) {
                throw new IOException("the connection ended");
            }
            line.append((char) letter);
        }
        return line.toString().strip();
    }
}
