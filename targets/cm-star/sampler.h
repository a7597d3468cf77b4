/* Method II's clock process: a pair of stamps every so often. */

#define SAMPLE_EVERY_NS 200000

static int sampling_over;

static void *sample(void *argument) {
    const struct options *options = (const struct options *)argument;
    const struct tickscope_extra nothing = {0};
    struct timespec nap = {.tv_nsec = SAMPLE_EVERY_NS};
    pin(options->sampler_core);
    tickscope_channel *first = tickscope_open("sample-1", TICKSCOPE_BEFORE, TICKSCOPE_WIDE);
    tickscope_channel *second = tickscope_open("sample-2", TICKSCOPE_AFTER, TICKSCOPE_WIDE);
    for (int64_t id = 0; !__atomic_load_n(&sampling_over, __ATOMIC_RELAXED); id++) {
        tickscope_stamp_with(first, id, nothing);
        tickscope_stamp_with(second, id, nothing);
        nanosleep(&nap, 0);
    }
    return 0;
}
