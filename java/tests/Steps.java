import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import tickscope.Ordering;
import tickscope.Point;
import tickscope.Tickscope;

/**
 * Takes the steps of a conformance program, a line each on stdin; ends with 64 at a step that this library lacks. The
 * steps {@code dump} and {@code say WORD}, of tests alone, ask for what is kept and print the word.
 */
public final class Steps {
    public static void main(String[] none) throws Exception {
        Map<String, Point> points = new HashMap<>();
        BufferedReader steps = new BufferedReader(new InputStreamReader(System.in));
        for (String line = steps.readLine(); line != null; line = steps.readLine()) {
            take(line.split(" "), points);
        }
    }

    private static void take(String[] step, Map<String, Point> points) throws Exception {
        String word = step[0];
        if (word.equals("open") && step[4].equals("slim")) {
            points.put(step[1], Point.of(step[2], Ordering.valueOf(step[3].toUpperCase(Locale.ROOT))));
            points.get(step[1]).open();
        } else if (word.equals("stamp")) {
            points.get(step[1]).stamp(Long.parseLong(step[2]));
        } else if (word.equals("record")) {
            points.get(step[1]).record(Long.parseLong(step[2]), Long.parseLong(step[3]));
        } else if (word.equals("choose")) {
            long divisor = Long.parseLong(step[2]);
            points.get(step[1]).choose((id, tick) -> id % divisor == 0);
        } else if (word.equals("close")) {
            points.get(step[1]).close();
        } else if (word.equals("dump")) {
            Tickscope.dump();
        } else if (word.equals("say")) {
            System.out.println(step[1]);
        } else if (word.equals("kill")) {
            Runtime.getRuntime().exec(new String[] {"kill", "-KILL", "" + ProcessHandle.current().pid()});
            Thread.sleep(Long.MAX_VALUE);
        } else {
            System.exit(64);
        }
    }
}
