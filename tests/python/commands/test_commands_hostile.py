"""Commands that read a damaged segment print what is left of it, or say what is wrong: no crash, no escape sequence."""

from __future__ import annotations

import contextlib
import io
import os
import random
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import pfs._ui.main
from pfs import _core
from tests import budgets
from tests.conftest import Build
from tests.python._programs.killed import killed_program
from tests.python._programs.segment_file import Damage, sparse_copy

COMMANDS = [
    *(
        ["show", "SEGMENT", table, "--limit", "50"]
        for table in ("threads", "events_waits_current", "events_statements_history_long")
    ),
    *(["show", "SEGMENT", table, "--json"] for table in ("mutex_instances", "accounts", "global_variables", "setup_instruments")),
    ["show", "SEGMENT", "file_summary_by_instance", "--human", "--sort", "SUM_TIMER_WAIT desc"],
    *(["show", "SEGMENT", view] for view in ("blocked", "running", "sys.processlist", "sys.statement_analysis")),
    ["top", "SEGMENT", "--batch", "--count", "1", "--interval", "0.1"],
    ["sql", "SEGMENT", "select count(*) from threads"],
    ["metrics", "SEGMENT"],
    ["snapshot", "SEGMENT", "OUT/a.zip", "--force"],
    ["diff", "OUT/a.zip", "OUT/a.zip", "threads"],
]


def run_command(arguments: list[str]) -> tuple[int, str]:
    """Exit code and all that a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = pfs._ui.main.main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return code, out.getvalue()


def damage_and_read(segment: Path, folder: Path, seed: int, seconds: float) -> None:
    """In a process of its own, which a crash would end."""
    dice = random.Random(seed)
    mutant = folder / "mutant.pfs"
    ends: Counter[tuple[str, int]] = Counter()
    code, said = run_command(["snapshot", str(segment), str(folder / "a.zip")])  # for `diff`
    assert code == 0, said
    turn, end = 0, time.monotonic() + seconds
    while turn < len(COMMANDS) or time.monotonic() < end:
        command = COMMANDS[turn % len(COMMANDS)]
        turn += 1
        with Damage(sparse_copy(segment, mutant)) as damage:
            for _ in range(dice.randrange(1, 24)):
                damage.make(dice)
        before = time.process_time()
        try:
            code, said = run_command([word.replace("SEGMENT", str(mutant)).replace("OUT", str(folder)) for word in command])
            ends[command[0], code] += 1
            assert code in (0, 1, 2), said
            assert "\x1b" not in said, said[:2000]
            assert "Traceback" not in said, said[:2000]
            assert time.process_time() - before < 20
        except BaseException:
            print(f"seed {seed}, mutant {turn}, {command}, damage {damage.before}")
            raise
        if code != 0 and command[0] == "snapshot":
            run_command(["snapshot", str(segment), str(folder / "a.zip"), "--force"])
    print(f"seed {seed}: {turn} mutants, {dict(ends)}")


def test_commands_survive_whatever_they_read(build: Build, root: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    script = (
        "import sys; from pathlib import Path; from tests.python.commands.test_commands_hostile import damage_and_read as run\n"
        "run(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))"
    )
    with killed_program(build, tmp_path / "work") as segment:
        seed, seconds = str(budgets.seed(1)), str(budgets.COMMANDS_FUZZ_SECONDS)
        done = subprocess.run(
            [sys.executable, "-c", script, segment, tmp_path, seed, seconds],
            cwd=root, capture_output=True, text=True, timeout=3600, check=False,
        )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]


def test_lists_and_the_collector_bear_strange_neighbors(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged segments, links, loops, a pipe, a folder, a device, bad names: `pfs gc` removes nothing but segments."""
    (tmp_path / "work").mkdir()
    folder = tmp_path / "segments"
    folder.mkdir(mode=0o700)
    dice = random.Random(1)
    with killed_program(build, tmp_path / "work") as segment:
        for number in range(20):
            with Damage(sparse_copy(segment, folder / f"{100000000 + number}.pfs")) as damage:
                for _ in range(dice.randrange(1, 40)):
                    damage.make(dice)
        os.symlink(segment, folder / "1.pfs")
        os.symlink("2.pfs", folder / "2.pfs")
        os.symlink("/nowhere", folder / "3.pfs")
        os.mkfifo(folder / "4.pfs")
        (folder / "5.pfs").mkdir()
        if os.geteuid() == 0:
            os.mknod(folder / "6.pfs", 0o600 | stat.S_IFBLK, os.makedev(7, 200))
        (folder / "7.pfs").touch()
        (folder / "a b\n\x1b[31m.pfs").write_bytes(b"x" * 5000)
        (folder / "\udcff.pfs").write_bytes(b"x" * 100000)
        (folder / "other").write_text("mine")
        strange = {name for name in os.listdir(folder) if not name.startswith("1000000")}
        monkeypatch.setenv("PFS_DIR", str(folder))
        for command in (["ps"], ["ps", "--all-users", "--json"], ["gc", "--dry-run"], ["gc"], ["ps", "--dir", str(folder)]):
            code, said = run_command(command)
            assert code == 0, said
            assert "\x1b" not in said
        assert strange <= set(os.listdir(folder)) | {"7.pfs"}
        assert segment.exists()
        assert _core.Segment(str(segment)).pid
