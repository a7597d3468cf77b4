/*
 * What is sent, and when: the paper's trace and its token bucket, by load.h.
 *
 * The trace lies in memory before the run: rows of a type and a user, types by coin flips, users by a Zipf distribution
 * of exponent 1. One seed gives one trace on every machine. Users are numbered so that any few consecutive numbers are
 * a fair sample of popularity, and user 0 is the most popular.
 *
 * Users that the first third of the trace lacks are primed: a move of each that has none there, then a data packet of
 * each that has none, come at its beginning, every tenth packet, for so many moves in turn would overflow the control
 * ring. So every user is known by then, and ages are integrated from there to the end. Were all users primed, ages
 * would begin at 0: in ten times their mean, that of moves would be 14 % too small.
 */

#define BURST 32 /* the most that is offered at once */
#define PRIMED_PART 3 /* one in so many of its rows is the part of a trace by which every user is known */
#define MOST_BETWEEN 9 /* rows of the trace between two that prime; fewer where these would not fit in that part */

struct trace {
    uint32_t *rows; /* a user, with LOAD_CONTROL where it moves */
    int64_t count, moves; /* primed ones among them */
    int64_t primed_moves, primed_data;
    int32_t users;
};

static int64_t common_divisor(int64_t a, int64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Users by their rank: ranks of consecutive users lie a golden section of all of them apart. */
static uint32_t *users_by_rank(int64_t users) {
    uint32_t *by_rank = (uint32_t *)calloc((size_t)users, sizeof *by_rank);
    int64_t stride = users * 618 / 1000;
    if (by_rank == 0) fail("memory");
    if (stride < 1) stride = 1;
    while (common_divisor(stride, users) != 1) stride++;
    for (int64_t user = 0; user < users; user++) by_rank[user * stride % users] = (uint32_t)user;
    return by_rank;
}

/* Rows of that kind for each user of whom nothing of it was seen; returns how many. */
static int64_t lacking(uint32_t *rows, const struct trace *drawn, const uint8_t *seen, uint32_t kind) {
    int64_t count = 0;
    for (uint32_t user = 0; user < (uint32_t)drawn->users; user++)
        if ((seen[user] & (kind ? 2 : 1)) == 0) rows[count++] = user | kind;
    return count;
}

/* The same trace with what its users are primed by. */
static struct trace primed(const struct trace *drawn) {
    struct trace trace = {.users = drawn->users};
    int64_t part = drawn->count / PRIMED_PART, taken = 0;
    uint8_t *seen = (uint8_t *)calloc((size_t)drawn->users, 1);
    uint32_t *primes = (uint32_t *)calloc(2 * (size_t)drawn->users, sizeof *primes);
    trace.rows = (uint32_t *)malloc((size_t)(drawn->count + 2 * drawn->users) * sizeof *trace.rows);
    if (seen == 0 || primes == 0 || trace.rows == 0) fail("memory");
    for (int64_t row = 0; row < part; row++)
        seen[drawn->rows[row] & ~LOAD_CONTROL] |= drawn->rows[row] & LOAD_CONTROL ? 2 : 1;
    if (drawn->moves > 0) trace.primed_moves = lacking(primes, drawn, seen, LOAD_CONTROL);
    trace.primed_data = lacking(primes + trace.primed_moves, drawn, seen, 0);
    int64_t count = trace.primed_moves + trace.primed_data, between = count > 0 ? part / count : 0;
    if (between > MOST_BETWEEN) between = MOST_BETWEEN;
    for (int64_t at = 0; at < count; at++) {
        trace.rows[trace.count++] = primes[at];
        for (int64_t row = 0; row < between; row++) trace.rows[trace.count++] = drawn->rows[taken++];
    }
    memcpy(trace.rows + trace.count, drawn->rows + taken, (size_t)(drawn->count - taken) * sizeof *trace.rows);
    trace.count += drawn->count - taken;
    trace.moves = drawn->moves + trace.primed_moves;
    free(drawn->rows);
    free(primes);
    free(seen);
    return trace;
}

static struct trace new_trace(const struct options *options) {
    struct trace trace = {.count = options->packets, .users = options->users};
    const uint32_t control_to_data[2] = {control_parts(options), CDR_PARTS};
    const char *expected;
    uint32_t *by_rank = users_by_rank(options->users);
    trace.rows = load_trace((uint32_t)options->users, control_to_data, (size_t)trace.count, (uint64_t)options->seed,
                            &expected);
    if (trace.rows == 0) fail(expected);
    for (int64_t row = 0; row < trace.count; row++) {
        uint32_t move = trace.rows[row] & LOAD_CONTROL;
        trace.rows[row] = by_rank[trace.rows[row] & ~LOAD_CONTROL] | move;
        trace.moves += move != 0;
    }
    free(by_rank);
    return primed(&trace);
}

/* Ids tell the user: its number is the rest by the number of users, so that a policy `X of USERS` keeps whole users. */
static int64_t id_of(const struct trace *trace, int64_t row) {
    return row * trace->users + (int64_t)(trace->rows[row] & ~LOAD_CONTROL);
}

/* The bucket of section V: what is offered at once is capped, the credit is not. It has no rate where nobody asked. */
static void fill_bucket(struct load_bucket *bucket, const struct options *options, int64_t hertz, int64_t start) {
    struct load_plan plan = {.hertz = (uint64_t)hertz, .start = start, .burst = 1};
    const char *expected;
    if (options->rate_pps == 0) return;
    expected = load_per_second(&plan.rate, options->rate_pps);
    if (expected == 0) expected = load_fill(bucket, &plan, BURST, 0);
    if (expected) refuse(expected, "another --rate or counter");
}
