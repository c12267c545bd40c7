"""Names below open directories under ``pfs run``: they are right, and the kernel is not asked for each of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.python.run.test_run import PFS, SOURCES, pytestmark

__all__ = ["pytestmark"]  # test_run's mark holds here, too

NEEDS_STRACE = pytest.mark.needs("strace")


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "below"
    subprocess.run(["cc", "-O1", "-o", path, SOURCES / "below.c"], check=True)
    return path


def calls_of(tmp_path: Path, program: str, *command: str | Path, options: tuple[str, ...] | None = None) -> Counter[str]:
    """Returns the system calls of a program and its children, with those of pfs in them; without those of ``pfs run`` itself."""
    work = tmp_path / ("plain" if options is None else "-".join(["pfs", *options]).replace(" ", ""))
    work.mkdir()
    trace = work / "trace"
    before = [] if options is None else [*PFS, "run", "--no-report", *options, "--"]
    strace = ["strace", "-f", "-o", str(trace)]
    subprocess.run([*strace, *before, *command], cwd=work, capture_output=True, check=True, timeout=240)
    calls: Counter[str] = Counter()
    ours: set[str] = set()
    for line in trace.read_text(errors="replace").splitlines():
        match = re.match(r"(\d+) +(?:<\.\.\. (\w+) resumed>|(\w+)\()", line)
        if match is None:
            continue
        pid, resumed, call = match.groups()
        if call == "execve" and re.search(rf'execve\("[^"]*{program}"', line):
            ours.add(pid)
        elif pid in ours:
            if (resumed or call) in ("clone", "clone3", "fork", "vfork") and (child := re.search(r"= (\d+)$", line)):
                ours.add(child[1])
            if call is not None:
                calls[call] += 1
    assert calls
    return calls


@NEEDS_STRACE
@pytest.mark.parametrize("options", [(), ("--all-on",), ("--only", "sockets")], ids=" ".join)
def test_a_chain_of_directories_costs_no_system_call(below: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    rounds = 1000
    plain = calls_of(tmp_path, "below", below, str(rounds))
    with_pfs = calls_of(tmp_path, "below", below, str(rounds), options=options)
    assert with_pfs["readlink"] - plain["readlink"] < 20
    assert with_pfs["rt_sigprocmask"] - plain["rt_sigprocmask"] < rounds  # a new chunk of records needs the lock
    assert with_pfs["openat"] - plain["openat"] < 40
    more = sum(with_pfs.values()) - sum(plain.values())
    assert more < 0.2 * sum(plain.values()), with_pfs - plain


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for i in range(1300):
        path = source / f"d{i % 10}" / ("sub" if i % 2 else ".") / f"f{i}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 500)
    return source


def command_of(program: str, source: Path) -> tuple[str, ...]:
    return {
        "rsync": ("rsync", "-a", f"{source}/", "copy/"),
        "cp": ("cp", "-a", f"{source}", "copy"),
        "tar": ("tar", "-cf", "archive.tar", "-C", f"{source}", "."),
        "rm": ("sh", "-c", 'cp -a "$0" copy; exec rm -r copy', f"{source}"),
    }[program]


@NEEDS_STRACE
@pytest.mark.needs("rsync")
@pytest.mark.parametrize(
    ("program", "most", "each"), [("rsync", 1.2, 1.16), ("cp", 1.14, 1.11), ("tar", 1.13, 1.08), ("rm", 1.36, 1.16)]
)
def test_many_files_cost_few_more_calls(many_files: Path, tmp_path: Path, program: str, most: float, each: float) -> None:
    """Each file has names that come once. A thread takes slots, names and chunks for many with one lock; a rename needs one.

    `most` holds for all calls, and `each` without those of a start and an end: the program also runs on an empty folder.
    """
    (nothing := tmp_path / "nothing").mkdir()
    (of_nothing := tmp_path / "of_nothing").mkdir()
    calls = {
        (options, source): calls_of(place, program, *command_of(program, source), options=options)
        for options in (None, (), ("--only", "sockets"))
        for place, source in ((tmp_path, many_files), (of_nothing, nothing))
    }
    sums = {key: sum(found.values()) for key, found in calls.items()}
    plain, recorded, off = (sums[options, many_files] for options in (None, (), ("--only", "sockets")))
    start, off_start = (sums[options, nothing] - sums[None, nothing] for options in ((), ("--only", "sockets")))
    said = f"{program}: {plain} plain, {recorded} recorded, {off} without files; a start and an end: {start}, {off_start}"
    print(said)
    assert calls[(), many_files]["readlink"] < 200
    assert recorded < most * plain, said
    assert recorded - start < each * plain, said
    assert off - off_start < 1.02 * plain, said  # rsync asks more often whether a pipe is ready


@NEEDS_STRACE
def test_a_name_that_no_folder_of_path_has_costs_few_calls(tmp_path: Path) -> None:
    """A shell tries to become the program in each folder: pfs looks for the file, and does nothing more if none is there."""

    def more(folders: int) -> int:
        (place := tmp_path / f"{folders}").mkdir()
        path = ":".join(f"{place}/bin{number}" for number in range(folders))
        command = ("sh", "-c", f"PATH={path}:/usr/bin; exec true")
        plain, with_pfs = (calls_of(place, "bin0/true", *command, options=options) for options in (None, ()))
        assert plain["execve"] == with_pfs["execve"] == folders  # that of the first folder shows which process it is
        return sum(with_pfs.values()) - sum(plain.values())

    assert more(52) - more(2) < 1.5 * 50


def test_names_below_directories_that_move(below: Path, tmp_path: Path) -> None:
    """close, dup2 and rename give a number, or a directory, another name."""
    report = tmp_path / "report.json"
    subprocess.run(
        [*PFS, "run", "--json", "--limit", "1000", "-o", report, "--", below], cwd=tmp_path, check=True, capture_output=True
    )
    files = {row["file"]: row["writes"] for row in json.loads(report.read_text())["files"] if row["writes"]}
    here = os.path.realpath(tmp_path)
    assert {name: writes for name, writes in files.items() if name.startswith(f"{here}/") and "report" not in name} == {
        f"{here}/one/first": 1,
        f"{here}/one/below/third": 1,
        f"{here}/one/below/fourth": 2,
        f"{here}/moved/below/fifth": 1,
        f"{here}/two/sixth": 1,
    }
