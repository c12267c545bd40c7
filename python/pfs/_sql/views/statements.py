"""Views of statements, users and hosts."""

from __future__ import annotations

from pfs._sql.views.view import View, declare

__all__ = ["STATEMENTS"]

_FULL_SCAN = "CASE WHEN SUM_NO_GOOD_INDEX_USED > 0 OR SUM_NO_INDEX_USED > 0 THEN '*' ELSE '' END"
_DIGESTS = "FROM performance_schema.events_statements_summary_by_digest"
_SEEN = {"first_seen": "FIRST_SEEN", "last_seen": "LAST_SEEN"}
_QUERY = {"query": "$q(DIGEST_TEXT)", "db": "SCHEMA_NAME"}


def _per(total: str, count: str = "COUNT_STAR") -> str:
    """Returns an expression for a mean as a whole number."""
    return f"CAST(round(coalesce({total} / nullif({count}, 0), 0)) AS UBIGINT)"


def _percent(part: str, whole: str) -> str:
    return f"round(coalesce({part} / nullif({whole}, 0), 0) * 100, 4)"


_TIMES = {
    "exec_count": "COUNT_STAR",
    "err_count": "SUM_ERRORS",
    "warn_count": "SUM_WARNINGS",
    "total_latency": "$t(SUM_TIMER_WAIT)",
    "max_latency": "$t(MAX_TIMER_WAIT)",
    "avg_latency": "$t(AVG_TIMER_WAIT)",
}
_ROWS = {
    "rows_sent": "SUM_ROWS_SENT",
    "rows_sent_avg": _per("SUM_ROWS_SENT"),
    "rows_examined": "SUM_ROWS_EXAMINED",
    "rows_examined_avg": _per("SUM_ROWS_EXAMINED"),
}
STATEMENTS: list[View] = [
    *declare(
        "statement_analysis",
        "Statements by digest with their times, rows and errors, the most total time first.",
        {
            **_QUERY,
            "full_scan": _FULL_SCAN,
            **_TIMES,
            "lock_latency": "$t(SUM_LOCK_TIME)",
            "cpu_latency": "$t(SUM_CPU_TIME)",
            **_ROWS,
            "rows_affected": "SUM_ROWS_AFFECTED",
            "rows_affected_avg": _per("SUM_ROWS_AFFECTED"),
            "tmp_tables": "SUM_CREATED_TMP_TABLES",
            "tmp_disk_tables": "SUM_CREATED_TMP_DISK_TABLES",
            "rows_sorted": "SUM_SORT_ROWS",
            "sort_merge_passes": "SUM_SORT_MERGE_PASSES",
            "max_controlled_memory": "$b(MAX_CONTROLLED_MEMORY)",
            "max_total_memory": "$b(MAX_TOTAL_MEMORY)",
            "digest": "DIGEST",
            **_SEEN,
        },
        f"{_DIGESTS} ORDER BY SUM_TIMER_WAIT DESC",
    ),
    *declare(
        "statements_with_errors_or_warnings",
        "Statements by digest that had errors or warnings, the most errors first.",
        {
            **_QUERY,
            "exec_count": "COUNT_STAR",
            "errors": "SUM_ERRORS",
            "error_pct": _percent("SUM_ERRORS", "COUNT_STAR"),
            "warnings": "SUM_WARNINGS",
            "warning_pct": _percent("SUM_WARNINGS", "COUNT_STAR"),
            **_SEEN,
            "digest": "DIGEST",
        },
        f"{_DIGESTS} WHERE SUM_ERRORS > 0 OR SUM_WARNINGS > 0 ORDER BY SUM_ERRORS DESC, SUM_WARNINGS DESC",
    ),
    *declare(
        "statements_with_full_table_scans",
        "Statements by digest that used no index, or no good one.",
        {
            **_QUERY,
            "exec_count": "COUNT_STAR",
            "total_latency": "$t(SUM_TIMER_WAIT)",
            "no_index_used_count": "SUM_NO_INDEX_USED",
            "no_good_index_used_count": "SUM_NO_GOOD_INDEX_USED",
            "no_index_used_pct": "round(coalesce(SUM_NO_INDEX_USED / nullif(COUNT_STAR, 0), 0) * 100)",
            "rows_sent": "SUM_ROWS_SENT",
            "rows_examined": "SUM_ROWS_EXAMINED",
            "rows_sent_avg": _per("SUM_ROWS_SENT"),
            "rows_examined_avg": _per("SUM_ROWS_EXAMINED"),
            **_SEEN,
            "digest": "DIGEST",
        },
        f"{_DIGESTS} WHERE SUM_NO_INDEX_USED > 0 OR SUM_NO_GOOD_INDEX_USED > 0"
        " ORDER BY round(coalesce(SUM_NO_INDEX_USED / nullif(COUNT_STAR, 0), 0) * 100) DESC, SUM_TIMER_WAIT DESC",
    ),
    *declare(
        "statements_with_runtimes_in_95th_percentile",
        "Statements by digest whose mean time is in the 95th percentile of all means, the slowest first.",
        {**_QUERY, "full_scan": _FULL_SCAN, **_TIMES, **_ROWS, **_SEEN, "digest": "DIGEST"},
        f"{_DIGESTS} WHERE round(AVG_TIMER_WAIT / 1000000) >= (SELECT min(us) FROM (SELECT us, sum(n)"
        " OVER (ORDER BY us) AS below, sum(n) OVER () AS total FROM (SELECT round(AVG_TIMER_WAIT / 1000000) AS us, count(*) AS n"
        f" {_DIGESTS} GROUP BY 1)) WHERE below > 0.95 * total) ORDER BY AVG_TIMER_WAIT DESC",
    ),
    *declare(
        "statements_with_sorting",
        "Statements by digest that sorted rows, the most total time first.",
        {
            **_QUERY,
            "exec_count": "COUNT_STAR",
            "total_latency": "$t(SUM_TIMER_WAIT)",
            "sort_merge_passes": "SUM_SORT_MERGE_PASSES",
            "avg_sort_merges": _per("SUM_SORT_MERGE_PASSES"),
            "sorts_using_scans": "SUM_SORT_SCAN",
            "sort_using_range": "SUM_SORT_RANGE",
            "rows_sorted": "SUM_SORT_ROWS",
            "avg_rows_sorted": _per("SUM_SORT_ROWS"),
            **_SEEN,
            "digest": "DIGEST",
        },
        f"{_DIGESTS} WHERE SUM_SORT_ROWS > 0 ORDER BY SUM_TIMER_WAIT DESC",
    ),
    *declare(
        "statements_with_temp_tables",
        "Statements by digest that made temporary tables, the most tables on disk first.",
        {
            **_QUERY,
            "exec_count": "COUNT_STAR",
            "total_latency": "$t(SUM_TIMER_WAIT)",
            "memory_tmp_tables": "SUM_CREATED_TMP_TABLES",
            "disk_tmp_tables": "SUM_CREATED_TMP_DISK_TABLES",
            "avg_tmp_tables_per_query": _per("SUM_CREATED_TMP_TABLES"),
            "tmp_tables_to_disk_pct": _per("SUM_CREATED_TMP_DISK_TABLES * 100", "SUM_CREATED_TMP_TABLES"),
            **_SEEN,
            "digest": "DIGEST",
        },
        f"{_DIGESTS} WHERE SUM_CREATED_TMP_TABLES > 0 ORDER BY SUM_CREATED_TMP_DISK_TABLES DESC, SUM_CREATED_TMP_TABLES DESC",
    ),
]


def _by_principal(principal: str, other: str) -> list[View]:
    """Returns the views of users or of hosts. A thread without an account counts for 'background'."""
    of = principal.upper()
    who = f"coalesce({of}, 'background')"
    waits = f"FROM performance_schema.events_waits_summary_by_{principal}_by_event_name"
    statements = f"FROM performance_schema.events_statements_summary_by_{principal}_by_event_name"
    sums = {
        "total": "sum(COUNT_STAR)",
        "total_latency": "$t(sum(SUM_TIMER_WAIT))",
        "max_latency": "$t(max(MAX_TIMER_WAIT))",
        "lock_latency": "$t(sum(SUM_LOCK_TIME))",
        "cpu_latency": "$t(sum(SUM_CPU_TIME))",
        "rows_sent": "sum(SUM_ROWS_SENT)",
        "rows_examined": "sum(SUM_ROWS_EXAMINED)",
        "rows_affected": "sum(SUM_ROWS_AFFECTED)",
        "full_scans": "sum(SUM_NO_INDEX_USED) + sum(SUM_NO_GOOD_INDEX_USED)",
    }
    # As in MySQL: the name of a column, and which view leaves out the waits of threads without an account.
    latency = "latency" if principal == "user" else "total_latency"
    known = " AND USER IS NOT NULL" if principal == "user" else ""
    return [
        *declare(
            f"{principal}_summary",
            f"Each {principal} with its statements, file operations, connections and memory, the most statement time first.",
            {
                principal: "a.who",
                "statements": "coalesce(s.total, 0)",
                "statement_latency": "$t(coalesce(s.total_latency, 0))",
                "statement_avg_latency": "$t(coalesce(s.total_latency // nullif(s.total, 0), 0))",
                "table_scans": "coalesce(s.full_scans, 0)",
                "file_ios": "coalesce(f.ios, 0)",
                "file_io_latency": "$t(coalesce(f.io_latency, 0))",
                "current_connections": "a.current_connections",
                "total_connections": "a.total_connections",
                f"unique_{other}s": "a.others",
                "current_memory": "$b(m.current_allocated)",
                "total_memory_allocated": "$b(m.total_allocated)",
            },
            f"FROM (SELECT {who} AS who, sum(CURRENT_CONNECTIONS) AS current_connections, sum(TOTAL_CONNECTIONS) AS"
            f" total_connections, count(DISTINCT {other.upper()}) AS others FROM performance_schema.accounts GROUP BY 1) AS a"
            f" LEFT JOIN sys.x${principal}_summary_by_statement_latency AS s ON s.{principal} = a.who"
            f" LEFT JOIN sys.x${principal}_summary_by_file_io AS f ON f.{principal} = a.who"
            f" LEFT JOIN sys.x$memory_by_{principal}_by_current_bytes AS m ON m.{principal} = a.who"
            " ORDER BY coalesce(s.total_latency, 0) DESC",
        ),
        *declare(
            f"{principal}_summary_by_file_io",
            f"File operations of each {principal}, the most time first.",
            {principal: who, "ios": "sum(COUNT_STAR)", "io_latency": "$t(sum(SUM_TIMER_WAIT))"},
            f"{waits} WHERE EVENT_NAME LIKE 'wait/io/file/%' GROUP BY {who} ORDER BY sum(SUM_TIMER_WAIT) DESC",
        ),
        *declare(
            f"{principal}_summary_by_file_io_type",
            f"File operations of each {principal} by instrument.",
            {
                principal: who,
                "event_name": "EVENT_NAME",
                "total": "COUNT_STAR",
                latency: "$t(SUM_TIMER_WAIT)",
                "max_latency": "$t(MAX_TIMER_WAIT)",
            },
            f"{waits} WHERE EVENT_NAME LIKE 'wait/io/file%' AND COUNT_STAR > 0 ORDER BY {who}, SUM_TIMER_WAIT DESC",
        ),
        *declare(
            f"{principal}_summary_by_stages",
            f"Stages of each {principal}.",
            {
                principal: who,
                "event_name": "EVENT_NAME",
                "total": "COUNT_STAR",
                "total_latency": "$t(SUM_TIMER_WAIT)",
                "avg_latency": "$t(AVG_TIMER_WAIT)",
            },
            f"FROM performance_schema.events_stages_summary_by_{principal}_by_event_name WHERE SUM_TIMER_WAIT != 0"
            f" ORDER BY {who}, SUM_TIMER_WAIT DESC",
        ),
        *declare(
            f"{principal}_summary_by_statement_latency",
            f"Statements of each {principal}, the most time first.",
            {principal: who, **sums},
            f"{statements} GROUP BY {who} ORDER BY sum(SUM_TIMER_WAIT) DESC",
        ),
        *declare(
            f"{principal}_summary_by_statement_type",
            f"Statements of each {principal} by kind of statement.",
            {principal: who, "statement": "substring_index(EVENT_NAME, '/', -1)"}
            | {name: text.replace("sum(S", "(S").replace("sum(C", "(C").replace("max(M", "(M") for name, text in sums.items()},
            f"{statements} WHERE SUM_TIMER_WAIT != 0 ORDER BY {who}, SUM_TIMER_WAIT DESC",
        ),
        *declare(
            f"waits_by_{principal}_by_latency",
            f"Waits of each {principal} by instrument.",
            {
                principal: who,
                "event": "EVENT_NAME",
                "total": "COUNT_STAR",
                "total_latency": "$t(SUM_TIMER_WAIT)",
                "avg_latency": "$t(AVG_TIMER_WAIT)",
                "max_latency": "$t(MAX_TIMER_WAIT)",
            },
            f"{waits} WHERE EVENT_NAME != 'idle'{known} AND SUM_TIMER_WAIT > 0 ORDER BY {who}, SUM_TIMER_WAIT DESC",
        ),
    ]


STATEMENTS += [*_by_principal("user", "host"), *_by_principal("host", "user")]
