/*
 * How packets get from the source to the forwarder and back: two links, each with one end that puts and one that takes.
 * What is put is admitted or left with who put it. Within a process, and over memif, nothing in between is lost; over
 * the kernel's sockets and interfaces packets may be, and both ends count.
 */

#define BATCH 64 /* the most that is taken at once, as in the paper */

struct link {
    size_t (*put)(struct link *link, const struct packet *packets, size_t count);
    size_t (*take)(struct link *link, struct packet *packets, size_t most);
    struct ring *ring; /* of `rings` */
    int put_port, take_port; /* of DPDK */
    _Atomic int64_t strange; /* what was taken and is no packet of ours */
};

struct links {
    struct link there, back;
    void (*enter)(void), (*leave)(void); /* on each thread; may be absent */
    void (*end)(void);
    /* Between two processes; each may be absent. */
    int (*await)(const struct options *options); /* before polling: 0: the other process does not come */
    int (*is_gone)(void);                        /* the other process went */
    void (*part)(const struct options *options); /* after polling */
};

static size_t put_in_ring(struct link *link, const struct packet *packets, size_t count) {
    return ring_put(link->ring, packets, count);
}

static size_t take_from_ring(struct link *link, struct packet *packets, size_t most) {
    return ring_take(link->ring, packets, most);
}

static struct link ring_link(int capacity) {
    return (struct link){put_in_ring, take_from_ring, new_ring((uint64_t)capacity), 0, 0, 0};
}

#ifdef WITH_DPDK
#include "dpdk.h"

#include "wires.h"
#else
static struct links net_ring_links(const struct options *options) {
    fprintf(stderr, TARGET ": cannot use --datapath %s: built without DPDK; run `make forwarder`\n",
            datapath_names[options->datapath]);
    exit(1);
}

static struct links wire_links(const struct options *options) {
    return net_ring_links(options);
}
#endif

#include "udp.h"

static struct links new_links(const struct options *options) {
    if (options->datapath == NET_RING) return net_ring_links(options);
    if (options->datapath == UDP) return udp_links(options);
    if (options->datapath != RINGS) return wire_links(options);
    return (struct links){.there = ring_link(options->link), .back = ring_link(options->link_back)};
}

static void end_links(struct links *links) {
    if (links->end) links->end();
    if (links->there.ring) free_ring(links->there.ring);
    if (links->back.ring) free_ring(links->back.ring);
}
