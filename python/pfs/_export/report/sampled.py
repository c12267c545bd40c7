"""Adds samples of threads up for a report: in bins of time, by everything that a reader may choose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pfs._export.report.shared import LISTS, color_of, cut
from pfs._process.history.names import NOT_ACTIVE
from pfs._process.run.contents import Listed, clean
from pfs._process.run.where_time import words_of
from pfs._read.show import rate_text, some, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    import pandas as pd

    Codes = np.ndarray[Any, np.dtype[np.int64]]

__all__ = ["Sampled", "sampled"]

IDLE = "idle"
_MOST_BINS = 600
_LEAST_SAMPLES = 5  # of a bin
_MOST_KEYS, _FEWEST_KEYS = 6000, 50
_LEAST_GAP = 0.02  # of the time
_FEWEST_PARTS = 30  # of the time: a zoom needs some
_MOST_BYTES = 800_000  # of JSON
_UNITS = 20  # of the median sample: what rounding may cost
_SAMPLE = ["NODE", "PID", "SAMPLE_TIME"]
_OTHERS = "(others)"
_ROWS_OF_TIME = 12


@dataclass(slots=True)
class Sampled:
    """Samples that are added up. Time is in bins; parts of time are `factor` bins long, so that many keys fit a page."""

    begin: datetime
    width: float  # seconds of a bin
    bins: int
    unit: float  # seconds
    classes: list[str]
    texts: list[str]
    chart: list[list[int]]  # units of thread time, for each class by bin
    factor: int
    keys: list[list[int]]  # class, and a text for each of LISTS; the text 0 stands for no text
    cells: list[list[int]]  # for each key pairs: parts of time since the pair before, and units of thread time
    processors: int
    note: str  # how the samples were taken

    @property
    def seconds(self) -> float:
        return self.width * self.bins

    def as_json(self) -> dict[str, Any]:
        return {
            "begin": self.begin.timestamp(),
            "width": self.width,
            "bins": self.bins,
            "unit": self.unit,
            "processors": self.processors,
            "classes": [[words_of(name), color_of(name), name == IDLE] for name in self.classes],
            "texts": self.texts,
            "chart": self.chart,
            "factor": self.factor,
            "keys": self.keys,
            "cells": self.cells,
        }

    def of_list(self, number: int) -> list[tuple[str, dict[str, float]]]:
        """Returns each text of a list with its average active threads by class, the largest first."""
        found: dict[str, dict[str, float]] = {}
        for key, cells in zip(self.keys, self.cells, strict=True):
            kind = self.classes[key[0]]
            if key[1 + number] and kind != IDLE:
                sums = found.setdefault(self.texts[key[1 + number]], {})
                sums[kind] = sums.get(kind, 0) + sum(cells[1::2]) * self.unit / self.seconds
        return sorted(found.items(), key=lambda item: (-sum(item[1].values()), item[0]))

    def over_time(self, rows: int) -> list[tuple[datetime, dict[str, float]]]:
        """Returns the average active threads by class in some parts of the time."""
        size = -(-self.bins // rows)
        found = []
        for first in range(0, self.bins, size):
            sums = [sum(amounts[first : first + size]) for amounts in self.chart]
            length = min(size, self.bins - first) * self.width / self.unit
            at = self.begin + timedelta(seconds=first * self.width)
            found.append((at, {kind: amount / length for kind, amount in zip(self.classes, sums, strict=True) if amount}))
        return found

    def lists(self, limit: int) -> list[Listed]:
        """Returns the samples as lists: over time, and the largest of each kind."""
        rows = []
        for at, part in self.over_time(_ROWS_OF_TIME):
            ordered = sorted(((time, words_of(kind)) for kind, time in part.items() if kind != IDLE), reverse=True)
            of_it = ", ".join(f"{words} {rate_text(time)}" for time, words in ordered if time >= 0.005)
            rows.append([f"{at:%H:%M:%S}", rate_text(sum(time for time, _ in ordered)), of_it])
        result = [Listed("Average active threads over time", ("from", "threads", "of it"), rows, [])]
        active = sum(sum(part.values()) for _, part in self.of_list(LISTS.index("By thread"))) or 1
        for number, title in enumerate(LISTS):
            found = [(text, sum(part.values())) for text, part in self.of_list(number)[:limit]]
            lines = [[rate_text(time), f"{time / active:.0%}", text] for text, time in found]
            if lines:
                result.append(Listed(title, ("threads", "share", "name"), lines, [round(time * 1e6) for _, time in found]))
        return result


def sampled(frame: pd.DataFrame, processors: int = 0) -> Sampled | None:
    """Adds up what ``pfs.samples`` returns; None if there is no sample."""
    import numpy as np

    if len(frame) == 0:
        return None
    weights = frame["WEIGHT"].to_numpy(np.int64) / 1e12
    ends = frame["SAMPLE_TIME"].to_numpy("datetime64[us]").astype(np.int64) / 1e6
    first, last = float((ends - weights).min()), float(ends.max())
    hz = float(frame.attrs.get("hz") or 20)
    bins = max(1, min(_MOST_BINS, int((last - first) * hz / _LEAST_SAMPLES)))
    width = (last - first) / bins or 1.0
    unit = float(np.median(weights)) / _UNITS or 1e-6
    codes, rows, classes, texts = _keys(frame)
    ends, lengths, amounts = (ends - first) / width, weights / width, weights / unit
    kinds = np.array([key[0] for key in rows])[codes]
    which, before = _placed(ends, lengths, bins)
    chart = np.zeros((len(classes), bins))
    np.add.at(chart, (kinds, which), amounts * (1 - before))
    np.add.at(chart, (kinds, np.maximum(which - 1, 0)), amounts * before)
    order = np.argsort(-np.bincount(codes, weights), kind="stable")
    most, factor = _MOST_KEYS, 1
    while True:
        places, keys = _folded(rows, order, most, texts)
        cells = _cells(places[codes], amounts, ends / factor, lengths / factor, -(-bins // factor))
        size = len(json.dumps(cells, separators=(",", ":")))
        if size <= _MOST_BYTES or most < _FEWEST_KEYS:
            break
        factor, most = (factor + 1 + size // (2 * _MOST_BYTES), most) if bins // factor > _FEWEST_PARTS else (factor, most // 2)
    return Sampled(
        datetime.fromtimestamp(first, UTC), width, bins, unit, classes, texts, np.rint(chart).astype(int).tolist(), factor, keys,
        cells, processors, _note(frame, hz, last - first),
    )  # fmt: skip


def _note(frame: pd.DataFrame, hz: float, seconds: float) -> str:
    """Returns a sentence on how the samples were taken, and for how long there was none."""
    each = frame.drop_duplicates(_SAMPLE)
    said = f"{some(len(each), 'sample')} with {some(len(frame), 'row')}, {hz:g} a second."
    if (late := frame.attrs.get("sampler", {}).get("lateness_p90")) is not None:
        said += f" Nine of ten were less than {time_text(late)} late."
    gap = seconds - float(each.groupby(["NODE", "PID"])["WEIGHT"].sum().max()) / 1e12
    return (
        said
        if gap < _LEAST_GAP * seconds
        else f"{said} For {time_text(round(gap * 1e12))} nobody sampled: the chart is low there."
    )


def _keys(frame: pd.DataFrame) -> tuple[Codes, list[list[int]], list[str], list[str]]:
    """Returns the number of each row's key, the keys, the classes, and the texts."""
    import numpy as np

    state = frame["THREAD_STATE"].astype("string")
    is_active = (~state.isin(NOT_ACTIVE) | frame["STATEMENT_EVENT_ID"].notna() | frame["STAGE_NAME"].notna()).to_numpy(bool)
    kind = frame["WAIT_CLASS"].where(is_active, IDLE)
    event = _worded(_event, kind, frame["EVENT_NAME"], frame["OPERATION"])
    line = _worded(_plain, frame["SOURCE"])
    role = _worded(_role, frame["THREAD_NAME"])
    statement = _worded(_first, frame["DIGEST_TEXT"], frame["STATEMENT_NAME"])
    lists = [event, statement, line, _worded(_plain, frame["OBJECT_NAME"]), role, _holders(frame, event, line, role)]
    texts, known = [""], {"": 0}
    columns = []
    for codes, words in lists:
        for text in words:
            if text not in known:
                known[text] = len(texts)
                texts.append(text)
        columns.append(np.where(is_active, np.array([known[text] for text in words], np.int64)[codes], 0))
    kinds, classes = _worded(str, kind)
    order = sorted(range(len(classes)), key=lambda number: (color_of(classes[number]), classes[number]))
    kinds, classes = np.argsort(order)[kinds], [classes[number] for number in order]
    columns.insert(0, kinds)
    codes, first = _combined(columns)
    return codes, [[int(column[i]) for column in columns] for i in first], classes, texts


def _event(kind: str, event: str | None, operation: str | None) -> str:
    if event is None:
        return words_of(kind)
    name = event.removeprefix("wait/").removeprefix("synch/").removeprefix("io/")
    return _plain(f"{name} ({operation})" if operation else name)


def _plain(text: str | None) -> str:
    return clean(cut(text or ""))


def _first(*texts: str | None) -> str:
    return _plain(next(filter(None, texts), ""))


def _role(name: str | None) -> str:
    return "not recorded" if name is None else _plain(re.sub(r"\d+", "*", name.removeprefix("thread/")))


def _worded(words: Callable[..., str], *columns: pd.Series[Any]) -> tuple[Codes, list[str]]:
    """Returns the texts that a function makes of the values in each row: the number of each row's text, and the texts."""
    import numpy as np
    import pandas as pd

    coded = [pd.factorize(column) for column in columns]
    codes, first = _combined([numbers for numbers, _ in coded])
    made = [words(*(None if numbers[i] < 0 else values[numbers[i]] for numbers, values in coded)) for i in first]
    texts = list(dict.fromkeys(made))
    places = {text: number for number, text in enumerate(texts)}
    return np.array([places[text] for text in made], np.int64)[codes], texts


def _combined(columns: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Returns a number for each row that is the same for rows with the same values, and the first row of each number."""
    import numpy as np
    import pandas as pd

    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = pd.factorize(codes * (int(column.max(initial=0)) + 2) + column + 1)[0]
    return codes, np.unique(codes, return_index=True)[1]


def _holders(frame: pd.DataFrame, event: Any, line: Any, role: Any) -> tuple[Codes, list[str]]:
    """Returns what the thread does, in the same sample, that holds the lock which a row waits for."""
    import numpy as np

    waits = frame.loc[frame["BLOCKING_THREAD_ID"].notna(), [*_SAMPLE, "BLOCKING_THREAD_ID"]]
    threads = frame.loc[frame["THREAD_ID"].isin(waits["BLOCKING_THREAD_ID"].unique()), [*_SAMPLE, "THREAD_ID"]]
    threads = threads.assign(PLACE=np.flatnonzero(frame["THREAD_ID"].isin(waits["BLOCKING_THREAD_ID"].unique())))
    found = waits.merge(threads, how="left", left_on=[*_SAMPLE, "BLOCKING_THREAD_ID"], right_on=[*_SAMPLE, "THREAD_ID"])
    holders = found["PLACE"].fillna(-1).to_numpy(np.int64)
    codes, first = _combined([np.where(holders < 0, -1, numbers[holders]) for numbers, _ in (role, event, line)])
    texts = [""]
    for i in first:
        who, does, at = (words[numbers[holders[i]]] for numbers, words in (role, event, line))
        texts.append("a thread that is not in the sample" if holders[i] < 0 else f"{who}: {does}{f' at {at}' if at else ''}")
    result = np.zeros(len(frame), np.int64)
    result[np.flatnonzero(frame["BLOCKING_THREAD_ID"].notna())] = codes + 1
    return result, texts


def _folded(rows: list[list[int]], order: Codes, most: int, texts: list[str]) -> tuple[Codes, list[list[int]]]:
    """Returns the new number of each key, and the keys: the largest, and others by class and event, or by class."""
    import numpy as np

    if _OTHERS not in texts:
        texts.append(_OTHERS)
    others = texts.index(_OTHERS)
    places: dict[tuple[int, ...], int] = {}
    result = np.zeros(len(rows), np.int64)
    for rank, number in enumerate(order):
        key = tuple(rows[number])
        if rank >= most:
            kept = 2 if len(places) < 2 * most else 1
            key = key[:kept] + tuple(others if text else 0 for text in key[kept:])
        result[number] = places.setdefault(key, len(places))
    return result, list(map(list, places))


def _placed(ends: Any, lengths: Any, bins: int) -> tuple[Codes, Any]:
    """Returns the bin of each sample, and which part of it counts in the bin before: a sample stands for the time before it.

    Args:
        ends, lengths: of that time, in bins.
    """
    import numpy as np

    last = np.minimum(ends.astype(np.int64), bins - 1)
    before = np.clip((lengths - (ends - last)) / np.maximum(lengths, 1e-12), 0, 1)
    before[last == 0] = 0
    return last, before


def _cells(keys: Codes, amounts: Any, ends: Any, lengths: Any, bins: int) -> list[list[int]]:
    """Returns the cells of each key. `amounts`: units of thread time; `ends`, `lengths`: see ``_placed``."""
    import numpy as np

    last, before = _placed(ends, lengths, bins)
    places = np.concatenate([keys * bins + last, (keys * bins + last - 1)[before > 0]])
    found, which = np.unique(places, return_inverse=True)
    sums = np.rint(np.bincount(which, np.concatenate([amounts * (1 - before), (amounts * before)[before > 0]]))).astype(np.int64)
    found, sums = found[sums > 0], sums[sums > 0]
    of_key, at = found // bins, found % bins
    steps = np.diff(at, prepend=0)
    firsts = np.diff(of_key, prepend=-1) > 0
    steps[firsts] = at[firsts]
    pairs = np.stack([steps, sums], axis=1)
    starts = np.searchsorted(of_key, np.arange(int(keys.max()) + 2))
    return [pairs[a:b].ravel().tolist() for a, b in pairwise(starts)]
