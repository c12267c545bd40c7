/* lttng_events.h: two events of LTTng-UST around a lock, for peers_bench.cpp. LTTng's macros read this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER pfs_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng_events.h"

#if !defined(PFS_BENCH_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define PFS_BENCH_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(pfs_bench, lock_begin, LTTNG_UST_TP_ARGS(const void*, mutex, int, line),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_hex(unsigned long, mutex, (unsigned long)mutex)
                                                   lttng_ust_field_integer(int, line, line)))
LTTNG_UST_TRACEPOINT_EVENT(pfs_bench, lock_end, LTTNG_UST_TP_ARGS(const void*, mutex, int, rc),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer_hex(unsigned long, mutex, (unsigned long)mutex)
                                                   lttng_ust_field_integer(int, rc, rc)))

#endif

#include <lttng/tracepoint-event.h>
