"""Adds what clients and dashboards expect of a server to global_status. Other tables have the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pfs._export.serve.sources import Source

__all__ = ["ADDED", "added_status", "statistics"]


def _sum(table: str, column: str) -> Callable[[Source], int]:
    return lambda source: sum(int(value or 0) for (value,) in source.rows(table, [column]))


def _connections(source: Source) -> int:
    """Counts sessions of users, and where there are none the client that asks: tools divide by it.

    The account without a user is that of the program's own threads.
    """
    totals = source.rows("accounts", ["USER", "TOTAL_CONNECTIONS"])
    return max(1, sum(int(total or 0) for user, total in totals if user is not None))


def _connected(source: Source) -> int:
    return sum(1 for (number,) in source.rows("threads", ["PROCESSLIST_ID"]) if number is not None)


def _running(source: Source) -> int:
    ends = source.rows("events_statements_current", ["EVENT_ID", "END_EVENT_ID", "NESTING_EVENT_LEVEL"])
    return sum(1 for _, end, level in ends if end is None and not level)


def _commands(word: str) -> Callable[[Source], int]:
    """Counts statements that begin with a word, as far as there are digests of them."""
    columns = ["DIGEST_TEXT", "COUNT_STAR"]
    return lambda source: sum(
        int(count) for text, count in source.rows("events_statements_summary_by_digest", columns) if (text or "").startswith(word)
    )


_OF_STATEMENTS = "events_statements_summary_global_by_event_name"
# Clients divide by these, and a program has none of it.
_NOTHING = (
    "Aborted_clients Aborted_connects Binlog_cache_disk_use Binlog_cache_use Key_blocks_unused Key_blocks_used Key_read_requests"
    " Key_reads Key_write_requests Key_writes Max_used_connections Open_tables Opened_tables Slow_queries Table_locks_immediate"
    " Table_locks_waited Threads_cached Threads_created"
)
_STATEMENTS = _sum(_OF_STATEMENTS, "COUNT_STAR")
_STATUS: dict[str, Callable[[Source], int]] = {
    "Bytes_received": _sum("socket_summary_by_event_name", "SUM_NUMBER_OF_BYTES_READ"),
    "Bytes_sent": _sum("socket_summary_by_event_name", "SUM_NUMBER_OF_BYTES_WRITE"),
    **{f"Com_{word.lower()}": _commands(word) for word in ("SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE")},
    "Connections": _connections,
    **{
        name.capitalize(): _sum(_OF_STATEMENTS, f"SUM_{name}")
        for name in (
            "CREATED_TMP_DISK_TABLES",
            "CREATED_TMP_TABLES",
            "SELECT_FULL_JOIN",
            "SELECT_RANGE_CHECK",
            "SELECT_SCAN",
            "SORT_MERGE_PASSES",
            "SORT_RANGE",
            "SORT_ROWS",
            "SORT_SCAN",
        )
    },
    "Open_files": _sum("file_instances", "OPEN_COUNT"),
    "Queries": _STATEMENTS,
    "Questions": _STATEMENTS,
    "Threads_connected": _connected,
    "Threads_running": _running,
    "Uptime": lambda source: source.uptime(),
    **dict.fromkeys(_NOTHING.split(), lambda source: 0),
}


def added_status(source: Source) -> dict[str, str]:
    return {name: str(value(source)) for name, value in _STATUS.items()}


def statistics(source: Source) -> str:
    """Returns the line of COM_STATISTICS."""
    found = added_status(source)
    per_second = int(found["Questions"]) / max(1, int(found["Uptime"]))
    return (
        f"Uptime: {found['Uptime']}  Threads: {found['Threads_connected']}  Questions: {found['Questions']}  Slow queries: 0  "
        f"Opens: {found['Open_files']}  Flush tables: 0  Open tables: 0  Queries per second avg: {per_second:.3f}"
    )


# A file of ``pfs collect`` has none of these tables: there they have the rows of the server only.
ADDED = ("global_status", "global_variables", "session_status", "session_variables")
