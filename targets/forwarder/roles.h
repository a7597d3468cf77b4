/*
 * The five roles of the testbed: sender and receiver of the source; arrival, control and data of the forwarder.
 *
 * Each is a step that does what there is to do and returns how many packets that were; a thread runs one role or
 * several in turn. Every packet that was sent is received, dropped at one of three rings, or written to the FIB, and
 * counted. A step ends a role for good once the role before it has ended and nothing is left.
 *
 * Source and forwarder may be two processes. Then the source greets until it is answered, and parts in the same way:
 * the forwarder sends a greeting or a farewell back behind all that came before it, and says in the latter how many
 * packets came and went. It ends once a source that parted is quiet.
 * A forwarder that hears nothing for PEER_SECONDS ends, and says so; a source that hears nothing for a second greets
 * again, and ends after as many greetings.
 */

#define LINGER_MS 200 /* for a farewell whose answer was lost, and which the source repeats */

enum role { SENDER, RECEIVER, ARRIVAL, CONTROL, DATA, ROLES };

struct testbed {
    const struct options *options;
    struct trace trace;
    struct fib fib;
    struct links links;
    struct ring *control, *data;
    struct newest *newest; /* in place of the data ring; 0: it is not */
    int64_t hertz;
    _Atomic int64_t *last_move; /* by user: id of the last location update that was sent */
    _Atomic int done[ROLES];
    _Atomic int is_cut; /* the sender ends before its trace */
    _Atomic int answer; /* the forwarder's last: 0, GREETING or FAREWELL */
    _Atomic int is_peer_gone;
    _Alignas(CACHE_LINE) _Atomic uint32_t turn; /* whose it is in an exchange of the first two threads */
    _Alignas(CACHE_LINE) struct load_bucket bucket;
    /* Each written by one role, on lines of its own. */
    struct {
        _Alignas(CACHE_LINE) int64_t sent_data, sent_moves, batches, row, begin_ns, end_ns;
        int64_t asking, asked_tick, asked_since; /* a greeting or a farewell */
        int64_t unanswered; /* greetings since something came back */
    } sender;
    struct {
        _Alignas(CACHE_LINE) int64_t received, misaddressed, delay_ticks;
        int64_t arrived, returned; /* as the farewell has them */
        _Atomic int64_t heard_tick;
    } receiver;
    struct {
        _Alignas(CACHE_LINE) int64_t batches, packets, moves, control_drops, data_drops, last_tick;
        _Atomic int has_parted;
    } arrival;
    struct {
        _Alignas(CACHE_LINE) int64_t written;
    } control_counts;
    struct {
        _Alignas(CACHE_LINE) int64_t addressed, torn, returned, return_drops;
    } data_counts;
};

/* Points of a thread: each is opened by the thread that stamps there. */
struct points {
    tickscope_channel *generated, *moved, *received, *misaddressed;
    tickscope_channel *arrived, *move_arrived, *written, *taken, *addressed;
};

static void open_points(struct points *points, enum role role) {
    if (role == SENDER) {
        points->generated = tickscope_open("generated", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
        points->moved = tickscope_open("moved", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
    } else if (role == RECEIVER) {
        points->received = tickscope_open("received", TICKSCOPE_AFTER, 0);
        points->misaddressed = tickscope_open("misaddressed", TICKSCOPE_AFTER, 0);
    } else if (role == ARRIVAL) {
        points->arrived = tickscope_open("arrived", TICKSCOPE_AFTER, 0);
        points->move_arrived = tickscope_open("move-arrived", TICKSCOPE_AFTER, 0);
    } else if (role == CONTROL) points->written = tickscope_open("written", TICKSCOPE_AFTER, 0);
    else {
        points->taken = tickscope_open("taken", TICKSCOPE_AFTER, 0);
        points->addressed = tickscope_open("addressed", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
    }
}

static int has_ended(struct testbed *bed, enum role role) {
    return atomic_load_explicit(&bed->done[role], memory_order_acquire);
}

/* Ends a role that found nothing to take although the one before it had ended before it looked. */
static size_t took(struct testbed *bed, enum role role, int had_ended, size_t count) {
    if (count == 0 && had_ended) atomic_store_explicit(&bed->done[role], 1, memory_order_release);
    return count;
}

static void lose_peer(struct testbed *bed) {
    atomic_store_explicit(&bed->is_peer_gone, 1, memory_order_relaxed);
}

/* Of what came from the other process, those packets that it may have sent; others are counted. */
static size_t kept(struct testbed *bed, struct link *link, struct packet *packets, size_t count) {
    size_t kept = 0;
    if (bed->options->role == BOTH) return count;
    for (size_t at = 0; at < count; at++) {
        const struct packet *packet = &packets[at];
        int is_ours = packet->user >= 0 && packet->user < bed->trace.users && packet->kind >= DATA_PACKET &&
                      packet->kind <= FAREWELL;
        if (is_ours) packets[kept++] = *packet;
        else atomic_fetch_add_explicit(&link->strange, 1, memory_order_relaxed);
    }
    return kept;
}

/* ---- the source -------------------------------------------------------------------------------------------------- */

/* Tells of those that were admitted. Only now has a location update been sent. */
static void tell_sent(struct testbed *bed, struct points *points, const struct packet *packets, size_t count) {
    for (const struct packet *packet = packets; packet < packets + count; packet++) {
        struct tickscope_extra extra = {.value = packet->user};
        tickscope_channel *point = packet->kind == MOVE ? points->moved : points->generated;
        tickscope_record_with(point, packet->id, packet->sent_tick, extra);
        if (packet->kind == MOVE) {
            atomic_store_explicit(&bed->last_move[packet->user], packet->id, memory_order_relaxed);
            bed->sender.sent_moves++;
        } else bed->sender.sent_data++;
    }
}

static void ask(struct testbed *bed, int kind, int64_t now) {
    struct packet ask = {.id = bed->trace.count, .address_id = bed->trace.moves, .mac = (uint64_t)bed->trace.users,
                         .kind = kind, .payload = GREETING_WORDS};
    bed->sender.asked_tick = now;
    bed->links.there.put(&bed->links.there, &ask, 1);
}

/* Greets again a forwarder of which nothing came back for a second: it answers, or is gone. */
static void miss_answers(struct testbed *bed, int64_t now) {
    int64_t heard = atomic_load_explicit(&bed->receiver.heard_tick, memory_order_relaxed);
    if (bed->options->role == BOTH || now - heard < bed->hertz) return;
    if (heard > bed->sender.asked_tick) bed->sender.unanswered = 0;
    else if (now - bed->sender.asked_tick < bed->hertz) return;
    if (bed->sender.unanswered++ == PEER_SECONDS) lose_peer(bed);
    ask(bed, GREETING, now);
}

/* Asks the forwarder for this, once a millisecond; returns whether it has answered. */
static int is_answered(struct testbed *bed, int kind, int64_t now) {
    if (bed->options->role == BOTH || atomic_load_explicit(&bed->answer, memory_order_acquire) >= kind) return 1;
    if (bed->sender.asking != kind) bed->sender.asked_since = now;
    else if (now - bed->sender.asked_tick < bed->hertz / 1000) return 0;
    bed->sender.asking = kind;
    ask(bed, kind, now);
    if (now - bed->sender.asked_since > PEER_SECONDS * bed->hertz) lose_peer(bed);
    return 0;
}

static void begin_sending(struct testbed *bed) {
    bed->sender.begin_ns = now_ns();
    fill_bucket(&bed->bucket, bed->options, bed->hertz, tickscope_now(TICKSCOPE_PLAIN));
}

/* Parts from a forwarder that was greeted. */
static size_t end_sending(struct testbed *bed, int64_t now) {
    if (bed->sender.end_ns == 0) bed->sender.end_ns = now_ns();
    if (bed->sender.begin_ns > 0 && !is_answered(bed, FAREWELL, now)) return 0;
    return took(bed, SENDER, 1, 0);
}

static size_t send_step(struct testbed *bed, struct points *points, int64_t now) {
    struct packet batch[BURST];
    int64_t left = bed->trace.count - bed->sender.row, offered = BURST;
    if (left == 0 || atomic_load_explicit(&bed->is_cut, memory_order_relaxed)) return end_sending(bed, now);
    if (bed->sender.begin_ns == 0) {
        if (is_answered(bed, GREETING, now)) begin_sending(bed);
        return 0;
    }
    miss_answers(bed, now);
    if (bed->options->rate_pps > 0) offered = load_offer(&bed->bucket, now);
    if (offered > left) offered = left;
    if (offered <= 0) return 0;
    int64_t tick = tickscope_now(TICKSCOPE_BEFORE);
    for (int64_t at = 0; at < offered; at++) {
        uint32_t row = bed->trace.rows[bed->sender.row + at];
        batch[at] = (struct packet){.id = id_of(&bed->trace, bed->sender.row + at), .sent_tick = tick,
                                    .address_id = NO_ADDRESS, .user = (int32_t)(row & ~LOAD_CONTROL),
                                    .kind = row & LOAD_CONTROL ? MOVE : DATA_PACKET};
    }
    size_t admitted = bed->links.there.put(&bed->links.there, batch, (size_t)offered);
    if (bed->options->rate_pps > 0) load_pay(&bed->bucket, (uint32_t)admitted);
    tell_sent(bed, points, batch, admitted);
    bed->sender.row += (int64_t)admitted;
    bed->sender.batches += admitted > 0;
    return admitted;
}

/* Whether the address is older than the user's last location update, judged as the packet is received. */
static int is_misaddressed(struct testbed *bed, const struct packet *packet) {
    if (packet->address_id == NO_ADDRESS) return 0;
    return packet->address_id < atomic_load_explicit(&bed->last_move[packet->user], memory_order_relaxed);
}

static void hear(struct testbed *bed, const struct packet *packet) {
    if (packet->kind == FAREWELL) {
        bed->receiver.arrived = packet->id;
        bed->receiver.returned = packet->sent_tick;
    }
    atomic_store_explicit(&bed->answer, packet->kind, memory_order_release);
}

static size_t receive_step(struct testbed *bed, struct points *points, int64_t now) {
    struct packet batch[BATCH];
    int had_ended = has_ended(bed, bed->options->role == BOTH ? DATA : SENDER);
    size_t count = bed->links.back.take(&bed->links.back, batch, BATCH);
    int64_t tick = count > 0 ? tickscope_now(TICKSCOPE_AFTER) : now;
    count = kept(bed, &bed->links.back, batch, count);
    if (count > 0) atomic_store_explicit(&bed->receiver.heard_tick, tick, memory_order_relaxed);
    for (size_t at = 0; at < count; at++) {
        if (batch[at].kind > MOVE) {
            hear(bed, &batch[at]);
            continue;
        }
        int misaddressed = is_misaddressed(bed, &batch[at]);
        tickscope_record(misaddressed ? points->misaddressed : points->received, batch[at].id, tick);
        bed->receiver.received += !misaddressed;
        bed->receiver.misaddressed += misaddressed;
        bed->receiver.delay_ticks += tick - batch[at].sent_tick;
    }
    return took(bed, RECEIVER, had_ended, count);
}

/* ---- the forwarder ----------------------------------------------------------------------------------------------- */

/* Hands on packets of one kind, to the control ring or the data ring; what finds no room there is dropped. */
static void hand_on(struct testbed *bed, const struct packet *packets, size_t count) {
    if (packets->kind == MOVE) bed->arrival.control_drops += (int64_t)(count - ring_put(bed->control, packets, count));
    else if (bed->newest) bed->arrival.data_drops += (int64_t)newest_put(bed->newest, packets, count);
    else
        for (size_t at = ring_put(bed->data, packets, count); at < count; at++)
            bed->arrival.data_drops += packets[at].kind == DATA_PACKET; /* what the source asks it asks again */
}

/* Whether nothing comes any more: the sender has ended, or the other process parted a while ago. */
static int is_quiet(struct testbed *bed, int64_t now) {
    int64_t quiet = now - bed->arrival.last_tick;
    if (bed->options->role == BOTH) return has_ended(bed, SENDER);
    if (atomic_load_explicit(&bed->is_cut, memory_order_relaxed)) return 1;
    if (bed->arrival.last_tick == 0) return 0;
    if (atomic_load_explicit(&bed->arrival.has_parted, memory_order_relaxed))
        return quiet > LINGER_MS * bed->hertz / 1000;
    if (quiet > PEER_SECONDS * bed->hertz) lose_peer(bed);
    return 0;
}

/* What the source asks goes the way of data. Memory is there for the trace that this process was given. */
static void note_ask(struct testbed *bed, struct packet *ask) {
    const struct trace *trace = &bed->trace;
    if (ask->kind == FAREWELL) atomic_store_explicit(&bed->arrival.has_parted, 1, memory_order_relaxed);
    else if (ask->id != trace->count || ask->address_id != trace->moves || ask->mac != (uint64_t)trace->users) {
        fprintf(stderr, TARGET ": expected a source of %lld packets, %lld of them moves, of %d users, found one of "
                               "%lld, %lld and %llu. Give both the same --rate, --seconds, --packets, --cdr, "
                               "--users and --seed\n", (long long)trace->count, (long long)trace->moves, trace->users,
                (long long)ask->id, (long long)ask->address_id, (unsigned long long)ask->mac);
        exit(1);
    }
    ask->id = bed->arrival.packets;
}

/* Stamps and counts what arrives. */
static void note_arrival(struct testbed *bed, struct points *points, struct packet *packet, int64_t tick) {
    if (packet->kind > MOVE) {
        note_ask(bed, packet);
        return;
    }
    tickscope_record(packet->kind == MOVE ? points->move_arrived : points->arrived, packet->id, tick);
    bed->arrival.packets++;
    bed->arrival.moves += packet->kind == MOVE;
    if (bed->arrival.moves <= bed->trace.moves) return;
    fprintf(stderr, TARGET ": expected %lld moves at most, found more: the link doubles packets\n",
            (long long)bed->trace.moves);
    exit(1);
}

static size_t arrive_step(struct testbed *bed, struct points *points, int64_t now) {
    struct packet batch[BATCH];
    int had_ended = is_quiet(bed, now);
    size_t count = bed->links.there.take(&bed->links.there, batch, BATCH), first = 0;
    int64_t before = bed->arrival.packets;
    int64_t tick = count > 0 ? tickscope_now(TICKSCOPE_AFTER) : now;
    count = kept(bed, &bed->links.there, batch, count);
    if (count > 0) bed->arrival.last_tick = tick;
    for (size_t at = 0; at < count; at++) {
        note_arrival(bed, points, &batch[at], tick);
        if (at + 1 < count && (batch[at + 1].kind == MOVE) == (batch[at].kind == MOVE)) continue;
        hand_on(bed, &batch[first], at + 1 - first);
        first = at + 1;
    }
    bed->arrival.batches += bed->arrival.packets > before;
    return took(bed, ARRIVAL, had_ended, count);
}

static size_t control_step(struct testbed *bed, struct points *points, int64_t now) {
    struct packet batch[BATCH];
    int had_ended = has_ended(bed, ARRIVAL);
    size_t count = ring_take(bed->control, batch, BATCH);
    (void)now;
    for (size_t at = 0; at < count; at++) {
        if (bed->fib.primitive->write) fib_write(&bed->fib, batch[at].user, batch[at].id);
        /* A plain store may wait in this core's buffer, where nobody sees it yet. */
        atomic_thread_fence(memory_order_seq_cst);
        tickscope_stamp(points->written, batch[at].id);
    }
    bed->control_counts.written += (int64_t)count;
    return took(bed, CONTROL, had_ended, count);
}

/* Spends so long: the control of section "Before ranking primitives" of docs/forwarder.md. */
static void delay(const struct testbed *bed) {
    int64_t until = tickscope_now(TICKSCOPE_PLAIN) + bed->options->delay_ns * bed->hertz / NANOSECONDS;
    while (tickscope_now(TICKSCOPE_PLAIN) < until) {}
}

static size_t data_step(struct testbed *bed, struct points *points, int64_t now) {
    struct packet batch[BATCH];
    int had_ended = has_ended(bed, ARRIVAL);
    if (bed->fib.primitive->rest) bed->fib.primitive->rest();
    size_t count = bed->newest ? newest_take(bed->newest, batch) : ring_take(bed->data, batch, BATCH);
    if (count == 0) return took(bed, DATA, had_ended, 0);
    int64_t taken = tickscope_now(TICKSCOPE_AFTER), before = 0;
    (void)now;
    for (struct packet *packet = batch; packet < batch + count; packet++) {
        if (packet->kind > MOVE) {
            packet->sent_tick = bed->data_counts.returned + before; /* it returns only behind these */
            continue;
        }
        tickscope_record(points->taken, packet->id, taken);
        before++;
        if (bed->options->delay_ns > 0) delay(bed);
        if (bed->fib.primitive->read == 0) continue;
        struct address address = fib_read(&bed->fib, packet->user);
        packet->address_id = address.id;
        packet->mac = address.mac;
        bed->data_counts.torn += is_torn(address, packet->user);
    }
    int64_t addressed = tickscope_now(TICKSCOPE_BEFORE);
    size_t admitted = bed->links.back.put(&bed->links.back, batch, count);
    for (size_t at = 0; at < count; at++) {
        if (batch[at].kind > MOVE) continue;
        tickscope_record_with(points->addressed, batch[at].id, addressed,
                              (struct tickscope_extra){.value = batch[at].address_id});
        bed->data_counts.addressed++;
        bed->data_counts.returned += at < admitted;
        bed->data_counts.return_drops += at >= admitted;
    }
    return count;
}

static size_t (*const steps[ROLES])(struct testbed *, struct points *, int64_t) = {send_step, receive_step, arrive_step,
                                                                                   control_step, data_step};
