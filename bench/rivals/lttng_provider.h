/* The tracepoints of lttng.c; included several times by LTTng-UST's own headers, so its guard is as they want it. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER tickscope_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_provider.h"

#if !defined(LTTNG_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(tickscope_bench, event, LTTNG_UST_TP_ARGS(int64_t, id),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int64_t, id, id)))
LTTNG_UST_TRACEPOINT_EVENT(tickscope_bench, off, LTTNG_UST_TP_ARGS(int64_t, id),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int64_t, id, id)))

#endif

#include <lttng/tracepoint-event.h>
