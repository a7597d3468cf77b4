/*
 * Round trips by an ordinary clock, taken whether or not anything is stamped: what measuring adds is their difference.
 *
 * The clock is read before the first stamp of a packet and after the last: all that stamping costs a packet lies
 * between.
 */

#define MOST_ROUND_TRIPS (1 << 22) /* of a client: those after are not in its quantiles */

struct round_trips {
    int64_t *sent_ns, *took_ns; /* by id; in the order of responses */
    int64_t room, count;
};

static struct round_trips round_trips_of(const struct options *options) {
    struct round_trips trips = {.room = MOST_ROUND_TRIPS};
    double packets = options->rate_hz * options->seconds + 1;
    if (options->seconds > 0 && packets < MOST_ROUND_TRIPS) trips.room = (int64_t)packets;
    trips.sent_ns = (int64_t *)calloc((size_t)trips.room, sizeof *trips.sent_ns);
    trips.took_ns = (int64_t *)calloc((size_t)trips.room, sizeof *trips.took_ns);
    if (trips.sent_ns == 0 || trips.took_ns == 0) fail("round trips");
    return trips;
}

static void round_trip_begins(struct round_trips *trips, int64_t id) {
    if (id < trips->room) __atomic_store_n(&trips->sent_ns[id], now_ns(), __ATOMIC_RELAXED);
}

/* An id that comes twice has two round trips. */
static void round_trip_ends(struct round_trips *trips, int64_t id) {
    if (id < trips->room && trips->count < trips->room)
        trips->took_ns[trips->count++] = now_ns() - __atomic_load_n(&trips->sent_ns[id], __ATOMIC_RELAXED);
}

static int by_size(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Sorts what was taken. */
static void sort_round_trips(struct round_trips *trips) {
    qsort(trips->took_ns, (size_t)trips->count, sizeof *trips->took_ns, by_size);
}

/* The smallest that so many of a thousand do not exceed; of sorted ones, of which there are some. */
static int64_t round_trip_quantile(const struct round_trips *trips, int64_t of_1000) {
    int64_t rank = (trips->count * of_1000 + 999) / 1000;
    return trips->took_ns[rank > 0 ? rank - 1 : 0];
}
