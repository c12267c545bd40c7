"""The line of ``pfs top`` that shows what the threads did in the last minute."""

from __future__ import annotations

from collections.abc import Sequence

from pfs._process.history.watch import Watch
from pfs._process.processes import is_alive
from pfs._process.run.where_time import words_of
from pfs._process.segment import SegmentSource

__all__ = ["MinuteLine", "blocks"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_PARTS, _CLASSES = 12, 4


class MinuteLine:
    """Samples a process while a screen shows it."""

    def __init__(self, source: SegmentSource) -> None:
        self._source = source
        self._watch: Watch | None = None

    def watch(self) -> None:
        """Starts to sample, unless the process is dead."""
        if self._watch is None and is_alive(self._source.state):
            self._watch = Watch(self._source.segment())

    def lines(self) -> list[str]:
        """Returns a line with the active threads of the busiest classes, each with a block for five seconds."""
        by_class = {} if self._watch is None else self._watch.minute(_PARTS)
        if not by_class:
            return []
        highest = max(max(parts) for parts in by_class.values())
        busiest = sorted(by_class.items(), key=lambda item: -sum(item[1]))[:_CLASSES]
        shown = [f"{words_of(name)} {sum(parts) / _PARTS:.1f} {blocks(parts, highest)}" for name, parts in busiest]
        return ["last minute: " + "  ".join(shown)]


def blocks(parts: Sequence[float], highest: float) -> str:
    """Returns a bar for each number, as high as its share of the highest."""
    return "".join(_BLOCKS[-(-int(part * 1000) * (len(_BLOCKS) - 1) // max(1, int(highest * 1000)))] for part in parts)
