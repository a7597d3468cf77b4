/* Options of the command line. */

#define TARGET "forwarder"
#define TARGET_USAGE "[--rate PPS] [--fib NAME] [--cdr RATIO] [--users N] [--seconds S] [--datapath NAME] [options]"
#define TARGET_WORDS 1
#include "../harness/load.h"
#include "../harness/target.h"

#define MOST_PACKETS (1 << 26) /* of a trace, which is in memory before the run: 256 MiB */
#define MOST_USERS (1 << 16)
#define MOST_RING (1 << 16)
#define PEER_SECONDS 10 /* without a word from the other process: it is gone */
#define CDR_PARTS 1000000 /* of a data packet: as exactly as a ratio of control and data is taken */
#define CUT_FACTOR 4 /* a run that takes so many times its trace's length is cut */

enum layout { CONTENDED, ALONE, SPREAD, SINGLE };
static const char *const layout_names[] = {"contended", "alone", "spread", "single", 0};
enum datapath { RINGS, NET_RING, UDP, NET_MEMIF, NET_AF_PACKET, NET_AF_XDP };
static const char *const datapath_names[] = {"rings",     "net_ring",      "udp",
                                             "net_memif", "net_af_packet", "net_af_xdp", 0};
enum process { BOTH, SOURCE, FORWARDER }; /* what of the testbed this process is */
static const char *const process_names[] = {"both", "source", "forwarder", 0};
enum scheduling { OWN, SHARED };
static const char *const scheduling_names[] = {"own", "shared", 0};
enum invalid { TELL, REFUSE };
static const char *const invalid_names[] = {"tell", "fail", 0};

struct primitive;

struct options {
    double rate_pps, cdr, seconds;
    int64_t packets; /* 0: as many as have so many moves, or as the rate sends in `seconds` */
    int64_t moves;   /* 0: nobody asked */
    int users, ring, link, link_back, delay_ns, seed;
    const struct primitive *fib;
    int layout, datapath, scheduling, invalid, role;
    const char *at; /* where both processes meet */
    int keeps_newest; /* the data ring holds one packet, the newest */
};

/* The place of `value` among names that a null pointer ends. */
static int one_of(const char *expected, const char *const names[], const char *value) {
    int at = 0;
    while (names[at] && strcmp(names[at], value)) at++;
    if (names[at] == 0) refuse(expected, value);
    return at;
}

static const struct primitive *primitive_named(const char *name);

static int parse_option(struct options *options, const char *name, const char *value) {
    if (!strcmp(name, "--rate")) options->rate_pps = number("--rate in packets a second", value, 0, 1e8);
    else if (!strcmp(name, "--cdr")) options->cdr = number("--cdr, control packets a data packet", value, 0, 1);
    else if (!strcmp(name, "--seconds")) options->seconds = number("--seconds", value, 0.001, 60);
    else if (!strcmp(name, "--packets")) options->packets = whole_number("--packets", value, 1, MOST_PACKETS);
    else if (!strcmp(name, "--moves")) options->moves = whole_number("--moves", value, 1, MOST_PACKETS);
    else if (!strcmp(name, "--users")) options->users = whole_number("--users", value, 1, MOST_USERS);
    else if (!strcmp(name, "--ring") && !strcmp(value, "newest")) options->keeps_newest = 1;
    else if (!strcmp(name, "--ring")) options->ring = whole_number("--ring in packets", value, 1, MOST_RING);
    else if (!strcmp(name, "--link")) options->link = whole_number("--link in packets", value, 1, MOST_RING);
    else if (!strcmp(name, "--link-back"))
        options->link_back = whole_number("--link-back in packets", value, 1, MOST_RING);
    else if (!strcmp(name, "--delay")) options->delay_ns = whole_number("--delay in ns", value, 0, 1000000);
    else if (!strcmp(name, "--seed")) options->seed = whole_number("--seed", value, 0, INT32_MAX);
    else if (!strcmp(name, "--fib")) options->fib = primitive_named(value);
    else if (!strcmp(name, "--layout"))
        options->layout = one_of("--layout contended, alone, spread or single", layout_names, value);
    else if (!strcmp(name, "--datapath"))
        options->datapath =
            one_of("--datapath rings, net_ring, udp, net_memif, net_af_packet or net_af_xdp", datapath_names, value);
    else if (!strcmp(name, "--role")) options->role = one_of("--role both, source or forwarder", process_names, value);
    else if (!strcmp(name, "--at")) options->at = value;
    else if (!strcmp(name, "--scheduling"))
        options->scheduling = one_of("--scheduling own or shared", scheduling_names, value);
    else if (!strcmp(name, "--invalid"))
        options->invalid = one_of("--invalid tell or fail", invalid_names, value);
    else return 0;
    return 1;
}

/* Between two processes the table's reader and writer are threads of one of them, and the source's are of the other. */
static void check_roles(struct options *options) {
    int is_between = options->datapath > NET_RING;
    if (is_between && (options->role == BOTH || options->at == 0))
        refuse("--role source or forwarder, and --at, with a --datapath between two processes", "another");
    if (!is_between && options->role != BOTH)
        refuse("--datapath udp, net_memif, net_af_packet or net_af_xdp with --role source or forwarder",
               datapath_names[options->datapath]);
    if (options->layout < 0) options->layout = is_between ? ALONE : CONTENDED;
    if (is_between && (options->layout == CONTENDED || (options->layout == SINGLE && options->scheduling == OWN)))
        refuse("--layout alone or spread between two processes", layout_names[options->layout]);
    if (is_between && options->link_back > 0)
        refuse("--link-back with --datapath rings or net_ring", datapath_names[options->datapath]);
    if (options->link_back == 0) options->link_back = options->link;
}

/* Moves to CDR_PARTS data packets. */
static uint32_t control_parts(const struct options *options) {
    return (uint32_t)(options->cdr * CDR_PARTS + 0.5);
}

/* Packets of the trace: so many, or among which are so many moves on average, or what the rate sends in the time. */
static double wanted_packets(const struct options *options) {
    if (options->packets > 0) return (double)options->packets;
    if (options->moves == 0) return options->rate_pps * options->seconds;
    return (double)options->moves * (CDR_PARTS + control_parts(options)) / control_parts(options);
}

/* Rings as in figure 4 of the paper; links as the rings of its network cards. */
static struct options parse(int argc, char **argv) {
    struct options options = {.rate_pps = 1e6,
                              .cdr = 0.1,
                              .seconds = 0.5,
                              .users = 1000,
                              .ring = 64,
                              .link = 4096,
                              .seed = 1,
                              .layout = -1,
                              .fib = primitive_named("rwl-spin")};
    parse_options(&options, argc, argv);
    check_roles(&options);
    if (options.moves > 0 && control_parts(&options) == 0) refuse("--moves with a --cdr of 0.000001 or more", "less");
    if (options.moves > 0 && options.packets > 0) refuse("--packets or --moves", "both");
    double packets = wanted_packets(&options);
    if (packets < 1 || packets > MOST_PACKETS)
        refuse("--rate times --seconds of 1 to 67108864 packets, or --packets, or --moves among so many",
               "another number");
    options.packets = (int64_t)packets;
    return options;
}
