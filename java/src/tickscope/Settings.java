package tickscope;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * What the environment asks of this process; a wrong value is an {@link IllegalArgumentException} that names it. And as
 * which user the process runs: it is asked here while the counter is chosen, before which no pool may be made.
 */
final class Settings {
    private static final Pattern NODE = Pattern.compile("[A-Za-z0-9_-]{1,47}");
    private static final Pattern POINT = Pattern.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,46}");
    /** Memory is addressed by numbers of 31 bits here; what is left of them is for entries. */
    private static final long POOL_MOST = 1L << 30;

    final String directory, node, whenFull, logs;
    final byte[] key;
    final int blockBytes, blockCount;
    private final Map<Pattern, Policy> policies;

    private Settings(Map<String, String> environment) {
        directory = environment.get("TICKSCOPE_DIR");
        node = text(environment, "TICKSCOPE_NODE", "node");
        expect(NODE.matcher(node).matches(), "TICKSCOPE_NODE as 1 to 47 of A-Z a-z 0-9 _ -", node);
        key = key(text(environment, "TICKSCOPE_KEY", ""));
        blockBytes = (int) number(environment, "TICKSCOPE_BLOCK_BYTES", 16384, 4096, 65536);
        expect(Integer.bitCount(blockBytes) == 1, "TICKSCOPE_BLOCK_BYTES as a power of two", "" + blockBytes);
        long bytes = number(environment, "TICKSCOPE_POOL_BYTES", 16 << 20, 4096, POOL_MOST);
        blockCount = (int) Math.max(4, bytes / blockBytes);
        policies = policies(text(environment, "TICKSCOPE_POLICY", ""));
        logs = text(environment, "TICKSCOPE_LOGS", "");
        whenFull = text(environment, "TICKSCOPE_WHEN_FULL", "drop");
        expect(whenFull.matches("drop|wait|overwrite"), "TICKSCOPE_WHEN_FULL as drop, wait or overwrite", whenFull);
        for (String injected : List.of("TICKSCOPE_INJECT", "TICKSCOPE_INJECT_REALTIME")) {
            String map = text(environment, injected, "");
            expect(map.isEmpty(), "no " + injected + ", for programs in Java read the counter as it is", map);
        }
    }

    /** The settings; null: nothing is to be measured. */
    static Settings of(Map<String, String> environment) {
        return text(environment, "TICKSCOPE_DIR", "").isEmpty() ? null : new Settings(environment);
    }

    static int effectiveUser() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("Uid:")) {
                return Integer.parseInt(line.split("\\s+")[2]);
            }
        }
        throw new IOException("expected Uid in /proc/self/status, found none");
    }

    static boolean isPoint(String name) {
        return POINT.matcher(name).matches();
    }

    /** A point's policy: that of the first glob which matches. */
    Policy policyOf(String point) {
        for (Map.Entry<Pattern, Policy> rule : policies.entrySet()) {
            if (rule.getKey().matcher(point).matches()) {
                return rule.getValue();
            }
        }
        return Policy.BUFFERED;
    }

    private static Map<Pattern, Policy> policies(String text) {
        Map<Pattern, Policy> rules = new LinkedHashMap<>();
        for (String rule : text.split(",")) {
            if (rule.isBlank()) {
                continue;
            }
            String[] parts = rule.split("=", 2);
            expect(parts.length == 2, "TICKSCOPE_POLICY as glob=policy,...", rule);
            Policy policy = Policy.of(parts[1].strip());
            expect(policy != null, "TICKSCOPE_POLICY to name a policy", parts[1].strip());
            rules.putIfAbsent(glob(parts[0].strip()), policy);
        }
        return rules;
    }

    private static Pattern glob(String text) {
        StringBuilder pattern = new StringBuilder();
        for (char letter : text.toCharArray()) {
            pattern.append(letter == '*' ? ".*" : letter == '?' ? "." : Pattern.quote("" + letter));
        }
        return Pattern.compile(pattern.toString());
    }

    private static byte[] key(String text) {
        expect(text.isEmpty() || text.matches("[0-9a-fA-F]{32}"), "TICKSCOPE_KEY as 32 hexadecimal digits", text);
        return java.util.HexFormat.of().parseHex(text);
    }

    private static long number(Map<String, String> environment, String name, long otherwise, long least, long most) {
        String text = text(environment, name, "" + otherwise);
        boolean isNumber = text.matches("[0-9]{1,18}") && Long.parseLong(text) >= least && Long.parseLong(text) <= most;
        expect(isNumber, name + " as a whole number from " + least + " to " + most, text);
        return Long.parseLong(text);
    }

    private static String text(Map<String, String> environment, String name, String otherwise) {
        String text = environment.getOrDefault(name, "");
        return text.isEmpty() ? otherwise : text;
    }

    private static void expect(boolean isSo, String expected, String found) {
        if (!isSo) {
            throw new IllegalArgumentException("expected " + expected + "; found '" + found + "'");
        }
    }
}
