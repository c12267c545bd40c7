"""The columns that the core reads, as conditions compare them and as orders sort them: arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pfs import _core

__all__ = ["ArrayColumn"]

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class ArrayColumn:
    """The values of a column as arrays: numbers, or codes of texts."""

    def __init__(self, part: _core.Part, rows: int) -> None:
        _, kind, _, values, mask, texts = part
        self.kind = "text" if kind in ("text", "set", "enum") else "time" if kind == "timestamp" else "number"
        self._texts = list(texts) if self.kind == "text" else []
        self._values: Any = np.arange(rows) if values is None else np.asarray(values)
        self.null: Mask = np.zeros(rows, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
        if self.kind == "text" and values is not None:
            self.null = self._values < 0
        elif self.kind == "time":
            self.null = self._values == np.iinfo(np.int64).min

    def nulls(self) -> tuple[Mask, Mask]:
        return self.null, ~self.null

    def compared(self, compare: Callable[[Any, Any], Any], value: Any) -> tuple[Mask, Mask]:
        if self.kind == "text":
            return self._of_texts([bool(compare(str(text), value)) for text in self._texts])
        return self._found(np.asarray(compare(self._values, value), dtype=bool))

    def matches(self, pattern: str) -> tuple[Mask, Mask]:
        return self._of_texts(_core.matches([str(text) for text in self._texts], pattern))

    def _of_texts(self, found: list[bool]) -> tuple[Mask, Mask]:
        if not self._texts:
            return self._found(np.zeros(len(self._values), dtype=bool))
        return self._found(np.asarray(found, dtype=bool)[np.where(self.null, 0, self._values)])

    def _found(self, found: Mask) -> tuple[Mask, Mask]:
        return found & ~self.null, ~found & ~self.null

    def sort_keys(self) -> Any:
        """Returns numbers that order the rows as the values do."""
        if self.kind != "text":
            return self._values
        if not self._texts:
            return np.zeros(len(self._values), dtype=np.intp)
        rank = np.empty(len(self._texts), dtype=np.intp)
        rank[sorted(range(len(self._texts)), key=lambda i: str(self._texts[i]))] = np.arange(len(self._texts))
        return rank[np.where(self.null, 0, self._values)]
