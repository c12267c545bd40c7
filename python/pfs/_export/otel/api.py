"""Is what pfs.otel offers."""

from __future__ import annotations

import os

from pfs.errors import AttachError, Error

try:
    import opentelemetry.proto  # noqa: F401  the library: this module is pfs.otel
    import urllib3  # noqa: F401  the command needs it
except ImportError:
    raise Error("pfs.otel needs opentelemetry-proto and urllib3: pip install 'perfschema[otel]'") from None

from pfs._export.otel import DEFAULT_MIN_WAIT
from pfs._export.otel.exporter import Counts, Exporter
from pfs._process import processes
from pfs._process.attach import attach
from pfs._process.follow import all_processes, one_process
from pfs._read.units import picoseconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pfs._read.units import Time

__all__ = ["Counts", "Exporter", "exporter"]


def exporter(
    source: int | str | os.PathLike[str] | None = None,
    *,
    min_wait: Time = DEFAULT_MIN_WAIT,
    sql_text: bool = False,
    service: str | None = None,
    path: str | os.PathLike[str] | None = None,
    all_users: bool = False,
) -> Exporter:
    """Returns an object that reads processes again and again: ``traces()``, ``metrics()``, ``counts``, ``close()``.

    Args:
        source: a process id or the path of a segment; None reads all processes of this user.
        min_wait: picoseconds, or a text as "5ms"; shorter waits are no spans, unless a span is nested in them.
        sql_text: texts of statements with their literals, instead of the digest's text, and messages of errors.
        service: the resource's ``service.name``, instead of the name of the program.
        path: where the segments are, if source is None.
        all_users: reads processes of other users, too, if source is None.

    Raises:
        AttachError: there is no such segment.
        InvalidValue: min_wait is no time.
    """
    least = picoseconds("min_wait", min_wait, "ps")
    if source is None:
        return Exporter(all_processes(path, all_users), None, least, sql_text, service)
    with attach(source) as schema:  # it says what is wrong with a source
        place, identity = schema.path, schema._source.identity
    found = processes.look(place)
    if found is None:
        raise AttachError(f"{place} has gone")
    return Exporter(one_process(place, identity), found, least, sql_text, service)
