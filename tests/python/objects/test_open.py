"""pfs.open does what open does, and every system call under it is recorded."""

from __future__ import annotations

import builtins
import io
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pfs
from tests.conftest import Run
from tests.each import for_each

TEXT = "första raden\nsecond line\r\nthird\n\nlast without end"

Open = Callable[..., Any]


def summary(path: Path) -> dict[str, Any]:
    frame = pfs.table("file_summary_by_instance")
    rows: list[dict[str, Any]] = frame[frame["FILE_NAME"] == str(path)].to_dict("records")  # type: ignore[assignment]
    assert len(rows) == 1
    return rows[0]


def outcome(call: Callable[[], object]) -> object:
    """Result of a call, or type and errno of what it raised: texts differ between versions of Python."""
    try:
        return call()
    except Exception as error:
        return type(error), getattr(error, "errno", None)


def same(tmp_path: Path, call: Callable[[Open, Path], object]) -> None:
    """`call` gives the same with pfs.open as with the built-in, and leaves the same file."""
    results = []
    for function in (builtins.open, pfs.open):
        place = tmp_path / "same"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        path = place / "file"
        path.write_bytes(TEXT.encode())
        result = outcome(lambda function=function, path=path: call(function, path))  # type: ignore[misc]
        results.append((result, {p.name: p.read_bytes() for p in place.iterdir() if p.is_file()}))
    assert results[0] == results[1]


MODES = ["r", "w", "a", "x", "r+", "w+", "a+", "x+", "rt", "wt", "rb", "wb", "ab", "xb", "rb+", "wb+", "ab+", "xb+"]


@for_each("mode", MODES)
@pytest.mark.parametrize("buffering", [-1, 0, 1, 2, 4096])
def test_object_has_the_same_face(tmp_path: Path, mode: str, buffering: int) -> None:
    def call(open: Open, path: Path) -> object:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with open(path.with_name("new") if "x" in mode else path, mode, buffering) as f:
                raw = f if buffering == 0 else f.buffer.raw if "b" not in mode else f.raw
                return (
                    type(f) if buffering else "raw",
                    [f.readable(), f.writable(), f.seekable(), f.closed, f.isatty()],
                    [f.name, f.mode, raw.mode, raw.closefd, raw.name],
                    getattr(f, "encoding", None),
                    getattr(f, "line_buffering", None),
                    f.tell(),
                )

    same(tmp_path, call)


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": ""},
        {"mode": "q"},
        {"mode": "rw"},
        {"mode": "rr"},
        {"mode": "rbt"},
        {"mode": "b"},
        {"mode": "U"},
        {"mode": "rb", "encoding": "utf-8"},
        {"mode": "rb", "errors": "strict"},
        {"mode": "rb", "newline": ""},
        {"mode": "r", "newline": "x"},
        {"mode": "r", "encoding": "no-such-code"},
        {"mode": "r", "buffering": 0},
        {"mode": "x"},
        {"closefd": False},
        {"opener": lambda path, flags: -1},
        {"opener": lambda path, flags: "fd"},
        {"mode": 3},
        {"buffering": "much"},
    ],
    ids=lambda arguments: " ".join(f"{name}={value}" for name, value in arguments.items() if not callable(value)),
)
def test_bad_arguments_raise_the_same(tmp_path: Path, arguments: dict[str, Any]) -> None:
    same(tmp_path, lambda open, path: open(path, **arguments).close())


@pytest.mark.parametrize("file", ["missing/file", ".", "nul\0byte", -1, 987654, 3.5, None, b"missing", object], ids=repr)
def test_files_that_cannot_be_opened_raise_the_same(tmp_path: Path, file: Any) -> None:
    def call(open: Open, path: Path) -> object:
        os.chdir(path.parent)
        with pytest.raises((OSError, ValueError, TypeError)) as caught:
            open(file)
        return caught.type, getattr(caught.value, "errno", None), getattr(caught.value, "filename", None)

    folder = os.getcwd()
    try:
        same(tmp_path, call)
    finally:
        os.chdir(folder)


@pytest.mark.parametrize("newline", [None, "", "\n", "\r\n"])
def test_text_newlines_and_iteration(tmp_path: Path, newline: str | None) -> None:
    def read(open: Open, path: Path) -> object:
        with open(path, encoding="utf-8", newline=newline) as f:
            return [list(f), f.seek(0), f.readline(), f.tell(), f.read(3), f.read(), f.read()]

    def write(open: Open, path: Path) -> object:
        with open(path, "w", encoding="utf-8", newline=newline) as f:
            return [f.write("one\ntwo\n"), f.writelines(["x\n"]), f.tell(), f.flush(), f.truncate(3)]

    same(tmp_path, read)
    same(tmp_path, write)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 40)),
        st.tuples(st.just("readline")),
        st.tuples(st.just("readinto"), st.integers(0, 20)),
        st.tuples(st.just("write"), st.binary(max_size=40)),
        st.tuples(st.just("seek"), st.integers(-5, 60), st.sampled_from([0, 1, 2])),
        st.tuples(st.just("tell")),
        st.tuples(st.just("truncate"), st.one_of(st.none(), st.integers(-2, 60))),
        st.tuples(st.just("flush")),
        st.tuples(st.just("peek")),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mode=st.sampled_from([mode for mode in MODES if "b" in mode]),
    buffering=st.sampled_from([-1, 0, 16]),
    operations=OPERATIONS,
)
def test_any_sequence_of_operations_gives_the_same(
    tmp_path: Path, mode: str, buffering: int, operations: list[tuple[Any, ...]]
) -> None:
    def call(open: Open, path: Path) -> object:
        results = []
        with open(path.with_name("new") if "x" in mode else path, mode, buffering) as f:
            for name, *arguments in operations:
                if name == "readinto":
                    buffer = bytearray(arguments[0])
                    results.append(outcome(lambda f=f, buffer=buffer: (f.readinto(buffer), bytes(buffer))))  # type: ignore[misc]
                elif name == "peek" and not hasattr(f, "peek"):
                    continue
                else:
                    results.append(outcome(lambda f=f, name=name, arguments=arguments: getattr(f, name)(*arguments)))  # type: ignore[misc]
        return results

    same(tmp_path, call)


def test_closed_files_refuse_and_close_twice_is_fine(tmp_path: Path) -> None:
    def call(open: Open, path: Path) -> object:
        f = open(path, "rb", 0)
        f.close()
        f.close()
        names = ("read", "readall", "fileno", "isatty", "readable", "writable", "seekable", "tell")
        return [f.closed] + [outcome(getattr(f, name)) for name in names]

    same(tmp_path, call)


def test_descriptors_are_bound_kept_open_or_closed_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "by_descriptor"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    with pfs.open(fd, "rb", closefd=False, name="test/descriptor") as f:
        assert f.read() == b"0123456789"
        assert f.fileno() == fd
    os.lseek(fd, 0, os.SEEK_SET)
    assert os.read(fd, 1) == b"0"  # still open
    assert summary(path)["SUM_NUMBER_OF_BYTES_READ"] == 10
    with pfs.open(fd, "rb", name="test/descriptor") as f:
        assert f.read() == b"123456789"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert summary(path)["SUM_NUMBER_OF_BYTES_READ"] == 19


def test_second_object_on_a_descriptor_does_not_take_its_name_away(tmp_path: Path) -> None:
    path = tmp_path / "twice"
    with pfs.open(path, "wb", 0, name="test/twice") as f:
        with pfs.open(f.fileno(), "wb", 0, closefd=False, name="test/other") as g:
            g.write(b"12345")
        f.write(b"678")
    assert summary(path)["SUM_NUMBER_OF_BYTES_WRITE"] == 8
    assert summary(path)["EVENT_NAME"] == "wait/io/file/test/twice"


def test_opener_is_used_and_its_file_recorded(tmp_path: Path) -> None:
    (tmp_path / "opened").write_text("text")
    folder = os.open(tmp_path, os.O_RDONLY)
    with pfs.open("opened", opener=lambda name, flags: os.open(name, flags, dir_fd=folder)) as f:
        assert f.read() == "text"
        assert not os.get_inheritable(f.fileno())
    os.close(folder)


def test_unclosed_file_warns_and_is_closed(tmp_path: Path) -> None:
    for mode, buffering in (("w", -1), ("wb", -1), ("wb", 0)):
        f: Any = pfs.open(tmp_path / "unclosed", mode, buffering)
        fd = f.fileno()
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del f
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_the_warning_of_an_unclosed_file_is_printed_where_warnings_are_errors(tmp_path: Path) -> None:
    program = "import pfs, sys\nfor buffering in (-1, 0):\n    pfs.open(sys.argv[1], 'wb', buffering)\nprint('goes on')"
    words = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "unclosed")]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout == "goes on\n"
    assert said.stderr.count("ResourceWarning: unclosed file") == 2, said.stderr
    assert "AttributeError" not in said.stderr


def test_every_system_call_is_counted_and_bytes_are_those_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "counted"
    with pfs.open(path, "wb", 0, name="test/counted") as f:
        for _ in range(3):
            f.write(b"x" * 1000)
    with pfs.open(path, "rb", 0, name="test/counted") as f:
        assert f.read(10) == b"x" * 10
        assert len(f.readall() or b"") == 2990
        f.seek(0)
    row = summary(path)
    assert row["COUNT_WRITE"] == 3
    assert row["SUM_NUMBER_OF_BYTES_WRITE"] == 3000 == path.stat().st_size
    assert row["COUNT_READ"] == 3  # 10 bytes, the rest, the end
    assert row["SUM_NUMBER_OF_BYTES_READ"] == 3000
    events = pfs.table("events_waits_history_long")
    events = events[events["OBJECT_NAME"] == str(path)].sort_values("TIMER_START")
    writes = events[events["OPERATION"] == "write"]
    assert writes["NUMBER_OF_BYTES"].tolist() == [1000, 1000, 1000]
    assert events["OPERATION"].iloc[0] == "open"
    assert set(events["SOURCE"].str.partition(":")[0]) == {"test_open.py"}
    assert pfs.table("file_instances").set_index("FILE_NAME").loc[str(path), "OPEN_COUNT"] == 0


def test_counts_equal_those_of_strace(tmp_path: Path, fresh: Run) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    script = """
        import json, sys
        import pfs
        path = sys.argv[1]
        with pfs.open(path, "w", name="test/strace") as f:
            for i in range(20000): print(i, file=f)
        with pfs.open(path, name="test/strace") as f:
            total = sum(len(line) for line in f)
        with pfs.open(path, "rb", name="test/strace") as f:
            f.read()
        row = pfs.table("file_summary_by_instance").set_index("FILE_NAME").loc[path]
        names = ["COUNT_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_READ", "SUM_NUMBER_OF_BYTES_WRITE", "COUNT_MISC"]
        print(json.dumps([int(row[name]) for name in names]))
    """
    import json
    import re
    import textwrap

    path, log = tmp_path / "traced", tmp_path / "strace.log"
    done = subprocess.run(
        [
            "strace",
            "-f",
            "-y",
            "-o",
            log,
            "-e",
            "trace=read,write,openat,lseek,close,fstat,newfstatat",
            sys.executable,
            "-c",
            textwrap.dedent(script),
            path,
        ],
        env={**os.environ, "PFS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    counted = json.loads(done.stdout)
    calls: dict[str, list[int]] = {}
    for line in log.read_text().splitlines():
        match = re.match(r"\d+\s+(\w+)\((.*)\s+= (-?\d+)", line)
        if (match and f"<{path}>" in line) or (match and match[1] == "openat" and f'"{path}"' in line):
            assert match is not None
            calls.setdefault(match[1], []).append(int(match[3]))
    reads, writes = calls["read"], calls["write"]
    misc = sum(len(calls.get(name, [])) for name in ("openat", "lseek", "close", "fstat", "newfstatat"))
    assert counted == [len(reads), len(writes), sum(reads), sum(writes), misc]
    assert sum(writes) == path.stat().st_size


def test_name_is_checked_and_nothing_is_opened(tmp_path: Path) -> None:
    with pytest.raises(pfs.InvalidValue, match="component"):
        pfs.open(tmp_path / "never", "w", name="nothing")
    assert not (tmp_path / "never").exists()
    with pfs.open(tmp_path / "default", "w"):
        pass
    assert summary(tmp_path / "default")["EVENT_NAME"] == "wait/io/file/python/file"


def test_pathlike_bytes_and_odd_names(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/odd-\xff"
    for path in (tmp_path / "plain", str(tmp_path / "text"), odd):
        with pfs.open(path, "wb") as f:
            assert f.name == os.fspath(path)
            f.write(b"1")
    names = pfs.table("file_instances")["FILE_NAME"].tolist()
    assert os.fsdecode(odd) in names


def test_file_cannot_be_pickled(tmp_path: Path) -> None:
    import pickle

    with pfs.open(tmp_path / "pickled", "wb", 0) as f, pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(f)


def test_full_pipe_gives_none_as_a_raw_file_does() -> None:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    with pfs.open(reader, "rb", 0, name="test/pipe") as r, pfs.open(writer, "wb", 0, name="test/pipe") as w:
        assert r.read(10) is None
        assert r.readall() is None
        while w.write(b"x" * 65536) is not None:
            pass
        assert isinstance(r, io.RawIOBase)
        assert not r.seekable()


def test_read_is_repeated_after_a_signal(fresh: Run) -> None:
    out = fresh("""
        import os, signal, threading, time
        import pfs
        calls = []
        signal.signal(signal.SIGALRM, lambda *_: calls.append(1))
        reader, writer = os.pipe()
        threading.Timer(0.2, lambda: os.write(writer, b"late")).start()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pfs.open(reader, "rb", 0, name="test/pipe") as f:
            print(f.read(10), calls)
    """)
    assert out == "b'late' [1]\n"
