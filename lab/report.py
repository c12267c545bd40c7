"""Measures everything and writes lab/pages/performance.md with its pictures (lab/pages/performance-*.svg), and lab/pages/performance/PROCESSOR.json.

The page has the figures of this machine, and a table of the last ones of each model of processor.

    python lab/report.py [--build FOLDER] [--rounds N] [--leave-out PART ...] [--only PART ...] [--quick] [--page FILE]

Needs the installed package (pip install '.[test]'), libbenchmark-dev, valgrind; for LTTng-UST beside it liblttng-ust-dev and lttng-tools. About ten minutes.
Parts: ratios, matrix, peers, instructions, reading, scale, start. One that fails says so on the page, and the exit code is 1; as it is if a limit is missed.
--only and --leave-out: the page has no other parts, so give --page FILE if it must not replace the manual's.
--quick: few blocks of each, to see whether everything works; its figures mean nothing.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import datetime
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from lab import matrix, peers, plots, processors, ratios  # noqa: E402
from tests.bench import instructions, reading, scale  # noqa: E402

# Measured apart from this program: ns per lock + unlock with the begin and end of an event, one thread. Its floor was 19.05 ns.
PEER_FLOOR = 19.05
PEERS = {
    "MariaDB PFS: aggregates": 20.0,
    "MariaDB PFS: + current, history": 24.7,
    "MariaDB PFS: + history_long": 31.8,
    "Tracy, reader connected": 29.6,
    "easy_profiler": 50.5,
    "microprofile": 59.6,
    "prometheus-cpp histogram": 68.8,
    "minitrace": 80.2,
    "Caliper, aggregate": 250.0,
    "OpenTelemetry span": 253.0,
    "Perfetto, in process": 259.5,
    "USDT + uprobe": 1254.1,
}
OURS = {
    "pfs: counted, not timed": "counted",
    "pfs: timed aggregates": "timed",
    "pfs: everything on": "all",
    "pfs: everything on, traced": "traced",
}
LTTNG_EARLIER = 182.1  # where it is not measured

TITLES = {
    "lock": "`pfs_mutex_lock` + `pfs_mutex_unlock`, one thread, nobody waits",
    "single": "A mutex in a process that never had a second thread: glibc leaves out the `lock` prefix",
    "pair": "Two mutexes, locked one after the other: both locks together ([overhead](../../docs/overhead.md) explains it)",
    "churn_mutex_unused": "`pfs_mutex_init` and `_destroy`, never locked",
    "churn_mutex_used": "The same, locked once",
    "churn_rwlock_unused": "`pfs_rwlock_init` and `_destroy`, never locked",
    "churn_rwlock_used": "The same, read-locked once",
    "churn_cond_unused": "`pfs_cond_init` and `_destroy`, never waited for",
    "churn_cond_used": "The same, waited for once (a lock and a wait that times out)",
    "churn_file": "A file that is opened, written, closed and removed",
    "trylock": "`pfs_mutex_trylock` + `pfs_mutex_unlock`",
    "lock_guard": "`std::lock_guard<perfschema::mutex>` (bare: `std::mutex`)",
    "own": "A mutex for each thread; 2T: ns per operation of both threads together, so half is perfect",
    "same": "Two threads, one mutex (ns per operation of both together; their interleaving decides, so read the median)",
    "scattered": "16,384 mutexes in random order (x floor: of one mutex)",
    "rdlock": "`pfs_rwlock_rdlock` + `pfs_rwlock_unlock`, one thread",
    "rdlock_same": "Two threads that read-lock the same rwlock (their interleaving decides, so read the median)",
    "wrlock": "`pfs_rwlock_wrlock` + `pfs_rwlock_unlock`",
    "cond": "`pfs_cond_timedwait` with a deadline that has passed",
    "fetch": "`pfs_table_io_begin` and `_end` around the copy of a row of 256 bytes",
    "table_lock": "`pfs_table_lock_begin` and `_end` around a spin lock that is free",
    "metadata": "`pfs_metadata_wait_begin` and `_end` around the same",
    "nested": "two readings of the cycle counter",
    "stage": "`pfs_stage_begin`: from one stage to the next",
    "statement": "`pfs_statement_begin`, `_set_text` with 200 bytes, `_end`",
    "transaction": "`pfs_transaction_begin` and `_end`",
    "memory_64": "`pfs_malloc` of 64 bytes and `pfs_free`; no timer is involved, so the floor says nothing",
    "memory_4096": "`pfs_malloc` of 4,096 bytes and `pfs_free`; malloc caches no blocks of that size",
    "idle": "`pfs_idle_begin` and `_end` around a `poll` of nothing",
    "socket": "`pfs_send` and `pfs_recv` of 64 bytes over a socket pair",
    "pread": "`pfs_pread` of 120 bytes from the page cache, each thread its file",
    "pread_same": "The same, all threads one file; 2T: ns per operation of both threads together",
}
TITLES |= {family: f"A mutex {work}" for family, work in ratios.BETWEEN.items() if family not in TITLES}
# part_matrix measures what these do: the page says it once.
IN_MATRIX = {
    "lock", "trylock", "own", "same", "rdlock", "rdlock_same", "wrlock", "cond", "pread", "pread_same", "fetch", "table_lock",
    "metadata", "nested", "stage", "statement", "transaction", "memory_64", "idle", "socket",
}  # fmt: skip
VARIANTS = {
    "bare": "plain call", "floor": "floor: two `rdtsc` around it", "key_0": "key 0: not counted", "disabled": "disabled", "disabled_later": "disabled after it was recorded", "counted": "counted, not timed: by_instance, by_thread",
    "contended": "TIMED = CONTENDED, everything on", "chained": "three readings: the first event's end is the second's begin", "around": "two readings, around both",
    "timed": "+ timed", "current": "+ events_waits_current", "history": "+ events_waits_history", "all": "+ events_waits_history_long: everything on", "traced": "+ the trace",
}  # fmt: skip


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def today() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"


def commit() -> str:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        return "a tree without its history"
    # This page itself always changes.
    modified = run("git", "status", "--porcelain", "--untracked-files=no", "--", "cpp", "python") != ""
    return f"commit {run('git', 'describe', '--always').strip()}{'-dirty' if modified else ''}"


def machine() -> list[str]:
    compiler = run("c++", "--version").partition("\n")[0]
    system = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return [
        f"- Processor: {processors.name()} ({processors.this()}), {os.cpu_count()} virtual CPUs; a virtual machine that others use too",
        f"- Linux {platform.release()}, {system['PRETTY_NAME'].strip(chr(34))}, {compiler}, `-O2`",
        f"- {today()}, {commit()}",
    ]


def kept(result: ratios.Result) -> processors.Measured:
    """The figures of this machine that are kept for the page's table of processors."""
    figures = {
        one.text: processors.Figure(one.value, one.unit, *one.interval, one.limit, one.at_least) for one in ratios.limits(result)
    }
    for text, (value, interval) in ratios.in_a_program(result).items():
        figures[text] = processors.Figure(value, "ns over bare", *interval)
    rounds = (
        f"{len(result.good)} round{'s' * (len(result.good) != 1)}"
        if result.is_quiet
        else f"{result.attempts} rounds, none of them quiet"
    )
    how = (
        f"fastest blocks of the least disturbed of {rounds}, 95 % of a bootstrap over its blocks; "
        f"the floor took {result.chosen.best(ratios.FLOOR):.1f} ns, its median block {result.chosen.unrest:.2f} times that"
    )
    return processors.Measured(processors.this(), today(), commit(), how, figures)


def case_tables(measured: ratios.Round) -> list[str]:
    lines: list[str] = []
    families = [family for family in dict.fromkeys(case.split("/")[0] for case in measured.blocks) if family not in IN_MATRIX]
    for family in sorted(families, key=lambda family: list(TITLES).index(family) if family in TITLES else len(TITLES)):
        title = TITLES.get(family, family)
        lines += [
            "",
            f"### {title}",
            "",
            "| | fastest, ns | median, ns | x bare | x floor | 95 % of x floor |",
            "| --- | --: | --: | --: | --: | --: |",
        ]
        cases = [case for case in measured.blocks if case.split("/")[0] == family]
        order = [*VARIANTS, *(case.split("/")[1] for case in cases)]
        for case in sorted(cases, key=lambda case: (case[-2:] == "2T", order.index(case.split("/")[1]))):
            _, variant, *threads = case.split("/")
            base, floor = ratios.references(measured, case)
            low, high = measured.interval(ratios.quotient(case, floor), case, floor)
            name = VARIANTS.get(variant, variant) + (f", {threads[0]}" if threads else "")
            x_bare = f"{measured.ratio(case, base):.2f}" if base.startswith(family) else ""
            lines.append(
                f"| {name} | {measured.best(case):.2f} | {measured.median(case):.2f} | {x_bare} | {measured.ratio(case, floor):.3f} | "
                f"{low:.3f} to {high:.3f} |"
            )
    return lines


def prose(text: str) -> list[str]:
    """A paragraph, as lines of at most 100 columns."""
    return textwrap.wrap(" ".join(text.split()), 100, break_long_words=False, break_on_hyphens=False)


@dataclass
class Report:
    """The measurements so far. `measured` lacks the parts that failed or were left out."""

    build: Path
    pictures: Path  # the folder of the page
    rounds: int
    quick: bool
    console: Console
    measured: dict[str, Any] = field(default_factory=dict)
    troubles: dict[str, str] = field(default_factory=dict)  # part -> why it failed
    absent: dict[str, str] = field(default_factory=dict)  # part -> why it is not there, which is no failure
    missed: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.console.print(f"  {escape(text)}", highlight=False)

    @property
    def figures(self) -> Path:
        """The folder of figures by processor."""
        return self.pictures / "performance"

    @property
    def programs(self) -> Path:
        return self.build / "lab" / "cpp"

    def picture(self, name: str, title: str) -> list[str]:
        return ["", f"![{title}]({self.path_of(name).name})"]

    def path_of(self, name: str) -> Path:
        return self.pictures / f"performance-{name}.svg"


# ---- Parts: each measures, and returns its section -----------------------------------------------------------------------------------


def part_ratios(report: Report) -> list[str]:
    result = ratios.measure(
        report.programs / "probe_bench", 1 if report.quick else report.rounds, 4 if report.quick else 40, report.say
    )
    measured = result.chosen
    report.measured["ratios"] = result
    checks = ratios.limits(result)
    kept(result).write(report.figures)
    report.missed += [check.text for check in checks if not check.met]
    witnesses = ", ".join(f"`{case}` more than {100 * (most - 1):.0f} % off its best" for case, most in ratios.WITNESSES.items())
    rounds = (
        f"{result.repeated} of {result.attempts} rounds (processes) were disturbed ({witnesses}) and repeated. The figures are those of the "
        "least disturbed round; the last column is the range over all undisturbed rounds."
        if result.is_quiet
        else f"**All {result.attempts} rounds (processes) were disturbed ({witnesses}).** The figures are those of the least disturbed one."
    )
    return [
        "## Limits",
        "",
        *prose(
            f"""The floor is two `rdtsc` around a bare lock, then the unlock. It took {measured.best(ratios.FLOOR):.2f} ns here; its median block
            took {measured.unrest:.3f} times that. {rounds} The process has had a second thread, as programs with mutexes have: in a process that never had one, glibc leaves out the `lock`
            prefix."""
        ),
        "",
        "| | measured | 95 % interval | limit | | all rounds |",
        "| --- | --: | --: | --: | --- | --: |",
        *(
            f"| {check.text} | {check.value:.3f} | {check.interval[0]:.3f} to {check.interval[1]:.3f} | {'≥' if check.at_least else '≤'} {check.limit:g} "
            f"{check.unit} | {'met' if check.met else '**missed**'} | {check.rounds[0]:.3f} to {check.rounds[1]:.3f} |"
            for check in checks
        ),
        "",
        "<details><summary>Cases that the next section does not have</summary>",
        *case_tables(measured),
        "",
        "</details>",
    ]


def part_matrix(report: Report) -> list[str]:
    chosen = matrix.measure(
        report.programs / "probe_bench",
        1 if report.quick else max(1, report.rounds // 2),
        3 if report.quick else 40,
        say=report.say,
    )
    found = matrix.cells(chosen)
    report.measured["matrix"] = found
    plots.overhead(found, report.path_of("overhead"))
    return [
        "## Every probe in every mode",
        "",
        *prose(
            """Each mode includes the mode before it: counted (`TIMED = 'NO'`), timed, then one consumer after the other. *traced* is
            history_long (and the digest) written to the trace, without the CPU clock. *compiled out* is the same source with
            `-DPFS_DISABLE`. The floor is two reads of the probe's timer around the plain call: `rdtsc`, which every timer uses. A change of
            stage reads it once."""
        ),
        *report.picture("overhead", "nanoseconds over the plain call, by family and mode"),
        "",
        *prose(
            """Figures of two threads are nanoseconds per operation of both together, so half of one thread's is perfect. They are of the median
            block, because the interleaving of the threads decides. Every block checks that each operation was counted exactly once."""
        ),
        *matrix.page(found),
    ]


def part_peers(report: Report) -> list[str]:
    measured = peers.measure(
        report.build, 1 if report.quick else max(2, report.rounds // 2), 3 if report.quick else 12, report.say
    )
    report.measured["peers"] = measured
    return [
        "## LTTng-UST, in the same process",
        "",
        *prose(
            """LTTng-UST and pfs record the same lock in alternating blocks (`lab/peers.py`). One timed event of pfs corresponds to
            two tracepoints with time stamps, begin and end. LTTng keeps no sums; pfs keeps them in all rows but the first."""
        ),
        "",
        *peers.page(measured),
    ]


def part_instructions(report: Report) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        counted = instructions.measure(instructions.build(Path(folder)))
    report.measured["instructions"] = counted
    known = instructions.baseline()
    report.missed += instructions.regressions({name: now for name, now in counted.items() if name in known})
    return [
        "## Instructions",
        "",
        *prose(
            f"""Callgrind counts them; the compiler is {instructions.compiler()}. `tests/bench/test_instructions.py` fails if one is
            above these figures of `tests/bench/baseline.json` by 5 % or 15 instructions, whichever is less. A statement's
            figures include two readings of a clock of the driver's own, with which each statement takes the same time."""
        ),
        "",
        *instructions.rows(),
    ]


def part_reading(report: Report) -> list[str]:
    large = reading.limits()
    every = {size: reading.tables(size) for size in (reading.SIZES[:2] if report.quick else reading.SIZES)}
    report.measured["reading"] = large
    report.missed += [f"{one.table}: {one.best:.1f} ms" for one in large if not one.met]
    return [
        "## Reading",
        "",
        *prose(
            """The program reads its own tables into DataFrames. The last column is the largest amount of memory beyond the process's own while
            a frame is made, the frame included. Rows share equal texts."""
        ),
        "",
        *reading.limits_page(large),
        "",
        "Each column is a program with 10, 1,000 or 100,000 mutexes, files and events. A cell is rows and the fastest of 20 (or 7) reads.",
        "",
        *reading.tables_page(every),
    ]


def part_scale(report: Report) -> list[str]:
    cases = [scale.measure(*case) for case in (scale.CASES[:2] if report.quick else scale.CASES)]
    report.measured["scale"] = cases
    return [
        "## Many objects and threads",
        "",
        *prose(
            """Each thread has made ten events and stays alive. Every mutex was locked once. A cell is rows and the fastest of five reads into a
            DataFrame. Large limits are sixteen times the usual ones: cost follows use, not configuration. [Scaling](scaling.md) says what
            threads and cores share."""
        ),
        "",
        *scale.page(cases),
    ]


def part_start(report: Report) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        program = instructions.build(Path(folder))
        resident = {events: reading.resident(program, events) for events in (1, 100_000)}
    start = reading.start_up(3 if report.quick else 25)
    bare = start["python"]
    report.measured["start"] = (start["import pfs"] - bare, resident)
    return [
        "## Start and memory",
        "",
        "| | | limit |",
        "| --- | --: | --: |",
        f"| an empty program of Python {platform.python_version()}, ms | {bare:.1f} | |",
        f"| `import pfs`, additional ms | {start['import pfs'] - bare:.1f} | 30 |",
        f"| `import pfs` and the first `pfs.Lock`, additional ms | {start['import pfs, first lock'] - bare:.1f} | |",
        f"| resident part of the segment, a C program after its first event, KiB | {resident[1] / 1024:.0f} | 4096 |",
        f"| the same after 100,000 events (all histories full), KiB | {resident[100_000] / 1024:.0f} | 4096 |",
    ]


PARTS: dict[str, Callable[[Report], list[str]]] = {
    "ratios": part_ratios, "matrix": part_matrix, "peers": part_peers, "instructions": part_instructions, "reading": part_reading, "scale": part_scale, "start": part_start,
}  # fmt: skip


def do(report: Report, part: str) -> list[str]:
    """Its section, or why there is none."""
    report.console.print(f"[bold]{part}[/bold]")
    start = time.monotonic()
    try:
        return PARTS[part](report)
    except peers.NoPeerError as error:
        report.absent[part] = str(error)
        report.say(f"left out: {error}")
        return [f"## Part {part}", "", f"Left out: {error}."]
    except (Exception, SystemExit) as error:
        stderr = getattr(error, "stderr", None)
        report.troubles[part] = f"{type(error).__name__}: {error}" + (f"\n{stderr}" if isinstance(stderr, str) else "")
        report.console.print(f"  [red]failed:[/red] {escape(report.troubles[part])}", highlight=False)
        return [
            f"## Part {part}",
            "",
            "**This part failed:**",
            "",
            *(f"    {line}" for line in report.troubles[part].splitlines()),
        ]
    finally:
        report.say(f"{time.monotonic() - start:.0f} s")


# ---- The page ----------------------------------------------------------------------------------------------------------------------------


def in_short(report: Report) -> list[str]:
    """The first ten lines for a user."""
    lines = []
    found: matrix.Matrix | None = report.measured.get("matrix")
    if found:

        def over(family: str, mode: str) -> str:
            cell = found[family, mode, "1T"]
            return f"{cell.over_bare.value:+.1f} ns" + (
                f", {cell.x_floor.value:.2f} x floor" if cell.x_floor and mode not in ("out", "disabled", "counted") else ""
            )

        lines += [
            f"| an uncontended lock ({found['lock', 'bare', '1T'].nanoseconds:.1f} ns): compiled out; disabled; counted | {over('lock', 'out')}; {over('lock', 'disabled')}; {over('lock', 'counted')} |",
            f"| the same, timed: all summaries | {over('lock', 'timed')} |",
            f"| the same, everything on: + current and both histories | {over('lock', 'all')} |",
            f"| the same, and every event traced to files | {over('lock', 'traced')} |",
            f"| a `pread` of 120 bytes ({found['pread', 'bare', '1T'].nanoseconds:.0f} ns), everything on | {over('pread', 'all')} |",
            f"| a statement with a text of 200 bytes, its digest and histogram, everything on | {over('statement', 'digest')} |",
            f"| `malloc` and `free` ({found['memory', 'bare', '1T'].nanoseconds:.1f} ns), counted | {over('memory', 'counted')} |",
            f"| two threads with a mutex each, everything on: throughput of one | {found['lock', 'all', '1T'].median / found['lock', 'all', 'own'].median:.2f} x |",
        ]
    beside: ratios.Round | None = report.measured.get("peers")
    if beside:
        lines.append(
            f"| a lock's begin and end recorded by LTTng-UST, in memory, beside pfs with everything on | {beside.best('lttng two, in memory'):.0f} ns, {beside.best('all'):.0f} ns |"
        )
    large = report.measured.get("reading")
    if large:
        lines.append(f"| {large[0].rows:,} rows of `{large[0].table}` to a DataFrame | {large[0].best:.0f} ms |")
    start = report.measured.get("start")
    if start:
        lines.append(
            f"| `import pfs`; memory of a small program's segment, all histories full | {start[0]:.1f} ms; {start[1][100_000] / (1 << 20):.1f} MiB |"
        )
    return ["## Summary", "", "| | |", "| --- | --: |", *lines] if lines else []


def beside_others(report: Report) -> list[str]:
    """pfs and LTTng-UST of this run, the others of an earlier one."""
    measured: ratios.Round | None = report.measured.get("peers")
    prefix = ""
    if measured is None and "ratios" in report.measured:
        measured, prefix = report.measured["ratios"].chosen, "lock/"
    if measured is None:
        return []
    floor = measured.best(f"{prefix}floor")
    bars = [(name, measured.best(prefix + case) / floor, plots.OURS) for name, case in OURS.items()]
    if prefix:
        bars.append(("LTTng-UST", LTTNG_EARLIER / PEER_FLOOR, plots.EARLIER))
    else:
        bars.append(("LTTng-UST, begin and end, in memory", measured.best("lttng two, in memory") / floor, plots.OTHERS))
        bars.append(("LTTng-UST, one tracepoint, in memory", measured.best("lttng one, in memory") / floor, plots.OTHERS))
    bars += [(name, nanoseconds / PEER_FLOOR, plots.EARLIER) for name, nanoseconds in PEERS.items()]
    plots.beside(bars, report.path_of("beside"))
    return [
        "## Compared with other tools",
        *report.picture("beside", "cost of one recorded lock in floors"),
        "",
        *prose(
            f"""Colored bars are of this run. Gray bars are of an earlier run on the same kind of machine. Each bar is divided by the floor of its
            own run, which was {PEER_FLOOR} ns in the earlier one. Tracy's bar is its slowest of six runs (19.4 to 29.6 ns)."""
        ),
        "",
    ]


def side_by_side(report: Report) -> list[str]:
    columns = processors.read(report.figures)
    if not columns:
        return []
    return [
        "## Processors side by side",
        "",
        *prose(
            """The last figures of each model that was measured, with their limits there. A file of `lab/pages/performance/` has those of one. An event
            between other work costs what a program pays. Instructions are the same on all: [below](#instructions)."""
        ),
        "",
        *processors.page(columns),
        "",
    ]


def page(report: Report, sections: dict[str, list[str]], left_out: list[str], load: str) -> str:
    beside = beside_others(report)
    order = [name for name in ("peers", "ratios", "matrix", "instructions", "reading", "scale", "start") if name in sections]
    text = [
        "# What pfs costs",
        "",
        *prose(
            """`python lab/report.py` measures and writes this page. Each ratio compares figures of one process, taken in short blocks in
            random order. A figure is its fastest block unless the text says otherwise. On another machine only ratios and differences mean
            something."""
        ),
        "",
        *machine(),
        f"- Load average when it began: {load}",
        *(["- **A quick run, to see whether it works: its figures mean nothing.**"] if report.quick else []),
        *([f"- Left out of this run: {', '.join(left_out)}"] if left_out else []),
        *([f"- **Parts that failed: {', '.join(report.troubles)}**"] if report.troubles else []),
        *([f"- **Limits missed: {'; '.join(report.missed)}**"] if report.missed else []),
        "",
        *in_short(report),
        "",
        *side_by_side(report),
        *beside,
    ]
    for name in order:
        text += [*sections[name], ""]
    return "\n".join([*text, *AGAIN])


AGAIN = [
    "## Reproduce",
    "",
    "    apt-get install libbenchmark-dev valgrind liblttng-ust-dev lttng-tools && pip install '.[test]'",
    "    python lab/report.py --build BUILD    this page; builds its programs in that folder",
    "    python lab/ratios.py BUILD            the limits alone",
    "    python lab/matrix.py BUILD            every probe in every mode",
    "    python lab/peers.py BUILD             LTTng-UST beside pfs",
    "    python tests/bench/instructions.py            instructions; --write makes a new baseline",
    "    python tests/bench/reading.py, scale.py       frames; many objects and threads",
    "    pytest tests/bench                            the parts that are tests on any machine",
    "",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "bench", help="where to build (build/bench)")
    parser.add_argument(
        "--rounds", type=int, default=6, help="processes of the ratios; the matrix and the peers take half as many"
    )
    parser.add_argument("--leave-out", nargs="+", choices=PARTS, default=[], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART")
    parser.add_argument("--quick", action="store_true", help="small settings; needs --page")
    parser.add_argument(
        "--page", type=Path, default=ROOT / "lab/pages/performance.md", help="where to write it; pictures go beside it"
    )
    given = parser.parse_args()
    if given.quick and given.page == ROOT / "lab/pages/performance.md":
        parser.error("--quick writes figures that mean nothing: say --page FILE, so that they do not replace those of the manual")
    console = Console()
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    configure = ["cmake", "-S", str(ROOT), "-B", str(given.build), "-DPFS_LAB=ON", "-DCMAKE_BUILD_TYPE=Release"]
    with console.status("building"):
        run(*configure, *([] if (given.build / "CMakeCache.txt").exists() else ["-G", "Ninja"]))
        run("cmake", "--build", str(given.build), "--target", "probe_bench")
        if (
            subprocess.run(
                ["cmake", "--build", str(given.build), "--target", "peers_bench"], capture_output=True, check=False
            ).returncode
            != 0
        ):
            console.print("peers_bench cannot be built: no LTTng-UST beside us")
    report = Report(given.build, given.page.parent, given.rounds, given.quick, console)
    chosen = [part for part in PARTS if part in given.only and part not in given.leave_out]
    sections = {part: do(report, part) for part in chosen}
    given.page.write_text(page(report, sections, [part for part in PARTS if part not in chosen], load))
    for missed in report.missed:
        console.print(f"[red]missed:[/red] {escape(missed)}", highlight=False)
    for part in report.troubles:
        console.print(f"[red]failed:[/red] {part}")
    console.print(f"{given.page}", highlight=False)
    return 1 if report.missed or report.troubles else 0


if __name__ == "__main__":
    sys.exit(main())
