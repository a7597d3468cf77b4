package tickscope.storm;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.storm.shade.org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServer;

/** ZooKeeper of a local cluster, at a free port of loopback: Storm's own listens everywhere, and anyone may write to it. */
final class LoopbackZookeeper implements AutoCloseable {
    private static final int TICK_MS = 2000;

    private final Path folder = Files.createTempDirectory("tickscope-zookeeper-");
    private final ServerCnxnFactory connections;

    LoopbackZookeeper() throws IOException, InterruptedException {
        File kept = folder.toFile();
        InetSocketAddress anyPort = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        connections = ServerCnxnFactory.createFactory(anyPort, 0); // so many connections as there are
        connections.startup(new ZooKeeperServer(kept, kept, TICK_MS));
    }

    String host() {
        return connections.getLocalAddress().getHostString();
    }

    long port() {
        return connections.getLocalPort();
    }

    @Override
    public void close() throws IOException {
        connections.shutdown();
        ClusterNode.remove(folder);
    }
}
