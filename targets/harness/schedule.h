/* Whether a load of load.h, paced in nanoseconds, was held: keys of the line of JSON at a target's end. */

static void print_number(const char *name, uint64_t number) {
    printf(", \"%s\": %llu", name, (unsigned long long)number);
}

/* Whether every packet was sent when it was due; where it was not, what the trial says of the service is not valid. */
static void print_schedule(const struct load_lateness *lateness) {
    const char *fault = load_fault(lateness);
    printf(", \"schedule\": {\"held\": %s, \"fault\": \"%s\"", fault ? "false" : "true", fault ? fault : "none");
    print_number("late", lateness->late);
    print_number("unsent", lateness->unsent);
    print_number("late_limit_ns", lateness->late_ticks);
    print_number("p50_ns", load_quantile_ticks(lateness, 500));
    print_number("p999_ns", load_quantile_ticks(lateness, 999));
    print_number("worst_ns", lateness->worst_ticks);
    printf("}");
}

/* Whether the load was the one that was asked for: a sweep takes no figure of a trial in which it was not. */
static void print_valid(const struct load_lateness *lateness) {
    const char *fault = load_fault(lateness);
    printf(", \"valid\": %s", fault ? "false" : "true");
    if (fault) printf(", \"why\": [\"schedule: %s\"]", fault);
}
