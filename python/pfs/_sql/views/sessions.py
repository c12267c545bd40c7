"""Views of threads: what they do."""

from __future__ import annotations

from pfs._sql.views.view import View, declare

__all__ = ["SESSIONS"]


def _current(kind: str) -> str:
    """Returns the newest event of each thread."""
    last = "QUALIFY row_number() OVER (PARTITION BY THREAD_ID ORDER BY EVENT_ID DESC) = 1"
    return f"(SELECT * FROM performance_schema.events_{kind}_current {last})"


def _attribute(name: str) -> str:
    return f"(SELECT PROCESSLIST_ID, ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = '{name}')"


_RUNS = "s.EVENT_ID IS NOT NULL AND s.END_EVENT_ID IS NULL"
_ENDED = "s.END_EVENT_ID IS NOT NULL"
_FULL_SCAN = "CASE WHEN s.NO_INDEX_USED > 0 OR s.NO_GOOD_INDEX_USED > 0 THEN 'YES' ELSE 'NO' END"
_COLUMNS = {
    "thd_id": "t.THREAD_ID",
    "conn_id": "t.PROCESSLIST_ID",
    "user": "CASE WHEN t.PROCESSLIST_USER IS NULL THEN replace(t.NAME, 'thread/', '')"
    " ELSE t.PROCESSLIST_USER || '@' || coalesce(t.PROCESSLIST_HOST, '') END",
    "db": "t.PROCESSLIST_DB",
    "command": "t.PROCESSLIST_COMMAND",
    "state": "t.PROCESSLIST_STATE",
    "time": "t.PROCESSLIST_TIME",
    "current_statement": f"$q(CASE WHEN {_RUNS} THEN s.SQL_TEXT END)",
    "execution_engine": "s.EXECUTION_ENGINE",
    "statement_latency": f"$t(CASE WHEN {_RUNS} THEN s.TIMER_WAIT END)",
    "progress": "CASE WHEN g.END_EVENT_ID IS NULL AND g.WORK_ESTIMATED > 0"
    " THEN round(100 * g.WORK_COMPLETED / g.WORK_ESTIMATED, 2) END",
    "lock_latency": "$t(s.LOCK_TIME)",
    "cpu_latency": "$t(s.CPU_TIME)",
    "rows_examined": "s.ROWS_EXAMINED",
    "rows_sent": "s.ROWS_SENT",
    "rows_affected": "s.ROWS_AFFECTED",
    "tmp_tables": "s.CREATED_TMP_TABLES",
    "tmp_disk_tables": "s.CREATED_TMP_DISK_TABLES",
    "full_scan": _FULL_SCAN,
    "last_statement": f"$q(CASE WHEN {_ENDED} THEN s.SQL_TEXT END)",
    "last_statement_latency": f"$t(CASE WHEN {_ENDED} THEN s.TIMER_WAIT END)",
    "current_memory": "$b(m.current_allocated)",
    "last_wait": "w.EVENT_NAME",
    "last_wait_latency": "CASE WHEN w.EVENT_ID IS NOT NULL AND w.END_EVENT_ID IS NULL THEN 'Still Waiting'"
    " ELSE CAST($t(w.TIMER_WAIT) AS VARCHAR) END",
    "source": "w.SOURCE",
    "trx_latency": "$t(x.TIMER_WAIT)",
    "trx_state": "x.STATE",
    "trx_autocommit": "x.AUTOCOMMIT",
    "pid": "a.ATTR_VALUE",
    "program_name": "n.ATTR_VALUE",
}
_FROM = (
    "FROM performance_schema.threads AS t"
    f" LEFT JOIN {_current('waits')} AS w ON w.THREAD_ID = t.THREAD_ID"
    f" LEFT JOIN {_current('stages')} AS g ON g.THREAD_ID = t.THREAD_ID"
    f" LEFT JOIN {_current('statements')} AS s ON s.THREAD_ID = t.THREAD_ID"
    f" LEFT JOIN {_current('transactions')} AS x ON x.THREAD_ID = t.THREAD_ID"
    " LEFT JOIN sys.x$memory_by_thread_by_current_bytes AS m ON m.thread_id = t.THREAD_ID"
    f" LEFT JOIN {_attribute('_pid')} AS a ON a.PROCESSLIST_ID = t.PROCESSLIST_ID"
    f" LEFT JOIN {_attribute('program_name')} AS n ON n.PROCESSLIST_ID = t.PROCESSLIST_ID"
)
_ORDER = "ORDER BY t.PROCESSLIST_TIME DESC NULLS LAST, w.TIMER_WAIT DESC NULLS LAST"
_MEMORY_ENABLED = (
    "(SELECT CASE WHEN bool_and(ENABLED = 'YES') THEN 'YES' WHEN bool_or(ENABLED = 'YES') THEN 'PARTIAL' ELSE 'NO' END"
    " FROM performance_schema.setup_instruments WHERE NAME LIKE 'memory/%')"
)


def _memory(which: str, column: str) -> str:
    return (
        f"SELECT 'memory_{which}_allocated', CAST(sum({column}) AS VARCHAR), 'Performance Schema', {_MEMORY_ENABLED}"
        " FROM performance_schema.memory_summary_global_by_event_name"
    )


SESSIONS: list[View] = [
    *declare("processlist", "Threads with their statement, wait, memory and transaction.", _COLUMNS, f"{_FROM} {_ORDER}"),
    *declare(
        "session",
        "Threads that belong to a session, as in processlist.",
        _COLUMNS,
        f"{_FROM} WHERE t.PROCESSLIST_ID IS NOT NULL AND t.PROCESSLIST_COMMAND IS DISTINCT FROM 'Daemon' {_ORDER}",
    ),
    *declare(
        "metrics",
        "The counters of the program and its memory, as names and texts. Enabled says whether all, some (PARTIAL) or no"
        " instruments of memory count.",
        {"Variable_name": "n", "Variable_value": "v", "Type": "k", "Enabled": "e"},
        "FROM (SELECT lower(VARIABLE_NAME) AS n, VARIABLE_VALUE AS v, 'Global Status' AS k, 'YES' AS e"
        f" FROM performance_schema.global_status UNION ALL {_memory('current', 'CURRENT_NUMBER_OF_BYTES_USED')}"
        f" UNION ALL {_memory('total', 'SUM_NUMBER_OF_BYTES_ALLOC')}) ORDER BY k, n",
    ),
]
