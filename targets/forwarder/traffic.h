/*
 * What is sent, and when: the paper's trace and its token bucket.
 *
 * The trace lies in memory before the run: rows of a type and a user, types by coin flips, users by a Zipf distribution
 * of exponent 1. One seed gives one trace on every machine. Users are numbered so that any few consecutive numbers are
 * a fair sample of popularity, and user 0 is the most popular.
 */

#define MOVE_BIT UINT32_C(0x80000000)

struct trace {
    uint32_t *rows;
    int64_t count, moves;
    int32_t users;
};

/* The next of splitmix64. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* From 0 to below 1. */
static double next_uniform(uint64_t *state) {
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Users by their rank: ranks of consecutive users lie a golden section of all of them apart. */
static int32_t *users_by_rank(int64_t users) {
    int32_t *by_rank = (int32_t *)calloc((size_t)users, sizeof *by_rank);
    int64_t stride = users * 618 / 1000;
    if (by_rank == 0) fail("memory");
    if (stride < 1) stride = 1;
    while (common_divisor(stride, users) != 1) stride++;
    for (int64_t user = 0; user < users; user++) by_rank[user * stride % users] = (int32_t)user;
    return by_rank;
}

/* Sums of 1/rank up to each rank. */
static double *zipf_sums(int32_t users) {
    double *sums = (double *)calloc((size_t)users, sizeof *sums), sum = 0;
    if (sums == 0) fail("memory");
    for (int32_t rank = 0; rank < users; rank++) sums[rank] = sum += 1.0 / (rank + 1);
    return sums;
}

/* The first rank whose sum is above `at`. */
static int32_t rank_at(const double *sums, int32_t users, double at) {
    int32_t low = 0, high = users - 1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (sums[middle] > at) high = middle;
        else low = middle + 1;
    }
    return low;
}

static struct trace new_trace(const struct options *options) {
    struct trace trace = {.count = options->packets, .users = options->users};
    double *sums = zipf_sums(options->users), moves = options->cdr / (1 + options->cdr);
    uint64_t state = (uint64_t)options->seed;
    int32_t *by_rank = users_by_rank(options->users);
    trace.rows = (uint32_t *)malloc((size_t)trace.count * sizeof *trace.rows);
    if (trace.rows == 0) fail("memory");
    for (int64_t row = 0; row < trace.count; row++) {
        int is_move = next_uniform(&state) < moves;
        int32_t rank = rank_at(sums, options->users, next_uniform(&state) * sums[options->users - 1]);
        trace.rows[row] = (uint32_t)by_rank[rank] | (is_move ? MOVE_BIT : 0);
        trace.moves += is_move;
    }
    free(sums);
    free(by_rank);
    return trace;
}

/* Ids tell the user: its number is the rest by the number of users, so that a policy `X of USERS` keeps whole users. */
static int64_t id_of(const struct trace *trace, int64_t row) {
    return row * trace->users + (int64_t)(trace->rows[row] & ~MOVE_BIT);
}

/* ---- the bucket -------------------------------------------------------------------------------------------------- */

#define BURST 32 /* the most that is offered at once */

/* Token bucket of section V: what is offered at once is capped, the credit is not. */
struct bucket {
    int64_t rate_pps, hertz; /* 0 packets a second: unpaced */
    int64_t last_tick;
    __int128 credit; /* tokens times `hertz` */
};

/* How many packets may be offered at that tick. */
static int64_t bucket_offer(struct bucket *bucket, int64_t now) {
    if (bucket->rate_pps == 0) return BURST;
    bucket->credit += (__int128)(now - bucket->last_tick) * bucket->rate_pps;
    bucket->last_tick = now;
    __int128 tokens = bucket->credit / bucket->hertz;
    return tokens < BURST ? (int64_t)tokens : BURST;
}

static void bucket_admit(struct bucket *bucket, int64_t packets) {
    bucket->credit -= (__int128)packets * bucket->hertz;
}
