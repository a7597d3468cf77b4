package tickscope.storm;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;

/** Places each component on the supervisor that the topology names for it, so that what goes between hosts is known. */
public final class Placement implements IScheduler {
    /** Key of a topology's configuration: the host of each component. */
    static final String KEY = "tickscope.placement";

    private Map<String, Object> settings = Map.of();

    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) {
        settings = conf;
    }

    @Override
    public Map<String, Object> config() {
        return settings;
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        for (TopologyDetails topology : cluster.needsSchedulingTopologies()) {
            if (topology.getConf().get(KEY) instanceof Map<?, ?> hosts) {
                place(topology, hosts, cluster);
            }
        }
    }

    /** Waits, by doing nothing, until every supervisor that it needs has a free slot. */
    private static void place(TopologyDetails topology, Map<?, ?> hosts, Cluster cluster) {
        Map<String, List<ExecutorDetails>> byHost = new HashMap<>();
        String otherwise = String.valueOf(hosts.values().iterator().next()); // of the engine's own components
        Collection<ExecutorDetails> unassigned = cluster.getUnassignedExecutors(topology);
        topology.selectExecutorToComponent(unassigned).forEach((executor, component) -> {
            Object host = hosts.get(component);
            byHost.computeIfAbsent(host == null ? otherwise : host.toString(), unused -> new ArrayList<>()).add(executor);
        });
        Map<String, WorkerSlot> slots = new HashMap<>();
        for (SupervisorDetails supervisor : cluster.getSupervisors().values()) {
            cluster.getAvailableSlots(supervisor).stream().findFirst()
                    .ifPresent(slot -> slots.put(supervisor.getHost(), slot));
        }
        if (slots.keySet().containsAll(byHost.keySet())) {
            byHost.forEach((host, executors) -> cluster.assign(slots.get(host), topology.getId(), executors));
        }
    }
}
