"""Docstrings of the compiled module: its stub has types, the module itself has the texts."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from griffe import Class, Docstring, Extension, Function, Object


class CompiledDocstrings(Extension):
    """Gives classes and functions of `pfs._core` the docstrings that they have at run time."""

    def _fill(self, found: Object) -> None:
        if found.docstring is not None or not found.path.startswith("pfs._core."):
            return
        value: Any = import_module("pfs._core")
        for name in found.path.split(".")[2:]:
            value = getattr(value, name, None)
        if text := getattr(value, "__doc__", None):
            text = text.rpartition("\n--\n\n")[2]
            found.docstring = Docstring(text, parent=found)

    def on_class(self, *, cls: Class, **_: Any) -> None:
        self._fill(cls)

    def on_function(self, *, func: Function, **_: Any) -> None:
        self._fill(func)
