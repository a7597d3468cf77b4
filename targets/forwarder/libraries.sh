#!/bin/sh
# Prints the compiler's flags for those libraries of the forwarder that are here; says on stderr what is left out.
set -eu

library() { # package, what is defined where it is there, what it is for, more libraries of it
    if pkg-config --exists "$1" 2>/dev/null; then echo "-D$2 $(pkg-config --cflags --libs "$1") ${4:-}"
    else echo "forwarder: without $3: expected $1, found none. \`make forwarder\` installs it" >&2; fi
}

library liburcu WITH_URCU "the primitives rcu and rcu-sync"
library libdpdk WITH_DPDK "DPDK's datapaths and tables" "-lrte_net_ring -lrte_bus_vdev"
