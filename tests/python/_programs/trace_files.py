"""Files of the trace as docs/reference/trace.md describes them, made without the writer."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from pfs import _core
from pfs._save.trace import files

__all__ = ["STAGES", "STATEMENTS", "TRANSACTIONS", "WAITS", "Thread", "line", "merged", "pfs_trace", "statements_of"]

WAITS, STAGES, STATEMENTS, TRANSACTIONS = (f"events_{kind}_current" for kind in ("waits", "stages", "statements", "transactions"))
Row = dict[str, Any]


def written(value: int | str | bytes | None) -> bytes:
    """A value as docs/reference/trace.md has it."""
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return b"%d" % value
    data = value.encode() if isinstance(value, str) else value
    try:
        is_plain = not any(c < " " or c == "\x7f" for c in data.decode())
    except UnicodeDecodeError:
        is_plain = False
    return b"'" + data.replace(b"'", b"''") + b"'" if is_plain else b"CAST(X'" + data.hex().upper().encode() + b"' AS TEXT)"


def line(table: str, row: Row) -> bytes:
    """Columns that are not given are NULL, or 0 and the first of an enum where that is illegal."""
    names = [column["name"] for column in _core.table_info(table)["columns"]]
    assert not set(row) - set(names)
    values = []
    for column in _core.table_info(table)["columns"]:
        default: int | str | None = None
        if not column["nullable"]:
            default = {"text": "", "enum": (*column["values"], "")[0]}.get(column["kind"], 0)
        values.append(written(row.get(column["name"], default)))
    return b"INSERT INTO " + table.encode() + b" VALUES (" + b",".join(values) + b");\n"


@dataclass
class Thread:
    """Events of a thread that are written as they begin and end. Times are in picoseconds."""

    number: int
    process: int = 1234
    actor: str = "harry@localhost"
    name: str = "worker"
    data: list[bytes] = field(default_factory=list)
    last: int = 0
    rows: dict[int, tuple[str, Row]] = field(default_factory=dict)

    def start(self, table: str, name: str, time: int | None, inside: int | None = None, **columns: Any) -> int:
        self.last += 1
        row = {
            "THREAD_ID": self.number,
            "EVENT_ID": self.last,
            "EVENT_NAME": name,
            "TIMER_START": time,
            "NESTING_EVENT_ID": inside,
        }
        self.rows[self.last] = (table, row | columns)
        self.data.append(line(table, row | columns))
        return self.last

    def end(self, event: int, time: int | None, **columns: Any) -> None:
        table, row = self.rows[event]
        started = row["TIMER_START"]
        times = {"TIMER_END": time, "TIMER_WAIT": None if time is None or started is None else time - started}
        self.rows[event] = (table, row | {"END_EVENT_ID": self.last} | times | columns)
        self.data.append(line(*self.rows[event]))

    def wait(self, name: str, start: int | None, end: int | None, inside: int | None = None, **columns: Any) -> int:
        event = self.start(WAITS, name, start, inside, **columns)
        self.end(event, end)
        return event

    def header(self, part: int = 1, form: int = 1) -> bytes:
        return (
            f"/* pfs trace file for {self.actor} on 2026-11-20 20:30:00; format {form}; thread {self.number} {self.name}; "
            f"process {self.process}; part {part} */\n"
        ).encode()

    def write(self, folder: Path, part: int = 1, tail: bytes = b"") -> Path:
        path = folder / f"trace.{self.actor}.{self.name}.{self.number}.{self.process}.{part}.sql"
        path.write_bytes(self.header(part) + b"".join(self.data) + tail)
        self.data.clear()
        return path


def merged(folder: Path, **how: Any) -> bytes:
    found, partial = files.sources(folder, **how)
    output = BytesIO()
    files.merge(found, output, partial)
    return output.getvalue()


def statements_of(text: bytes) -> list[bytes]:
    return [part for part in text.split(b"\n") if part.startswith(b"INSERT")]


def pfs_trace(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "pfs", "trace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
