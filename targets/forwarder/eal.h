/*
 * DPDK itself, for what needs it: ports, and tables. Works without huge pages (`--no-huge`), which is said; no physical
 * card takes part.
 */
#include <rte_eal.h>
#include <rte_errno.h>

#define MEMORY_MIB "256"
#define HUGE_PAGE_MIB 2

static int dpdk_runs, dpdk_is_huge;
static int dpdk_shares; /* with another process: then it leaves nothing to huge pages */

static const char *dpdk_remedy = "";

static void dpdk_failed(const char *what, int error) {
    const char *why = rte_strerror(error < 0 ? -error : error);
    fprintf(stderr, TARGET ": cannot use DPDK: %s: %s%s\n", what, why, dpdk_remedy);
    exit(1);
}

static long free_huge_pages_mib(void) {
    char text[32] = "";
    FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
    if (file && fgets(text, sizeof text, file) == 0) text[0] = 0;
    if (file) fclose(file);
    return atol(text) * HUGE_PAGE_MIB;
}

/* Starts DPDK unless it runs; the process may run where it might before. */
static void begin_dpdk(void) {
    static char name[] = TARGET, no_pci[] = "--no-pci", memory[] = "-m", mib[] = MEMORY_MIB;
    static char quiet[] = "--log-level=error", no_telemetry[] = "--no-telemetry", in_memory[] = "--in-memory";
    static char no_huge[] = "--no-huge", no_files[] = "--no-shconf";
    int is_huge = !dpdk_shares && free_huge_pages_mib() >= atol(MEMORY_MIB);
    /* Nothing of it is left behind; DPDK refuses --in-memory with --no-huge. */
    char *arguments[] = {name, no_pci, memory, mib, quiet, no_telemetry, is_huge ? in_memory : no_huge, no_files, 0};
    cpu_set_t cores;
    if (dpdk_runs) return;
    dpdk_runs = 1;
    dpdk_is_huge = is_huge;
    if (sched_getaffinity(0, sizeof cores, &cores)) fail("sched_getaffinity");
    if (!is_huge && !dpdk_shares)
        fprintf(stderr, TARGET ": without huge pages: fewer than " MEMORY_MIB " MiB are free\n");
    if (rte_eal_init(is_huge ? 7 : 8, arguments) < 0) dpdk_failed("rte_eal_init", rte_errno);
    if (sched_setaffinity(0, sizeof cores, &cores)) fail("sched_setaffinity");
}

/* After all that needs it. */
static void end_dpdk(void) {
    if (dpdk_runs && !dpdk_shares) rte_eal_cleanup();
}
