"""Says in words what a status variable *_lost counts. Each variable has its words here."""

from __future__ import annotations

import re

__all__ = ["loss_text"]

_NAME = re.compile(r"^performance_schema_(\w+)_lost$", re.IGNORECASE)
_OF_FAMILY = re.compile(r"^(mutex|rwlock|cond|file|socket|thread|stage|statement|memory|table)_(classes|instances)$")
_WORDS = {
    "accounts": "accounts beyond performance_schema_accounts_size",
    "call_sites": "empty calls, of places beyond the 1,023 that are counted",
    "digest": "statements of new digests: the table of digests or the memory for their texts was full",
    "error_log": "messages to error_log",
    "events": "events that are only in the sums: no memory was free for their records",
    "file_handles": "open files whose descriptor is at least performance_schema_max_file_handles",
    "hosts": "hosts beyond performance_schema_hosts_size",
    "index_stat": "indexes without numbers of their own",
    "locker": "events that began inside of pfs, as in a signal handler, that a longjmp left, that were nested too deep, or that "
    "ended where they had not begun",
    "logger": "loggers beyond performance_schema_max_logger_classes",
    "metadata_lock": "metadata locks beyond performance_schema_max_metadata_locks",
    "meter": "meters beyond performance_schema_max_meter_classes",
    "metric": "metrics beyond performance_schema_max_metric_classes",
    "names": "names of files and objects: the table of names was full",
    "nested_statement": "statements nested deeper than performance_schema_max_statement_stack",
    "object_cells": "events that count for their instrument and thread, but not for their object",
    "prepared_statements": "prepared statements beyond performance_schema_max_prepared_statements_instances",
    "program": "stored programs beyond performance_schema_max_program_instances",
    "program_rows": "rows that the program declares: their memory was full",
    "segment_memory": "growths of a buffer beyond the limit of the segment's memory",
    "session_connect_attrs": "connections whose attributes were cut",
    "source_locations": "events without a SOURCE: the table of places was full",
    "status_variables": "status variables beyond performance_schema_max_status_variables",
    "table_handles": "open tables beyond performance_schema_max_table_handles",
    "table_lock_stat": "tables without numbers of their locks",
    "thread_statistics": "events that do not count for their thread: its memory was full",
    "trace_events": "events that are in no file of the trace",
    "users": "users beyond performance_schema_users_size",
}


def loss_text(name: str, count: int) -> str:
    """Returns what was lost: ``2 events that ... (Performance_schema_locker_lost)``; without words, of another version of pfs."""
    match = _NAME.match(name)
    lost = match[1].lower() if match else ""
    words = _WORDS.get(lost)
    if words is None and (family := _OF_FAMILY.match(lost)):
        what = f"instruments of kind {family[1]}" if family[2] == "classes" else f"objects of kind {family[1]}"
        words = f"{what}, beyond performance_schema_max_{lost}"
    return f"{count:,} {words} ({name})" if words else f"{name} {count}"
