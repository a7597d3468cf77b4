/*
 * Datapaths of DPDK between two processes: `net_memif` over memory that both share, `net_af_packet` and `net_af_xdp`
 * over an interface of the kernel, by its packet sockets or by its XDP sockets.
 *
 * Of memif the forwarder is the server: it makes the socket over which both agree. A socket that another process left
 * behind is removed, which is said; one that somebody listens at is refused. When one process ends, DPDK takes the
 * shared memory from the other one, at any instant: so the source waits until the forwarder has stopped polling, and
 * where one was killed, the fault of a poll is how the other sees it, and so is a fault of DPDK's own thread. Frames of
 * an interface have an Ethernet header with a type of their own before the packet; others are not ours.
 */
#include <rte_bus_vdev.h>
#include <rte_ether.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>

#define FRAME_TYPE 0x88b5 /* for experiments on one network, IEEE 802 */
#define MEMIF_MOST_RING 14 /* bits */
#define AGREE_MS 300 /* two processes on busy cores have agreed on their memory, or never do */
#define LEAVING_MS 2000 /* the other process has stopped polling much earlier */

static int wire_port;
static __thread sigjmp_buf poll_begin;
static __thread volatile sig_atomic_t is_polling;
static _Atomic int has_memif_faulted; /* DPDK's own thread did, and rests; it may hold any lock of DPDK's */

static size_t put_in_frames(struct link *link, const struct packet *packets, size_t count) {
    struct rte_ether_hdr header = {.ether_type = rte_cpu_to_be_16(FRAME_TYPE)};
    struct rte_mbuf *mbufs[BATCH];
    memset(&header.dst_addr, 0xff, sizeof header.dst_addr);
    header.src_addr.addr_bytes[0] = 2;
    if (rte_pktmbuf_alloc_bulk(buffers, mbufs, (unsigned)count)) return 0;
    for (size_t at = 0; at < count; at++) {
        memcpy(rte_pktmbuf_append(mbufs[at], sizeof header), &header, sizeof header);
        memcpy(rte_pktmbuf_append(mbufs[at], PACKET_BYTES), &packets[at], PACKET_BYTES);
    }
    size_t put = rte_eth_tx_burst((uint16_t)link->put_port, 0, mbufs, (uint16_t)count);
    if (put < count) rte_pktmbuf_free_bulk(mbufs + put, (unsigned)(count - put));
    return put;
}

static size_t take_from_frames(struct link *link, struct packet *packets, size_t most) {
    struct rte_mbuf *mbufs[BATCH];
    size_t count = rte_eth_rx_burst((uint16_t)link->take_port, 0, mbufs, (uint16_t)most), kept = 0;
    for (size_t at = 0; at < count; at++) {
        const struct rte_ether_hdr *header = rte_pktmbuf_mtod(mbufs[at], const struct rte_ether_hdr *);
        int is_ours = rte_pktmbuf_data_len(mbufs[at]) == sizeof *header + PACKET_BYTES &&
                      header->ether_type == rte_cpu_to_be_16(FRAME_TYPE);
        if (is_ours) memcpy(&packets[kept++], header + 1, PACKET_BYTES);
        else atomic_fetch_add_explicit(&link->strange, 1, memory_order_relaxed);
    }
    if (count > 0) rte_pktmbuf_free_bulk(mbufs, (unsigned)count);
    return kept;
}

/* ---- memif ------------------------------------------------------------------------------------------------------- */

static int memif_is_up(void) {
    struct rte_eth_link state;
    return rte_eth_link_get_nowait((uint16_t)wire_port, &state) == 0 && state.link_status == RTE_ETH_LINK_UP;
}

static int memif_is_gone(void) {
    return atomic_load_explicit(&has_memif_faulted, memory_order_relaxed) || !memif_is_up();
}

/* The other process took the memory away while this thread polled, or while DPDK's own thread gave it back. */
static void on_fault(int signal_number) {
    char name[16] = "";
    if (is_polling) siglongjmp(poll_begin, 1);
    prctl(PR_GET_NAME, name);
    if (strncmp(name, "eal-", 4) == 0) {
        atomic_store_explicit(&has_memif_faulted, 1, memory_order_relaxed);
        while (1) pause();
    }
    signal(signal_number, SIG_DFL);
}

/* After a fault; returns 0 if the other process is still there. */
static int await_memif_gone(void) {
    int64_t until = now_ns() + LEAVING_MS * (NANOSECONDS / 1000);
    while (!memif_is_gone() && now_ns() < until) usleep(1000);
    return memif_is_gone();
}

/* Removes a socket that nobody listens at. */
static void expect_free_socket(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat there;
    int other = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) refuse("--at PATH of a socket, of 107 bytes at most", path);
    strcpy(address.sun_path, path);
    if (connect(other, (struct sockaddr *)&address, sizeof address) == 0) {
        fprintf(stderr, TARGET ": cannot use %s: another process listens there; end it, or name another --at\n", path);
        exit(1);
    }
    if (errno == ECONNREFUSED && lstat(path, &there) == 0 && S_ISSOCK(there.st_mode)) {
        fprintf(stderr, TARGET ": removed %s, the socket of a process that is gone\n", path);
        if (unlink(path)) fail(path);
    } else if (errno != ENOENT) refuse("--at PATH of a socket, or of nothing", path);
    close(other);
}

/* Waits for the other process: the forwarder as long as nobody ends it, the source for a while. */
static int await_memif(const struct options *options) {
    int64_t until = now_ns() + PEER_SECONDS * NANOSECONDS, begun = 0;
    while (!stopped && (options->role == FORWARDER || now_ns() < until)) {
        /* The source's port begins where it finds a forwarder, and again where that was not ready for it. */
        if (options->role == SOURCE && begun && now_ns() - begun > AGREE_MS * (NANOSECONDS / 1000)) {
            rte_eth_dev_stop((uint16_t)wire_port);
            begun = 0;
        }
        if (options->role == SOURCE && begun == 0 && rte_eth_dev_start((uint16_t)wire_port) == 0) begun = now_ns();
        if (memif_is_up()) return 1;
        usleep(1000);
    }
    return 0;
}

/* The source ends the link once the forwarder does not poll any more. */
static void leave_memif(const struct options *options) {
    if (options->role == SOURCE) await_memif_gone();
}

/* ---- AF_XDP ------------------------------------------------------------------------------------------------------ */

static int note_words(int level, const char *format, va_list rest) {
    size_t length = strlen(xdp_words);
    (void)level;
    return vsnprintf(xdp_words + length, sizeof xdp_words - length, format, rest);
}

/* DPDK's driver brings these libraries; a version that is called otherwise goes on printing. */
static void quieten_xdp(void) {
    const char *const names[][2] = {{"libbpf.so.1", "libbpf_set_print"}, {"libxdp.so.1", "libxdp_set_print"}};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++) {
        void *library = dlopen(names[at][0], RTLD_LAZY | RTLD_NOLOAD);
        void *(*set_print)(void *) = 0;
        if (library) *(void **)&set_print = dlsym(library, names[at][1]);
        if (set_print) set_print((void *)(uintptr_t)note_words);
    }
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static int power_of(int count) {
    int bits = 0;
    while (1 << bits < count) bits++;
    return bits;
}

static void end_frames(void) {
    rte_eth_dev_stop((uint16_t)wire_port);
    rte_eth_dev_close((uint16_t)wire_port);
}

static char memif_path[sizeof(((struct sockaddr_un *)0)->sun_path)];

/* A port that is closed while DPDK's own thread sees the other process go crashes: the process ends with it open. */
static void end_memif(void) {
    if (memif_path[0]) unlink(memif_path);
}

static struct links wire_links(const struct options *options) {
    char arguments[512], name[32];
    int is_memif = options->datapath == NET_MEMIF;
    if (is_memif && options->role == FORWARDER) expect_free_socket(options->at);
    if (is_memif && power_of(options->link) > MEMIF_MOST_RING)
        refuse("--link of 16384 at most with --datapath net_memif", "more");
    if (!is_memif && if_nametoindex(options->at) == 0) fail(options->at);
    begin_dpdk();
    if (!is_memif) dpdk_remedy = "; its interface is opened by root, and has to be up";
    if (options->datapath == NET_AF_XDP) quieten_xdp();
    unsigned count = 4 * (unsigned)options->link + SPARE_BUFFERS;
    buffers = rte_pktmbuf_pool_create("packets", count, BUFFER_CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (buffers == 0) dpdk_failed("rte_pktmbuf_pool_create", rte_errno);
    snprintf(name, sizeof name, "%s0", datapath_names[options->datapath]);
    if (is_memif)
        snprintf(arguments, sizeof arguments, "role=%s,socket=%s,socket-abstract=no,rsize=%d",
                 options->role == FORWARDER ? "server" : "client", options->at, power_of(options->link));
    else snprintf(arguments, sizeof arguments, "iface=%s", options->at);
    int error = rte_vdev_init(name, arguments);
    uint16_t port;
    if (error == 0) error = rte_eth_dev_get_port_by_name(name, &port);
    if (error) dpdk_failed(options->at, error);
    wire_port = port;
    prepare_port(port, is_memif ? options->link : 0);
    rte_log_set_level_pattern("pmd.net.memif", RTE_LOG_CRIT); /* of each try of the source's */
    if (!is_memif || options->role == FORWARDER) error = rte_eth_dev_start(port);
    if (error) dpdk_failed(options->at, error);
    struct link link = {is_memif ? put_in_port : put_in_frames, is_memif ? take_from_port : take_from_frames, 0, port,
                        port, 0};
    struct links links = {.there = link, .back = link, .enter = enter_net_ring, .leave = rte_thread_unregister,
                          .end = is_memif ? end_memif : end_frames};
    if (!is_memif) return links;
    if (options->role == FORWARDER) strcpy(memif_path, options->at);
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    links.await = await_memif;
    links.is_gone = memif_is_gone;
    links.part = leave_memif;
    return links;
}
