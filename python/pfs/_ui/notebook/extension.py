"""The extension of IPython: ``%load_ext pfs``."""

from __future__ import annotations

import re
from typing import Any

from pfs import _core
from pfs._read import readable
from pfs._ui.notebook.cells import Cells
from pfs._ui.notebook.report import Report
from pfs.errors import InvalidValue

__all__ = ["load", "unload"]

_OPEN_NAME = re.compile(r"""\b(?:table|describe|ddl|truncate)\(\s*["'](\w*)$""")


def _cell_magic(shell: Any) -> Any:
    def pfs(line: str, cell: str) -> None:
        """Runs the cell and shows what it waited for: the busiest waits, files, statements and threads, and a timeline."""
        if line.strip():
            raise InvalidValue(f"%%pfs takes nothing behind it, not {line.strip()!r}")
        # IPython knows this cell as a magic only, and would give the number of the next one to what is below.
        compiler = shell.compile
        number_of_this = max(getattr(compiler, "_filename_map", {}).values(), default=shell.execution_count)
        cache = compiler.cache
        compiler.cache = lambda code, number=0, **more: cache(code, number_of_this, **more)
        try:
            with Report() as report:
                shell.run_cell("# %%pfs\n" + cell)  # its line counts, so that SOURCE names the lines of the cell
        finally:
            compiler.cache = cache
        from IPython.display import display

        display(report)  # type: ignore[no-untyped-call, unused-ignore]

    return pfs


def _line_magic(cells: Cells) -> Any:
    def pfs(line: str) -> None:
        """``%pfs on`` watches every cell: it shows what the cell waited for, and a line while it runs. ``%pfs off`` ends this."""
        word = line.strip()
        if word not in ("on", "off"):
            said = f", not {word!r}" if word else ""
            raise InvalidValue(f"%pfs takes 'on' or 'off'{said} (it is {'on' if cells.is_on else 'off'} now)")
        cells.on() if word == "on" else cells.off()

    return pfs


def _sql_magic(shell: Any) -> Any:
    def pfs_sql(line: str, cell: str) -> Any:
        """Answers the cell as SQL. Words behind ``%%pfs_sql`` are an expression of Python for the source: see ``pfs.sql``."""
        from pfs._process.questions import sql

        try:
            source = shell.ev(line) if line.strip() else None
        except (NameError, SyntaxError) as error:
            raise InvalidValue(f"%%pfs_sql {line.strip()}: {error}") from None
        return sql(cell, source)

    return pfs_sql


def _table_names() -> Any:
    """Returns a completer of names of tables, inside the quotes of ``pfs.table("``."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    @context_matcher()  # type: ignore[untyped-decorator, unused-ignore]
    def pfs_tables(context: Any) -> dict[str, Any]:
        found = _OPEN_NAME.search(context.text_until_cursor)
        names = [name for name in _core.tables() if name.startswith(found[1].lower())] if found else []
        return {
            "completions": [SimpleCompletion(text=name, type="table") for name in names],
            "matched_fragment": found[1] if found else "",
            "suppress": bool(names),
        }

    return pfs_tables


def load(shell: Any) -> None:
    """Adds the magics, the readable frames and the completion to a shell. A second call changes nothing."""
    import pandas as pd

    if getattr(shell, "_pfs_matcher", None) is not None:
        return
    shell.register_magic_function(_cell_magic(shell), "cell", "pfs")
    shell.register_magic_function(_sql_magic(shell), "cell", "pfs_sql")
    shell._pfs_cells = Cells(shell)
    shell.register_magic_function(_line_magic(shell._pfs_cells), "line", "pfs")
    shell._pfs_matcher = _table_names()
    shell.Completer.custom_matchers.append(shell._pfs_matcher)
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type(pd.DataFrame, _html)
    formatters["text/plain"].for_type(pd.DataFrame, _plain)


def unload(shell: Any) -> None:
    """Takes back what ``load`` has added."""
    import pandas as pd

    if getattr(shell, "_pfs_matcher", None) is None:
        return
    shell.Completer.custom_matchers.remove(shell._pfs_matcher)
    shell._pfs_matcher = None
    shell._pfs_cells.off()
    shell.magics_manager.magics["line"].pop("pfs", None)
    for name in ("pfs", "pfs_sql"):
        shell.magics_manager.magics["cell"].pop(name, None)
    for kind in ("text/html", "text/plain"):
        shell.display_formatter.formatters[kind].pop(pd.DataFrame, None)


def _html(frame: Any) -> str:
    return readable.html(frame) if readable.is_ours(frame) else frame._repr_html_()


def _plain(frame: Any, printer: Any, cycle: bool) -> None:
    printer.text(repr(readable.readable(frame) if readable.is_ours(frame) else frame))
