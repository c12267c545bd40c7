"""Limits what a test may do: the keywords of ``pytest.mark.pfs_budget``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from pfs._process.findings.find import text_of
from pfs._read import show
from pfs._read.units import LEGAL, picoseconds
from pfs._ui.testing.lines import text_of as text_of_lines
from pfs._ui.testing.totals import EVENTS, READ, TIME, WRITTEN, Totals, chosen
from pfs.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pfs._process.findings.find import Finding
    from pfs._ui.testing.lines import Line, Lines
    from pfs._ui.testing.overhead import Overhead
    from pfs._ui.testing.totals import Counts

__all__ = ["INI", "KEYWORDS", "Budget", "Exceeded", "as_rows", "parse_ini"]

_BYTES = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
_MOST_ROWS = 10


def _number(text: str, units: Mapping[str, float]) -> float | None:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-zµ]+)\s*", text)
    return float(match[1]) * units[match[2]] if match and match[2] in units else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _time(value: object) -> int | None:
    """Returns the picoseconds of a time, or None if it is no time."""
    try:
        return picoseconds("a limit", value)
    except InvalidValue:
        return None


def _bytes(value: object) -> int | None:
    if isinstance(value, str):
        number = _number(value, _BYTES)
        return round(number) if number is not None else _count(value)
    return _count(value)


def _count(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"\s*[0-9]+\s*", value) else None
    return value if isinstance(value, int) and _is_number(value) else None


def _ratio(value: object) -> float | None:
    return float(value) if _is_number(value) and value else None  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Keyword:
    parse: Callable[[object], float | None]
    legal: str
    column: int = -1  # of the counts of an instrument
    patterns: tuple[str, ...] = ()  # a plain number limits the sum over these instruments
    what: str = ""
    text: Callable[[int], str] = str


_A_TIME = f"seconds, a timedelta, or a text such as '10ms' ({LEGAL})"
_A_COUNT = "a whole number from 0 on"
_A_SIZE = "bytes, or a text as '4 KiB' (B, kB, KiB, MB, MiB, GB, GiB)"
# What one thread has and another wants. Conditions are waits for work, for a thread to begin or to end, and for the GIL.
_LOCKS = (*(f"wait/synch/{family}/%" for family in ("mutex", "rwlock", "prlock", "sxlock")), "wait/lock/%")
_KEYWORDS = {
    "max_wait": _Keyword(_time, _A_TIME, TIME, ("wait/%",), "waited", show.time_text),
    "max_lock_wait": _Keyword(_time, _A_TIME, TIME, _LOCKS, "waited", show.time_text),
    "max_events": _Keyword(_count, _A_COUNT, EVENTS, ("wait/%",), "event", show.count_text),
    "max_bytes_read": _Keyword(_bytes, _A_SIZE, READ, ("wait/io/%",), "read", show.bytes_text),
    "max_bytes_written": _Keyword(_bytes, _A_SIZE, WRITTEN, ("wait/io/%",), "written", show.bytes_text),
    "max_lost": _Keyword(_count, _A_COUNT),
    "findings": _Keyword(_count, _A_COUNT),
    "max_overhead_ratio": _Keyword(_ratio, "a number above 0"),
    "max_instructions": _Keyword(_ratio, "a number above 0"),
}
KEYWORDS = tuple(_KEYWORDS)
MEASURED = {"max_overhead_ratio": "pfs_overhead(function)", "max_instructions": "pfs_overhead(function, count='instructions')"}
INI = tuple(name for name in KEYWORDS if name not in MEASURED)  # these need a test that measures


def _limit(name: str, value: object) -> float:
    keyword = _KEYWORDS[name]
    limit = keyword.parse(value)
    if limit is None:
        by_pattern = ", or a dict of such by pattern of instruments" if keyword.patterns else ""
        raise InvalidValue(f"bad value {value!r} for {name}: legal is {keyword.legal}{by_pattern}; None lifts it")
    return limit


@dataclass(slots=True)
class Exceeded:
    """A limit that a test exceeded. The first line of the text names it; then come instruments and lines of the program."""

    text: str
    lines: Sequence[Line] = ()

    def __str__(self) -> str:
        return self.text + text_of_lines(self.lines)


@dataclass(slots=True)
class Budget:
    """Holds limits by keyword: a number, or a dict of numbers by LIKE pattern. Times are picoseconds."""

    limits: dict[str, float | dict[str, float]] = field(default_factory=dict)

    def set(self, keywords: Mapping[str, object]) -> None:
        """Sets limits. A later limit replaces an earlier one of the same keyword.

        Raises:
            InvalidValue: no such keyword, or a bad value.
        """
        for name, value in keywords.items():
            if name not in _KEYWORDS:
                raise InvalidValue(f"unknown keyword '{name}': legal are {', '.join(KEYWORDS)}")
            if value is None:
                self.limits.pop(name, None)
            elif isinstance(value, dict) and _KEYWORDS[name].patterns:
                if not value or not all(isinstance(pattern, str) and pattern for pattern in value):
                    raise InvalidValue(f"bad value {value!r} for {name}: legal are patterns of instruments, as 'wait/io/file/%'")
                self.limits[name] = {pattern: _limit(name, number) for pattern, number in value.items()}
            else:
                self.limits[name] = _limit(name, value)

    def patterns(self) -> dict[str, tuple[str, ...]]:
        """Returns, by keyword, the instruments that must be enabled for the limit to mean anything."""
        return {
            name: tuple(limit) if isinstance(limit, dict) else _KEYWORDS[name].patterns
            for name, limit in self.limits.items()
            if _KEYWORDS[name].patterns
        }

    def broken(
        self,
        done: Totals,
        overheads: Sequence[Overhead] = (),
        lines: Lines | None = None,
        findings: Sequence[Finding] = (),
    ) -> list[Exceeded]:
        """Returns the limits that were exceeded."""
        found = []
        for name, limit in self.limits.items():
            if name == "max_lost":
                assert isinstance(limit, float | int)
                if done.lost > limit:
                    text = (
                        f"max_lost={limit:.0f}: {done.lost} were lost because a buffer was full; "
                        "pfs.status counts them (performance_schema_*_lost), pfs.configure sets the sizes of buffers"
                    )
                    found.append(Exceeded(text))
            elif name == "findings":
                if len(findings) > limit:  # type: ignore[operator]
                    found.append(Exceeded(f"findings={limit:.0f}: {text_of(findings)}"))
            elif name in MEASURED:
                assert isinstance(limit, float | int)
                is_ratio = name == "max_overhead_ratio"
                measured = {one: one.low if is_ratio else one.on for one in overheads if is_ratio or one.counted_by != "clock"}
                found += [Exceeded(f"{name}={limit:g}: {one}") for one, value in measured.items() if value > limit]
                if not measured:
                    found.append(Exceeded(f"{name}: the test did not call {MEASURED[name]}"))
            elif isinstance(limit, dict):
                for pattern, number in limit.items():
                    found += self._over(name, (pattern,), number, f" of {pattern}", done, lines)
            else:
                found += self._over(name, _KEYWORDS[name].patterns, limit, "", done, lines)
        return found

    @staticmethod
    def _over(name: str, patterns: Iterable[str], limit: float, of: str, done: Totals, lines: Lines | None) -> list[Exceeded]:
        keyword = _KEYWORDS[name]
        counts = chosen(done.counts, patterns)
        total = sum(numbers[keyword.column] for numbers in counts.values())
        if total <= limit:
            return []
        is_count = keyword.text is show.count_text
        amount = show.some(total, keyword.what) if is_count else f"{keyword.text(total)} {keyword.what}"
        said = f"{name}{of}: {amount}, the limit is {keyword.text(int(limit))}"
        return [Exceeded(table(said, counts, keyword.column), lines(list(counts)) if lines is not None else ())]


def as_rows(counts: Counts, column: int, most: int = _MOST_ROWS) -> list[tuple[str, ...]]:
    """Returns rows of EVENT_NAME, events, waited, read, written: the instruments with the largest numbers first."""
    there = sorted(((name, n) for name, n in counts.items() if n[column]), key=lambda item: (-item[1][column], item[0]))
    rows: list[tuple[str, ...]] = [
        (
            name,
            show.count_text(n[EVENTS]),
            show.time_text(n[TIME]) if n[TIME] else "-",
            show.bytes_text(n[READ]) if n[READ] else "-",
            show.bytes_text(n[WRITTEN]) if n[WRITTEN] else "-",
        )
        for name, n in there[:most]
    ]
    if len(there) > most:
        rows.append((f"({len(there) - most} more)", "", "", "", ""))
    return rows


def table(title: str, counts: Counts, column: int) -> str:
    return show.as_plain_text(title, ("EVENT_NAME", "EVENTS", "WAITED", "READ", "WRITTEN"), as_rows(counts, column))


def parse_ini(name: str, value: str) -> object:
    """Returns the value of a keyword from the ini file: one number, or lines ``pattern = number``. Empty text is no limit."""
    lines = [line.strip() for line in value.splitlines() if line.strip()]
    if not lines:
        return None
    if len(lines) == 1 and "=" not in lines[0]:
        text = lines[0]
        if _KEYWORDS[name].parse is _time and re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
            return float(text)
        return text
    pairs = [line.rpartition("=") for line in lines]
    bad = [line for line, (pattern, _, _) in zip(lines, pairs, strict=True) if not pattern.strip()]
    if bad:
        raise InvalidValue(f"bad line {bad[0]!r} for {name}: legal are one number, or lines of the form 'wait/io/file/% = 10'")
    return {pattern.strip(): parse_ini(name, number) for pattern, _, number in pairs}
