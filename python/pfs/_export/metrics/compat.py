"""Declares the metrics that only --compat has: sums and files of mysqld_exporter's collectors that are off unless asked for."""

from __future__ import annotations

from pfs._export.metrics.families import Family, Group

__all__ = ["COMPAT_GROUPS"]

_SUM = "events_statements_sum_"


def _sum_of(name: str, what: str) -> Family:
    return Family(_SUM + name, f"{what}, over all digests.", {"": f"SUM_{name.upper()}"}, bare=True)


COMPAT_GROUPS = (
    Group(
        "events_statements_summary_by_digest",
        {},
        (
            Family(_SUM.removesuffix("_"), "Statements, over all digests.", {"": "COUNT_STAR"}),
            _sum_of("created_tmp_disk_tables", "Temporary tables on disk"),
            _sum_of("created_tmp_tables", "Temporary tables"),
            _sum_of("errors", "Errors"),
            _sum_of("lock_time", "Picoseconds of waits for locks of tables"),
            _sum_of("no_good_index_used", "Statements without a good index"),
            _sum_of("no_index_used", "Statements without an index"),
            _sum_of("rows_affected", "Rows changed"),
            _sum_of("rows_examined", "Rows examined"),
            _sum_of("rows_sent", "Rows returned"),
            _sum_of("select_full_join", "Joins without an index"),
            _sum_of("select_full_range_join", "Joins with a range of the first table"),
            _sum_of("select_range", "Joins that used a range"),
            _sum_of("select_range_check", "Joins that looked for keys at each row"),
            _sum_of("select_scan", "Scans of the first table"),
            _sum_of("sort_merge_passes", "Merge passes of sorts"),
            _sum_of("sort_range", "Sorts of ranges"),
            _sum_of("sort_rows", "Sorted rows"),
            _sum_of("sort_scan", "Sorts of scans"),
            Family(
                _SUM + "timer_wait", "Seconds of statements, over all digests.", {"": "SUM_TIMER_WAIT"}, bare=True, unit="seconds"
            ),
            _sum_of("warnings", "Warnings"),
        ),
    ),
    Group(
        "file_summary_by_instance",
        {"file_name": "FILE_NAME", "event_name": "EVENT_NAME"},
        (
            Family("file_instances", "Operations by file.", {"read": "COUNT_READ", "write": "COUNT_WRITE"}, "mode"),
            Family(
                "file_instances_bytes",
                "Bytes by file.",
                {"read": "SUM_NUMBER_OF_BYTES_READ", "write": "SUM_NUMBER_OF_BYTES_WRITE"},
                "mode",
                bare=True,
            ),
        ),
        rank="SUM_TIMER_WAIT",
        prefix_removed="/var/lib/mysql/",
    ),
)
