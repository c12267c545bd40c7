"""Applies the rules to the facts of some processes."""

from __future__ import annotations

import os
import re
import string
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pfs._process.findings.limits import LEAST, LIMITS, MOST, SHARE
from pfs._process.findings.rules import RULES
from pfs._read.show import count_text, plain, time_text

if TYPE_CHECKING:
    from pfs._process.findings.facts import Facts
    from pfs._process.findings.rule import Rule

__all__ = ["Finding", "find", "saves", "text_of"]

_WIDTH = 80
_LONGEST_STATEMENT = 60
_LINE = re.compile(r"\(([^()]*:\d+)\)$")  # a place in words: worker+0x1f (app.c:42)


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault that a rule has found. Times are picoseconds.

    Attributes:
        time: what the fault takes, or what mending it saves at most if `is_bound`.
        whole: the time that `time` is a part of; `of` says which: "wall" or "processor".
    """

    name: str
    sentence: str
    place: str | None
    pid: int
    time: int
    whole: int
    of: str
    is_bound: bool
    advice: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class _Words(string.Formatter):
    """Formats {x:n} as a count, an estimate with two digits; {x:t} as a time, {x:f} as a file, {x:q} as a statement.

    {x:o} is a number of others.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "n":
            if value == int(value):
                return count_text(int(value))
            return f"about {count_text(int(float(f'{value:.1e}')))}"
        if format_spec == "o":
            return f" and {value} more" if value else ""
        if format_spec == "t":
            return time_text(int(value))
        if format_spec == "f":
            return os.path.basename(str(value)) or str(value)
        if format_spec == "q":
            text = str(value).replace("`", "").replace(" ( ", "(").replace(" ) ", ") ").replace(" . ", ".")
            return textwrap.shorten(text, _LONGEST_STATEMENT, placeholder=" ...")
        return str(format(value, format_spec))


def find(facts: Facts, wall: int | None = None, cpu: int | None = None) -> list[Finding]:
    """Returns at most MOST findings, the largest first.

    Args:
        wall: of all processes together, in picoseconds. None is from the start of the first to the end of the last one.
        cpu: processor time, likewise. None: it is not known.
    """
    if wall is None:
        wall = (max(facts.ended, default=0) - min(facts.began, default=0)) * 1_000_000
    processes = facts.db.execute("select p, busy from process").fetchall()
    busy = min(wall, max((busy for _, busy in processes), default=0))
    if busy == 0:
        return []
    active = min(busy, max(min(busy, facts.active.get(p, busy)) for p, busy in processes))
    facts.db.execute("delete from run")
    facts.db.execute("insert into run values(?, ?, ?)", (wall, busy, cpu))
    limits = LIMITS | {"processors": len(os.sched_getaffinity(0))}
    found: list[tuple[Rule, Finding]] = []
    for rule in RULES:
        whole = busy if rule.of == "wall" else cpu or busy
        cursor = facts.db.execute(rule.sql, limits)
        row = cursor.fetchone()
        if row is None:
            continue
        values = dict(zip((column[0] for column in cursor.description), row, strict=True))
        time = min(int(values["stake"] or 0), whole)
        if time >= LEAST and time >= SHARE * (active if rule.of == "wall" else whole):
            found.append((rule, _finding(rule, values, time, whole, facts)))
    found.sort(key=lambda item: (item[0].name != "deadlock", -item[1].time))
    silent: set[str] = set()
    result = []
    for rule, finding in found:
        if rule.name not in silent and not any(rule.name in other.covers for other, _ in found):
            result.append(finding)
            silent.update(rule.covers)
    return result[:MOST]


def _finding(rule: Rule, values: dict[str, Any], time: int, whole: int, facts: Facts) -> Finding:
    place = _line(facts, values["p"], values["place"])
    values["at"] = f" at {place}" if place is not None else ""
    doing = _line(facts, values["p"], values.get("doing"))
    values["doing"] = f" at {doing}" if doing is not None else ""
    values["program"] = f" such as {os.path.basename(str(values['thing']).split(' ')[0])}" if values.get("thing") else ""
    sentence = plain(_Words().vformat(rule.say, (), values))
    pid = facts.db.execute("select pid from process where p = ?", (values["p"],)).fetchone()[0]
    return Finding(rule.name, sentence, place, pid, time, whole, rule.of, rule.is_bound, rule.do)


def _line(facts: Facts, p: int, source: str | None) -> str | None:
    """Returns the file and line of a place, or its function."""
    place = facts.place(p, source)
    line = _LINE.search(place) if place is not None else None
    return line[1] if line is not None else place


def saves(one: Finding) -> str:
    """Returns what a fault takes, or what mending it saves at most: ``at most 2.1 s of 3 s``."""
    of = "" if one.of == "wall" else " of processor time"
    return f"{'at most' if one.is_bound else 'takes'} {time_text(one.time)} of {time_text(one.whole)}{of}"


def text_of(findings: Sequence[Finding]) -> str:
    """Returns the findings for a terminal, or an empty text."""
    if not findings:
        return ""
    lines = ["Fix first"]
    for number, one in enumerate(findings, 1):
        lines += _wrapped(f"{number}. {one.sentence}: {saves(one)}.", "  ")
        lines += _wrapped(f"{one.advice} [{one.name}]", "     ")
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    more = "     "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=more, break_on_hyphens=False, break_long_words=False
    )
