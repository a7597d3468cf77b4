/*
 * isal ROUNDS - what coding a block of PRRT takes with Intel's ISA-L (Debian: libisal-dev), as
 * targets/prrt/examples/coding_cost.rs measures ours: 1200 bytes a packet, medians of 200 blocks, nanoseconds. Decoding
 * loses other packets each time, and makes its matrix anew. What was recovered is compared with what was lost.
 */
#include <isa-l/erasure_code.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 1200, BLOCKS = 200, MOST = 40 };

static unsigned char packets[MOST][BYTES], recovered[MOST][BYTES], matrix[MOST * MOST], tables[MOST * MOST * 32];

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int order(const void *one, const void *other) {
    long a = *(const long *)one, b = *(const long *)other;
    return (a > b) - (a < b);
}

/* Recovers the source packets among `parity` lost ones, of which one parity packet stays; answers how long it took. */
static long decode(int k, int parity) {
    int n = k + parity, lost[MOST] = {0}, sources[MOST], missing = 0, kept = 0;
    for (int i = 1; i < parity; i++) lost[rand() % n] = 1;
    lost[rand() % k] = 1;
    lost[k] = 0;
    unsigned char part[MOST * MOST], inverse[MOST * MOST], rows[MOST * MOST], *from[MOST], *to[MOST];
    long start = now_ns();
    for (int i = 0; i < n && kept < k; i++) {
        if (lost[i]) continue;
        memcpy(part + kept * k, matrix + i * k, (size_t)k);
        from[kept++] = packets[i];
    }
    if (gf_invert_matrix(part, inverse, k)) exit(1);
    for (int i = 0; i < k; i++) {
        if (!lost[i]) continue;
        memcpy(rows + missing * k, inverse + i * k, (size_t)k);
        sources[missing] = i;
        to[missing] = recovered[missing];
        missing++;
    }
    ec_init_tables(k, missing, rows, tables);
    ec_encode_data(BYTES, k, missing, tables, from, to);
    long took = now_ns() - start;
    for (int i = 0; i < missing; i++)
        if (memcmp(recovered[i], packets[sources[i]], BYTES)) exit(1);
    return took;
}

static void coded(int k, int parity) {
    long encode[BLOCKS], decoded[BLOCKS];
    unsigned char *from[MOST], *to[MOST], of[MOST * MOST * 32];
    for (int i = 0; i < k + parity; i++) *(i < k ? &from[i] : &to[i - k]) = packets[i];
    for (int i = 0; i < k; i++)
        for (int at = 0; at < BYTES; at++) packets[i][at] = (unsigned char)rand();
    gf_gen_cauchy1_matrix(matrix, k + parity, k);
    ec_init_tables(k, parity, matrix + k * k, of);
    for (int i = 0; i < BLOCKS; i++) {
        long start = now_ns();
        ec_encode_data(BYTES, k, parity, of, from, to);
        encode[i] = now_ns() - start;
    }
    for (int i = 0; i < BLOCKS; i++) decoded[i] = decode(k, parity);
    qsort(encode, BLOCKS, sizeof *encode, order);
    qsort(decoded, BLOCKS, sizeof *decoded, order);
    printf("{\"isal_k\": %d, \"parity\": %d, ", k, parity);
    printf("\"encode_ns\": %ld, \"decode_ns\": %ld}\n", encode[BLOCKS / 2], decoded[BLOCKS / 2]);
}

int main(int argc, char **argv) {
    for (int round = argc > 1 ? atoi(argv[1]) : 1; round > 0; round--) {
        srand((unsigned)round);
        coded(4, 2);
        coded(8, 4);
        coded(32, 8);
    }
    return 0;
}
