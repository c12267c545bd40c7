"""Views of waits, files, memory and locks."""

from __future__ import annotations

from pfs._sql.views.view import View, declare

__all__ = ["WAITS"]

_GLOBAL = "FROM performance_schema.events_waits_summary_global_by_event_name"
_WAITED = "WHERE EVENT_NAME != 'idle' AND SUM_TIMER_WAIT > 0"
_FILES = "FROM performance_schema.file_summary_by_instance"
_FILE_NAMES = "FROM performance_schema.file_summary_by_event_name WHERE EVENT_NAME LIKE 'wait/io/file/%' AND COUNT_STAR > 0"
_SHORT = "substring_index(EVENT_NAME, '/', -2)"
_SECTION = "substring_index(EVENT_NAME, '/', 3)"
_BYTES = "SUM_NUMBER_OF_BYTES_READ + SUM_NUMBER_OF_BYTES_WRITE"
_TOTALS = {"total": "COUNT_STAR", "total_latency": "$t(SUM_TIMER_WAIT)"}
_READ = {
    "count_read": "COUNT_READ",
    "total_read": "$b(SUM_NUMBER_OF_BYTES_READ)",
    "avg_read": "$b(coalesce(SUM_NUMBER_OF_BYTES_READ // nullif(COUNT_READ, 0), 0))",
    "count_write": "COUNT_WRITE",
    "total_written": "$b(SUM_NUMBER_OF_BYTES_WRITE)",
}
_AVG_WRITTEN = "$b(coalesce(SUM_NUMBER_OF_BYTES_WRITE // nullif(COUNT_WRITE, 0), 0))"
_USER = (
    "CASE WHEN t.PROCESSLIST_ID IS NULL THEN substring_index(t.NAME, '/', -1)"
    " ELSE coalesce(t.PROCESSLIST_USER, '') || '@' || coalesce(t.PROCESSLIST_HOST, '') END"
)

_SECONDS = "(b.TIMER_WAIT // 1000000000000)"
_NO_TRANSACTION = {
    "trx_started": "CAST(NULL AS TIMESTAMP)",
    "trx_age": "CAST(NULL AS VARCHAR)",
    "trx_rows_locked": "CAST(NULL AS BIGINT)",
    "trx_rows_modified": "CAST(NULL AS BIGINT)",
}


def _without_transaction(who: str) -> dict[str, str]:
    return {f"{who}_{name}": null for name, null in _NO_TRANSACTION.items()}


def _classes(by: str, name: str) -> list[View]:
    return declare(
        f"wait_classes_global_by_{by}",
        f"Waits by the first three parts of the instrument's name, the {name} first.",
        {
            "event_class": _SECTION,
            "total": "sum(COUNT_STAR)",
            "total_latency": "$t(sum(SUM_TIMER_WAIT))",
            "min_latency": "$t(min(MIN_TIMER_WAIT))",
            "avg_latency": "$t(coalesce(sum(SUM_TIMER_WAIT) // nullif(sum(COUNT_STAR), 0), 0))",
            "max_latency": "$t(max(MAX_TIMER_WAIT))",
        },
        f"{_GLOBAL} {_WAITED} GROUP BY {_SECTION} ORDER BY "
        + ("sum(SUM_TIMER_WAIT) DESC" if by == "latency" else "sum(SUM_TIMER_WAIT) / nullif(sum(COUNT_STAR), 0) DESC"),
    )


def _memory(principal: str) -> list[View]:
    """Returns the view of the memory of users, hosts or threads."""
    who = f"coalesce({principal.upper()}, 'background')"
    key = {principal: who}
    source = f"FROM performance_schema.memory_summary_by_{principal}_by_event_name GROUP BY {who}"
    if principal == "thread":
        key = {"thread_id": "m.THREAD_ID", "user": _USER}
        source = (
            "FROM performance_schema.memory_summary_by_thread_by_event_name AS m"
            f" JOIN performance_schema.threads AS t ON t.THREAD_ID = m.THREAD_ID GROUP BY m.THREAD_ID, {_USER}"
        )
    return declare(
        f"memory_by_{principal}_by_current_bytes",
        f"Memory in use by each {principal}, the most bytes first.",
        {
            **key,
            "current_count_used": "sum(CURRENT_COUNT_USED)",
            "current_allocated": "$b(sum(CURRENT_NUMBER_OF_BYTES_USED))",
            "current_avg_alloc": "$b(coalesce(sum(CURRENT_NUMBER_OF_BYTES_USED) // nullif(sum(CURRENT_COUNT_USED), 0), 0))",
            "current_max_alloc": "$b(max(CURRENT_NUMBER_OF_BYTES_USED))",
            "total_allocated": "$b(sum(SUM_NUMBER_OF_BYTES_ALLOC))",
        },
        f"{source} ORDER BY sum(CURRENT_NUMBER_OF_BYTES_USED) DESC",
    )


WAITS: list[View] = [
    *declare(
        "waits_global_by_latency",
        "Waits by instrument, the most total time first.",
        {
            "events": "EVENT_NAME",
            **_TOTALS,
            "avg_latency": "$t(AVG_TIMER_WAIT)",
            "max_latency": "$t(MAX_TIMER_WAIT)",
        },
        f"{_GLOBAL} {_WAITED} ORDER BY SUM_TIMER_WAIT DESC",
    ),
    *_classes("latency", "most total time"),
    *_classes("avg_latency", "longest mean"),
    *declare(
        "io_by_thread_by_latency",
        "File operations of each thread, the most time first.",
        {
            "user": _USER,
            "total": "sum(w.COUNT_STAR)",
            "total_latency": "$t(sum(w.SUM_TIMER_WAIT))",
            "min_latency": "$t(min(w.MIN_TIMER_WAIT))",
            "avg_latency": "$t(sum(w.SUM_TIMER_WAIT) // nullif(sum(w.COUNT_STAR), 0))",
            "max_latency": "$t(max(w.MAX_TIMER_WAIT))",
            "thread_id": "w.THREAD_ID",
            "processlist_id": "t.PROCESSLIST_ID",
        },
        "FROM performance_schema.events_waits_summary_by_thread_by_event_name AS w"
        " LEFT JOIN performance_schema.threads AS t ON t.THREAD_ID = w.THREAD_ID"
        " WHERE w.EVENT_NAME LIKE 'wait/io/file/%' AND w.SUM_TIMER_WAIT > 0"
        f" GROUP BY w.THREAD_ID, t.PROCESSLIST_ID, {_USER} ORDER BY sum(w.SUM_TIMER_WAIT) DESC",
    ),
    *declare(
        "io_global_by_file_by_bytes",
        "Files by the bytes that were read and written, the most bytes first.",
        {
            "file": "FILE_NAME",
            **_READ,
            "avg_write": _AVG_WRITTEN,
            "total": f"$b({_BYTES})",
            "write_pct": f"round(coalesce(SUM_NUMBER_OF_BYTES_WRITE / nullif({_BYTES}, 0), 0) * 100, 2)",
        },
        f"{_FILES} ORDER BY {_BYTES} DESC",
    ),
    *declare(
        "io_global_by_file_by_latency",
        "Files by the time of their operations, the most time first.",
        {
            "file": "FILE_NAME",
            **_TOTALS,
            "count_read": "COUNT_READ",
            "read_latency": "$t(SUM_TIMER_READ)",
            "count_write": "COUNT_WRITE",
            "write_latency": "$t(SUM_TIMER_WRITE)",
            "count_misc": "COUNT_MISC",
            "misc_latency": "$t(SUM_TIMER_MISC)",
        },
        f"{_FILES} ORDER BY SUM_TIMER_WAIT DESC",
    ),
    *declare(
        "io_global_by_wait_by_bytes",
        "File operations by instrument, the most bytes first.",
        {
            "event_name": _SHORT,
            **_TOTALS,
            "min_latency": "$t(MIN_TIMER_WAIT)",
            "avg_latency": "$t(AVG_TIMER_WAIT)",
            "max_latency": "$t(MAX_TIMER_WAIT)",
            **_READ,
            "avg_written": _AVG_WRITTEN,
            "total_requested": f"$b({_BYTES})",
        },
        f"{_FILE_NAMES} ORDER BY {_BYTES} DESC",
    ),
    *declare(
        "io_global_by_wait_by_latency",
        "File operations by instrument, the most time first.",
        {
            "event_name": _SHORT,
            **_TOTALS,
            "avg_latency": "$t(AVG_TIMER_WAIT)",
            "max_latency": "$t(MAX_TIMER_WAIT)",
            "read_latency": "$t(SUM_TIMER_READ)",
            "write_latency": "$t(SUM_TIMER_WRITE)",
            "misc_latency": "$t(SUM_TIMER_MISC)",
            **_READ,
            "avg_written": _AVG_WRITTEN,
        },
        f"{_FILE_NAMES} ORDER BY SUM_TIMER_WAIT DESC",
    ),
    *declare(
        "latest_file_io",
        "The file operations in the history, the newest first.",
        {
            "thread": f"{_USER} || ':' || coalesce(t.PROCESSLIST_ID, w.THREAD_ID)",
            "file": "w.OBJECT_NAME",
            "latency": "$t(w.TIMER_WAIT)",
            "operation": "w.OPERATION",
            "requested": "$b(w.NUMBER_OF_BYTES)",
        },
        "FROM performance_schema.events_waits_history_long AS w"
        " LEFT JOIN performance_schema.threads AS t ON t.THREAD_ID = w.THREAD_ID"
        " WHERE w.OBJECT_NAME IS NOT NULL AND w.EVENT_NAME LIKE 'wait/io/file/%' ORDER BY w.TIMER_START DESC",
    ),
    *_memory("host"),
    *_memory("thread"),
    *_memory("user"),
    *declare(
        "memory_global_by_current_bytes",
        "Memory in use by instrument, the most bytes first.",
        {
            "event_name": "EVENT_NAME",
            "current_count": "CURRENT_COUNT_USED",
            "current_alloc": "$b(CURRENT_NUMBER_OF_BYTES_USED)",
            "current_avg_alloc": "$b(coalesce(CURRENT_NUMBER_OF_BYTES_USED // nullif(CURRENT_COUNT_USED, 0), 0))",
            "high_count": "HIGH_COUNT_USED",
            "high_alloc": "$b(HIGH_NUMBER_OF_BYTES_USED)",
            "high_avg_alloc": "$b(coalesce(HIGH_NUMBER_OF_BYTES_USED // nullif(HIGH_COUNT_USED, 0), 0))",
        },
        "FROM performance_schema.memory_summary_global_by_event_name WHERE CURRENT_NUMBER_OF_BYTES_USED > 0"
        " ORDER BY CURRENT_NUMBER_OF_BYTES_USED DESC",
    ),
    *declare(
        "memory_global_total",
        "All memory in use.",
        {"total_allocated": "$b(sum(CURRENT_NUMBER_OF_BYTES_USED))"},
        "FROM performance_schema.memory_summary_global_by_event_name",
    ),
    *declare(
        "ps_check_lost_instrumentation",
        "The counters of lost events and objects that are not 0.",
        {"variable_name": "VARIABLE_NAME", "variable_value": "VARIABLE_VALUE"},
        "FROM performance_schema.global_status WHERE lower(VARIABLE_NAME) LIKE 'performance\\_schema\\_%lost' ESCAPE '\\'"
        " AND VARIABLE_VALUE != '0'",
    ),
    *declare(
        "innodb_lock_waits",
        "Threads that wait for a lock of the program, with the thread that holds it, the longest wait first. A pid is an Id of"
        " SHOW PROCESSLIST. A thread without a statement has the line at which it is as its query. Columns about transactions"
        " are NULL.",
        {
            "wait_started": "CAST(NULL AS TIMESTAMP)",
            "wait_age": f"printf('%02d:%02d:%02d', {_SECONDS} // 3600, {_SECONDS} // 60 % 60, {_SECONDS} % 60)",
            "wait_age_secs": f"CAST({_SECONDS} AS BIGINT)",
            "locked_table": "b.EVENT_NAME",
            "locked_table_schema": "CAST(NULL AS VARCHAR)",
            "locked_table_name": "b.OBJECT_NAME",
            "locked_table_partition": "CAST(NULL AS VARCHAR)",
            "locked_table_subpartition": "CAST(NULL AS VARCHAR)",
            "locked_index": "CAST(NULL AS VARCHAR)",
            "locked_type": "split_part(b.EVENT_NAME, '/', 3)",
            "waiting_trx_id": "CAST(NULL AS UBIGINT)",
            **_without_transaction("waiting"),
            "waiting_pid": "coalesce(w.PROCESSLIST_ID, b.THREAD_ID)",
            "waiting_query": "$q(coalesce(w.PROCESSLIST_INFO, b.SOURCE))",
            "waiting_lock_id": "CAST(b.OBJECT_INSTANCE_BEGIN AS VARCHAR)",
            "waiting_lock_mode": "b.OPERATION",
            "blocking_trx_id": "CAST(NULL AS UBIGINT)",
            "blocking_pid": "coalesce(h.PROCESSLIST_ID, b.HOLDER_THREAD_ID)",
            "blocking_query": "$q(coalesce(h.PROCESSLIST_INFO, b.HOLDER_EVENT_SOURCE, b.HOLDER_SOURCE))",
            "blocking_lock_id": "CAST(b.OBJECT_INSTANCE_BEGIN AS VARCHAR)",
            "blocking_lock_mode": "CASE WHEN b.READ_LOCKED_BY_COUNT > 0 THEN 'read'"
            " WHEN b.HOLDER_THREAD_ID IS NOT NULL THEN 'lock' END",
            **_without_transaction("blocking"),
            "sql_kill_blocking_query": "'KILL QUERY ' || h.PROCESSLIST_ID",
            "sql_kill_blocking_connection": "'KILL ' || h.PROCESSLIST_ID",
        },
        "FROM performance_schema.blocked AS b LEFT JOIN performance_schema.threads AS w ON w.THREAD_ID = b.THREAD_ID"
        " LEFT JOIN performance_schema.threads AS h ON h.THREAD_ID = b.HOLDER_THREAD_ID ORDER BY b.TIMER_WAIT DESC NULLS LAST",
    ),
]
