"""Statements by digest, users and hosts."""

from __future__ import annotations

from collections.abc import Callable

import pfs
from tests.python._recomputed.base import FILE, ORDER, Model, Row, base, floor, grouped, rounded, total, who
from tests.python._recomputed.waits import memory_by, waits_by


def statement(row: Row) -> Row:
    """Columns of all views of digests. Each view takes its own."""
    count = row["COUNT_STAR"]
    tmp, disk = row["SUM_CREATED_TMP_TABLES"], row["SUM_CREATED_TMP_DISK_TABLES"]
    return {
        "query": row["DIGEST_TEXT"],
        "db": row["SCHEMA_NAME"],
        "full_scan": "*" if row["SUM_NO_INDEX_USED"] + row["SUM_NO_GOOD_INDEX_USED"] else "",
        "exec_count": count,
        "err_count": row["SUM_ERRORS"],
        "errors": row["SUM_ERRORS"],
        "error_pct": rounded(100 * row["SUM_ERRORS"], count, 4),
        "warn_count": row["SUM_WARNINGS"],
        "warnings": row["SUM_WARNINGS"],
        "warning_pct": rounded(100 * row["SUM_WARNINGS"], count, 4),
        "total_latency": row["SUM_TIMER_WAIT"],
        "max_latency": row["MAX_TIMER_WAIT"],
        "avg_latency": row["SUM_TIMER_WAIT"] // count,
        "lock_latency": row["SUM_LOCK_TIME"],
        "cpu_latency": row["SUM_CPU_TIME"],
        "max_controlled_memory": row["MAX_CONTROLLED_MEMORY"],
        "max_total_memory": row["MAX_TOTAL_MEMORY"],
        "rows_sent": row["SUM_ROWS_SENT"],
        "rows_sent_avg": rounded(row["SUM_ROWS_SENT"], count),
        "rows_examined": row["SUM_ROWS_EXAMINED"],
        "rows_examined_avg": rounded(row["SUM_ROWS_EXAMINED"], count),
        "rows_affected": row["SUM_ROWS_AFFECTED"],
        "rows_affected_avg": rounded(row["SUM_ROWS_AFFECTED"], count),
        "no_index_used_count": row["SUM_NO_INDEX_USED"],
        "no_good_index_used_count": row["SUM_NO_GOOD_INDEX_USED"],
        "no_index_used_pct": rounded(100 * row["SUM_NO_INDEX_USED"], count),
        "tmp_tables": tmp,
        "memory_tmp_tables": tmp,
        "tmp_disk_tables": disk,
        "disk_tmp_tables": disk,
        "avg_tmp_tables_per_query": rounded(tmp, count),
        "tmp_tables_to_disk_pct": rounded(100 * disk, tmp),
        "rows_sorted": row["SUM_SORT_ROWS"],
        "avg_rows_sorted": rounded(row["SUM_SORT_ROWS"], count),
        "sort_merge_passes": row["SUM_SORT_MERGE_PASSES"],
        "avg_sort_merges": rounded(row["SUM_SORT_MERGE_PASSES"], count),
        "sorts_using_scans": row["SUM_SORT_SCAN"],
        "sort_using_range": row["SUM_SORT_RANGE"],
        "digest": row["DIGEST"],
        "first_seen": row["FIRST_SEEN"],
        "last_seen": row["LAST_SEEN"],
    }


def statements(order: tuple[str, ...], *having: str) -> Model:
    """Digests with any of these columns above 0, those with most of `order` first."""

    def model(taken: pfs.Snapshot) -> list[Row]:
        rows = [statement(row) for row in base(taken, "events_statements_summary_by_digest")]
        chosen = [row for row in rows if not having or any(row[column] for column in having)]
        return [row | {ORDER: tuple(-row[column] for column in order)} for row in chosen]

    return model


def slowest_statements(taken: pfs.Snapshot) -> list[Row]:
    """95 of 100 digests have at most the limit as their mean."""
    rows = [statement(row) for row in base(taken, "events_statements_summary_by_digest")]
    means = sorted(rounded(row["avg_latency"], 10**6) for row in rows)
    limit = means[95 * len(means) // 100]
    return [row | {ORDER: -row["avg_latency"]} for row in rows if rounded(row["avg_latency"], 10**6) >= limit]


def statement_sums(rows: list[Row]) -> Row:
    return {
        "total": total(rows, "COUNT_STAR"),
        "total_latency": total(rows, "SUM_TIMER_WAIT"),
        "max_latency": max(row["MAX_TIMER_WAIT"] for row in rows),
        "lock_latency": total(rows, "SUM_LOCK_TIME"),
        "cpu_latency": total(rows, "SUM_CPU_TIME"),
        "rows_sent": total(rows, "SUM_ROWS_SENT"),
        "rows_examined": total(rows, "SUM_ROWS_EXAMINED"),
        "rows_affected": total(rows, "SUM_ROWS_AFFECTED"),
        "full_scans": total(rows, "SUM_NO_INDEX_USED") + total(rows, "SUM_NO_GOOD_INDEX_USED"),
        ORDER: -total(rows, "SUM_TIMER_WAIT"),
    }


def of(taken: pfs.Snapshot, family: str, principal: str) -> dict[str, list[Row]]:
    """The rows of each user or host. They come from the summary by account: its sums are those of the summary by user."""
    prefix = f"events_{family}" if family != "memory" else family
    rows = base(taken, f"{prefix}_summary_by_account_by_event_name")
    return grouped(rows, lambda row: who(row, principal))


def file_operations(rows: list[Row]) -> tuple[int, int]:
    its = [row for row in rows if row["EVENT_NAME"].startswith(FILE)]
    return total(its, "COUNT_STAR"), total(its, "SUM_TIMER_WAIT")


def principals(principal: str, other: str) -> dict[str, Model]:
    def summary(taken: pfs.Snapshot) -> list[Row]:
        run, waits, used = (of(taken, family, principal) for family in ("statements", "waits", "memory"))
        made = []
        for name, accounts in grouped(base(taken, "accounts"), lambda row: who(row, principal)).items():
            latency, count = total(run[name], "SUM_TIMER_WAIT"), total(run[name], "COUNT_STAR")
            ios, io_latency = file_operations(waits[name])
            made.append(
                {
                    principal: name,
                    "statements": count,
                    "statement_latency": latency,
                    "statement_avg_latency": floor(latency, count),
                    "table_scans": statement_sums(run[name])["full_scans"],
                    "file_ios": ios,
                    "file_io_latency": io_latency,
                    "current_connections": total(accounts, "CURRENT_CONNECTIONS"),
                    "total_connections": total(accounts, "TOTAL_CONNECTIONS"),
                    f"unique_{other}s": len({row[other.upper()] for row in accounts} - {None}),
                    "current_memory": total(used[name], "CURRENT_NUMBER_OF_BYTES_USED"),
                    "total_memory_allocated": total(used[name], "SUM_NUMBER_OF_BYTES_ALLOC"),
                    ORDER: -latency,
                }
            )
        return made

    def file_io(taken: pfs.Snapshot) -> list[Row]:
        found = {name: file_operations(rows) for name, rows in of(taken, "waits", principal).items()}
        return [{principal: name, "ios": ios, "io_latency": time, ORDER: -time} for name, (ios, time) in found.items()]

    def by_event(family: str, column: str, row_of: Callable[[list[Row]], Row]) -> Model:
        def model(taken: pfs.Snapshot) -> list[Row]:
            made = []
            for name, rows in of(taken, family, principal).items():
                for event, its in grouped(rows, lambda row: row["EVENT_NAME"]).items():
                    count, latency = total(its, "COUNT_STAR"), total(its, "SUM_TIMER_WAIT")
                    if latency and (family != "waits" or event.startswith(FILE)):
                        shown = event.rpartition("/")[2] if column == "statement" else event
                        parts = {"total": count, "total_latency": latency, "avg_latency": floor(latency, count)}
                        parts["latency"] = latency  # as MySQL calls it in one view of users
                        made.append({principal: name, column: shown, **parts, **row_of(its), ORDER: (name, -latency)})
            return made

        return model

    def longest(rows: list[Row]) -> Row:
        return {"max_latency": max(row["MAX_TIMER_WAIT"] for row in rows)}

    return {
        f"{principal}_summary": summary,
        f"{principal}_summary_by_file_io": file_io,
        f"{principal}_summary_by_file_io_type": by_event("waits", "event_name", longest),
        f"{principal}_summary_by_stages": by_event("stages", "event_name", lambda _: {}),
        f"{principal}_summary_by_statement_latency": lambda taken: [
            {principal: name, **statement_sums(rows)} for name, rows in of(taken, "statements", principal).items()
        ],
        f"{principal}_summary_by_statement_type": by_event("statements", "statement", statement_sums),
        f"waits_by_{principal}_by_latency": waits_by(principal),
        f"memory_by_{principal}_by_current_bytes": memory_by(principal),
    }
