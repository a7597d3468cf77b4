/*
 * cm-star - clients and servers that call each other over UDP, stamped with tickscope.h: the example of the Cm* study
 * (Kong, Spector and Siewiorek, CMU-CS-86-136, 5) as a target.
 *
 *     cm-star server ADDRESS PORT [--pairs LIST]
 *     cm-star client ADDRESS PORT [--pairs LIST]      pairs of client and server at once, default 1,2,3
 *              [--words LIST]           words of 16 bits that client and server read together, default 0,50,100,150,200
 *              [--repetitions N]        of a call in each cell, default 512
 *              [--interval US]          from one timed call to the next, on average, default 2000
 *              [--sampler-core N]       where the sampler of Method II runs
 *     both:    [--core N]
 *
 * One pair is timed; the others call each other all the while: load by replication. They have the ports after PORT.
 * The server needs as many pairs as the client's largest number.
 *
 * Points, in the order a call passes them; every id once, kind: pairs * 100000 + words, value: the repetition:
 *     client   zero-1, zero-2 (before), zero-3, zero-4 (after): the zero-time test, nothing between them
 *              first, send (before)
 *     server   received (after), reply (before)
 *     client   response (after: the answer is there), results (after: and its words were read), last (after)
 *     client, of no call: sample-1 (before), sample-2 (after), every 200 us: Method II's pairs
 *
 * A call whose words do not sum up ends the client with exit code 1. A repetition with a lost answer is abandoned and
 * made again, with other ids. At the end one line of JSON says what was counted.
 */
#include "tickscope.h"

#include <arpa/inet.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* One translation unit, a file for each subject. */
#include "options.h"

#include "messages.h"

#include "processes.h"

#include "server.h"

#include "replicas.h"

#include "sampler.h"

#include "client.h"

int main(int argc, char **argv) {
    struct options options = parse(argc, argv);
    catch_signals();
    if (!strcmp(options.role, "server")) serve(&options);
    else if (!strcmp(options.role, "client")) ask(&options);
    else refuse("server or client", options.role);
    return 0;
}
