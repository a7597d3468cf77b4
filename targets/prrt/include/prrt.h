/*
 * prrt.h - PRRT for C: datagrams that arrive by a deadline or are given up. docs/prrt.md says how.
 *
 * Both ends are state machines: they read no clock and open no socket. `now` is nanoseconds of any clock of their own
 * host that never goes back. Whoever drives them sends what prrt_transmit and prrt_feedback write, gives what comes to
 * prrt_sender_handle and prrt_receiver_handle, and calls again at prrt_sender_wake_at and prrt_receiver_wake_at:
 *
 *     prrt_submit(sender, payload, bytes, now());
 *     while ((bytes = prrt_transmit(sender, now(), datagram)) > 0) send(socket, datagram, bytes, 0);
 *
 * Link libtickscope_prrt.a (`cargo build --release --locked -p tickscope-prrt --lib`) with -lpthread -ldl -lm. An end
 * is one thread's at a time; two ends share nothing. Assumes pointers of its own functions, alive, and buffers as large
 * as said. Every null pointer is refused.
 */
#ifndef PRRT_H
#define PRRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRRT_MOST_DATAGRAM_BYTES 1472
#define PRRT_MOST_PAYLOAD_BYTES 1426

typedef struct prrt_sender prrt_sender;
typedef struct prrt_receiver prrt_receiver;

/* What an application asks of the transport; times in nanoseconds. */
struct prrt_constraints {
    double residual_loss; /* share of payloads that may be missing at the deadline: above 0, below 1 */
    double rate_bps;      /* bits a second that the path takes; 0: nothing limits it */
    int64_t deadline_ns;  /* from a payload's submission until it is of no use any more, 60 s at most */
    int64_t detection_ns; /* how long the receiver takes to notice a loss: its reordered_ns and more */
    int64_t flush_ns;     /* how long a block waits for its next payload before it is cut short */
    int64_t pace_ns;      /* from one packet to the next at least; 0: none */
};

/* Why the last call on this thread failed: expected, found, remedy. Valid until the next call that fails. */
const char *prrt_error(void);

/* A sender of connection `session`, with blocks of four payloads and parity 1, 1, 2 until it adapts; NULL: refused. */
prrt_sender *prrt_sender_new(uint32_t session, const struct prrt_constraints *constraints);
void prrt_sender_free(prrt_sender *sender);

/* Takes a payload; its id, or -1: refused, as when it is too long, or too many wait for their deadline. */
int64_t prrt_submit(prrt_sender *sender, const void *payload, size_t bytes, int64_t now);

/* Cuts the open block short, so that its parity is sent: for a stream's end. 0, or -1. */
int prrt_flush(prrt_sender *sender);

/* Writes the packet that is to be sent now into PRRT_MOST_DATAGRAM_BYTES; its bytes, 0: none is due, -1: refused. */
ptrdiff_t prrt_transmit(prrt_sender *sender, int64_t now, void *datagram);

/* Takes a datagram from the receiver. 1; 0: it was no feedback of this connection; -1: refused. */
int prrt_sender_handle(prrt_sender *sender, const void *datagram, size_t bytes, int64_t now);

/* Chooses blocks and parity that keep the constraints on the path as it is known. 1; 0: too little is known yet; -1:
 * no coding keeps them, the present one stays, and prrt_error() names the constraint. */
int prrt_adapt(prrt_sender *sender);

/* How long a packet is under way to the receiver at most, as a clock map between both hosts bounds it (docs/prrt.md);
 * below 0: nobody knows, and half a round trip is taken for it. Tell both ends. 0, or -1. */
int prrt_sender_way(prrt_sender *sender, int64_t way_ns);
int prrt_receiver_way(prrt_receiver *receiver, int64_t way_ns);

/* When something is due next; INT64_MAX: nothing is. */
int64_t prrt_sender_wake_at(const prrt_sender *sender);

/* A receiver: of feedbacks `feedback_ns` apart, which waits `reordered_ns` for what may be overtaken, and forgets a
 * sender that was silent for `vanished_ns`; each above 0. NULL: refused. */
prrt_receiver *prrt_receiver_new(int64_t feedback_ns, int64_t reordered_ns, int64_t vanished_ns);
void prrt_receiver_free(prrt_receiver *receiver);

/* Takes a datagram, and recovers what it makes whole. 1; 0: it was no packet of this connection, or one that is there
 * already; -1: refused. */
int prrt_receiver_handle(prrt_receiver *receiver, const void *datagram, size_t bytes, int64_t now);

/* Tells that the last datagram that was taken came from another address than those before it: feedback is of three
 * times the bytes at most that came from where it goes to, so that who forges an address has no more sent there. Call
 * it after prrt_receiver_handle answered 1 and before prrt_feedback. 0, or -1. */
int prrt_receiver_moved(prrt_receiver *receiver, size_t bytes);

/* Hands over the next payload into PRRT_MOST_PAYLOAD_BYTES, with its id, whether it was recovered, and whether its
 * deadline has passed: 1; 0: it has not; -1: both clocks are not known well enough. Its bytes, or -1: there is none.
 * `id`, `recovered` and `is_late` may be NULL. */
ptrdiff_t prrt_deliver(prrt_receiver *receiver, int64_t now, void *payload, uint64_t *id, int *recovered,
                       int *is_late);

/* Writes the feedback that is due now into PRRT_MOST_DATAGRAM_BYTES; its bytes, 0: none is due, -1: refused. */
ptrdiff_t prrt_feedback(prrt_receiver *receiver, int64_t now, void *datagram);

/* When something is due next; INT64_MAX: nothing is. */
int64_t prrt_receiver_wake_at(const prrt_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
