"""Commands that read a damaged segment print what is left of it, or say what is wrong: no crash, no escape sequence."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import random
import resource
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow  # type: ignore[import-untyped, unused-ignore]
import pytest

import pfs
import pfs._ui.cli.commands
from pfs import _core
from pfs._process import processes
from pfs._process.run.report import gather
from pfs._process.run.report_text import text_of
from tests import MAY_FORK, budgets
from tests.conftest import Build
from tests.python._programs import limited
from tests.python._programs.killed import killed_program
from tests.python._programs.limited import fault_of
from tests.python._programs.segment_file import Damage, sparse_copy
from tests.python._programs.small import SMALL

# What reads a segment, each in a process of its own. SEGMENT is the damaged one, alone in DIR; OUT is a folder that stays.
READERS: dict[str, list[list[str]]] = {
    "show": [
        *(["show", "SEGMENT", table, "--limit", "50"] for table in ("threads", "events_waits_current", "host_cache")),
        *(
            ["show", "SEGMENT", table, "--json"]
            for table in ("mutex_instances", "accounts", "global_variables", "setup_instruments")
        ),
        ["show", "SEGMENT", "file_summary_by_instance", "--human", "--sort", "SUM_TIMER_WAIT desc"],
    ],
    "questions": [["show", "SEGMENT", view] for view in ("blocked", "running", "lock_reasons")],
    "views": [["show", "SEGMENT", view] for view in ("sys.processlist", "sys.statement_analysis")],
    "top": [["top", "SEGMENT", "--batch", "--count", "1", "--interval", "0.1"]],
    "sql": [["sql", "SEGMENT", "select count(*) from threads join events_statements_history_long using (thread_id)"]],
    "metrics": [["metrics", "SEGMENT"], ["metrics", "SEGMENT", "--compat"]],
    "otel": [["otel", "SEGMENT", "-o", "OUT/otel.jsonl", "--min-wait", "0ns"]],
    "snapshot": [["snapshot", "SEGMENT", "OUT/a.zip", "--force"], ["diff", "OUT/good.zip", "OUT/a.zip", "threads"]],
    "collect": [["collect", "--once", "--dir", "DIR", "--to", "OUT/fleet", "--node", "n", "--keep", "2"]],
    "list": [["ps", "--dir", "DIR", "--tree"], ["gc", "--dir", "DIR"]],
    "report": [["report", "SEGMENT"], ["report", "SEGMENT", "-o", "OUT/report.html", "--against", "OUT/good.zip"]],
    "tables": [],
}
CHEAP = ("show", "questions", "top", "metrics", "list", "report")
TURNS = [*READERS, *CHEAP, *CHEAP]


def run_command(arguments: list[str]) -> tuple[int, str]:
    """Exit code and all that a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = pfs._ui.cli.commands.main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return code, out.getvalue()


def read(reader: str, mutant: Path, out: Path) -> None:
    if reader == "warm":
        assert run_command(["snapshot", str(mutant), str(out / "good.zip"), "--force"])[0] == 0  # for `diff`
        for each in READERS:
            read(each, mutant, out)
        (out / "modules").write_text("\n".join(sys.modules))
    elif reader == "report":
        text_of(gather(processes.scan(str(mutant.parent))), 50)
    elif reader == "tables":
        with contextlib.suppress(pfs.AttachError), pfs.attach(str(mutant)) as schema:
            for table in schema.tables():
                pyarrow.table(schema.arrow(table)).validate(full=True)
                schema.table(table)
    for command in READERS.get(reader, []):
        words = {"SEGMENT": str(mutant), "DIR": str(mutant.parent)}
        code, said = run_command([words.get(word, word.replace("OUT", str(out))) for word in command])
        assert code in (0, 1, 2), said
        assert "\x1b" not in said, said[:2000]
        assert "Traceback" not in said, said[:2000]


def damage_and_read(segment: Path, out: Path, kept: Path, first: int, tries: int) -> None:
    """Imports once, and forks for each mutant. The readers take turns; a number makes the same mutant of a segment."""
    (there := segment.with_name("mutant")).mkdir(mode=0o700, exist_ok=True)
    mutant = there / segment.name
    assert (fault := fault_of(partial(read, "warm", sparse_copy(segment, mutant), out))) is None, fault
    for module in (out / "modules").read_text().split():
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()
    found: Counter[str] = Counter()
    with subprocess.Popen(["sleep", "inf"]) as alive, contextlib.ExitStack() as first_of_all:
        first_of_all.callback(alive.kill)
        start = int(Path(f"/proc/{alive.pid}/stat").read_text().rpartition(")")[2].split()[19])
        for number in range(first, first + tries):
            dice, reader = random.Random(number), TURNS[number % len(TURNS)]
            with Damage(sparse_copy(segment, mutant)) as damage:
                if dice.randrange(4) == 0:  # its process seems to run
                    damage.put_word("pid", alive.pid)
                    damage.put_word("process_start_ticks", start)
                for _ in range(dice.randrange(1, 24)):
                    damage.make(dice)
            if (fault := fault_of(partial(read, reader, mutant, out))) is not None:
                found[reader] += 1
                sparse_copy(mutant, kept / f"{number}-{reader}.pfs")
                print(f"mutant {number}, {reader}: {fault}\n", flush=True)
    print(f"seed {first}: {tries} mutants, faults {dict(found)}")
    assert not found


def test_no_damage_harms_a_reader(build: Build, root: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    script = (
        "import sys; from pathlib import Path; from tests.python.commands.test_commands_hostile import damage_and_read as run\n"
        "run(*map(Path, sys.argv[1:4]), *map(int, sys.argv[4:]))"
    )
    with killed_program(build, tmp_path / "work", SMALL) as segment:
        numbers = map(str, (budgets.seed(), budgets.SEGMENT_MUTANTS))
        done = subprocess.run(
            [sys.executable, *MAY_FORK, "-c", script, segment, tmp_path, tmp_path, *numbers],
            cwd=root, capture_output=True, text=True, timeout=36000, check=False,
        )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "Segmentation fault"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: sum(iter(int, 1)), f"status {signal.SIGXCPU.value}\n"),
        (lambda: b"x" * limited.BYTES, "MiB"),
    ],
)
def test_a_reader_that_is_harmed_is_found(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], said: str) -> None:
    """Negative control: a crash, an error, a loop, memory."""
    monkeypatch.setattr(limited, "SECONDS", 1)
    monkeypatch.setattr(limited, "BYTES", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)
    assert said in str(fault_of(work))


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
