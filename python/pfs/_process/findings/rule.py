"""A rule: one fault that `pfs.findings` finds, the question that finds it, and the words for it.

A question is SQL of SQLite over the tables of ``facts``. Its first row counts: ``stake`` are picoseconds, ``place`` is a SOURCE
of process ``p``. Its named parameters are those of ``limits``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rule", "at"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault that can be found.

    Attributes:
        say: the sentence. It names columns of the row: {n:n} is a count, {x:t} a time, {x:f} a file, {x:q} a statement, {x:o} how
            many others. {at} is the place in words, and {doing} that of the column `doing`.
        do: what to do about it.
        of: what the time is a part of: "wall" or "processor".
        is_bound: mending saves this much at most: the whole time in a queue. Else the time says what the fault takes.
        programs: of tests/programs/faults. This rule is the first for each, and is silent when the program is mended.
        covers: rules that say less of the same fault.
        means, sure: for the manual: what it means, and how to be sure.
    """

    name: str
    sql: str
    say: str
    do: str
    programs: tuple[str, ...]
    means: str
    sure: str
    of: str = "wall"
    is_bound: bool = False
    covers: tuple[str, ...] = ()


def at(group: str, condition: str, most: str = "sum(dt)") -> str:
    """Returns SQL for the place that has most of the waits `w` of the process of a group, by their time or by `most`.

    Of calls that a library makes for its user, some have the user's place: that one counts.
    """
    return f"""(select place from wait w where w.p = {group}.p and {condition}
    group by place order by is_of_user(p, place) desc, {most} desc)"""
