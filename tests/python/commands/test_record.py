"""The command pfs record: of a process, of all, and of a program that it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pfs
from tests.python._programs.subject import Subject, clean_environment, subject

PROGRAMS = Path(__file__).parents[2] / "programs"
# Three threads take turns at a lock; a child does the same. The exit code is 3.
PROGRAM = """
import os, sys, threading, time
lock = threading.Lock()
def work():
    for _ in range(60):
        with lock:
            time.sleep(0.005)
child = os.fork()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print("output of the program")
sys.exit(3)
"""


@pytest.fixture
def program(folder: Path) -> Iterator[Subject]:
    with subject(folder) as running:
        running.do(
            "import threading\nthread = pfs.Thread(target=threading.Event().wait, name='app/waits', daemon=True)\nthread.start()"
        )
        yield running


def record(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pfs", "record", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=clean_environment(folder), capture_output=True, text=True, timeout=120)


def test_a_process_is_recorded_for_a_time(program: Subject, folder: Path) -> None:
    done = record(folder, program.pid, "--hz", "50", "--for", "2s")
    assert done.returncode == 0, done.stderr
    assert f"samples in {program.pid}.ash" in done.stderr
    samples = pfs.samples(folder / f"{program.pid}.ash")
    assert set(samples["PID"]) == {program.pid}
    assert "thread/python/app/waits" in set(samples["THREAD_NAME"].dropna())
    assert 40 < samples["SAMPLE_ID"].nunique() < 160


def test_all_processes_are_recorded_those_too_that_start_later(program: Subject, folder: Path) -> None:
    command = [sys.executable, "-m", "pfs", "record", "--all", "--hz", "50", "-o", "all.ash"]
    with subprocess.Popen(command, cwd=folder, env=clean_environment(folder), stderr=subprocess.PIPE, text=True) as recorder:
        with subject(folder) as later:
            later.do("import time, threading\nwait = threading.Event().wait")
            later.do("pfs.Thread(target=wait, name='app/later', daemon=True).start()\ntime.sleep(3)")
        recorder.terminate()
        _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    assert set(pfs.samples(folder / "all.ash")["PID"]) == {program.pid, later.pid}


def test_a_program_is_run_with_samples_beside(folder: Path) -> None:
    (folder / "app.py").write_text(PROGRAM)
    done = record(folder, "--hz", "50", "-o", "app.ash", "--", sys.executable, "app.py")
    assert done.returncode == 3
    assert done.stdout == "output of the program\n"
    assert "pfs run" in done.stderr
    samples = pfs.samples(folder / "app.ash")
    assert samples["PID"].nunique() == 2
    waits = samples[samples["WAIT_CLASS"] == "wait/synch/mutex"]
    assert waits["SOURCE"].str.contains("app.py:6").any()
    assert waits["BLOCKING_THREAD_ID"].notna().any()


@pytest.mark.needs("gcc")
def test_a_sampler_goes_on_while_threads_are_born_and_die(folder: Path) -> None:
    program, threads = folder / "born", 20_000
    subprocess.run(["gcc", "-O1", "-pthread", "-o", program, PROGRAMS / "born.c"], check=True)
    arguments = ["run", "--no-report", "--record", "born.ash", "--hz", "100", "--", str(program), str(threads)]
    command = [sys.executable, "-m", "pfs", *arguments]
    done = subprocess.run(command, cwd=folder, env=clean_environment(folder), capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"{threads}\n")
    seconds = int(done.stderr) * threads / 1e9  # nothing else is there
    samples = pfs.samples(folder / "born.ash")
    assert samples["SAMPLE_ID"].nunique() > 20
    assert (samples["SAMPLE_TIME"].max() - samples["SAMPLE_TIME"].min()).total_seconds() > 0.7 * seconds


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Give a process, --all, or a program behind --"),
        (["--all", "4711"], "Give a process, --all, or a program behind --"),
        (["--all", "--hz", "0"], "0.1<=x<=1000"),
        (["--all", "--for", "7 weeks"], "legal are a number with s, min, h or d"),
        (["--keep", "7d", "--", "true"], "are not for a program behind --"),
        (["4194303"], "no segment"),
    ],
    ids=["nothing", "both", "hz", "time", "keep", "pid"],
)
def test_a_wrong_use_is_said(folder: Path, arguments: list[str], said: str) -> None:
    done = record(folder, *arguments)
    assert done.returncode != 0
    assert said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
