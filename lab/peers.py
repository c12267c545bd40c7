"""LTTng-UST beside pfs: the same lock, recorded by one and by the other, in blocks that alternate in one process.

    python lab/peers.py BUILD_FOLDER [--rounds 6] [--repetitions 12]

Needs liblttng-ust-dev and lttng-tools (before cmake ran). Starts a session daemon of its own if none runs, and ends it. Two sessions are measured: one that
overwrites its oldest events in memory (a flight recorder), and one that writes them to files in /dev/shm. A round makes a session, measures, destroys it.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from lab import ratios  # noqa: E402

OURS = ("disabled", "counted", "timed", "all", "traced")
LTTNG = ("lttng one", "lttng two")
PLAIN = ("bare", "floor")
EVENTS = 65_000  # of a block of peers_bench, with its warm-up, from one tracepoint
SESSIONS = {"in memory": ("--snapshot",), "to files": ()}
TITLES = {
    "bare": "the lock alone",
    "floor": "floor: two `rdtsc` around it",
    "disabled": "pfs, disabled",
    "counted": "pfs, counted",
    "timed": "pfs, timed: aggregates",
    "all": "pfs, everything on: + current and both histories",
    "traced": "pfs, the same and traced to files",
    "lttng one": "LTTng-UST, one tracepoint, no session",
    "lttng two": "LTTng-UST, two tracepoints, no session",
    "lttng one, in memory": "LTTng-UST, one tracepoint, kept in memory (overwrites)",
    "lttng two, in memory": "LTTng-UST, begin and end, kept in memory (overwrites)",
    "lttng one, to files": "LTTng-UST, one tracepoint, to files in memory",
    "lttng two, to files": "LTTng-UST, begin and end, to files in memory",
}


class NoPeerError(Exception):
    """LTTng-UST cannot be measured here, and why."""


def lttng(*arguments: str) -> str:
    done = subprocess.run(
        ["lttng", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0:
        raise NoPeerError(f"lttng {' '.join(arguments)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


@contextlib.contextmanager
def daemon() -> Iterator[None]:
    """A session daemon: the one that runs, or one of ours."""
    if not shutil.which("lttng") or not shutil.which("lttng-sessiond"):
        raise NoPeerError("LTTng is not installed (apt-get install liblttng-ust-dev lttng-tools)")

    def answers() -> bool:
        return (
            subprocess.run(
                ["lttng", "--no-sessiond", "list"], stdin=subprocess.DEVNULL, capture_output=True, check=False
            ).returncode
            == 0
        )

    if answers():
        yield
        return
    ours = subprocess.Popen(
        ["lttng-sessiond", "--no-kernel"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 20
        while not answers():
            if ours.poll() is not None or time.monotonic() > deadline:
                raise NoPeerError("lttng-sessiond does not start here")
            time.sleep(0.1)
        yield
    finally:
        ours.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            ours.wait(20)


@contextlib.contextmanager
def session(name: str, options: tuple[str, ...], folder: str) -> Iterator[None]:
    lttng("create", name, *options, f"--output={folder}/{name}")
    try:
        # Four buffers of a megabyte for each processor; whoever finds them full overwrites the oldest, or loses the event.
        mode = ("--overwrite",) if options else ("--discard",)
        lttng("enable-channel", "--userspace", f"--session={name}", *mode, "--subbuf-size=1M", "--num-subbuf=4", "events")
        lttng("enable-event", "--userspace", f"--session={name}", "--channel=events", "pfs_bench:*")
        lttng("start", name)
        yield
    finally:
        with contextlib.suppress(NoPeerError):
            lttng("destroy", name)


class Program:
    """peers_bench, that measures what it is told."""

    def __init__(self, path: Path) -> None:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PFS_")}
        env |= {"PFS_DIR": os.environ.get("PFS_DIR", "/dev/shm"), "LTTNG_UST_REGISTER_TIMEOUT": "-1"}
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def measure(self, case: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"peers_bench ended with {self.process.wait()}")
        return float(answer)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def measure(build: Path, rounds: int = 6, repetitions: int = 12, say: Callable[[str], None] = print) -> ratios.Round:
    """Case -> blocks. NoPeerError: LTTng is not here, or does not work."""
    path = build / "lab" / "cpp" / "peers_bench"
    if not path.exists():
        raise NoPeerError("peers_bench was not built: cmake found no lttng-ust (apt-get install liblttng-ust-dev lttng-tools)")
    order = random.Random(1)
    blocks: ratios.Blocks = {}
    events = discarded = 0
    with daemon(), tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        program = Program(path)
        try:

            def blocks_of(cases: tuple[str, ...], suffix: str = "") -> None:
                for _ in range(repetitions):
                    for case in order.sample(cases, len(cases)):
                        blocks.setdefault(case + (suffix if case in LTTNG else ""), []).append(program.measure(case))

            for number in range(rounds):
                blocks_of((*PLAIN, *OURS, *LTTNG))
                for kind, options in SESSIONS.items():
                    name = f"pfs_bench_{os.getpid()}_{number}_{kind.replace(' ', '_')}"
                    with session(name, options, folder):
                        # pfs again, among them: what is compared was measured in the same seconds.
                        blocks_of((*PLAIN, "timed", "all", *LTTNG), f", {kind}")
                        if options:
                            lttng("snapshot", "record", f"--session={name}")
                        else:
                            lttng("stop", name)
                            found = re.search(r"Discarded events: (\d+)", lttng("list", name))
                            discarded += int(found[1]) if found else 0
                            events += 3 * repetitions * EVENTS  # one, and two
                    kept = sum(file.stat().st_size for file in Path(folder, name).rglob("*") if file.is_file())
                    if kept < 1 << 20:
                        raise NoPeerError(f"a session {kind} kept {kept} bytes: it does not have our events")
                    shutil.rmtree(Path(folder, name), ignore_errors=True)
                say(
                    f"peers, round {number + 1} of {rounds}: "
                    + ", ".join(f"{case} {min(blocks[case]):.1f}" for case in ("floor", "timed", "lttng two, in memory"))
                )
            ours = program.measure("trace lost") / (rounds * repetitions * EVENTS)
        finally:
            program.close()
    return ratios.Round(blocks, {"lttng": lttng_version(), "lost": discarded / events, "lost by pfs": ours})


def lttng_version() -> str:
    return subprocess.run(["lttng", "--version"], capture_output=True, text=True, check=True).stdout.strip().partition(" - ")[0]


def page(run: ratios.Round) -> list[str]:
    """For lab/pages/performance.md."""
    lines = ["| | fastest, ns | median, ns | ns over bare | x floor | 95 % of x floor |", "| --- | --: | --: | --: | --: | --: |"]
    for case, title in TITLES.items():
        low, high = run.interval(ratios.quotient(case, "floor"), case, "floor")
        lines.append(
            f"| {title} | {run.best(case):.1f} | {run.median(case):.1f} | {run.best(case) - run.best('bare'):.1f} | {run.ratio(case, 'floor'):.3f} | {low:.3f} to {high:.3f} |"
        )
    lost = [f"{100 * float(str(run.context[who])):.0f} %" for who in ("lost", "lost by pfs")]
    return [
        *lines,
        "",
        f"{run.context['lttng']}, with two fields an event and its default clock. A dropped event is cheaper than",
        f"a written one. In these loops, which do nothing else, LTTng dropped {lost[0]} of the events to files",
        f"and pfs's trace {lost[1]}.",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("build", type=Path, help="folder of a Release build with PFS_LAB=ON")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--repetitions", type=int, default=12, help="blocks of a case in a round")
    given = parser.parse_args()
    try:
        run = measure(given.build, given.rounds, given.repetitions)
    except NoPeerError as error:
        print(f"no peer: {error}", file=sys.stderr)
        return 1
    print("\n".join(["", f"{run.context['lttng']}", "", *page(run)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
