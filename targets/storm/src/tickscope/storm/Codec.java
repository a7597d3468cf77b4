package tickscope.storm;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.Serializer;
import com.esotericsoftware.kryo.io.Input;
import com.esotericsoftware.kryo.io.Output;
import tickscope.storm.Operators.Raw;

/** Bytes of an event, and the event of them; one instance a thread. The form costs more than anything else does. */
interface Codec {
    /** Its bytes. */
    byte[] write(Raw event);

    /** The event that was written. */
    Raw read(byte[] bytes);

    /** That of a name: json, kryo or flat. */
    static Codec of(String name) {
        return switch (name) {
            case "json" -> new Json();
            case "kryo" -> new ByKryo();
            case "flat" -> new Flat();
            default -> throw new IllegalArgumentException("expected json, kryo or flat, found '" + name + "'");
        };
    }

    /** The benchmark's own form, some 280 bytes. */
    final class Json implements Codec {
        @Override
        public byte[] write(Raw event) {
            String text = "{\"id\": \"%019d\", \"user_id\": \"%s\", \"page_id\": \"%s\", \"ad_id\": \"%s\", \"ad_type\": \"%s\","
                    + " \"event_type\": \"%s\", \"event_time\": \"%s\", \"ip_address\": \"%s\"}";
            return text.formatted(event.id(), event.user(), event.page(), event.ad(), event.adType(), event.type(),
                    event.time(), event.ip()).getBytes(UTF_8);
        }

        @Override
        public Raw read(byte[] bytes) {
            return Operators.raw(bytes);
        }
    }

    /** Kryo's, as Storm and Spark have it: registered, without references. */
    final class ByKryo implements Codec {
        private final Kryo kryo = new Kryo();
        private final Output output = new Output(512, -1);
        private final Input input = new Input();

        ByKryo() {
            kryo.setReferences(false);
            kryo.setRegistrationRequired(true);
            kryo.register(Raw.class, new Texts());
        }

        /** The id and the texts, without reflection. */
        private static final class Texts extends Serializer<Raw> {
            @Override
            public void write(Kryo kryo, Output output, Raw event) {
                output.writeLong(event.id());
                for (int at = 0; at < Raw.TEXTS; at++) {
                    output.writeString(event.text(at));
                }
            }

            @Override
            public Raw read(Kryo kryo, Input input, Class<? extends Raw> type) {
                long id = input.readLong();
                String[] texts = new String[Raw.TEXTS];
                for (int at = 0; at < texts.length; at++) {
                    texts[at] = input.readString();
                }
                return Raw.of(id, texts);
            }
        }

        @Override
        public byte[] write(Raw event) {
            output.reset();
            kryo.writeObject(output, event);
            return output.toBytes();
        }

        @Override
        public Raw read(byte[] bytes) {
            input.setBuffer(bytes);
            return kryo.readObject(input, Raw.class);
        }
    }

    /** Written by hand: the id, then each text behind a byte of its length; texts are of Latin-1 and below 256 bytes. */
    final class Flat implements Codec {
        private static final int ID_BYTES = 8;

        @Override
        public byte[] write(Raw event) {
            byte[][] texts = new byte[Raw.TEXTS][];
            int length = ID_BYTES;
            for (int at = 0; at < texts.length; at++) {
                texts[at] = event.text(at).getBytes(ISO_8859_1);
                if (texts[at].length > 255) {
                    throw new IllegalArgumentException("expected texts below 256 bytes, found " + texts[at].length);
                }
                length += 1 + texts[at].length;
            }
            byte[] bytes = new byte[length];
            for (int at = 0; at < ID_BYTES; at++) {
                bytes[at] = (byte) (event.id() >>> 8 * at);
            }
            int to = ID_BYTES;
            for (byte[] text : texts) {
                bytes[to++] = (byte) text.length;
                System.arraycopy(text, 0, bytes, to, text.length);
                to += text.length;
            }
            return bytes;
        }

        @Override
        public Raw read(byte[] bytes) {
            long id = 0;
            for (int at = ID_BYTES - 1; at >= 0; at--) {
                id = id << 8 | bytes[at] & 0xff;
            }
            String[] texts = new String[Raw.TEXTS];
            int from = ID_BYTES;
            for (int at = 0; at < texts.length; at++) {
                int length = bytes[from++] & 0xff;
                texts[at] = new String(bytes, from, length, ISO_8859_1);
                from += length;
            }
            return Raw.of(id, texts);
        }
    }
}
