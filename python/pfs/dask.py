"""Shows what the workers of a Dask cluster wait for, with those that died.

    client.register_plugin(pfs.dask.Plugin(consumers=["events_waits_history_long"]))
    pfs.dask.merge(client, "file_summary_by_event_name")      # the sums of all workers
    pfs.dask.table(client, "events_waits_history_long")       # a Dask DataFrame, one partition per worker
    pfs.dask.sql(client, "select ...").df()                   # SQL over those sums; also view() and arrow()

It needs Dask (``pip install 'perfschema[dask]'``).
"""

from __future__ import annotations

from pfs.errors import Error

try:
    import dask.dataframe  # noqa: F401  the library: this module is pfs.dask
    import distributed  # noqa: F401
except ImportError as error:
    raise Error(f"pfs.dask needs Dask: pip install 'perfschema[dask]' ({error})") from None

from pfs._many.dask.frames import arrow, merge, sql, table, view, workers
from pfs._many.dask.plugin import Plugin

__all__ = ["Plugin", "arrow", "merge", "sql", "table", "view", "workers"]
