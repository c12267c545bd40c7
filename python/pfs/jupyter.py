"""Cell magic of Jupyter and IPython.

    %load_ext pfs.jupyter

    %%pfs_sql
    select EVENT_NAME, SUM_TIMER_WAIT from events_waits_summary_global_by_event_name order by 2 desc

The words behind ``%%pfs_sql`` are an expression of Python for the source: ``%%pfs_sql schema``. See ``pfs.sql``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pfs._sql.result import Result

__all__ = ["load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Registers ``%%pfs_sql``. IPython calls it."""

    def pfs_sql(line: str, cell: str) -> Result:
        from pfs._outside.questions import sql

        return sql(cell, shell.ev(line) if line.strip() else None)

    shell.register_magic_function(pfs_sql, "cell", "pfs_sql")
