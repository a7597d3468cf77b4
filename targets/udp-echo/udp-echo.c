/*
 * udp-echo - a UDP echo service and its client, stamped with tickscope.h: the first target.
 *
 *     udp-echo server ADDRESS PORT [--seconds N]
 *     udp-echo client ADDRESS PORT [--rate HZ] [--size BYTES] [--seconds N] [--linger MS]
 *              [--due POINT]            stamps when each packet is due, in CLOCK_MONOTONIC: a latency from there
 *                                       leaves nothing out, however late the client sends
 *              [--clock-log FILE]       writes id,ns: CLOCK_MONOTONIC right after `response`
 *              [--late MS]              when a send is late: of more than 1 in 1000 so late no figure may be used
 *     both:    [--wait epoll|blocking|busy]  how they wait for packets
 *              [--kernel N]             the kernel stamps every N-th packet too; 0, the default: none
 *              [--fifo PRIORITY] [--core N]
 *              [--token N]              datagrams with another token are strangers: counted, never stamped
 *
 * Points, in the order a packet passes them (REALTIME: of that clock, with --kernel):
 *     client   send (before), sched, tx (REALTIME); branch: sent (plain: the return of the system call)
 *     server   rx (REALTIME), woken (after: the return of epoll_wait, with epoll alone), received (after),
 *              reply (before), reply-sched, reply-tx (REALTIME); branch: replied (plain)
 *     client   response-rx (REALTIME), response-woken (after, with epoll alone), response (after)
 * A loop that polls is never woken, and one that blocks wakes within recvmsg: neither has a woken point.
 *
 * The id of a packet is its number. Every send is due at its own time: a late one does not shift those that follow. At
 * the end one line of JSON says what was counted, how it was measured, whether the client's schedule was held and how
 * late its sends were, and what a packet took by an ordinary clock and by the kernel's account of processor time:
 * whether or not points are on.
 */
#include "tickscope_kernel.h"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

/* One translation unit, a file for each subject. */
#include "options.h"

#include "round_trips.h"

#include "counts.h"

#include "datagrams.h"

#include "server.h"

#include "client.h"

int main(int argc, char **argv) {
    struct options options = parse(argc, argv);
    struct counts counts;
    catch_signals();
    settle(&options);
    memset(&counts, 0, sizeof counts);
    if (!strcmp(options.role, "server")) counts = serve(&options);
    else if (!strcmp(options.role, "client")) counts = ask(&options);
    else refuse("server or client", options.role);
    print_counts(&options, &counts);
    return 0;
}
