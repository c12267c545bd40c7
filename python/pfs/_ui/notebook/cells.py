"""Implements ``%pfs on``: each cell is a statement, shows a line while it runs, and says at its end what it waited for."""

from __future__ import annotations

import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any

from pfs._core import statement
from pfs._process.recorded import hidden, is_recorded
from pfs._read.samples import SECTIONS
from pfs._read.show import some, time_text
from pfs._ui.notebook.report import SEES_ITS_OWN, Report, Samples

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

__all__ = ["STATEMENT", "Cells"]

STATEMENT = "statement/notebook/cell"
_FIRST, _EVERY = 1.0, 0.5  # seconds: a cell that is short needs no status


class _Line:
    """Is one line of text, in a notebook with a report to unfold."""

    def __init__(self, text: str, more: str = "") -> None:
        self._text, self._more = text, more

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        style = "font-size:90%;color:#666"
        if not self._more:
            return f"<div style='{style}'>{escape(self._text)}</div>"
        return f"<details><summary style='{style}'>{escape(self._text)}</summary>{self._more}</details>"


def _status(before: Samples, seconds: float) -> str:
    """Returns what a cell has waited for until now."""
    rows = before.again().since(before, SECTIONS[0])
    text = f"running {seconds:.1f} s; {some(int(sum(row.count for row in rows)), 'wait')}"
    total = sum(row.time for row in rows)
    if not total:
        return text
    most = rows[0]
    return f"{text}, {time_text(int(total))} waited in all threads, {100 * most.time / total:.0f} % of it for {most.name}"


class _Status(threading.Thread):
    """Shows a line below a cell that runs for longer than a second, and keeps it up to date."""

    def __init__(self, before: Samples) -> None:
        super().__init__(name="pfs status line", daemon=True)
        self._before = before
        self._ended = threading.Event()
        self._shown: DisplayHandle | None = None

    @hidden()
    def run(self) -> None:
        from IPython.display import display

        begin, pause = time.monotonic(), _FIRST
        while not self._ended.wait(pause):
            line = _Line(_status(self._before, time.monotonic() - begin))
            if self._shown is None:
                self._shown = display(line, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
            else:
                self._shown.update(line)  # type: ignore[no-untyped-call, unused-ignore]
            pause = _EVERY

    def end(self) -> DisplayHandle | None:
        """Ends the thread, and returns the line if there is one."""
        self._ended.set()
        self.join()
        return self._shown


class Cells:
    """Watches the cells of a shell between ``on`` and ``off``. Threads: that of the shell only."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._is_on = False
        self._depth = 0  # a magic may run a cell inside a cell
        self._report: Report | None = None

    def on(self) -> None:
        if not self._is_on:
            self._shell.events.register("pre_run_cell", self._begin)
            self._shell.events.register("post_run_cell", self._end)
            self._is_on = True
            if not is_recorded():
                print(SEES_ITS_OWN)

    def off(self) -> None:
        if self._is_on:
            self._shell.events.unregister("pre_run_cell", self._begin)
            self._shell.events.unregister("post_run_cell", self._end)
            self._is_on = False

    @property
    def is_on(self) -> bool:
        return self._is_on

    def _begin(self, info: Any) -> None:
        self._depth += 1
        # %pfs is about us, and %%pfs shows the same itself.
        if self._depth > 1 or info.raw_cell.lstrip().startswith(("%pfs", "%%pfs")):
            return
        self._report = Report()
        self._report.__enter__()
        self._status = _Status(self._report.before)
        self._status.start()
        self._statement = statement(STATEMENT, info.raw_cell)
        self._statement.__enter__()

    def _end(self, result: Any) -> None:
        if self._depth == 0:  # the cell that has called `on`
            return
        self._depth -= 1
        if self._depth or self._report is None:
            return
        error = result.error_before_exec or result.error_in_exec
        self._statement.__exit__(type(error) if error else None, error, None)
        report, self._report = self._report, None
        report.__exit__(None, None, None)
        shown = self._status.end()
        line = _Line(report.headline, report._repr_html_())
        if shown is not None:
            shown.update(line)  # type: ignore[no-untyped-call, unused-ignore]
        elif not report.is_empty:
            from IPython.display import display

            display(line)  # type: ignore[no-untyped-call, unused-ignore]
