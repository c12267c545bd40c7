"""Makes the names and sources of an unchanged program readable: wait/synch/mutex/app/data+0x4080 and app+0x11ec.

The places in them become symbols and lines, or what the user calls them (``own_names``).
"""

from __future__ import annotations

import os
import re
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pfs._read.places.lines import line_of
from pfs._read.places.own_names import names_for
from pfs._read.places.symbols import Place, place_of, symbol_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pfs._read.source import Rows

__all__ = ["TABLES", "Readable", "in_words"]

# Tables that people ask in a hurry: names and places in them are always in words.
TABLES = frozenset(("active_sessions", "blocked", "lock_reasons", "running"))
_NAMES = frozenset(("EVENT_NAME", "HOLDER", "HOLDER_EVENT_NAME", "LOCK_NAME", "THREAD"))

_IN_NAME = re.compile(r"(?:code|data)\+0x[0-9a-f]+$")
_SOURCE = re.compile(r"(?P<module>[^/]+)\+0x(?P<offset>[0-9a-f]+)$")
_USED_FROM = re.compile(r" used from (?P<path>/.*)$")
_MOST_MODULE = 39  # characters, as cpp/run/loader/sites.cpp clips the name of a module in SOURCE


def in_words(place: Place) -> str | None:
    """Returns ``queue_lock``, ``worker+0x1f (app.c:42)`` or None."""
    symbol = symbol_of(place)
    line = line_of(place)
    if symbol is None or line is None:
        return symbol or line
    return f"{symbol} ({line})"


class Readable:
    """Makes names and sources of one process readable. It reads the places of a process when a name first needs them."""

    def __init__(self, source: Rows) -> None:
        self._source = source
        self._own = names_for(getattr(source, "path", None))
        self._about: dict[str, str] | None = None  # DOCUMENTATION by name of instrument
        self._modules: dict[str, tuple[str, str] | None] = {}  # path and build-id by name in SOURCE; None = several
        self._names: dict[str, str] = {}
        self._sources: dict[str, str] = {}

    def name(self, name: str) -> str:
        """Returns the name of an instrument, or of a thread, with symbols, or the user's own name."""
        if name not in self._names:
            self._names[name] = self._name(name)
        return self._names[name]

    def is_idle(self, name: str) -> bool | None:
        """Returns whether the user says that threads which wait at a condition are idle, or None."""
        return self._own.is_idle(self._candidates(name)) if self._own.idle else None

    def _name(self, name: str) -> str:
        candidates = self._candidates(name)
        return self._own.name(candidates) or candidates[-1]

    def _candidates(self, name: str) -> tuple[str, str, str]:
        """Returns a name with an offset, with a symbol, and with a symbol and a line."""
        words = symbol = name
        if _IN_NAME.search(name) is not None:
            if self._about is None or name not in self._about:  # it may be new
                self._read()
            assert self._about is not None
            if (place := place_of(self._about.get(name))) is not None:
                words = _IN_NAME.sub(lambda _: in_words(place) or _[0], name)
                symbol = _IN_NAME.sub(lambda _: symbol_of(place) or _[0], name)
        return name, symbol, words

    def source(self, text: str | None) -> str | None:
        """Returns a SOURCE with its symbol and line."""
        match = _SOURCE.match(text or "")
        if text is None or match is None:
            return text
        if text not in self._sources:
            if self._about is None or match["module"] not in self._modules:
                self._read()
            module = self._modules.get(match["module"])
            words = None if module is None else in_words(Place(module[0], int(match["offset"], 16), module[1], is_return=True))
            self._sources[text] = text if words is None else words
        return self._sources[text]

    def of_column(self, column: str) -> Callable[[str], str | None] | None:
        """Returns what makes a column's texts readable: `name`, `source`, or None if they are neither."""
        return self.name if column in _NAMES else self.source if column.endswith("SOURCE") else None

    def _read(self) -> None:
        self._about = {}
        places = set()
        unproven = set()
        for table in ("setup_instruments", "setup_threads"):
            for name, text in self._source.rows(table, ("NAME", "DOCUMENTATION")):
                if (place := place_of(text)) is not None:
                    self._about[name] = text
                    places.add((place.path, place.build_id))
                elif used := _USED_FROM.search(text or ""):
                    unproven.add(used["path"])
        found: dict[str, set[tuple[str, str]]] = {}
        for path, build_id in places:
            found.setdefault(_module_name(path), set()).add((path, build_id))
        # Of these no build-id is known: the file must be older than the process.
        for path in unproven | self._mapped() | self._program():
            if _module_name(path) not in found and self._is_older(path):
                found[_module_name(path)] = {(path, "")}
        self._modules = {name: next(iter(files)) if len(files) == 1 else None for name, files in found.items()}

    def _mapped(self) -> set[str]:
        """Returns the files of code that the process has mapped, if it still runs."""
        if getattr(self._source, "state", "alive") != "alive":
            return set()  # the paths of a container lead to other files here
        try:
            with open(f"/proc/{self._source.pid}/maps", "rb") as file:
                lines = [line.split(None, 5) for line in file.read().splitlines()]
        except OSError:
            return set()
        return {os.fsdecode(line[5]) for line in lines if len(line) == 6 and b"x" in line[1] and line[5].startswith(b"/")}

    def _program(self) -> set[str]:
        """Returns the file of the program, if its name in the command leads there from here."""
        name = getattr(getattr(self._source, "identity", None), "command", b"").partition(b"\0")[0]
        path = shutil.which(os.fsdecode(name)) if name else None
        return {os.path.realpath(path)} if path else set()

    def _is_older(self, path: str) -> bool:
        identity = getattr(self._source, "identity", None)
        started = identity.started / 1e6 if identity is not None else datetime.now(UTC).timestamp()
        try:
            info = os.stat(path)
        except OSError:
            return False
        return max(info.st_mtime, info.st_ctime) < started


def _module_name(path: str) -> str:
    """Returns the name of a module as cpp/run/loader/sites.cpp writes it into SOURCE."""
    name = os.fsencode(path).rpartition(b"/")[2]
    if (end := name.find(b".so")) > 0:
        name = name[:end]
    kept = name if len(name) <= _MOST_MODULE else name[: _MOST_MODULE - 2]
    text = bytes(ord("_") if c < 0x20 or c in b"%/" else c for c in kept)
    if len(kept) < len(name):
        hashed = 2166136261
        for c in name:
            hashed = (hashed ^ c) * 16777619 & 0xFFFFFFFF
        text += b"%02x" % (hashed & 0xFF)
    return text.decode(errors="replace")
