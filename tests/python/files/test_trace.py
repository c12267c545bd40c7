"""The trace: which events are written, how their lines look, what happens where that cannot be."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import pfs
from pfs import _core
from tests.conftest import Run

EVENTS = ("waits", "stages", "statements", "transactions")
ALL = "pfs.setup_instruments.update(trace_enabled=True); pfs.setup_actors.update(trace_enabled=True)\n"
INSERT = re.compile(rb"INSERT INTO (events_[a-z]+_current) VALUES \((.*)\);")
LOST = "Performance_schema_trace_events_lost"
WRITTEN = "Performance_schema_trace_events_written"
HEADER = re.compile(
    rb"/\* pfs trace file for \S+ on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d; format 1; thread \d+ \S+; process \d+; part \d+ \*/"
)


def files(folder: Path) -> list[Path]:
    """In the order of threads and parts."""
    found = list(folder.glob("**/trace.*.sql"))
    for path in found:
        assert len(path.name.split(".")) == 7, path
    return sorted(found, key=lambda path: [int(word) for word in path.name.split(".")[3:6]])


def lines(path: Path) -> list[bytes]:
    """The statements of a file. All that it has is whole lines, of the format of docs/reference/trace.md."""
    content = path.read_bytes()
    assert content.endswith(b"\n")
    assert b"\r" not in content
    header, *statements = content[:-1].split(b"\n")
    assert HEADER.fullmatch(header), header
    for statement in statements:
        assert INSERT.fullmatch(statement), statement
    return statements


def database(statements: Iterator[bytes] | list[bytes]) -> sqlite3.Connection:
    """The lines as they are, in tables with the columns that pfs.ddl() shows."""
    base = sqlite3.connect(":memory:")
    base.text_factory = bytes
    numbers = ("uint64", "int64", "uint32", "int32")
    for kind in EVENTS:
        columns = _core.table_info(f"events_{kind}_current")["columns"]
        types = ", ".join(f'"{c["name"]}" {"INTEGER" if c["kind"] in numbers else "TEXT"}' for c in columns)
        base.execute(f"CREATE TABLE events_{kind}_current ({types}, UNIQUE (THREAD_ID, EVENT_ID, END_EVENT_ID))")
    for statement in statements:
        base.execute(statement.decode("utf-8"))
    return base


def load(folder: Path) -> sqlite3.Connection:
    return database([line for path in files(folder) for line in lines(path)])


def test_seeds_example(fresh: Run, tmp_path: Path) -> None:
    """One statement with one mutex lock: four rows in their order, the first two without an end."""
    fresh(
        """
        import pfs
        lock = pfs.Lock("app/mutex")
        with pfs.statement("sql/set", "SET @a=1"): pass
        pfs.set_account("Harry", "localhost")
        pfs.setup_instruments.update(enabled=True, trace_enabled=True)
        pfs.setup_actors.update(trace_enabled=True)
        with pfs.statement("sql/set", "SET @a=5"):
            with lock: pass
        """
    )
    (path,) = files(tmp_path)
    assert path.parent.name == f"pfs-trace-{path.name.split('.')[4]}"
    assert path.name.startswith("trace.Harry@localhost.")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    found = [(m[1].decode(), m[2].split(b",")) for line in lines(path) if (m := INSERT.fullmatch(line))]
    assert [table for table, _ in found] == [
        "events_statements_current",
        "events_waits_current",
        "events_waits_current",
        "events_statements_current",
    ]
    first, begin, end, last = (values for _, values in found)
    assert begin[:2] == end[:2]
    assert first[:2] == last[:2]
    assert [values[2] for values in (first, begin)] == [b"NULL", b"NULL"]
    assert [values[6:8] for values in (first, begin)] == [[b"NULL", b"NULL"]] * 2
    assert end[2] == begin[1]
    assert last[2] == begin[1]
    assert b"NULL" not in end[5:8] + last[5:8]
    assert b"'SET @a=5'" in last


def test_nothing_is_traced_unless_both_say_so(fresh: Run, tmp_path: Path) -> None:
    """Neither table alone makes a file, nor a thread of ours; the defaults are NO."""
    fresh(
        """
        import os, pfs
        lock = pfs.Lock("app/mutex")
        def threads(): return len(os.listdir("/proc/self/task"))
        pfs.table("threads")
        before = threads()
        assert set(pfs.table("setup_instruments")["TRACE_ENABLED"]) == set(pfs.table("setup_actors")["TRACE_ENABLED"]) == {"NO"}
        pfs.setup_instruments.update(trace_enabled=True)
        with lock: pass
        assert threads() == before
        pfs.setup_instruments.update(trace_enabled=False)
        pfs.setup_actors.update(trace_enabled=True)
        with lock: pass
        assert threads() == before
        """
    )
    assert not files(tmp_path)


def test_trace_of_a_disabled_instrument_is_refused(fresh: Run) -> None:
    """It is an error to set TRACE_ENABLED where ENABLED is NO; ENABLED = NO takes it back."""
    fresh(
        """
        import pfs
        lock = pfs.Lock("app/mutex")
        name = "wait/synch/mutex/app/mutex"
        def traced():
            frame = pfs.table("setup_instruments")
            return frame.set_index("NAME").loc[name, "TRACE_ENABLED"]
        pfs.setup_instruments.update(name, enabled=False)
        try: pfs.setup_instruments.update(name, trace_enabled=True)
        except pfs.InvalidValue as error: assert name in str(error)
        else: raise AssertionError
        pfs.setup_instruments.update(name, enabled=True, trace_enabled=True)
        assert traced() == "YES"
        pfs.setup_instruments.update(name, enabled=False)
        assert traced() == "NO"
        """
    )


def test_from_the_start(fresh: Run, tmp_path: Path) -> None:
    """performance_schema_trace_enabled: whatever is enabled is traced, before anybody can say so."""
    fresh(
        """
        import pfs
        with pfs.Lock("app/mutex"): pass
        """,
        options="performance_schema_trace_enabled=ON,performance_schema_trace_directory=there",
    )
    base = load(tmp_path / "there")
    assert base.execute(
        "SELECT count(*) FROM events_waits_current WHERE EVENT_NAME = 'wait/synch/mutex/app/mutex'"
    ).fetchall() == [(2,)]


WORK = """
import threading
locks = [pfs.Lock(f"app/{i}") for i in range(4)]
with pfs.statement("sql/x", "x"), pfs.stage("app/s"): pass
with pfs.transaction(): pass
def work(n):
    for i in range(n):
        with pfs.transaction() if i % 3 == 0 else pfs.statement("sql/x", "outer"):
            with pfs.statement("sql/x", f"select {i}"):
                with pfs.stage("app/s"):
                    with locks[i % 4]: pass
def run(n, count=8):
    threads = [threading.Thread(target=work, args=(n,)) for _ in range(count)]
    for t in threads: t.start()
    for t in threads: t.join()
"""
SUMS = """
def summaries():
    kinds = {"waits": "wait", "stages": "stage", "statements": "statement", "transactions": "transaction"}
    sums = {}
    for kind in kinds:
        frame = pfs.table(f"events_{kind}_summary_global_by_event_name")
        for name, count, total in zip(frame["EVENT_NAME"], frame["COUNT_STAR"], frame["SUM_TIMER_WAIT"]):
            if count: sums[name] = [int(count), int(total)]
    return sums
"""


@pytest.mark.parametrize("consumers", [True, False], ids=["", "without the consumers"])
def test_trace_has_what_the_summaries_count(fresh: Run, tmp_path: Path, consumers: bool) -> None:
    """Counts and sums by EVENT_NAME are those of the summaries; nothing is dropped. The order is that of time."""
    off = "" if consumers else "pfs.setup_consumers.update('events_%_current', enabled=False)"
    out = fresh(
        f"""
import json, time
import pfs
{WORK}{SUMS}
{off}
for kind in ("waits", "stages", "statements", "transactions"):
    pfs.truncate(f"events_{{kind}}_summary_global_by_event_name")
    pfs.truncate(f"events_{{kind}}_current")
{ALL}
for i in range(10): run(20); time.sleep(0.02)
pfs.setup_actors.update(trace_enabled=False)
status = dict(zip(*[pfs.table("global_status")[c] for c in ("VARIABLE_NAME", "VARIABLE_VALUE")]))
print(json.dumps([summaries(), status["{LOST}"]]))
for kind in ("waits", "statements", "stages", "transactions"):
    assert {consumers} or pfs.table(f"events_{{kind}}_current").empty
"""
    )
    sums, lost = json.loads(out)
    base = load(tmp_path)
    found = {}
    for kind in EVENTS:
        rows = base.execute(
            f"SELECT EVENT_NAME, count(*), sum(TIMER_WAIT) FROM events_{kind}_current WHERE END_EVENT_ID IS NOT NULL GROUP BY 1"
        )
        found.update({name.decode(): [count, total] for name, count, total in rows})
    assert lost == "0"
    assert {name: value for name, value in found.items() if "/app/" in name or "sql" in name} == {
        name: value for name, value in sums.items() if "/app/" in name or "sql" in name
    }
    assert len(found) >= 7
    for path in files(tmp_path):
        in_order(lines(path))


def in_order(statements: list[bytes]) -> None:
    """Starts in the order of EVENT_ID; ends where END_EVENT_ID says; every end has its start."""
    order, begun = [], set()
    for line in statements:
        match = INSERT.fullmatch(line)
        assert match
        _, event, end = match[2].split(b",")[:3]
        if end == b"NULL":
            begun.add(int(event))
            order.append((int(event), 0, 0))
        else:
            assert int(event) in begun
            order.append((int(end), 1, -int(event)))
    assert order == sorted(order)


def test_written_and_lost_are_all(fresh: Run, tmp_path: Path) -> None:
    """A pool that is too small for what 4 threads do: what is missing is counted, no more and no less."""
    out = fresh(
        f"""
import json, time
import pfs
{WORK}{SUMS}
for kind in ("waits", "stages", "statements", "transactions"): pfs.truncate(f"events_{{kind}}_summary_global_by_event_name")
{ALL}
run(3000, 4)
time.sleep(0.3)
pfs.setup_actors.update(trace_enabled=False)
status = dict(zip(*[pfs.table("global_status")[c] for c in ("VARIABLE_NAME", "VARIABLE_VALUE")]))
print(json.dumps([summaries(), status["{LOST}"], status["{WRITTEN}"]]))
""",
        options="performance_schema_events_waits_history_long_size=32,performance_schema_events_statements_history_long_size=32,"
        "performance_schema_events_transactions_history_long_size=32,performance_schema_events_stages_history_long_size=32",
    )
    sums, lost, written = json.loads(out)
    base = load(tmp_path)
    ends = sum(
        base.execute(f"SELECT count(*) FROM events_{kind}_current WHERE END_EVENT_ID IS NOT NULL").fetchone()[0]
        for kind in EVENTS
    )
    assert ends == int(written)
    assert int(written) + int(lost) == sum(count for count, _ in sums.values())


def test_a_burst_of_waits_is_not_lost(fresh: Run) -> None:
    """More than the default number of rows, in less time than the writer sleeps."""
    out = fresh(
        f"""
import time
import pfs
lock = pfs.Lock("app/lock")
{ALL}
with lock: pass
time.sleep(0.1)
for _ in range(9000):
    with lock: pass
time.sleep(0.3)
pfs.setup_actors.update(trace_enabled=False)
status = dict(zip(*[pfs.table("global_status")[c] for c in ("VARIABLE_NAME", "VARIABLE_VALUE")]))
print(len(pfs.table("events_waits_history_long")) == pfs.variables["events_waits_history_long_size"], status["{LOST}"])
"""
    )
    assert out.split() == ["True", "0"]


@pytest.mark.parametrize("text", ["it's", "a\nb\r\t", "nul\0s", "\ud800\udfff\udcff", "Grüße 🎉", "x" * (1 << 20), ""])
def test_texts_come_back(fresh: Run, tmp_path: Path, text: str) -> None:
    """Byte for byte, or as the column has it."""
    raw = text.encode("utf-8", "surrogatepass")
    (tmp_path / "text").write_bytes(raw)
    fresh(
        f"""
import pfs
text = open("text", "rb").read()
with pfs.statement("sql/x", "x"): pass
{ALL}
with pfs.statement("sql/x", text): pass
""",
        options=f"performance_schema_max_sql_text_length={1 << 20}",
    )
    base = load(tmp_path)
    rows = base.execute("SELECT CAST(SQL_TEXT AS BLOB) FROM events_statements_current WHERE END_EVENT_ID IS NOT NULL").fetchall()
    assert rows == [(raw,)]


def test_switching_while_threads_run(fresh: Run, tmp_path: Path) -> None:
    """1,000 times on and off while 8 threads run: no line is broken, none of the events is there twice."""
    fresh(
        f"""
import sys
import pfs
{WORK}
sys.setswitchinterval(0.0002)  # else each switch waits 5 ms for each of the 8
done = False
def forever():
    while not done: work(5)
threads = [threading.Thread(target=forever) for _ in range(8)]
for t in threads: t.start()
pfs.setup_instruments.update(trace_enabled=True)
for i in range(500):
    pfs.setup_actors.update(trace_enabled=True)
    pfs.setup_actors.update(trace_enabled=False)
pfs.setup_actors.update(trace_enabled=True)
for i in range(250):
    pfs.setup_instruments.update("wait/synch/mutex/app/%", trace_enabled=False)
    pfs.setup_instruments.update("wait/synch/mutex/app/%", trace_enabled=True)
done = True
for t in threads: t.join()
"""
    )
    load(tmp_path)
    assert files(tmp_path)


STATUS = """
def traced(): return pfs.table("setup_actors")["TRACE_ENABLED"][0]
def status(name):
    frame = pfs.table("global_status")
    return frame.set_index("VARIABLE_NAME").loc["Performance_schema_trace_" + name, "VARIABLE_VALUE"]
def until(what):
    import time
    for _ in range(1000):
        if what(): return
        time.sleep(0.01)
    raise AssertionError("it never came")
"""


def test_folder_that_cannot_be_made(fresh: Run) -> None:
    """An error ends the trace of the actor, is told, and does nothing to the program."""
    fresh(
        f"""
import pfs
{STATUS}
lock = pfs.Lock("app/mutex")
{ALL}
with lock: pass
until(lambda: traced() == "NO")
assert "/proc/nowhere" in status("status"), status("status")
assert status("errors") == "1"
with lock: pass
""",
        options="performance_schema_trace_directory=/proc/nowhere",
    )


def test_folder_that_is_removed(fresh: Run, tmp_path: Path) -> None:
    """The trace ends, and goes on in a new part when somebody says so."""
    fresh(
        f"""
import pfs, shutil
{STATUS}
lock = pfs.Lock("app/mutex")
{ALL}
with lock: pass
until(lambda: status("events_written") == "1")
shutil.rmtree("there")
with lock: pass
until(lambda: traced() == "NO")
assert "removed" in status("status")
pfs.setup_actors.update(trace_enabled=True)
with lock: pass
until(lambda: status("events_written") == "2")
""",
        options="performance_schema_trace_directory=there",
    )
    (path,) = files(tmp_path)
    assert path.name.endswith(".2.sql")
    assert len(lines(path)) == 2


@pytest.mark.needs("root")
def test_full_disk(fresh: Run, tmp_path: Path) -> None:
    """The file ends with a whole line, the program goes on."""
    small = tmp_path / "small"
    small.mkdir()
    if (
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)], capture_output=True, check=False
        ).returncode
        != 0
    ):
        pytest.skip("cannot mount here")
    try:
        fresh(
            f"""
import pfs
{STATUS}{WORK}
{ALL}
run(500)
until(lambda: traced() == "NO")
assert "No space left" in status("status")
run(5)
""",
            options="performance_schema_trace_directory=small",
        )
        assert sum(len(lines(path)) for path in files(small) if path.stat().st_size) > 10
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_limit_of_the_process(fresh: Run, tmp_path: Path) -> None:
    """RLIMIT_FSIZE: the signal that a write beyond it raises reaches nobody; the file ends with a whole line."""
    fresh(
        f"""
import pfs, resource, signal
{STATUS}
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
lock = pfs.Lock("app/mutex")
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
{ALL}
for i in range(500):
    with lock: pass
until(lambda: traced() == "NO")
assert "File too large" in status("status"), status("status")
""",
        options="performance_schema_trace_directory=there",
    )
    (path,) = files(tmp_path)
    assert len(lines(path)) > 10


def test_thread_that_changes_its_account(fresh: Run, tmp_path: Path) -> None:
    """It goes on in a new part with the new actor in its name; every byte that is not plain is a '_'."""
    fresh(
        f"""
import pfs
{STATUS}
lock = pfs.Lock("app/mutex")
{ALL}
for i, (user, host) in enumerate([("Harry", "desk"), ("../x y", ""), ("", "")]):
    pfs.set_account(user, host)
    with lock: pass
    until(lambda: status("events_written") == str(i + 1))
"""
    )
    assert [path.name.split(".")[1:3] for path in files(tmp_path)] == [
        ["Harry@desk", "MainThread"],
        ["___x_y", "MainThread"],
        ["-", "MainThread"],
    ]
    assert [len(lines(path)) for path in files(tmp_path)] == [2, 2, 2]


@pytest.mark.parametrize(("limit", "parts"), [("stop", 1), ("drop", 1), ("rotate", 2)])
def test_largest_size(fresh: Run, tmp_path: Path, limit: str, parts: int) -> None:
    """No file is larger; what happens then is what the option says."""
    size = 20_000
    out = fresh(
        f"""
import pfs
{STATUS}
lock = pfs.Lock("app/mutex")
{ALL}
for i in range(500):
    with lock: pass
until(lambda: int(status("events_written")) + int(status("events_lost")) >= (500 if "{limit}" != "stop" else 50))
until(lambda: traced() == ("NO" if "{limit}" == "stop" else "YES"))
print(status("events_lost"), status("status"))
""",
        options=f"performance_schema_trace_max_size={size},performance_schema_trace_on_limit={limit}",
    )
    found = files(tmp_path)
    assert len(found) == parts
    assert all(path.stat().st_size <= size for path in found)
    assert found[0].stat().st_size > size - 500
    database([line for path in found for line in lines(path)])
    lost, reason = out.split(" ", 1)
    assert (lost == "0") == (limit == "rotate")
    assert ("maximum size" in reason) == (limit == "stop")


def test_forked_child_has_files_of_its_own(fresh: Run, tmp_path: Path) -> None:
    """The child's events are in its files, the parent's in the parent's; none is in both."""
    out = fresh(
        f"""
import os, pfs, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 has something against fork() where there are threads
lock = pfs.Lock("app/mutex")
{ALL}
for i in range(3):
    with lock: pass
child = os.fork()
for i in range(5 if child else 7):
    with lock: pass
time.sleep(0.1)
if child:
    os.waitpid(child, 0)
    print(os.getpid(), child)
else:
    os._exit(0)
"""
    )
    parent, child = out.split()
    by_process = {}
    for path in files(tmp_path):
        by_process[path.name.split(".")[4]] = len(lines(path))
    assert by_process == {parent: 16, child: 14}


def test_killed_program_leaves_whole_lines(fresh: Run, tmp_path: Path) -> None:
    """kill -9: all up to the last LF is whole lines."""
    fresh(
        f"""
import os, signal, pfs
{WORK}
{ALL}
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
while True: run(100)
""",
        status=-9,
    )
    rows = 0
    for path in files(tmp_path):
        content = path.read_bytes()
        if b"\n" not in content:  # killed between the creation of the file and its first write
            path.unlink()
            continue
        path.write_bytes(content[: content.rfind(b"\n") + 1])
        rows += len(lines(path))
    assert rows > 100
    load(tmp_path)


def test_descriptors_of_the_program(fresh: Run, tmp_path: Path) -> None:
    """The program sees no descriptor of the trace, and what it closes is closed."""
    fresh(
        f"""
import os, pfs, time
lock = pfs.Lock("app/mutex")
read, write = os.pipe()
before = sorted(os.listdir("/proc/self/fd"))
{ALL}
for i in range(10):
    with lock: pass
    time.sleep(0.01)
assert sorted(os.listdir("/proc/self/fd")) == before
os.close(write)
assert os.read(read, 1) == b""
"""
    )
    assert len(lines(files(tmp_path)[0])) == 20


def test_docs_name_the_options() -> None:
    """docs/reference/trace.md has every option of the trace, and pfs has every one that it names."""
    page = (Path(__file__).resolve().parents[3] / "docs/reference/trace.md").read_text()
    named = set(re.findall(r"`(performance_schema_trace_\w+)`", page))
    there = {name for name in pfs.table("global_variables")["VARIABLE_NAME"] if name.startswith("performance_schema_trace")}
    assert named == there
