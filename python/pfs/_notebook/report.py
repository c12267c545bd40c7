"""Reports what the program waited for during a piece of code."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pfs._notebook.timeline import Timeline, timeline
from pfs._source import OWN
from pfs._tables import frame, show
from pfs._tables.samples import SECTIONS, Row, Sample, Section, lost, rows_between, take

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Report"]

_MOST = 10  # rows of each part
_EVENTS = "events_waits_history_long"


class Report:
    """Measures the code of a ``with`` block, and shows its busiest waits, files, statements and threads, and a timeline."""

    def __enter__(self) -> Self:
        self.before: Sample = take(OWN)
        ends = [row[0] for row in OWN.rows(_EVENTS, ("TIMER_END",)) if row[0] is not None]
        self._begin: int = max(ends, default=0)
        self._started = time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.seconds = time.monotonic() - self._started
        self._after = take(OWN)
        self.lost = lost(OWN) - self.before.lost
        events = frame.frame(_EVENTS, where=f"TIMER_END > {self._begin}")
        self.events = events
        self.timeline: Timeline = timeline(events, {**self.before.threads, **self._after.threads})

    def rows(self, section: Section) -> list[Row]:
        """Returns what happened to each key, busiest first. Counts and times are sums of the block."""
        return rows_between(self.before, self._after, 1.0, section, "time")

    def _parts(self) -> list[tuple[str, list[str], list[list[object]]]]:
        parts = []
        for section in SECTIONS:
            rows = self.rows(section)
            if not rows:
                continue
            names = [section.name, "events", "time", "average", *(name.removesuffix("/s") for name in section.extras)]
            write = [show.bytes_text if section.name == "files" else show.count_text for _ in section.extras]
            cells: list[list[object]] = [
                [
                    row.name,
                    show.count_text(int(row.count)),
                    show.time_text(int(row.time)),
                    show.time_text(int(row.average)),
                    *(text(int(extra)) for text, extra in zip(write, row.extras, strict=True)),
                ]
                for row in rows
            ]
            parts.append((section.name, names, cells))
        return parts

    @property
    def is_empty(self) -> bool:
        """Is there nothing that the code waited for?"""
        return not any(self.rows(section) for section in SECTIONS if section.name != "statements")

    @property
    def headline(self) -> str:
        """The sentence above the tables."""
        waits = self.rows(SECTIONS[0])
        total = show.time_text(int(sum(row.time for row in waits)))
        text = (
            f"{self.seconds:.3f} s; {show.count_text(int(sum(row.count for row in waits)))} waits, {total} waited in all threads"
        )
        if not self._parts():
            text += "; nothing here uses an instrumented object: pfs.Lock, pfs.Queue, pfs.open, pfs.dbapi ... are instrumented"
        return text + (f"; {self.lost} events or objects were lost" if self.lost else "")

    def __repr__(self) -> str:
        from pfs._tables.readable import cut_in_middle

        lines = [self.headline]
        for name, names, cells in self._parts():
            rows = [[cut_in_middle(str(cell)) for cell in row] for row in cells[:_MOST]]
            lines += ["", show.as_plain_text(f"{name}: {min(_MOST, len(cells))} of {len(cells)}", names, rows)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        from pfs._tables.readable import cut_in_middle

        parts = [f"<p>{escape(self.headline)}</p>"]
        for _, names, cells in self._parts():
            head = "".join(f"<th style='text-align:{'right' if i else 'left'}'>{escape(n)}</th>" for i, n in enumerate(names))
            body = "".join(
                "<tr>"
                + "".join(
                    f"<td style='text-align:{'right' if i else 'left'};white-space:nowrap' title='{escape(str(cell))}'>"
                    f"{escape(cut_in_middle(str(cell)))}</td>"
                    for i, cell in enumerate(row)
                )
                + "</tr>"
                for row in cells[:_MOST]
            )
            more = f"<caption>{_MOST} of {len(cells)}</caption>" if len(cells) > _MOST else ""
            parts.append(f"<table>{more}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if self.timeline.drawn:
            parts.append(self.timeline._repr_html_())
        return "".join(parts)
