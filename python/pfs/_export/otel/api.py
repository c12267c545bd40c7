"""Is what pfs.otel offers."""

from __future__ import annotations

import os

from pfs.errors import AttachError, Error, InvalidValue

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

__all__ = ["Counts", "Exporter", "exporter"]


def exporter(
    source: int | str | os.PathLike[str] | None = None,
    *,
    min_wait: int = DEFAULT_MIN_WAIT,
    sql_text: bool = False,
    service: str | None = None,
    directory: str | None = None,
    all_users: bool = False,
) -> Exporter:
    """Returns an object that reads processes again and again: ``traces()``, ``metrics()``, ``counts``, ``close()``.

    Args:
        source: a process id or the path of a segment; None reads all processes of this user.
        min_wait: picoseconds; shorter waits are no spans, unless a span is nested in them.
        sql_text: texts of statements with their literals, instead of the digest's text, and messages of errors.
        service: the resource's ``service.name``, instead of the name of the program.
        directory: where the segments are, if source is None.
        all_users: reads processes of other users, too, if source is None.

    Raises:
        AttachError: there is no such segment.
        InvalidValue: min_wait is negative.
    """
    if min_wait < 0:
        raise InvalidValue(f"bad value {min_wait} for min_wait: legal are picoseconds, 0 or more")
    if source is None:
        return Exporter(all_processes(directory, all_users), None, min_wait, sql_text, service)
    with attach(source) as schema:  # it says what is wrong with a source
        path, identity = schema.path, schema._source.identity
    found = processes.look(path)
    if found is None:
        raise AttachError(f"{path} has gone")
    return Exporter(one_process(path, identity), found, min_wait, sql_text, service)
