/*
 * What is sent, and when: the paper's trace and its token bucket, by load.h.
 *
 * The trace lies in memory before the run: rows of a type and a user, types by coin flips, users by a Zipf distribution
 * of exponent 1. One seed gives one trace on every machine. Users are numbered so that any few consecutive numbers are
 * a fair sample of popularity, and user 0 is the most popular.
 */

#define BURST 32 /* the most that is offered at once */
#define CDR_PARTS 1000000 /* of a data packet: as exactly as a ratio of control and data is taken */

struct trace {
    uint32_t *rows; /* a user, with LOAD_CONTROL where it moves */
    int64_t count, moves;
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

static struct trace new_trace(const struct options *options) {
    struct trace trace = {.count = options->packets, .users = options->users};
    const uint32_t control_to_data[2] = {(uint32_t)(options->cdr * CDR_PARTS + 0.5), CDR_PARTS};
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
    return trace;
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
