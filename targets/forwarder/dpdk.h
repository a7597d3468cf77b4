/*
 * The datapath `net_ring` of DPDK: two ports in this process, each with the other's way out as its way in.
 *
 * What is put is copied into a buffer of DPDK's, what is taken out of it: 60 bytes each, as a program does that makes
 * packets and reads them. Threads are not DPDK's own; each that polls is registered, so that it has a cache of buffers.
 * Between two processes: wires.h.
 */
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#define SPARE_BUFFERS 4096 /* in batches and in the caches of threads */
#define BUFFER_CACHE 256

static struct rte_mempool *buffers;

/* Words of the libraries that load the program of an interface: of interest where that failed, and there alone. */
static char xdp_words[4096];

static size_t put_in_port(struct link *link, const struct packet *packets, size_t count) {
    struct rte_mbuf *mbufs[BATCH];
    if (rte_pktmbuf_alloc_bulk(buffers, mbufs, (unsigned)count)) return 0;
    for (size_t at = 0; at < count; at++)
        memcpy(rte_pktmbuf_append(mbufs[at], PACKET_BYTES), &packets[at], PACKET_BYTES);
    size_t put = rte_eth_tx_burst((uint16_t)link->put_port, 0, mbufs, (uint16_t)count);
    if (put < count) rte_pktmbuf_free_bulk(mbufs + put, (unsigned)(count - put));
    return put;
}

static size_t take_from_port(struct link *link, struct packet *packets, size_t most) {
    struct rte_mbuf *mbufs[BATCH];
    size_t count = rte_eth_rx_burst((uint16_t)link->take_port, 0, mbufs, (uint16_t)most);
    for (size_t at = 0; at < count; at++) memcpy(&packets[at], rte_pktmbuf_mtod(mbufs[at], void *), PACKET_BYTES);
    if (count > 0) rte_pktmbuf_free_bulk(mbufs, (unsigned)count);
    return count;
}

/* ---- before and after -------------------------------------------------------------------------------------------- */

static struct rte_ring *port_ring(const char *name, int capacity) {
    struct rte_ring *ring =
        rte_ring_create(name, (unsigned)capacity, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
    if (ring == 0) dpdk_failed("rte_ring_create", rte_errno);
    return ring;
}

/* Prepares a port with one queue each way. */
static void prepare_port(uint16_t port, int room) {
    struct rte_eth_conf none;
    memset(&none, 0, sizeof none);
    int error = rte_eth_dev_configure(port, 1, 1, &none);
    if (error == 0) error = rte_eth_rx_queue_setup(port, 0, (uint16_t)room, 0, 0, buffers);
    if (error == 0) error = rte_eth_tx_queue_setup(port, 0, (uint16_t)room, 0, 0);
    if (error) {
        fputs(xdp_words, stderr);
        dpdk_failed("its port", error);
    }
}

/* A port that puts into one ring and takes from the other. */
static int new_port(const char *name, struct rte_ring *in, struct rte_ring *out) {
    int port = rte_eth_from_rings(name, &in, 1, &out, 1, 0);
    if (port < 0) dpdk_failed("rte_eth_from_rings", rte_errno);
    prepare_port((uint16_t)port, BATCH);
    int error = rte_eth_dev_start((uint16_t)port);
    if (error) dpdk_failed("its port", error);
    return port;
}

/* On each thread that polls. */
static void enter_net_ring(void) {
    if (rte_thread_register()) dpdk_failed("rte_thread_register", rte_errno);
}

static struct links net_ring_links(const struct options *options) {
    begin_dpdk();
    unsigned count = (unsigned)options->link + (unsigned)options->link_back + SPARE_BUFFERS;
    uint16_t bytes = RTE_PKTMBUF_HEADROOM + CACHE_LINE;
    buffers = rte_pktmbuf_pool_create("packets", count, BUFFER_CACHE, 0, bytes, SOCKET_ID_ANY);
    if (buffers == 0) dpdk_failed("rte_pktmbuf_pool_create", rte_errno);
    struct rte_ring *there = port_ring("there", options->link), *back = port_ring("back", options->link_back);
    int source = new_port("source", back, there), forwarder = new_port("forwarder", there, back);
    return (struct links){.there = {put_in_port, take_from_port, 0, source, forwarder, 0},
                          .back = {put_in_port, take_from_port, 0, forwarder, source, 0},
                          .enter = enter_net_ring, .leave = rte_thread_unregister};
}
