/* overlap DIRECTORY IDS: each id is worked on by two threads at once, by A for 10 ms, by B meanwhile for 2 ms. */
#include "account.h"

static pthread_barrier_t together;
static int ids;

struct worker {
    long work_us;
    unsigned passage;
    int is_outer;
};

static void *run(void *argument) {
    const struct worker *worker = argument;
    tickscope_channel *begin = tickscope_open("begin", TICKSCOPE_PLAIN, 0);
    tickscope_channel *end = tickscope_open("end", TICKSCOPE_PLAIN, 0);
    for (int id = 0; id < ids; id++) {
        pthread_barrier_wait(&together);
        if (!worker->is_outer) pthread_barrier_wait(&together); /* A has begun */
        keep(begin, "begin", id, tickscope_now(TICKSCOPE_PLAIN), worker->passage);
        if (worker->is_outer) pthread_barrier_wait(&together);
        work(worker->work_us);
        if (worker->is_outer) pthread_barrier_wait(&together); /* B has ended */
        keep(end, "end", id, tickscope_now(TICKSCOPE_PLAIN), worker->passage);
        if (!worker->is_outer) pthread_barrier_wait(&together);
    }
    return NULL;
}

int main(int count, char **words) {
    struct worker workers[] = {{10000, 1, 1}, {2000, 2, 0}};
    pthread_t threads[2];
    if (count != 3) {
        return 2;
    }
    open_account(words[1]);
    ids = atoi(words[2]);
    pthread_barrier_init(&together, NULL, 2);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, run, &workers[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    return fclose(account) != 0;
}
