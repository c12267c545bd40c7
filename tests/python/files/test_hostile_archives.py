"""Files of snapshots that are damaged, or made to harm the reader: each is read or refused, and takes little memory.

A collector goes on from the cut before, and the other hosts of a folder are read.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pytest

import pfs
import pfs.fleet
from pfs._many.fleet.collector import Collector
from pfs._many.fleet.cut import read_cut
from pfs._process import processes
from tests import budgets
from tests.python._programs.subject import subject
from tests.python.run.test_run import PFS

SEED = budgets.seed()
WORK = """
for n in range(30):
    with pfs.statement("shop/select", text="select c%d, 'x' from t where a = %d" % (n, n)): pass
lock = pfs.Lock("app/LOCK_a")
for turn in range(20):
    with lock: pass
"""
TABLE = "events_waits_summary_global_by_event_name"
COUNT = f"select NODE, sum(COUNT_STAR)::bigint from {TABLE} where EVENT_NAME like '%/app/LOCK_a' group by NODE order by NODE"
QUESTIONS = [
    COUNT,
    "from process.events_statements_summary_by_digest",
    "from rates.events_statements_histogram_by_digest",
    "from fleet.nodes",
    "from fleet.processes",
    "select * from sys.statement_analysis",
]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cuts of two hosts, and a snapshot."""
    place = tmp_path_factory.mktemp("good")
    (place / "segments").mkdir(mode=0o700)
    with subject(place / "segments") as program:
        program.do(WORK)
        with pfs.attach(program.path) as schema:
            schema.snapshot().to_file(place / "x.pfs.zip")
        for node in ("a", "b"):
            with closing(Collector(str(place / "fleet"), node, lambda: processes.listed(place / "segments"))) as collector:
                collector.cut()
                program.do("with lock: pass")
                collector.cut()
    return place


# ---- Mutants


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes anywhere: in the streams of deflate, the headers, the directory."""
    changed = bytearray(data)
    begin = chance.randrange(len(data))
    for _ in range(chance.choice((1, 2, 8, 64))):
        changed[min(begin + chance.randrange(64), len(data) - 1)] = chance.randrange(256)
    return bytes(changed)


def stream_of_deflate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes of the first member's stream only."""
    changed = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = chance.choice([each for each in archive.infolist() if each.compress_type == zipfile.ZIP_DEFLATED])
    begin = info.header_offset + 30 + len(info.filename)
    for _ in range(8):
        changed[begin + chance.randrange(info.compress_size)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def cut_off(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def in_headers(data: bytes, offset: int, value: int) -> bytes:
    """Sets a field of two bytes in all headers of members, which begin at its offset in the directory."""
    changed = bytearray(data)
    for magic, shift in ((b"PK\x03\x04", -2), (b"PK\x01\x02", 0)):
        at = changed.find(magic)
        while at >= 0:
            struct.pack_into("<H", changed, at + offset + shift, value)
            at = changed.find(magic, at + 4)
    return bytes(changed)


def encrypted(data: bytes, chance: random.Random) -> bytes:
    return in_headers(data, 8, 1)


def of_another_method(data: bytes, chance: random.Random) -> bytes:
    return in_headers(data, 10, chance.choice((99, 12, 14, 1)))


def with_member(data: bytes, name: str, content: bytes) -> bytes:
    """Replaces a member, with a right check sum."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, content if info.filename == name else old.read(info.filename))
    return made.getvalue()


def other_json(data: bytes, chance: random.Random) -> bytes:
    """Replaces a value of snapshot.json by one of another type."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        summary = json.loads(archive.read("snapshot.json"))
    wrong = chance.choice((None, -1, 2**70, 1e400, "x", [], {}, [[1]], {"a": 1}, True, "\ud800", [None] * 7))
    part = summary
    while isinstance(part, dict):
        key = chance.choice(list(part))
        if not isinstance(part[key], dict) or not part[key] or chance.random() < 0.3:
            part[key] = wrong
            break
        part = part[key]
    return with_member(data, "snapshot.json", json.dumps(summary).encode())


def deep_json(data: bytes, chance: random.Random) -> bytes:
    return with_member(data, "snapshot.json", b"[" * 200_000)


def other_arrow(data: bytes, chance: random.Random) -> bytes:
    """Replaces a table: other bytes, other types, texts that are no UTF-8, places of texts that do not exist."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = chance.choice([name for name in archive.namelist() if name.endswith(".arrow")])
        before = archive.read(name)
        table = pa.ipc.open_stream(before).read_all()
    kind = chance.randrange(6)
    if kind == 0:
        changed = bytearray(before)
        for _ in range(4):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return with_member(data, name, bytes(changed))
    place = chance.randrange(table.num_columns)
    rows = table.num_rows
    bad = pa.Array.from_buffers(pa.large_string(), 1, [None, pa.py_buffer(struct.pack("<qq", 0, 2)), pa.py_buffer(b"\xff\xfe")])
    column = {
        1: pa.array(["text"] * rows),
        2: pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), bad),
        3: pa.DictionaryArray.from_arrays(pa.array([77] * rows, pa.int32()), pa.array(["a"], pa.large_string()), safe=False),
        4: pa.array([None] * rows, pa.null()),
        5: pa.array([[1]] * rows),
    }[kind]
    changed_table = table.set_column(place, table.column_names[place], column)
    made = pa.BufferOutputStream()
    with pa.ipc.new_stream(made, changed_table.schema) as writer:
        writer.write_table(changed_table)
    return with_member(data, name, made.getvalue().to_pybytes())


KINDS: list[Callable[[bytes, random.Random], bytes]] = [
    *(flipped, stream_of_deflate, other_json, other_arrow) * 2,
    *(cut_off, encrypted, of_another_method, deep_json, other_arrow),
]


def read_all(path: Path) -> None:
    taken = pfs.read_snapshot(path)
    for name in taken:
        taken[name]
        taken.arrow(name)


def test_every_mutant_is_read_or_refused(good: Path, tmp_path: Path) -> None:
    print(f"seed {SEED}")
    shutil.copytree(good / "fleet", tmp_path / "fleet")
    newest = sorted((tmp_path / "fleet/a").glob("*.pfs.zip"))[-1]
    original, snapshot = newest.read_bytes(), (good / "x.pfs.zip").read_bytes()
    refused = 0
    for number in range(budgets.ARCHIVE_MUTANTS):
        chance = random.Random(SEED + number)
        make = KINDS[number % len(KINDS)]
        said = f"seed {SEED + number}, {make.__name__}"
        try:
            (tmp_path / "x.pfs.zip").write_bytes(make(snapshot, chance))
            try:
                read_all(tmp_path / "x.pfs.zip")
            except (pfs.InvalidValue, pfs.UnknownTable):
                refused += 1
            newest.write_bytes(make(original, chance))
            fleet = pfs.fleet.read(tmp_path / "fleet")
            counts = dict(fleet.sql(COUNT).rows())
            assert counts["b"] == 22, said
            assert counts.get("a") in (20, 21) or fleet.problems, said
            for question in QUESTIONS:
                fleet.sql(question).df()
            if number % 3 == 0:
                with closing(Collector(str(tmp_path / "fleet"), "a", list)) as collector:
                    cut = collector.cut()
                assert read_cut(cut.path).number == 3, said
                read_all(Path(cut.path))
                os.unlink(cut.path)
        except Exception as error:
            raise AssertionError(said) from error
    assert refused > budgets.ARCHIVE_MUTANTS // 3


NO_NODES: tuple[object, ...] = ({}, None, 7, "", "../b", "b\n")


def with_fact(cut: Path, fact: str, value: object) -> None:
    """Replaces what a cut says about itself."""
    with zipfile.ZipFile(cut) as archive:
        summary = json.loads(archive.read("snapshot.json"))
    summary["fleet"][fact] = value
    cut.write_bytes(with_member(cut.read_bytes(), "snapshot.json", json.dumps(summary).encode()))


@pytest.mark.parametrize(("fact", "value"), [*(("node", node) for node in NO_NODES), ("cut", 7), ("cut", "2")])
def test_a_cut_names_its_node_and_number(good: Path, tmp_path: Path, fact: str, value: object) -> None:
    shutil.copytree(good / "fleet", tmp_path / "fleet")
    newest = sorted((tmp_path / "fleet/a").glob("*.pfs.zip"))[-1]
    with_fact(newest, fact, value)
    fleet = pfs.fleet.read(tmp_path / "fleet")
    assert dict(fleet.sql(COUNT).rows()) == {"a": 20, "b": 22}  # the cut before
    assert str(newest) in fleet.problems[0]


def test_a_cut_of_another_node_is_said(good: Path, tmp_path: Path) -> None:
    """A folder may be renamed, or linked under another name: what the file says counts, but not without a word."""
    shutil.copytree(good / "fleet", tmp_path / "fleet")
    newest = sorted((tmp_path / "fleet/a").glob("*.pfs.zip"))[-1]
    with_fact(newest, "node", "x")
    fleet = pfs.fleet.read(tmp_path / "fleet")
    assert dict(fleet.sql(COUNT).rows()) == {"x": 21, "b": 22}
    assert fleet.problems == [f"{newest} counts for node x: that is what it says"]


@pytest.mark.parametrize("fact", ["cut", "previous", "pid"])
def test_no_count_is_true(good: Path, tmp_path: Path, fact: str) -> None:
    """A truth of JSON is a number of Python, and none of Arrow."""
    shutil.copytree(good / "fleet", tmp_path / "fleet")
    newest = sorted((tmp_path / "fleet/a").glob("*.pfs.zip"))[-1]
    with zipfile.ZipFile(newest) as archive:
        summary = json.loads(archive.read("snapshot.json"))
    facts, key = (summary["fleet"]["processes"][0], 1) if fact == "pid" else (summary["fleet"], fact)
    facts[key] = True
    newest.write_bytes(with_member(newest.read_bytes(), "snapshot.json", json.dumps(summary).encode()))
    fleet = pfs.fleet.read(tmp_path / "fleet")
    for question in QUESTIONS:
        fleet.sql(question).df()
    assert str(newest) in fleet.problems[0]


def test_a_member_whose_name_is_damaged_is_missing(good: Path, tmp_path: Path) -> None:
    """Its table would have no rows, without a word."""
    shutil.copytree(good / "fleet", tmp_path / "fleet")
    newest = sorted((tmp_path / "fleet/a").glob("*.pfs.zip"))[-1]
    for path, name in ((newest, f"process/{TABLE}.arrow"), (good / "x.pfs.zip", f"{TABLE}.arrow")):
        data = path.read_bytes()
        at = data.rindex(name.encode())  # in the directory, at the end
        (tmp_path / path.name).write_bytes(data[:at] + b"x" + data[at + 1 :])
    shutil.move(tmp_path / newest.name, newest)
    fleet = pfs.fleet.read(tmp_path / "fleet")
    assert dict(fleet.sql(COUNT).rows()) == {"a": 20, "b": 22}  # the cut before
    assert fleet.problems == [f"{newest} cannot be read: there is no process/{TABLE}.arrow"]
    with pytest.raises(pfs.InvalidValue, match=f"there is no {TABLE}.arrow"):
        pfs.read_snapshot(tmp_path / "x.pfs.zip")


@pytest.mark.parametrize("make", [stream_of_deflate, encrypted, of_another_method, deep_json])
def test_commands_go_on_beside_a_damaged_cut(good: Path, tmp_path: Path, make: Callable[[bytes, random.Random], bytes]) -> None:
    shutil.copytree(good / "fleet", tmp_path / "fleet")
    newest = sorted((tmp_path / "fleet/a").glob("*.pfs.zip"))[-1]
    newest.write_bytes(make(newest.read_bytes(), random.Random(1)))
    (tmp_path / "segments").mkdir()
    for words in (
        ["top", "--fleet", str(tmp_path / "fleet"), "--batch", "--count", "1"],
        ["collect", "--once", "--to", str(tmp_path / "fleet"), "--node", "a", "--dir", str(tmp_path / "segments")],
    ):
        done = subprocess.run([*PFS, *words], capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_a_collector_goes_on_from_the_cut_before_a_damaged_table(good: Path, tmp_path: Path) -> None:
    """The summary of the newest cut can be read, and a table of it cannot."""
    shutil.copytree(good / "fleet", tmp_path / "fleet")
    newest = sorted((tmp_path / "fleet/a").glob("*.pfs.zip"))[-1]
    newest.write_bytes(with_member(newest.read_bytes(), f"process/{TABLE}.arrow", b"no table"))
    with closing(Collector(str(tmp_path / "fleet"), "a", list)) as collector:
        cut = collector.cut()
    assert (cut.number, cut.previous) == (3, 1)
    assert f"{newest}: process/{TABLE} cannot be read" in cut.problems[0]
    assert dict(pfs.fleet.read(tmp_path / "fleet").sql(COUNT).rows()) == {"a": 20, "b": 22}


# ---- Bombs


def bomb(good: Path, kind: str) -> bytes:
    data = (good / "x.pfs.zip").read_bytes()
    zeros = 1 << 30
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            if info.filename != {"json": "snapshot.json"}.get(kind, "threads.arrow"):
                new.writestr(info.filename, old.read(info.filename))
        if kind.startswith("zstd"):
            if kind == "zstd":
                column = pa.Array.from_buffers(pa.int64(), zeros // 8, [None, pa.py_buffer(bytes(zeros))])
            else:
                places = pa.py_buffer(struct.pack("<qq", 0, zeros))
                texts = pa.Array.from_buffers(pa.large_string(), 1, [None, places, pa.py_buffer(bytes(zeros))])
                column = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), texts)
            large = pa.table({"a": column})
            written = pa.BufferOutputStream()
            with pa.ipc.new_stream(written, large.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
                writer.write_table(large)
            new.writestr("threads.arrow", written.getvalue().to_pybytes(), zipfile.ZIP_STORED)
        else:
            with new.open("snapshot.json" if kind == "json" else "threads.arrow", "w", force_zip64=True) as member:
                for _ in range(zeros >> 20):
                    member.write(bytes(1 << 20) if kind != "json" else b" " * (1 << 20))
    data = made.getvalue()
    return data.replace(struct.pack("<I", zeros), struct.pack("<I", 1000)) if kind == "lie" else data


@pytest.mark.parametrize("kind", ["json", "deflate", "lie", "zstd", "zstd texts"])
def test_a_bomb_is_refused_by_its_sizes(good: Path, tmp_path: Path, kind: str) -> None:
    """A file of some megabytes that would take gigabytes, also if the directory says that it would not."""
    (path := tmp_path / "x.pfs.zip").write_bytes(bomb(good, kind))
    assert path.stat().st_size < 4 << 20
    code = (
        "import sys, pfs\n"
        "try:\n"
        "    taken = pfs.read_snapshot(sys.argv[1])\n"
        "    taken['threads']\n"
        "except pfs.InvalidValue as error: print(error)\n"
        "print(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) >> 10)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=100, check=True)
    *said, megabytes = done.stdout.splitlines()
    assert said, done.stdout
    assert str(path) in said[0]
    assert int(megabytes) < 250


def test_a_snapshot_of_full_tables_is_no_bomb(tmp_path: Path) -> None:
    """Histograms of 10,000 digests shrink to a hundredth and a half."""
    (tmp_path / "segments").mkdir(mode=0o700)
    with subject(tmp_path / "segments") as program:
        program.do("for n in range(10000):\n    with pfs.statement('a/s', text='select c%d from t' % n): pass\n")
        with pfs.attach(program.path) as schema:
            schema.snapshot().to_file(tmp_path / "x.pfs.zip")
    assert len(pfs.read_snapshot(tmp_path / "x.pfs.zip")["events_statements_histogram_by_digest"]) > 4_000_000
