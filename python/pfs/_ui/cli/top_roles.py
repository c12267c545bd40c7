"""The lines of ``pfs top`` that say what threads did, by their roles."""

from __future__ import annotations

from pfs._process.run.where_time import rows_by_role
from pfs._read.samples import Sample
from pfs._read.show import plain

__all__ = ["role_lines"]

_MOST_ROLES = 3


def role_lines(before: Sample | None, after: Sample) -> list[str]:
    """Returns a line with the shares of what all threads did between two samples, or since the start.

    If there are several roles, a line for each of the largest follows.
    """
    earlier = {} if before is None else before.times
    times = {key: (threads, max(0, time - earlier.get(key, (0, 0))[1])) for key, (threads, time) in after.times.items()}
    if not any(time for _, time in times.values()):
        return []
    (*_, shares), *roles = rows_by_role(times, _MOST_ROLES)
    return [f"threads: {shares}", *(f"  {plain(name)}: {its}" for _, _, name, its in roles if len(roles) > 1)]
