/* A program's own account of its stamps: lines `point,id,tick,passages`, passages as bits of a number. */
#ifndef ACCOUNT_H
#define ACCOUNT_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tickscope.h"

static FILE *account;
static pthread_mutex_t account_lock = PTHREAD_MUTEX_INITIALIZER;

static void open_account(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s/account.csv", directory);
    account = fopen(path, "w");
    if (!account) {
        perror(path);
        exit(1);
    }
}

/* Files a tick that was read already as a stamp, and in the account. */
static void keep(tickscope_channel *channel, const char *point, int64_t id, int64_t tick, unsigned passages) {
    tickscope_record(channel, id, tick);
    pthread_mutex_lock(&account_lock);
    fprintf(account, "%s,%lld,%lld,%u\n", point, (long long)id, (long long)tick, passages);
    pthread_mutex_unlock(&account_lock);
}

static void work(long us) {
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

#endif
