"""``pfs run`` records each ordinary way to wait in the C library."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pfs
from tests.python.run.test_run import PFS, kept, own_folder, pytestmark, run
from tests.python.run.test_run_calls import compiled

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

LATER = 20_000_000  # nanoseconds between the program's clock and the event's for all calls of a kind, on a loaded machine


def test_C14_each_way_to_wait_counts_once_with_its_time(tmp_path: Path) -> None:
    """The program tells what it waited by its own clock. Calls that cannot wait are among it, and make no event."""
    program = compiled(tmp_path, "system_waits")
    output, segment = kept(tmp_path, program, tmp_path / "locked", options=("--children", "none"))
    says = {kind: (int(count), int(time)) for kind, count, time in (line.split() for line in output.splitlines())}
    used = "EVENT_NAME LIKE 'wait/system/%' AND COUNT_STAR > 0"
    of_file = "EVENT_NAME LIKE 'wait/io/file/%' AND OPERATION = 'lock'"
    with pfs.attach(str(segment)) as schema:
        waits = schema.table("events_waits_summary_global_by_event_name", where=used)
        locks = schema.table("events_waits_history_long", where=of_file)
    kinds = waits.groupby(waits["EVENT_NAME"].str.extract(r"^wait/system/system_waits/([a-z]+)-(?:.*-)?code\+0x", expand=False))
    found = {str(kind): (int(of["COUNT_STAR"].sum()), int(of["SUM_TIMER_WAIT"].sum()) // 1000) for kind, of in kinds}
    assert set(locks["OBJECT_NAME"]) == {str(tmp_path / "locked")}
    found["file"] = (len(locks), int(locks["TIMER_WAIT"].sum()) // 1000)
    assert {kind: count for kind, (count, _) in found.items()} == {kind: count for kind, (count, _) in says.items()}
    for kind, (_, time) in found.items():
        assert says[kind][1] - LATER <= time <= says[kind][1], kind


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_C14_threads_that_wait_in_vfork_at_once_count_each_call(tmp_path: Path, level: str) -> None:
    """A child shares its parent's stack. A call in a signal's handler that interrupts another one may make no event."""
    program = compiled(tmp_path, "vforks", level)
    for signals in ((), ("signals",)):
        run("rm", "-rf", tmp_path / "segments")
        output, segment = kept(tmp_path, program, *signals)
        counted, by_handler = map(int, output.split())
        with pfs.attach(str(segment)) as schema:
            waits = schema.table("events_waits_summary_global_by_event_name", where="EVENT_NAME LIKE '%/child-%'")
            assert counted - by_handler <= waits["COUNT_STAR"].sum() <= counted
            assert not len(schema.table("running", where="EVENT_NAME LIKE '%/child-%'"))


def test_C14_what_is_no_file_but_is_read_as_one_is_one_row_of_its_kind(tmp_path: Path) -> None:
    program = compiled(tmp_path, "anonymous")
    (tmp_path / "watched").mkdir()
    _, segment = kept(tmp_path, program, tmp_path / "watched")
    columns = ["COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE"]
    with pfs.attach(str(segment)) as schema:
        files = schema.table("file_summary_by_instance", where="FILE_NAME LIKE 'anon_inode:%'").set_index("FILE_NAME")
    found = {str(name): [int(row[column]) for column in columns] for name, row in files.iterrows()}
    notice = found.pop("anon_inode:inotify")
    assert notice[0] == 1
    assert notice[1] >= 16
    # eventfd_read() and eventfd_write() tell no bytes.
    assert found == {
        "anon_inode:[eventfd]": [2, 8, 2, 8],
        "anon_inode:[timerfd]": [1, 8, 0, 0],
        "anon_inode:[signalfd]": [1, 128, 0, 0],
    }
    assert files["SUM_TIMER_READ"]["anon_inode:[timerfd]"] >= 20_000_000_000
    assert set(files["EVENT_NAME"].str.rpartition("/")[2]) == {"eventfd", "timerfd", "signalfd", "inotify"}


def test_the_report_has_what_the_program_waited_for_and_what_it_took(tmp_path: Path) -> None:
    """Each kind is a class, each place a row with its line. What the program took itself stands above all."""
    program = compiled(tmp_path, "system_waits")
    report = ("-o", str(tmp_path / "report"), "--children", "none", "--limit", "1000")
    run(*PFS, "run", "--json", *report, "--", program, tmp_path / "locked", check=True)
    found = json.loads((tmp_path / "report").read_text())
    by_class = {row["class"]: row["count"] for row in found["classes"]}
    kinds = ("child processes", "ends of threads (join)", "time (sleep)", "signals", "host names", "mapped files (msync)")
    assert [by_class[kind] for kind in kinds] == [23, 5, 6, 5, 8, 1]
    assert by_class["messages and semaphores"] == 8
    assert 3 <= by_class["asynchronous I/O"] <= 4  # the kernel may refuse a context
    looked_up = [row["name"] for row in found["waits"] if "/resolve-" in row["name"]]
    for name, count in ("127.0.0.1", 2), *((f"127.0.0.{i}", 1 if i != 4 else 2) for i in range(2, 7)):
        places = [row for row in looked_up if f"/resolve-{name}-host_names" in row and "(system_waits.c:" in row]
        assert len(places) == count, looked_up
    took = found["took"]
    waited = sum(row["time"] for row in found["classes"])
    assert waited < took["wall"] < waited * 20
    assert 0 < took["user"] + took["system"] < took["wall"] * 2
    assert "system_waits/sleep-sleeps" in str(found["waits"]) or "system_waits/sleep-main" in str(found["waits"])
    run(*PFS, "run", *report, "--", program, tmp_path / "locked", check=True)
    text = (tmp_path / "report").read_text()
    assert "\nTook " in text
    assert "\nOther waits\n" in text
    assert "(system_waits.c:" in text
    run(*PFS, "run", "--json", "--only", "waits", *report, "--", program, tmp_path / "locked", check=True)
    only = json.loads((tmp_path / "report").read_text())
    assert {row["class"] for row in only["classes"]} == {name for name in by_class if name not in ("conditions", "mutexes")}
    assert [row["count"] for row in only["classes"] if row["class"] == "files"] == [1]  # sync(), which has no file
