"""The second segment of a process that runs under ``pfs run``: the library that records the program has one of its own."""

from __future__ import annotations

import os
import re

from pfs import _core
from pfs._outside import processes
from pfs._outside.segment import SegmentSource

__all__ = ["is_noise", "is_recorded", "recorded"]

# Locks of the interpreter, and what pfs itself does: how often says nothing of a program. The wait for the GIL
# (wait/synch/cond/python/gil) counts.
_NOISE = re.compile(
    r"wait/synch/(?:mutex/python/(?:gil|gil-switch|interpreter)|cond/python/interpreter)$|wait/\w+/\w+/(?:libperfsch\w*|_core\.\w+)/"
    r"|wait/synch/\w+/python/pfs\."
)


def is_recorded() -> bool:
    """Returns whether this process runs under ``pfs run``, or below a session with --pfs-instrument."""
    library = os.environ.get("PFS_RUN_PRELOAD", "")
    return library != "" and library in os.environ.get("LD_PRELOAD", "")


def is_noise(name: str) -> bool:
    """Returns whether an instrument is one of the interpreter's own locks, or of pfs itself."""
    return _NOISE.match(name) is not None


def recorded() -> SegmentSource | None:
    """Returns what the library has recorded of this process, or None if there is no such segment."""
    own = os.path.realpath(_core.segment_path() or "/")  # PFS_DIR may be relative
    for found in processes.scan_all(processes.with_users(processes.default_directory())):
        if found.identity.pid == os.getpid() and os.path.realpath(found.path) != own:
            return SegmentSource(_core.Segment(found.path), write=False)
    return None
