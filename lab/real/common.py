"""A real program twice, with pfs and without: pairs of runs, their ratios, what the tables say. lab/pages/real_programs.md"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import random
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pfs
from pfs._base import installed

GOAL = 0.01  # the overhead to stay below, as a median

# All that records waits and statements. events_statements_cpu and lock_holds stay as they are at the start: off. The first costs two
# system calls a statement.
EVERYTHING = ",".join(
    [
        "performance_schema_instrument='%=ON'",
        *(
            f"performance_schema_consumer_{name}=ON"
            for name in (
                *(f"events_waits_{which}" for which in ("current", "history", "history_long")),
                *(f"events_statements_{which}" for which in ("current", "history", "history_long")),
                *("global_instrumentation", "thread_instrumentation", "statements_digest"),
            )
        ),
    ]
)

# For --levels: what is added to --options. The last ones leave out one family, or have a pool of records that stays in the cache.
_NOTHING_RECORDED = (
    "performance_schema_consumer_events_waits_current=OFF,performance_schema_consumer_events_statements_current=OFF"
)
LEVELS = {
    "off": "performance_schema=OFF",
    "disabled": "performance_schema_instrument='%=OFF'",
    "counted": f"performance_schema_instrument='%=COUNTED',{_NOTHING_RECORDED}",
    "timed": _NOTHING_RECORDED,
    "small_pool": "performance_schema_events_waits_history_long_size=500",
    "contended": "performance_schema_instrument='wait/synch/mutex/%=CONTENDED',performance_schema_instrument='wait/synch/rwlock/%=CONTENDED'",
    "limit_1": "performance_schema_overhead_limit=1%",
    "limit_3": "performance_schema_overhead_limit=3%",
    "no_mutexes": "performance_schema_instrument='wait/synch/mutex/%=OFF'",
    "no_files": "performance_schema_instrument='wait/io/file/%=OFF'",
    "no_conditions": "performance_schema_max_cond_classes=0",
}
# For --levels, too: what takes the place of --options, whose instruments would hold over a preset.
PRESETS = {"production": "performance_schema_preset=production"}


def program_of(variant: str) -> str:
    """Which program a variant is: "in:timed" is "in" with other options, "again" is "out" once more."""
    name = variant.partition(":")[0]
    return "out" if name == "again" else name


def programs_of(given: argparse.Namespace) -> list[str]:
    """Those that the command line asks for."""
    return ["in", "out", *(name for name in ("stock", "floor") if getattr(given, name))]


def is_recorded(variant: str) -> bool:
    return program_of(variant) in ("in", "counted")


def options_of(variant: str, options: str) -> str:
    """PFS_OPTIONS. What comes later wins."""
    level = variant.partition(":")[2]
    if level in PRESETS:
        return PRESETS[level]
    return f"{options},{LEVELS[level]}" if level else options


class Unavailable(Exception):
    """What is needed cannot be had here: the message says what, and what would help."""


@dataclass(frozen=True)
class Events:
    """What the tables of one recorded run hold."""

    by_name: dict[str, int]  # EVENT_NAME -> COUNT_STAR, of those that happened
    not_on: list[str]  # instruments of the program that are not enabled and timed
    consumers: list[str]  # that are off
    lost: dict[str, int]  # Performance_schema_*_lost that are not 0
    io: dict[str, tuple[int, int]]  # instrument of files -> (COUNT_READ, COUNT_WRITE), files that are gone included
    files: dict[str, tuple[int, int]]  # the same by FILE_NAME, files that are there

    @property
    def total(self) -> int:
        return sum(self.by_name.values())


@dataclass(frozen=True)
class Sample:
    """One process."""

    operations: int
    wall: float  # of the workload [s]
    cpu: float  # of the whole process while the workload ran [s]; 0 = not told
    process_cpu: float  # user and system time from start to end, start of pfs included [s]
    output: str
    events: Events | None = None


# Runs a workload with a variant ("in", "out", ...) once.
RunOnce = Callable[[str], Sample]


def read_events(folder: Path, component: str) -> Events:
    """Of the only segment in `folder`, that a dead process has left."""
    segments = [path for path in folder.iterdir() if path.is_file()]
    if len(segments) != 1:
        raise RuntimeError(f"{folder} has {len(segments)} segments; a recorded run leaves one (PFS_KEEP=1)")
    with pfs.attach(segments[0]) as schema:
        by_name: dict[str, int] = {}
        for table in ("events_waits_summary_global_by_event_name", "events_statements_summary_global_by_event_name"):
            rows = schema.table(table)
            rows = rows[rows["EVENT_NAME"].str.contains(f"/{component}/") & (rows["COUNT_STAR"] > 0)]
            by_name.update((str(name), int(count)) for name, count in zip(rows["EVENT_NAME"], rows["COUNT_STAR"], strict=True))
        rows = schema.table("setup_instruments")
        off = rows[(rows["ENABLED"] != "YES") | (rows["TIMED"] == "NO")]["NAME"]
        rows = schema.table("setup_consumers")
        consumers = rows[rows["ENABLED"] != "YES"]["NAME"]
        rows = schema.table("global_status")
        rows = rows[rows["VARIABLE_NAME"].str.endswith("_lost") & (rows["VARIABLE_VALUE"] != "0")]
        return Events(
            by_name,
            [name for name in map(str, off) if f"/{component}/" in name],
            list(map(str, consumers)),
            {str(name): int(count) for name, count in zip(rows["VARIABLE_NAME"], rows["VARIABLE_VALUE"], strict=True)},
            *(
                {
                    str(row[key]): (int(row["COUNT_READ"]), int(row["COUNT_WRITE"]))
                    for row in schema.table(table).to_dict("records")
                    if f"/{component}/" in str(row["EVENT_NAME"])
                }
                for table, key in (("file_summary_by_event_name", "EVENT_NAME"), ("file_summary_by_instance", "FILE_NAME"))
            ),
        )


@dataclass(frozen=True)
class Finished:
    stdout: str
    stderr: str
    process_cpu: float
    events: Events | None


def execute(command: list[str], data: Path, component: str, recorded: bool, options: str, **environment: str) -> Finished:
    """A child process; with a segment of its own, read and removed, where it is recorded."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PFS_", "SHIM_"))}
    with tempfile.TemporaryDirectory(prefix="segment-", dir=data) as folder:
        if recorded:
            env.update(PFS_DIR=folder, PFS_KEEP="1", PFS_OPTIONS=options)
        env.update(environment)
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            child = subprocess.Popen(command, env=env, cwd=data, stdout=out, stderr=err)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            stdout, stderr = out.read(), err.read()
        if child.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {child.returncode}\n{stdout}\n{stderr}")
        has_segment = recorded and LEVELS["off"] not in options.split(",")
        return Finished(
            stdout, stderr, used.ru_utime + used.ru_stime, read_events(Path(folder), component) if has_segment else None
        )


# ---- Pairs ---------------------------------------------------------------------------------------------------------------------


@dataclass
class Workload:
    """Pairs of runs, first the recorded one's (or what is compared), then the other's."""

    name: str
    comparison: tuple[str, str] = ("in", "out")
    pairs: list[tuple[Sample, Sample]] = field(default_factory=list)

    def ratios(self, measure: str) -> list[float]:
        values = [(getattr(one, measure), getattr(other, measure)) for one, other in self.pairs]
        return [float(one / other) for one, other in values if one > 0 and other > 0]

    def per_operation(self, measure: str, side: int) -> float:
        """Median [us]."""
        values: list[float] = [1e6 * getattr(pair[side], measure) / pair[side].operations for pair in self.pairs]
        return statistics.median(values)


def interval(values: list[float], draws: int = 4000) -> tuple[float, float]:
    """95 % of a bootstrap of the median."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws) - 1]


def run_pairs(
    name: str, once: RunOnce, pairs: int, say: Callable[[str], None], comparison: tuple[str, str] = ("in", "out")
) -> Workload:
    """One pair that does not count, then `pairs`, each in the other order than the one before."""
    workload = Workload(name, comparison)
    if comparison != ("in", "out"):
        say(f"{name}: {comparison[0]} over {comparison[1]}")
    for number in range(-1, pairs):
        order = comparison if number % 2 == 0 else comparison[::-1]
        samples = {variant: once(variant) for variant in order}
        if number < 0:
            continue
        one, other = samples[comparison[0]], samples[comparison[1]]
        workload.pairs.append((one, other))
        told = f", cpu {100 * (one.cpu / other.cpu - 1):+.1f} %" if one.cpu and other.cpu else ""
        say(f"{name}: pair {number + 1} of {pairs}: wall {100 * (one.wall / other.wall - 1):+.1f} %{told}")
    return workload


def compare(
    names: list[str], once: Callable[..., Sample], given: argparse.Namespace, say: Callable[[str], None]
) -> list[Workload]:
    """What the command line asks for. once(variant, workload=...) runs one process."""
    comparisons = [
        ("in", "out"),
        *((f"in:{level}", "out") for level in given.levels),
        *([("floor", "out")] if given.floor else []),
        *([("again", "out")] if given.control else []),
        *([("out", "stock")] if given.stock else []),
    ]
    return [
        run_pairs(name, functools.partial(once, workload=name), given.pairs, say, comparison)
        for name in names
        for comparison in comparisons
    ]


# ---- Report --------------------------------------------------------------------------------------------------------------------


def facts(workload: Workload) -> dict[str, Any]:
    """For JSON, and what the lines below are made of."""
    result: dict[str, Any] = {"name": workload.name, "comparison": workload.comparison, "pairs": len(workload.pairs)}
    for measure in ("wall", "cpu", "process_cpu"):
        ratios = workload.ratios(measure)
        if ratios:
            result[measure] = {
                "ratios": ratios,
                "median": statistics.median(ratios),
                "interval": interval(ratios),
                "us_per_operation": [workload.per_operation(measure, side) for side in (0, 1)],
            }
    recorded = [one for one, _ in workload.pairs if one.events is not None]
    if recorded:
        last = recorded[-1]
        assert last.events is not None
        result["operations"] = last.operations
        result["events"] = last.events.by_name
        result["events_per_operation"] = statistics.median(one.events.total / one.operations for one in recorded if one.events)
        result["events_per_second"] = statistics.median(one.events.total / one.wall for one in recorded if one.events)
        result["lost"] = last.events.lost
        result["consumers_off"] = last.events.consumers
        result["instruments_off"] = last.events.not_on
        # What an event costs, if nothing but events costs: the difference of the programs over the number of events.
        measure = "cpu" if "cpu" in result else "wall"
        one, other = result[measure]["us_per_operation"]
        if result["events_per_operation"] > 0:
            result["ns_per_event"] = 1e3 * (one - other) / result["events_per_operation"]
    return result


def _percent(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return f"{'':>24}"
    low, high = (100 * (bound - 1) for bound in measured["interval"])
    return f"{100 * (measured['median'] - 1):+7.2f} [{low:+6.2f}, {high:+6.2f}]"


def lines(all_facts: Iterable[dict[str, Any]]) -> list[str]:
    """A table for people. Overheads in percent: median of the pairs, 95 % interval.

    The verdict is that of the processor time where it is told: all of the interval on one side of the goal.
    """
    result = [
        f"{'workload':26}{'us/op':>8}{'wall %':>14}{'95 %':>10}{'cpu %':>14}{'95 %':>10}{'events/op':>11}{'events/s':>11}{'ns/event':>10}  <= {100 * GOAL:g} %"
    ]
    for one in all_facts:
        name = one["name"] if one["comparison"] == ("in", "out") else f"{one['name']} {'/'.join(one['comparison'])}"
        line = f"{name:26}{one['wall']['us_per_operation'][1]:8.3f}{_percent(one['wall']):>24}{_percent(one.get('cpu')):>24}"
        if one.get("events"):
            low, high = one.get("cpu", one["wall"])["interval"]
            verdict = "met" if high <= 1 + GOAL else "MISSED" if low > 1 + GOAL else "not certain"
            line += f"{one['events_per_operation']:11.2f}{one['events_per_second']:11,.0f}{one.get('ns_per_event', 0):10.0f}  {verdict}"
        result.append(line)
    for one in all_facts:
        if one.get("lost"):
            result.append(f"{one['name']}: lost {one['lost']}")
        if one.get("instruments_off") and one["comparison"] == ("in", "out"):
            result.append(f"{one['name']}: not on: {', '.join(one['instruments_off'])}")
    return result


def event_lines(one: dict[str, Any]) -> list[str]:
    """The instruments of a workload, most events first."""
    rows = sorted(one.get("events", {}).items(), key=lambda row: -row[1])
    return [f"    {count / one['operations']:10.4f} per operation  {count:12,}  {name}" for name, count in rows]


def report(program: str, workloads: list[Workload], given: argparse.Namespace) -> None:
    all_facts = [facts(workload) for workload in workloads]
    print(f"\n{program}: {given.pairs} pairs; recorded over not recorded; us/op of the program that is not recorded")
    print("\n".join(lines(all_facts)))
    if given.events:
        for one in all_facts:
            if one.get("events"):
                print(f"\n{one['name']}, the last run:")
                print("\n".join(event_lines(one)))
    if given.json:
        machine = {"cpus": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()}
        chosen = {name: str(value) for name, value in vars(given).items()}
        given.json.write_text(
            json.dumps({"program": program, "machine": machine, "given": chosen, "workloads": all_facts}, indent=1)
        )


# ---- What both scripts take ----------------------------------------------------------------------------------------------------


def _levels(text: str) -> list[str]:
    levels = text.split(",")
    for level in levels:
        if level not in LEVELS and level not in PRESETS:
            raise argparse.ArgumentTypeError(f"there is no level {level!r}; there are {', '.join([*PRESETS, *LEVELS])}")
    return levels


def parser(text: str | None, names: Iterable[str]) -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    result.add_argument("--pairs", type=int, default=15, help="pairs of runs per workload")
    result.add_argument("--workloads", default=",".join(names), help="which, with commas; default: %(default)s")
    result.add_argument("--work", type=Path, help="folder for sources and programs, kept; default: a temporary one")
    result.add_argument(
        "--data", type=Path, help="folder for databases and segments; default: /dev/shm if it is there, else a temporary one"
    )
    result.add_argument(
        "--prefix", type=Path, help="where pfs is installed (cmake --install); default: that of the Python package"
    )
    result.add_argument("--options", default=EVERYTHING, help="PFS_OPTIONS of the recorded program; default: everything on")
    result.add_argument("--events", action="store_true", help="also show the events of each workload by instrument")
    result.add_argument(
        "--levels", type=_levels, default=[], help=f"also with other settings: {', '.join([*PRESETS, *LEVELS])}; with commas"
    )
    result.add_argument("--json", type=Path, help="where to keep all figures")
    result.add_argument(
        "--stock", action="store_true", help="also compare the program that is not recorded with an unchanged one"
    )
    result.add_argument(
        "--floor", action="store_true", help="also with nothing but two readings of the timer around each call: what is the least"
    )
    result.add_argument(
        "--control", action="store_true", help="also compare the program that is not recorded with itself: what is noise"
    )
    return result


@contextlib.contextmanager
def folders(given: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """(work, data); what was not named is removed afterwards. Data is a fresh folder within what was named."""
    with contextlib.ExitStack() as stack:
        work = given.work
        if work is None:
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pfs-real-")))
        work.mkdir(parents=True, exist_ok=True)
        where = given.data or (Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None)
        yield work.resolve(), Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pfs-real-", dir=where))).resolve()


def build(shim: Path, folder: Path, prefix: Path | None, targets: Iterable[str], **settings: str | Path) -> Path:
    """Configures and builds a folder of ours with find_package(PerfSchema), as a user's program."""
    if shutil.which("cmake") is None:
        raise Unavailable("cmake is needed: pip install cmake ninja, or the extra perfschema[test]")
    where = prefix if prefix is not None else Path(installed.cmake_dir())
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    commands = [
        ["cmake", "-S", str(shim), "-B", str(folder), *generator, f"-DCMAKE_PREFIX_PATH={where}", "-DCMAKE_BUILD_TYPE=Release"]
        + [f"-D{name}={value}" for name, value in settings.items()],
        ["cmake", "--build", str(folder), "--parallel", str(os.cpu_count() or 1), "--target", *targets],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
    return folder
