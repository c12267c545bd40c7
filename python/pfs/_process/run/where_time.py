"""Where the time of a run went: of all threads in one line, and by their roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfs._process.run.report import class_of
from pfs._read.show import count_text, time_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pfs._process.run.report import Report

__all__ = ["NOT_SEEN", "rows_by_role", "where_rows", "words_of"]

_MOST_ROLES = 5
_MOST_STATES, _LEAST_SHARE = 4, 0.01  # further and smaller ones are added up
NOT_SEEN = "(not seen)"
_OWN_STATES = {
    "runnable": "waiting for a processor",
    "elsewhere": "blocked elsewhere",
    "starting": "starting programs",
    "ending": "ending programs",
}
_PROCESS = "(process)"  # its time is that of no other row


def words_of(state: str) -> str:
    """Returns a state of thread_time in the words of the report."""
    kind = state.removeprefix("wait/system/")
    return _OWN_STATES.get(state) or class_of(f"wait/system//{kind}-" if kind != state else f"{state}/") or state


def _in_percent(times: Mapping[str, int]) -> str:
    """Returns ``computing 60 %, time (sleep) 40 %``: the shares of states, the largest first."""
    total = sum(times.values()) or 1
    shares = sorted(((time / total, words_of(state)) for state, time in times.items()), reverse=True)
    parts = [(share, state) for share, state in shares[:_MOST_STATES] if share >= _LEAST_SHARE]
    parts.append((1 - sum(share for share, _ in parts), "others"))
    return ", ".join(f"{state} {share:.0%}".replace("%", " %") for share, state in parts if share >= _LEAST_SHARE)


def where_rows(report: Report, limit: int) -> list[list[str]]:
    """Returns the rows of a report."""
    return rows_by_role(report.times, limit, None if report.took is None else report.took.user + report.took.system)


def rows_by_role(times: Mapping[tuple[str, str], Sequence[int]], limit: int, used: int | None = None) -> list[list[str]]:
    """Returns time, threads, name and shares: of all threads first, of the largest roles, and of what pfs did not see.

    Args:
        times: threads and time by role and state of thread_time.
        used: the processor time of all processes, if that is known.
    """
    if not times:
        return []
    roles: dict[str, dict[str, int]] = {}
    for (name, state), (_, time) in times.items():
        roles.setdefault(name, {})[state] = time
    unseen = sum(roles.pop(NOT_SEEN, {}).values())
    threads = {name: max(times[name, state][0] for state in states) for name, states in roles.items()}
    computed = sum(states.get("computing", 0) for states in roles.values())
    if used is not None:
        unseen = max(0, used - computed)  # of processes without a segment, too
    ordered = sorted(roles, key=lambda name: (-sum(roles[name].values()), name))
    everything: dict[str, int] = {}
    for states in roles.values():
        for state, time in states.items():
            everything[state] = everything.get(state, 0) + time
    least = _LEAST_SHARE * sum(everything.values())
    shown = [name for name in ordered if sum(roles[name].values()) >= least]
    rows = [(name, threads[name], roles[name]) for name in shown[: min(limit, _MOST_ROLES)]]
    rows.insert(0, ("all threads", sum(threads.values()) - threads.get(_PROCESS, 0), everything))
    texts = [
        [time_text(sum(states.values())), count_text(count), name.removeprefix("thread/"), _in_percent(states)]
        for name, count, states in rows
    ]
    if unseen > least:
        texts.append([time_text(unseen), "", NOT_SEEN, "computing in processes and threads that pfs did not record"])
    return texts
