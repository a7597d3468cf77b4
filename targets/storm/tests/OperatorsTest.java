import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.ArrayList;
import java.util.List;
import tickscope.storm.Operators;
import tickscope.storm.Operators.Event;
import tickscope.storm.Operators.Join;
import tickscope.storm.Operators.Windows;

/** The operators without an engine; ends with an error where one is wrong. */
final class OperatorsTest {
    private static final String LINE = "{\"id\": \"0000000000000000042\", \"user_id\": \"u\", \"page_id\": \"p\","
            + " \"ad_id\": \"ad-7\", \"ad_type\": \"banner\", \"event_type\": \"view\","
            + " \"event_time\": \"1767225609999\", \"ip_address\": \"1.2.3.4\"}";

    private static int asked;

    public static void main(String[] unused) {
        Event event = Operators.deserialise(LINE.getBytes(UTF_8));
        expect(new Event(42, "ad-7", "view", 1767225609999L), event);
        expect(true, event.isView());
        expect(false, Operators.deserialise(LINE.replace("view", "click").getBytes(UTF_8)).isView());
        for (String name : "id user_id page_id ad_id ad_type event_type event_time ip_address".split(" ")) {
            refused(LINE.replace("\"" + name + "\"", "\"other\""));
        }
        refused("{\"id\": \"1\", \"user_id\"}");
        refused("");

        Join join = new Join(ad -> {
            asked++;
            return ad.equals("ad-7") ? "campaign" : null;
        });
        expect("campaign", join.campaign(event.projected()));
        expect("campaign", join.campaign(event.projected()));
        expect(1, asked);
        expect(null, join.campaign(new Event(1, "none", "view", 0).projected()));

        Windows windows = new Windows();
        windows.count(4, "a", 9_999);
        windows.count(2, "a", 10_000);
        windows.count(3, "a", 19_999);
        windows.count(1, "b", 0);
        expect(List.of("a 0: 1", "a 1: 2", "b 0: 1", 4L, 2L, 3L, 1L), flushed(windows));
        expect(List.of(), flushed(windows));
        windows.count(5, "a", 10_000);
        expect(List.of("a 1: 1", 5L), flushed(windows));
        for (long id = 0; id < 3_000; id++) {
            windows.count(id, "a", 0);
        }
        List<Object> many = flushed(windows);
        expect(List.of("a 0: 3000", 0L, 2_999L, 3_001), List.of(many.get(0), many.get(1), many.get(3_000), many.size()));
    }

    /** Counts, sorted, up to the first id; then what comes in its order. */
    private static List<Object> flushed(Windows windows) {
        List<Object> all = new ArrayList<>();
        windows.flush((campaign, window, views) -> {
            int at = all.size();
            while (at > 0 && all.get(at - 1) instanceof String before && before.compareTo(campaign + " " + window) > 0) {
                at--;
            }
            all.add(at, campaign + " " + window + ": " + views);
        }, all::add);
        return all;
    }

    private static void refused(String line) {
        try {
            throw new AssertionError("expected an error, found " + Operators.deserialise(line.getBytes(UTF_8)));
        } catch (IllegalArgumentException right) {
            // As it should be.
        }
    }

    private static void expect(Object expected, Object found) {
        if (!(expected == null ? found == null : expected.equals(found))) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }
}
