"""pfs.processes and pfs.gc: what is listed, what is said of it, what is removed and what never is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pfs
from pfs._process import by_name, elsewhere, processes
from pfs._ui.cli.top_tree import TreeSampler
from tests.python._programs.subject import (
    BOOT_ID,
    COMMAND,
    EPOCH,
    LAYOUT_MAJOR,
    PID,
    PID_NAMESPACE,
    START_TICKS,
    Subject,
    clean_environment,
    copy_header,
    forge,
    subject,
)


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    with subject(folder, "one", "two words") as running:
        yield running


def only_row() -> pd.Series[Any]:
    there = pfs.processes()
    assert len(there) == 1
    return there.iloc[0]


def test_running_process_has_a_row(program: Subject) -> None:
    row = only_row()
    assert row["PID"] == program.pid
    assert str(row["COMMAND"]).startswith(f"{sys.executable} -W error ")
    assert str(row["COMMAND"]).endswith("one two words")
    assert row["STATE"] == "alive"
    assert re.fullmatch(rf"{re.escape(pfs.__version__)} \(layout \d+\.\d+\)", str(row["VERSION"]))
    assert row["PATH"] == str(program.path)
    assert row["SIZE"] == program.path.stat().st_blocks * 512
    assert row["SIZE"] < program.path.stat().st_size  # of which most is a hole
    import pwd

    assert row["USER"] == pwd.getpwuid(os.geteuid()).pw_name
    now = pd.Timestamp(time.time_ns()).floor("us")
    assert now - pd.Timedelta(minutes=5) < row["STARTED"] <= now


def test_a_segment_is_there_once_however_many_ways_lead_to_it(program: Subject, folder: Path) -> None:
    """As in a container, whose folder is below the root of each of its processes."""
    there = processes.scan_all([str(folder), f"/proc/self/root{folder}", f"/proc/{program.pid}/root{folder}"])
    assert [found.path for found in there] == [str(program.path)]


def test_a_program_s_own_file_is_no_segment_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unrecorded").write_text("#!/bin/sh\nsleep 60\n")
    (tmp_path / "unrecorded").chmod(0o755)
    with pytest.raises(pfs.AttachError, match="no process and no segment is called 'unrecorded'"):
        by_name.path_of("unrecorded")
    with subprocess.Popen(["./unrecorded", "60"], executable="/bin/sleep") as child:
        try:
            with pytest.raises(pfs.AttachError, match=rf"called 'unrecorded'; .* pfs join {child.pid} records it"):
                by_name.path_of("unrecorded")
        finally:
            child.kill()


def test_types_are_the_same_without_any_process(program: Subject, tmp_path: Path) -> None:
    nobody = pfs.processes(tmp_path / "no such folder")
    assert len(nobody) == 0
    assert nobody.dtypes.equals(pfs.processes().dtypes)
    assert pfs.gc(tmp_path / "no such folder").dtypes.equals(nobody.dtypes)
    assert str(nobody["STARTED"].dtype) == "datetime64[us]"
    assert nobody["STATE"].cat.categories.tolist() == ["alive", "alive (container)", "dead", "unknown"]


def test_dead_process_is_known_by_the_beginning_of_its_command(folder: Path) -> None:
    with subject(folder, "x" * 1000) as program:
        assert str(only_row()["COMMAND"]).endswith("x" * 1000)
        program.kill()
        row = only_row()
        assert row["STATE"] == "dead"
        assert str(row["COMMAND"]).startswith(f"{sys.executable} -W error ")
        assert len(str(row["COMMAND"])) == 256


def test_command_may_be_any_bytes(program: Subject) -> None:
    program.kill()
    forge(program.path, COMMAND, b"caf\xc3\xa9\0\xff\n" + b"\0" * 248)
    assert only_row()["COMMAND"] == "caf\u00e9 \\xff\n"


@pytest.mark.parametrize(
    ("offset", "value", "state"),
    [
        (START_TICKS, 12345, "dead"),  # the pid belongs to a later process
        (PID, 4194304, "dead"),  # nobody has it
        (PID_NAMESPACE, 1, "alive (container)"),  # who has the file mapped to write
        (BOOT_ID, b"00000000", "unknown"),
        (PID, 0, "unknown"),
        (PID, 2**63 + 5, "unknown"),
    ],
)
def test_state(program: Subject, offset: int, value: int | bytes, state: str) -> None:
    assert only_row()["STATE"] == "alive"
    forge(program.path, offset, value)
    assert only_row()["STATE"] == state


def test_a_process_of_another_boot_is_not_said_to_have_ended(program: Subject, folder: Path) -> None:
    program.kill()
    forge(program.path, BOOT_ID, b"00000000")
    said = f"no process with pfs runs in {folder}; pfs ps lists "
    with pytest.raises(pfs.AttachError, match=re.escape(f"{said}1 whose state is not known") + "$"):
        by_name.only_living()
    with subject(folder) as second:
        second.kill()
        with pytest.raises(pfs.AttachError, match=re.escape(f"{said}1 that ended and 1 whose state is not known") + "$"):
            by_name.only_living()
    wanted = f"pfs top: 0 running and 1 ended process, and 1 whose state is not known, in {folder}\n"
    assert TreeSampler(str(folder)).headline().startswith(wanted)


def test_segment_of_another_layout_is_listed(program: Subject) -> None:
    forge(program.path, LAYOUT_MAJOR, (77 | 8 << 32))
    assert only_row()["VERSION"] == f"{pfs.__version__} (layout 77.8)"


def test_time_that_no_clock_has_is_null(program: Subject) -> None:
    for value in (2**64 - 1, 2**63 - 1, 2**60):
        forge(program.path, EPOCH, value)
        assert pd.isna(only_row()["STARTED"])
        assert "?" in pfs.attach(program.path)._repr_html_()


def clutter(folder: Path, program: Subject) -> list[Path]:
    """What lies about and is no segment, though its name says so."""
    elsewhere = folder.parent / "elsewhere.pfs"
    copy_header(program.path, elsewhere)
    (folder / "1.pfs").write_bytes(b"no segment" * 1000)
    (folder / "2.pfs").touch()
    copy_header(program.path, folder / "3.pfs")
    os.truncate(folder / "3.pfs", 100)
    (folder / "4.pfs").symlink_to(elsewhere)
    (folder / "5.pfs").mkdir()
    os.mkfifo(folder / "6.pfs")
    copy_header(program.path, folder / "7")
    return [elsewhere, *(folder / name for name in ("1.pfs", "2.pfs", "3.pfs", "4.pfs", "5.pfs", "6.pfs", "7"))]


def test_what_is_no_segment_is_neither_listed_nor_removed(program: Subject, folder: Path) -> None:
    program.kill()
    files = clutter(folder, program)
    assert only_row()["PATH"] == str(program.path)
    assert pfs.gc()["PATH"].tolist() == [str(program.path)]
    assert not program.path.exists()
    assert all(file.is_symlink() or file.exists() for file in files)


def test_folder_that_is_a_link_is_not_followed(program: Subject, folder: Path) -> None:
    program.kill()
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert pfs.processes(link).empty
    assert pfs.gc(link).empty
    assert program.path.exists()


def test_gc_removes_the_dead_only(program: Subject, folder: Path) -> None:
    with subject(folder) as dead, subject(folder) as elsewhere:
        dead.kill()
        elsewhere.kill()
        forge(elsewhere.path, BOOT_ID, b"00000000")
        first = pfs.gc(dry_run=True)
        assert first["PATH"].tolist() == [str(dead.path)]
        assert dead.path.exists()
        removed = pfs.gc()
        assert removed.equals(first)
        assert removed.columns.tolist() == pfs.processes().columns.tolist()
        assert not dead.path.exists()
        assert elsewhere.path.exists()
        assert program.path.exists()
        assert pfs.gc().empty
    program.do("with pfs.Lock('app/LOCK'): pass")


def test_gc_removes_what_pfs_keep_has_left(folder: Path) -> None:
    script = "import pfs; print(pfs._core.segment_path())"
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean_environment(folder, PFS_KEEP="1"), capture_output=True, text=True, check=True
    )
    kept = Path(done.stdout.strip())
    assert kept.exists()
    assert pfs.gc(folder)["PATH"].tolist() == [str(kept)]
    assert not kept.exists()


def test_a_new_segment_of_the_same_name_is_not_removed(program: Subject, folder: Path) -> None:
    """A process with the pid of the dead one comes between the look and the removal."""
    program.kill()
    (found,) = processes.scan(str(folder))
    assert found.state == "dead"
    program.path.rename(folder / "kept aside")  # so that its inode is not given away again
    copy_header(folder / "kept aside", program.path)
    assert not processes.remove(found)
    assert program.path.exists()


def test_gc_leaves_files_of_others(program: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    program.kill()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert pfs.gc(program.path.parent).empty
    assert program.path.exists()


def test_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Subject) -> None:
    monkeypatch.setattr(processes, "_SHARED", str(tmp_path))
    monkeypatch.setattr(elsewhere, "folders_of", lambda pid: iter(()))  # containers of tests that run at the same time
    other = tmp_path / "pfs-4711"
    other.mkdir(mode=0o700)
    (tmp_path / "pfs-file").touch()
    with subject(other) as theirs:
        assert pfs.processes()["PID"].tolist() == [program.pid]
        assert sorted(pfs.processes(all_users=True)["PID"].tolist()) == sorted([program.pid, theirs.pid])


def test_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PFS_DIR", raising=False)
    assert processes.default_directory() == f"/dev/shm/pfs-{os.geteuid()}"
    assert processes.default_directory(7) == "/dev/shm/pfs-7"
    monkeypatch.setenv("PFS_DIR", "/elsewhere")
    assert processes.default_directory() == "/elsewhere"
