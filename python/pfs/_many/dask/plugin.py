"""The plugin that sets pfs up in each worker, and writes into its segment which worker of which cluster it is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from distributed.diagnostics.plugin import WorkerPlugin

from pfs import _core
from pfs._record.program import register_variable
from pfs.errors import Error
from pfs.setup import option_text, setup_consumers

if TYPE_CHECKING:
    from distributed import Worker

__all__ = ["CLUSTER", "NAME", "WORKER", "Plugin"]

NAME = "pfs"
CLUSTER = "dask_cluster"  # variables of the program: a dead worker's segment still has them
WORKER = "dask_worker"


class Plugin(WorkerPlugin):
    """Sets pfs up in each worker, also in workers that start later: ``client.register_plugin(pfs.dask.Plugin())``.

    ``global_variables`` of a worker then has ``dask_cluster``, the id of its scheduler, and ``dask_worker``, its address. They
    tell whose segment a dead worker has left.
    """

    __module__ = "pfs.dask"
    name = NAME
    idempotent = False

    def __init__(
        self, options: Mapping[str, bool | int | str] | None = None, consumers: Iterable[str] = (), *, keep: bool = True
    ) -> None:
        """Keeps the settings.

        Args:
            options: start-time options, as ``pfs.configure(**options)``. A worker in which pfs has started already fails with
                StateError; a nanny then gives up. Set PFS_OPTIONS in its environment instead.
            consumers: names or patterns of consumers to turn on, such as ``events_waits_history_long``.
            keep: a worker that ends cleanly leaves its segment, too. It takes memory in /dev/shm until ``pfs gc``.
        """
        self.options = dict(options or {})
        self.consumers = [consumers] if isinstance(consumers, str) else list(consumers)
        self.keep = keep

    async def setup(self, worker: Worker) -> None:
        """Is called by Dask in each worker.

        Raises:
            StateError: pfs has started already, and there are options.
            UnknownName: no such option or consumer.
            Error: pfs cannot record in this worker.
        """
        if self.keep:
            os.environ["PFS_KEEP"] = "1"  # pfs reads it when the process ends
        if self.options:
            _core.configure(option_text(self.options))
        if not _core.segment_path():
            raise Error("pfs does not record in this worker: pfs.status['performance_schema_status_reason'] says why")
        for consumer in self.consumers:
            setup_consumers[consumer].enabled = True
        cluster = await worker.scheduler.identity()
        for name, value in ((CLUSTER, str(cluster["id"])), (WORKER, str(worker.address))):
            register_variable(name, value).value = value  # a variable that is registered already keeps its value
