"""Views of the program's tables and indexes."""

from __future__ import annotations

from pfs._sql.views.view import View, declare

__all__ = ["TABLES"]

_INDEXES = "FROM performance_schema.table_io_waits_summary_by_index_usage"
_CHANGES = {
    "rows_inserted": "COUNT_INSERT",
    "insert_latency": "$t(SUM_TIMER_INSERT)",
    "rows_updated": "COUNT_UPDATE",
    "update_latency": "$t(SUM_TIMER_UPDATE)",
    "rows_deleted": "COUNT_DELETE",
    "delete_latency": "$t(SUM_TIMER_DELETE)",
}
# The files of a table are those that have its name, in a folder of the schema's name.
_TABLE_FILES = (
    "(SELECT sys.extract_schema_from_file_name(FILE_NAME) AS s, sys.extract_table_from_file_name(FILE_NAME) AS n,"
    " sum(COUNT_READ) AS count_read, sum(SUM_NUMBER_OF_BYTES_READ) AS bytes_read, sum(SUM_TIMER_READ) AS time_read,"
    " sum(COUNT_WRITE) AS count_write, sum(SUM_NUMBER_OF_BYTES_WRITE) AS bytes_written, sum(SUM_TIMER_WRITE) AS time_write,"
    " sum(COUNT_MISC) AS count_misc, sum(SUM_TIMER_MISC) AS time_misc"
    " FROM performance_schema.file_summary_by_instance GROUP BY 1, 2)"
)


def _account(alias: str) -> str:
    return f"coalesce({alias}.PROCESSLIST_USER, '') || '@' || coalesce({alias}.PROCESSLIST_HOST, '')"


TABLES: list[View] = [
    *declare(
        "schema_index_statistics",
        "Indexes of the program's tables, the most time first.",
        {
            "table_schema": "OBJECT_SCHEMA",
            "table_name": "OBJECT_NAME",
            "index_name": "INDEX_NAME",
            "rows_selected": "COUNT_FETCH",
            "select_latency": "$t(SUM_TIMER_FETCH)",
            **_CHANGES,
        },
        f"{_INDEXES} WHERE INDEX_NAME IS NOT NULL ORDER BY SUM_TIMER_WAIT DESC",
    ),
    *declare(
        "schema_table_statistics",
        "The program's tables with their rows and the operations on their files, the most time first.",
        {
            "table_schema": "t.OBJECT_SCHEMA",
            "table_name": "t.OBJECT_NAME",
            "total_latency": "$t(t.SUM_TIMER_WAIT)",
            "rows_fetched": "t.COUNT_FETCH",
            "fetch_latency": "$t(t.SUM_TIMER_FETCH)",
            **_CHANGES,
            "io_read_requests": "f.count_read",
            "io_read": "$b(f.bytes_read)",
            "io_read_latency": "$t(f.time_read)",
            "io_write_requests": "f.count_write",
            "io_write": "$b(f.bytes_written)",
            "io_write_latency": "$t(f.time_write)",
            "io_misc_requests": "f.count_misc",
            "io_misc_latency": "$t(f.time_misc)",
        },
        f"FROM performance_schema.table_io_waits_summary_by_table AS t LEFT JOIN {_TABLE_FILES} AS f"
        " ON f.s = t.OBJECT_SCHEMA AND f.n = t.OBJECT_NAME ORDER BY t.SUM_TIMER_WAIT DESC",
    ),
    *declare(
        "schema_tables_with_full_table_scans",
        "The program's tables from which rows were read without an index.",
        {
            "object_schema": "OBJECT_SCHEMA",
            "object_name": "OBJECT_NAME",
            "rows_full_scanned": "COUNT_READ",
            "latency": "$t(SUM_TIMER_WAIT)",
        },
        f"{_INDEXES} WHERE INDEX_NAME IS NULL AND COUNT_READ > 0 ORDER BY COUNT_READ DESC",
    ),
    *declare(
        "schema_unused_indexes",
        "Indexes of the program's tables that were not used.",
        {"object_schema": "OBJECT_SCHEMA", "object_name": "OBJECT_NAME", "index_name": "INDEX_NAME"},
        f"{_INDEXES} WHERE INDEX_NAME IS NOT NULL AND COUNT_STAR = 0 AND OBJECT_SCHEMA IS DISTINCT FROM 'mysql'"
        " AND INDEX_NAME != 'PRIMARY' ORDER BY OBJECT_SCHEMA NULLS FIRST, OBJECT_NAME",
    ),
    *declare(
        "schema_table_lock_waits",
        "Metadata locks that threads wait for, with the threads that hold them.",
        {
            "object_schema": "g.OBJECT_SCHEMA",
            "object_name": "g.OBJECT_NAME",
            "waiting_thread_id": "p.OWNER_THREAD_ID",
            "waiting_pid": "pt.PROCESSLIST_ID",
            "waiting_account": _account("pt"),
            "waiting_lock_type": "p.LOCK_TYPE",
            "waiting_lock_duration": "p.LOCK_DURATION",
            "waiting_query": "$q(pt.PROCESSLIST_INFO)",
            "waiting_query_secs": "pt.PROCESSLIST_TIME",
            "waiting_query_rows_affected": "ps.ROWS_AFFECTED",
            "waiting_query_rows_examined": "ps.ROWS_EXAMINED",
            "blocking_thread_id": "g.OWNER_THREAD_ID",
            "blocking_pid": "gt.PROCESSLIST_ID",
            "blocking_account": _account("gt"),
            "blocking_lock_type": "g.LOCK_TYPE",
            "blocking_lock_duration": "g.LOCK_DURATION",
            "sql_kill_blocking_query": "'KILL QUERY ' || gt.PROCESSLIST_ID",
            "sql_kill_blocking_connection": "'KILL ' || gt.PROCESSLIST_ID",
        },
        "FROM performance_schema.metadata_locks AS g JOIN performance_schema.metadata_locks AS p"
        " ON g.OBJECT_TYPE = p.OBJECT_TYPE AND g.OBJECT_SCHEMA IS NOT DISTINCT FROM p.OBJECT_SCHEMA"
        " AND g.OBJECT_NAME IS NOT DISTINCT FROM p.OBJECT_NAME AND g.LOCK_STATUS = 'GRANTED' AND p.LOCK_STATUS = 'PENDING'"
        " LEFT JOIN performance_schema.threads AS gt ON gt.THREAD_ID = g.OWNER_THREAD_ID"
        " LEFT JOIN performance_schema.threads AS pt ON pt.THREAD_ID = p.OWNER_THREAD_ID"
        " LEFT JOIN performance_schema.events_statements_current AS ps"
        " ON ps.THREAD_ID = p.OWNER_THREAD_ID AND ps.END_EVENT_ID IS NULL AND ps.NESTING_EVENT_LEVEL = 0",
    ),
]
