"""Makes the report of a process, of all processes of a run, or of a snapshot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pfs._process.attach import attach
from pfs._process.findings.ask import processor_time, segments_in
from pfs._process.run.join import add_silent, is_joined
from pfs._process.run.report import Report, add, gather
from pfs._process.run.report_json import read_json
from pfs._process.saved import SavedSource
from pfs._save.places import is_snapshot

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["report_of", "samples_in"]


def samples_in(source: int | str) -> pd.DataFrame | None:
    """Returns the samples that lie in a folder, or None."""
    if isinstance(source, int) or not os.path.isdir(source):
        return None
    from pfs._process.history.samples import read
    from pfs._process.history.store import folders_of

    folders = folders_of(source)
    return read(folders, exact=False)[0] if folders else None  # the threads of a moment add up; tables have the exact sums


def report_of(source: int | str) -> Report:
    """Returns the report of a process id, a segment, a folder of segments, a saved snapshot, or a report that was kept as JSON.

    A folder that has only samples gives an empty report.

    Raises:
        AttachError: there is no such process, segment or folder.
        InvalidValue: the snapshot is not complete, or has the rows of several processes; the JSON is no report.
    """
    if isinstance(source, str) and source.endswith(".json"):
        return read_json(source)
    report, cpu = Report(), None
    if isinstance(source, str) and is_snapshot(source):
        saved = SavedSource.of(source)
        report.host, report.lives = saved.host, True  # or so it may be
        report.read.append(source)
        add(report, saved)
    elif isinstance(source, str) and os.path.isdir(source):
        from pfs._process.history.store import folders_of

        report.read.append(source)
        gather(segments_in(source, or_none=bool(folders_of(source))), report)
    else:
        with attach(source) as schema:
            add(report, schema._source)
            report.read.append(schema.path)
            report.lives = schema.is_alive is True
            if (pid := schema._source.pid_here) and is_joined(pid):
                add_silent(report, schema._source, pid, schema.now() / 1e12)
            report.segments = os.stat(schema.path).st_blocks * 512
            cpu = processor_time(schema._source)
    report.finish(None, cpu)
    return report
