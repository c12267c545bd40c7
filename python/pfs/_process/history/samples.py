"""``pfs.record`` takes samples; ``pfs.samples`` reads them, kept or live."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

from pfs import _core
from pfs._process import by_name, processes
from pfs._process.follow import Find, one_process
from pfs._process.history.names import DECLARED, SAMPLES, TOTALS
from pfs._process.history.sampled import Batch, Sampled
from pfs._process.history.store import TOTALS_COLUMNS, Folder, Memory, about_of, folders_of, read_table
from pfs._process.recorded import is_recorded, recorded
from pfs._read.units import seconds
from pfs.errors import AttachError, InvalidValue

if TYPE_CHECKING:
    from types import TracebackType

    import pandas as pd

    from pfs._read.units import Time

__all__ = ["Recording", "finder", "read", "record", "recording_of", "samples"]

_LEAST_HZ, _MOST_HZ = 0.1, 1000.0
_LOOK = 0.5  # seconds between two looks for new processes
_DRAIN = 0.1


class Recording:
    """Takes samples of processes until it is stopped. ``pfs.record`` returns it.

    Attributes:
        path: the folder of the samples; None if they are kept in memory.
    """

    __module__ = "pfs"  # where users find it

    def __init__(self, find: Find | None, store: Memory | Folder, hz: float, node: str | None = None) -> None:
        """Is not for users. `find`: None samples this process."""
        self.path = store.path if isinstance(store, Folder) else None
        self._find = find
        self._store = store
        self._hz = hz
        self._node = node or socket.gethostname()
        self._queue: SimpleQueue[Batch] = SimpleQueue()
        self._known: dict[tuple[object, ...], Sampled] = {}
        self._about: dict[str, Any] = {"node": self._node, "hz": hz, "version": _core.__version__, "processes": {}}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pfs.record", daemon=True)
        self._failed: BaseException | None = None

    def start(self) -> Self:
        """Starts. Processes that are there are sampled when it returns."""
        self._look()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stops, and closes the files. Raises what made it impossible to write them."""
        self._stopped.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def samples(self) -> pd.DataFrame:
        """Returns the samples so far: see ``pfs.samples``."""
        if isinstance(self._store, Folder):
            return samples(self._store.path)
        return _frame_of(self._store.batches, self.told(), exact=True)[0]

    @property
    def is_over(self) -> bool:
        """Whether nothing is sampled any more: all processes have ended, or writing has failed."""
        return not self._thread.is_alive() or all(one.has_ended for one in self._known.values())

    @property
    def has_failed(self) -> bool:
        """Whether its files cannot be written any more: ``stop`` raises why."""
        return self._failed is not None

    @property
    def problems(self) -> list[str]:
        """What is wrong with its files: texts for users."""
        return [f"{name} did not become Parquet, and is read as it is: {why}" for name, why in self._store.left.items()]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Recording of {len(self._known)} processes at {self._hz:g} Hz{f' in {self.path}' if self.path else ''}>"

    def _look(self) -> None:
        """Starts to sample processes that are new, and forgets those that have ended."""
        if self._find is None:
            if not self._known:
                self._begin((), None, "")
            return
        for found in self._find():
            one = found.identity
            key = (found.path, one.pid, one.process_start_ticks, one.started)
            if key in self._known or found.state == "dead" or one.pid == os.getpid():
                continue
            try:
                self._begin(key, _core.Segment(found.path), found.command)
            except AttachError:  # it has gone meanwhile, or is of another version
                continue

    def _begin(self, key: tuple[object, ...], segment: _core.Segment | None, command: str) -> None:
        one = self._known[key] = Sampled(segment, self._node, self._hz, self._queue.put)
        self._about["processes"][str(one.pid)] = {"command": command}
        one.start()

    def told(self) -> dict[str, Any]:
        for one in self._known.values():
            self._about["processes"][str(one.pid)]["sampler"] = one.about()
        return self._about

    def _run(self) -> None:
        try:
            looked = time.monotonic()
            while not self._stopped.wait(0 if not self._queue.empty() else _DRAIN):
                self._drain()
                if time.monotonic() - looked >= _LOOK:
                    looked = time.monotonic()
                    self._look()
            for one in self._known.values():
                one.stop()
            for one in self._known.values():
                one.join()
            self._drain()
        except BaseException as error:  # a full disk
            self._failed = error
            for one in self._known.values():
                one.stop()
        finally:
            try:
                self._store.note(self.told())
                self._store.close()
            except OSError as error:
                self._failed = self._failed or error

    def _drain(self) -> None:
        wrote = False
        try:
            while True:
                self._store.add(self._queue.get_nowait())
                wrote = True
        except Empty:
            pass
        if wrote:
            self._store.note(self.told())


def record(
    source: int | str | os.PathLike[str] | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    hz: float = 20.0,
    keep: Time | None = None,
    keep_size: int | None = None,
) -> Recording:
    """Samples what each thread of a process does, many times a second. It costs the process nothing.

        with pfs.record() as recording:
            work()
        recording.samples()

    Args:
        source: None is this process; else a process id, the name of a program, or the path of a segment.
        path: a folder for the samples, such as ``web.ash``, which needs pyarrow. Without it they stay in memory.
        hz: samples a second, on average: the time between two is random.
        keep, keep_size: samples that are older go, and so do the oldest if all take more bytes than this.

    Raises:
        AttachError: there is no such process.
        InvalidValue: a bad value for ``hz`` or ``keep``; the folder is there and has other files.
        Error: pyarrow is missing: ``pip install 'perfschema[parquet]'``.
    """
    find = finder(source)
    return recording_of(find, path, hz, keep, keep_size)


def recording_of(
    find: Find | None,
    path: str | os.PathLike[str] | None,
    hz: float = 20.0,
    keep: Time | None = None,
    keep_size: int | None = None,
    node: str | None = None,
) -> Recording:
    """Returns a recording of the processes that `find` lists, and of those that it will list. It is not started."""
    if not _LEAST_HZ <= hz <= _MOST_HZ:
        raise InvalidValue(f"bad value {hz!r} for hz: legal are {_LEAST_HZ:g} to {_MOST_HZ:g} samples a second")
    kept = None if keep is None else timedelta(seconds=seconds("keep", keep))
    store = Memory() if path is None else Folder(path, kept, keep_size)
    return Recording(find, store, float(hz), node)


def finder(source: int | str | os.PathLike[str] | None) -> Find | None:
    """Returns what finds a process; None for this one."""
    if source is None or source == os.getpid():
        if not is_recorded() or (there := recorded(write=False)) is None:
            return None
        path = there.path
    elif isinstance(source, int):
        path = processes.find(source).path
    else:
        text = os.fspath(source)
        path = text if "/" in text or text.endswith(".pfs") else by_name.path_of(text)
    identity = _core.Segment(path).identity
    if (found := processes.look(path)) is not None and found.state == "dead":
        raise AttachError(f"process {identity.pid} has ended: pfs show reads what it left; samples are of processes that run")
    return one_process(path, identity)


def samples(
    source: int | str | os.PathLike[str],
    columns: Iterable[str] | None = None,
    *,
    begin: datetime | None = None,
    end: datetime | None = None,
    seconds: float = 1.0,
    hz: float = 20.0,
    exact: bool = True,
) -> pd.DataFrame:
    """Returns samples as a frame: one row for each thread at each moment. docs/howto/sampling.md explains the columns.

    Args:
        source: a folder of ``pfs record``, or one that has such folders; or a process as for ``pfs.record``.
        columns: names; None means all.
        begin, end: of a folder: samples from `begin` to before `end`, UTC.
        seconds, hz: of a process: how long, and how often a second.
        exact: corrects WEIGHT by exact sums of the same minute. False: the time since the sample before.

    Raises:
        InvalidValue: the folder has no samples.
        AttachError: there is no such process.
        Error: pyarrow is missing: ``pip install 'perfschema[parquet]'``.
    """
    folders = folders_of(source)
    if folders:
        frame, _ = read(folders, begin, end, exact)
    elif not isinstance(source, int) and os.path.isdir(source):
        raise InvalidValue(f"{os.fspath(source)} has no samples: pfs record -o makes a folder of them")
    else:
        with record(source, hz=hz) as recording:
            limit = time.monotonic() + seconds
            while time.monotonic() < limit and not recording.is_over:
                time.sleep(min(0.05, max(0.0, limit - time.monotonic())))
        store = recording._store
        assert isinstance(store, Memory)
        frame, _ = _frame_of(store.batches, store.about, exact)
    return frame if columns is None else frame[[*columns]]


def read(
    folders: Sequence[Path], begin: datetime | None = None, end: datetime | None = None, exact: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the samples and the exact sums of folders."""
    import pandas as pd

    from pfs._save.parquet import columns_of_arrow, need_pyarrow

    need_pyarrow()
    found: dict[str, list[pd.DataFrame]] = {SAMPLES: [], TOTALS: []}
    about: dict[str, Any] = {}
    for folder in folders:
        about = about or about_of(folder)
        for table, frames in found.items():
            if (rows := read_table(folder, table, begin, end)) is not None:
                held = columns_of_arrow(DECLARED if table == SAMPLES else TOTALS, rows, {})
                frame = held if isinstance(held, pd.DataFrame) else held.frame()
                if isinstance(frame["SAMPLE_TIME"].dtype, pd.DatetimeTZDtype):  # of a table that is not declared
                    frame["SAMPLE_TIME"] = frame["SAMPLE_TIME"].dt.tz_localize(None)
                frames.append(frame)
    return _finished(found[SAMPLES], found[TOTALS], about, exact)


def _frame_of(batches: list[Batch], about: dict[str, Any], exact: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    from pfs._read.frame import made

    frames: dict[str, list[pd.DataFrame]] = {SAMPLES: [], TOTALS: []}
    for table, rows, parts in batches:
        frames[table].append(made(rows, 0, parts, is_signed=True))
    return _finished(frames[SAMPLES], frames[TOTALS], about, exact)


def _finished(
    samples: list[pd.DataFrame], totals: list[pd.DataFrame], about: dict[str, Any], exact: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    import pandas as pd

    from pfs._process.history.weights import corrected
    from pfs._read.frame import made

    if not samples:
        parts = _core.read(DECLARED, None, None)[2]
        empty = made(len(parts[0][3]), 0, parts, is_signed=True).iloc[:0]
        empty.insert(0, "PID", pd.Series(dtype="int64"))
        empty.insert(0, "NODE", pd.Series(dtype=empty["THREAD_NAME"].dtype))
        samples = [empty]
    frame = pd.concat(samples, ignore_index=True) if len(samples) > 1 else samples[0]
    frame = frame.sort_values(["SAMPLE_TIME", "PID", "THREAD_ID"], kind="stable", ignore_index=True)
    sums = pd.concat(totals, ignore_index=True) if totals else pd.DataFrame(columns=[*TOTALS_COLUMNS])
    if exact:
        frame = corrected(frame, sums)
    frame.attrs = _attributes(frame, about)
    return frame, sums


def _attributes(frame: pd.DataFrame, about: dict[str, Any]) -> dict[Hashable | None, Any]:
    programs = about.get("processes") or {}
    pid = next(iter(programs), "0")
    one = programs.get(pid, {})
    times = frame["SAMPLE_TIME"]
    sampler = dict(one.get("sampler", {}))
    late = frame["LATENESS"]
    sampler["lateness_p90"] = int(late.quantile(0.9)) if len(late) else 0
    return {
        "pid": int(pid),
        "program": one.get("command", ""),
        "node": about.get("node", ""),
        "begin": times.min().isoformat() if len(times) else "",
        "end": times.max().isoformat() if len(times) else "",
        "hz": about.get("hz", 0.0),
        "unit": "ps",
        "sampler": sampler,
    }
