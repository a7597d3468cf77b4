package tickscope.storm;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.daemon.nimbus.Nimbus;
import org.apache.storm.daemon.supervisor.StandaloneSupervisor;
import org.apache.storm.daemon.supervisor.Supervisor;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;
import org.apache.storm.zookeeper.Zookeeper;

import tickscope.storm.Redis.Place;

/**
 * A process of a Storm cluster whose workers are JVMs of their own:
 *
 * <pre>
 * ClusterNode nimbus HOME ADDRESS
 * ClusterNode supervisor HOME ADDRESS NIMBUS
 * ClusterNode submit HOME ADDRESS NIMBUS REDIS-HOST REDIS-PORT PORT HOST HOST
 * </pre>
 *
 * <p>HOME is {@code build/storm/home}; what a process keeps goes into HOME/state, anew each time. {@code nimbus} has ZooKeeper,
 * too. {@code submit} has the first half of the operators placed on the first host, which listens at PORT, and the others on the
 * second; says {@code ready} once it listens and each operator has begun, in whichever worker, and ends the topology once Redis has {@code done} or {@code failed}.
 */
public final class ClusterNode {
    private static final int ZOOKEEPER_PORT = 2181;
    private static final int WORKER_PORT = 6700;
    private static final long LOOK_MS = 100;
    /** Less than a run gives a command to end. */
    private static final long WORKERS_END_S = 10;

    private ClusterNode() {}

    /** Runs it. */
    public static void main(String[] words) throws Exception {
        String role = words.length > 2 ? words[0] : "";
        int expected = switch (role) {
            case "nimbus" -> 3;
            case "supervisor" -> 4;
            case "submit" -> 9;
            default -> 0;
        };
        if (words.length != expected) {
            System.err.println("expected nimbus HOME ADDRESS, supervisor HOME ADDRESS NIMBUS, or submit HOME ADDRESS NIMBUS"
                    + " REDIS-HOST REDIS-PORT PORT HOST HOST, found " + String.join(" ", words));
            System.exit(2);
        }
        Path home = Path.of(words[1]).toAbsolutePath();
        Path state = home.resolve("state").resolve(role + "-" + words[2]);
        remove(state);
        Files.createDirectories(state);
        String nimbus = role.equals("nimbus") ? words[2] : words[3];
        configure(home, state, words[2], nimbus);
        switch (role) {
            case "nimbus" -> {
                Zookeeper.mkInprocessZookeeper(state.resolve("zookeeper").toString(), ZOOKEEPER_PORT);
                Nimbus.main(new String[0]);
            }
            case "supervisor" -> {
                // Its main would halt with 20 where a machine that has more to do takes a second to close it at SIGTERM.
                Utils.setupDefaultUncaughtExceptionHandler();
                Runtime.getRuntime().addShutdownHook(new Thread(ClusterNode::endWorkers));
                new Supervisor(
                        Utils.readStormConfig(), null, new StandaloneSupervisor(), new StormMetricsRegistry()).launch();
            }
            default -> submit(home, List.of(words).subList(4, words.length));
        }
    }

    private static void configure(Path home, Path state, String address, String nimbus) throws IOException {
        Map<String, Object> settings = new TreeMap<>();
        settings.put("storm.zookeeper.servers", List.of(nimbus));
        settings.put("storm.zookeeper.port", ZOOKEEPER_PORT);
        settings.put("nimbus.seeds", List.of(nimbus));
        settings.put("storm.local.hostname", address);
        settings.put("storm.local.dir", state.resolve("local").toString());
        settings.put("storm.workers.artifacts.dir", state.resolve("workers").toString());
        settings.put("storm.log4j2.conf.dir", home.resolve("log4j2").toString());
        settings.put("storm.scheduler", Placement.class.getName());
        settings.put("supervisor.slots.ports", List.of(WORKER_PORT));
        settings.put("worker.childopts", "-Xmx512m");
        settings.put("nimbus.monitor.freq.secs", 1);
        // A machine that has more to do starts a JVM in half a minute.
        settings.put("nimbus.task.launch.secs", 300);
        settings.put("nimbus.supervisor.timeout.secs", 300);
        settings.put("supervisor.worker.start.timeout.secs", 300);
        settings.put("supervisor.worker.timeout.secs", 300);
        Path file = state.resolve("storm.yaml");
        Files.writeString(file, new ObjectMapper().writeValueAsString(settings));
        System.setProperty("storm.conf.file", file.toString());
        System.setProperty("storm.home", home.toString());
        System.setProperty("storm.log.dir", state.toString());
    }

    /** Ends the workers with their supervisor: one that went on would stamp what the run has no time to collect. */
    private static void endWorkers() {
        List<ProcessHandle> left = ProcessHandle.current().descendants().toList();
        left.forEach(ProcessHandle::destroyForcibly);
        left.forEach(one -> one.onExit().completeOnTimeout(one, WORKERS_END_S, TimeUnit.SECONDS).join());
    }

    private static void submit(Path home, List<String> words) throws Exception {
        Place redis = new Place(words.get(0), Integer.parseInt(words.get(1)));
        List<String> hosts = words.subList(3, 5);
        Map<String, String> placement = new TreeMap<>();
        List<String> operators = YahooBenchmark.OPERATORS;
        for (int at = 0; at < operators.size(); at++) {
            placement.put(operators.get(at), hosts.get(at < operators.size() / 2 ? 0 : 1));
        }
        Config config = YahooBenchmark.config();
        config.setNumWorkers(hosts.size());
        config.put(Placement.KEY, placement);
        System.setProperty("storm.jar", home.resolveSibling("../storm.jar").normalize().toString());
        StormSubmitter.submitTopology("ysb", config,
                YahooBenchmark.topology(
                        new Lines.Connection(hosts.get(0), Integer.parseInt(words.get(2))), Actors.NOBODY, redis));
        Redis asked = redis.redis();
        redis.attend();
        await(asked, List.of("listening"));
        await(asked, operators.stream().map(Redis::begun).toList());
        System.out.println("ready");
        await(asked, List.of("done"));
        KillOptions now = new KillOptions();
        now.set_wait_secs(0);
        try (NimbusClient client = NimbusClient.Builder.withConf(Utils.readStormConfig()).build()) {
            client.getClient().killTopologyWithOpts("ysb", now);
        }
        System.exit(asked.ask("GET", "failed") == null ? 0 : 1);
    }

    /** Waits until all these keys are there, or {@code failed} is. */
    private static void await(Redis redis, List<String> keys) throws InterruptedException {
        while (redis.ask("GET", "failed") == null && !keys.stream().allMatch(key -> redis.ask("GET", key) != null)) {
            Thread.sleep(LOOK_MS);
        }
    }

    static void remove(Path folder) throws IOException {
        if (Files.exists(folder)) {
            List<Path> all = new ArrayList<>();
            try (Stream<Path> found = Files.walk(folder)) {
                found.sorted(Comparator.reverseOrder()).forEach(all::add);
            }
            for (Path path : all) {
                Files.deleteIfExists(path);
            }
        }
    }
}
