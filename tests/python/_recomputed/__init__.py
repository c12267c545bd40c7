"""The views of the schema sys, computed from the base tables by plain Python, without SQL.

Each function takes a snapshot and returns the rows of a view without formatting. A row has one more entry, ``ORDER``: what
the documented order compares. Means come from sums and counts, not from the base table's means.
"""

from __future__ import annotations

import pfs
from tests.python._recomputed.base import ORDER, Model
from tests.python._recomputed.statements import principals, slowest_statements, statements
from tests.python._recomputed.tables import full_scans, indexes, metadata_waits, table_statistics, unused_indexes
from tests.python._recomputed.threads import processlist, session
from tests.python._recomputed.waits import (
    classes,
    file_instruments_by_bytes,
    file_instruments_by_latency,
    files_by_bytes,
    files_by_latency,
    io_by_thread,
    latest_file_io,
    lock_waits,
    lost,
    memory_by_thread,
    memory_global,
    memory_total,
    metrics,
    waits_global,
)

__all__ = ["ORDER", "RECOMPUTED"]

RECOMPUTED: dict[str, Model] = {
    **principals("user", "host"),
    **principals("host", "user"),
    "innodb_lock_waits": lock_waits,
    "io_by_thread_by_latency": io_by_thread,
    "io_global_by_file_by_bytes": files_by_bytes,
    "io_global_by_file_by_latency": files_by_latency,
    "io_global_by_wait_by_bytes": file_instruments_by_bytes,
    "io_global_by_wait_by_latency": file_instruments_by_latency,
    "latest_file_io": latest_file_io,
    "memory_by_thread_by_current_bytes": memory_by_thread,
    "memory_global_by_current_bytes": memory_global,
    "memory_global_total": memory_total,
    "metrics": metrics,
    "processlist": processlist,
    "ps_check_lost_instrumentation": lost,
    "schema_index_statistics": indexes,
    "schema_table_lock_waits": metadata_waits,
    "schema_table_statistics": table_statistics,
    "schema_tables_with_full_table_scans": full_scans,
    "schema_unused_indexes": unused_indexes,
    "session": session,
    "statement_analysis": statements(("total_latency",)),
    "statements_with_errors_or_warnings": statements(("errors", "warnings"), "errors", "warnings"),
    "statements_with_full_table_scans": statements(
        ("no_index_used_pct", "total_latency"), "no_index_used_count", "no_good_index_used_count"
    ),
    "statements_with_runtimes_in_95th_percentile": slowest_statements,
    "statements_with_sorting": statements(("total_latency",), "rows_sorted"),
    "statements_with_temp_tables": statements(("disk_tmp_tables", "memory_tmp_tables"), "memory_tmp_tables"),
    "version": lambda _: [{"sys_version": pfs.__version__, "mysql_version": f"pfs {pfs.__version__}", ORDER: 0}],
    "wait_classes_global_by_avg_latency": classes("mean"),
    "wait_classes_global_by_latency": classes("total"),
    "waits_global_by_latency": waits_global,
}
