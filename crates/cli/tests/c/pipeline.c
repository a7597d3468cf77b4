/*
 * pipeline DIRECTORY IDS: four threads. Main submits ids in batches; each goes to up to three attempts (fan-out), which
 * three workers take as they come. Every fifth id's first attempt fails without an end and begins again on its worker.
 * Main gathers what ended: by id modulo 4 the first attempt alone goes on; every attempt; all together, as one; the
 * first again, twice where it is the only one. What went on is done with its batch, at one reading of the counter for
 * all.
 */
#include "account.h"

enum { WORKERS = 3, BATCH = 8, ATTEMPTS = 3, ALL = 255 };

struct task {
    int id;
    int attempt;
    unsigned passage;
};

static struct task tasks[BATCH * ATTEMPTS], ended[BATCH * ATTEMPTS];
static int waiting, finished, over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *run(void *argument) {
    unsigned random = 7u + (unsigned)(intptr_t)argument;
    tickscope_channel *begin = tickscope_open("begin", TICKSCOPE_PLAIN, 0);
    tickscope_channel *end = tickscope_open("end", TICKSCOPE_PLAIN, 0);
    for (;;) {
        pthread_mutex_lock(&lock);
        while (waiting == 0 && !over) {
            pthread_cond_wait(&changed, &lock);
        }
        if (waiting == 0) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        struct task task = tasks[--waiting];
        pthread_mutex_unlock(&lock);
        if (task.attempt == 0 && task.id % 5 == 0) {
            keep(begin, "begin", task.id, tickscope_now(TICKSCOPE_PLAIN), 1u << ATTEMPTS);
            work(20);
        }
        keep(begin, "begin", task.id, tickscope_now(TICKSCOPE_PLAIN), task.passage);
        work(50 + (long)(rand_r(&random) % 300));
        keep(end, "end", task.id, tickscope_now(TICKSCOPE_PLAIN), task.passage);
        pthread_mutex_lock(&lock);
        ended[finished++] = task;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
}

static int attempts_of(int id) { return 1 + id / 3 % ATTEMPTS; }

struct batch {
    tickscope_channel *in;
    int ids[2 * BATCH * ATTEMPTS];
    unsigned passages[2 * BATCH * ATTEMPTS];
    int count;
};

static void put(struct batch *batch, int id, unsigned passages) {
    keep(batch->in, "batched", id, tickscope_now(TICKSCOPE_PLAIN), passages);
    batch->ids[batch->count] = id;
    batch->passages[batch->count++] = passages;
}

static void gather(struct batch *batch, struct task task, int nth) {
    switch (task.id % 4) {
    case 1:
        put(batch, task.id, task.passage);
        break;
    case 2:
        if (nth == attempts_of(task.id)) {
            put(batch, task.id, ALL);
        }
        break;
    default:
        for (int again = 0; nth == 1 && again < 1 + (task.id % 4 == 3 && attempts_of(task.id) == 1); again++) {
            put(batch, task.id, task.passage);
        }
    }
}

int main(int count, char **words) {
    pthread_t workers[WORKERS];
    if (count != 3) {
        return 2;
    }
    open_account(words[1]);
    int ids = atoi(words[2]) / BATCH * BATCH;
    tickscope_channel *submit = tickscope_open("submit", TICKSCOPE_PLAIN, 0);
    tickscope_channel *done = tickscope_open("done", TICKSCOPE_PLAIN, 0);
    struct batch batch = {.in = tickscope_open("batched", TICKSCOPE_PLAIN, 0)};
    for (int i = 0; i < WORKERS; i++) {
        pthread_create(&workers[i], NULL, run, (void *)(intptr_t)i);
    }
    for (int first = 0; first < ids; first += BATCH) {
        int seen[BATCH] = {0}, taken = 0, all = 0;
        pthread_mutex_lock(&lock);
        finished = 0;
        for (int id = first; id < first + BATCH; id++) {
            keep(submit, "submit", id, tickscope_now(TICKSCOPE_PLAIN), ALL);
            for (int attempt = 0; attempt < attempts_of(id); attempt++, all++) {
                tasks[waiting++] = (struct task){id, attempt, 1u << attempt};
            }
        }
        pthread_cond_broadcast(&changed);
        for (batch.count = 0; taken < all;) {
            while (taken == finished) {
                pthread_cond_wait(&changed, &lock);
            }
            struct task task = ended[taken++];
            gather(&batch, task, ++seen[task.id - first]);
        }
        pthread_mutex_unlock(&lock);
        int64_t now = tickscope_now(TICKSCOPE_PLAIN);
        for (int i = 0; i < batch.count; i++) {
            keep(done, "done", batch.ids[i], now, batch.passages[i]);
        }
    }
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i], NULL);
    }
    return fclose(account) != 0;
}
