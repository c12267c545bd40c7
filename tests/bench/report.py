"""Measures everything and writes docs/performance.md and docs/performance.png.

    python tests/bench/report.py [--build FOLDER] [--rounds N]

Needs the installed package (pip install .), libbenchmark-dev, valgrind, cmake, ninja, matplotlib. About three minutes.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import datetime
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from tests.bench import instructions, ratios, reading, scale  # noqa: E402

# shared/research/peer_overhead.md: ns per lock + unlock with the begin and end of an event, one thread. Its floor was 19.05 ns.
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
    "LTTng-UST": 182.1,
    "Caliper, aggregate": 250.0,
    "OpenTelemetry span": 253.0,
    "Perfetto, in process": 259.5,
    "USDT + uprobe": 1254.1,
}
OURS = {"pfs: counted, not timed": "lock/counted", "pfs: timed aggregates": "lock/timed", "pfs: everything on": "lock/all"}

TITLES = {
    "lock": "`pfs_mutex_lock` + `pfs_mutex_unlock`, one thread, nobody waits",
    "pair": "Two mutexes, one locked after the other: both locks together (what they could share: docs/overhead.md)",
    "trylock": "`pfs_mutex_trylock` + `pfs_mutex_unlock`",
    "lock_guard": "`std::lock_guard<perfschema::mutex>` (bare: `std::mutex`)",
    "own": "A mutex for each thread; 2T: ns per operation of both threads together, so half is perfect",
    "same": "Two threads, one mutex (ns per operation of both together; how they take turns decides, so the median says more)",
    "scattered": "16,384 mutexes in random order (x floor: of one mutex)",
    "rdlock": "`pfs_rwlock_rdlock` + `pfs_rwlock_unlock`, one thread",
    "rdlock_same": "Two threads that read-lock the same rwlock (as above: how they take turns decides)",
    "wrlock": "`pfs_rwlock_wrlock` + `pfs_rwlock_unlock`",
    "cond": "`pfs_cond_timedwait` with a deadline that has passed",
    "fetch": "`pfs_table_io_begin` and `_end` around the copy of a row of 256 bytes",
    "table_lock": "`pfs_table_lock_begin` and `_end` around a spin lock that is free",
    "metadata": "`pfs_metadata_wait_begin` and `_end` around the same",
    "nested": "two readings of the NANOSECOND timer",
    "stage": "`pfs_stage_begin`: from one stage to the next",
    "statement": "`pfs_statement_begin`, `_set_text` with 200 bytes, `_end`",
    "transaction": "`pfs_transaction_begin` and `_end`",
    "memory_64": "`pfs_malloc` of 64 bytes and `pfs_free`; no timer is involved, so the floor says nothing",
    "memory_4096": "The same of 4,096 bytes, which are more than malloc keeps at hand",
    "idle": "`pfs_idle_begin` and `_end` around a `poll` of nothing",
    "socket": "`pfs_send` and `pfs_recv` of 64 bytes over a socket pair",
    "pread": "`pfs_pread` of 120 bytes from the page cache, each thread its file",
    "pread_same": "The same, all threads one file; 2T: ns per operation of both threads together",
}
VARIANTS = {
    "bare": "plain call", "floor": "floor: two `rdtsc` around it", "key_0": "key 0: not counted", "disabled": "disabled", "disabled_later": "disabled after it was recorded", "counted": "counted, not timed: by_instance, by_thread",
    "contended": "TIMED = CONTENDED, everything on", "chained": "three readings: the first event's end is the second's begin", "around": "two readings, around both",
    "timed": "+ timed", "current": "+ events_waits_current", "history": "+ events_waits_history", "all": "+ events_waits_history_long: everything on", "traced": "+ the trace",
}  # fmt: skip


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine(context: dict[str, object]) -> list[str]:
    compiler = run("c++", "--version").partition("\n")[0]
    system = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return [
        f"- Processor: {cpu_model()}, {context['num_cpus']} virtual CPUs at {context['mhz_per_cpu']} MHz; a virtual machine that others use too",
        f"- Linux {platform.release()}, {system['PRETTY_NAME'].strip(chr(34))}, {compiler}, `-O2`",
        f"- {datetime.datetime.now(datetime.UTC):%Y-%m-%d}, commit {run('git', 'describe', '--always', '--dirty').strip()}",
    ]


def plot(measured: ratios.Round, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    floor = measured.best(ratios.FLOOR)
    bars = [(name, measured.best(case) / floor, True) for name, case in OURS.items()]
    bars += [(name, nanoseconds / PEER_FLOOR, False) for name, nanoseconds in PEERS.items()]
    bars.sort(key=lambda bar: bar[1], reverse=True)
    figure, axes = plt.subplots(figsize=(9, 5.6), constrained_layout=True)
    colours = ["#0b6e99" if ours else "#c3c9cf" for _, _, ours in bars]
    axes.barh([name for name, _, _ in bars], [value for _, value, _ in bars], color=colours, height=0.72)
    for row, (_, value, ours) in enumerate(bars):
        axes.text(
            value * 1.04,
            row,
            f"{value:.2f}" if value < 10 else f"{value:.0f}",
            va="center",
            fontsize=9,
            weight="bold" if ours else None,
        )
    for label, (_, _, ours) in zip(axes.get_yticklabels(), bars, strict=True):
        label.set_fontweight("bold" if ours else "normal")
    axes.axvline(1, color="#d1495b", linewidth=1.2)
    axes.text(1.03, len(bars) - 0.35, "two timer reads", color="#d1495b", fontsize=9, va="bottom")
    axes.set_xscale("log")
    axes.set_xlim(0.4, 130)
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()
    axes.set_ylim(-0.6, len(bars) + 0.4)
    axes.set_xlabel("cost of one recorded lock + unlock, in floors (two timer reads around the bare call); logarithmic")
    axes.set_title("What recording a lock costs", loc="left", weight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def case_tables(measured: ratios.Round) -> list[str]:
    lines: list[str] = []
    for family, title in TITLES.items():
        lines += [
            "",
            f"### {title}",
            "",
            "| | fastest, ns | median, ns | x bare | x floor | 95 % of x floor |",
            "| --- | --: | --: | --: | --: | --: |",
        ]
        cases = [case for case in measured.blocks if case.split("/")[0] == family]
        order = list(VARIANTS)
        for case in sorted(cases, key=lambda case: (case[-2:] == "2T", order.index(case.split("/")[1]))):
            _, variant, *threads = case.split("/")
            base, floor = ratios.references(measured, case)
            low, high = measured.interval(ratios.quotient(case, floor), case, floor)
            name = VARIANTS[variant] + (f", {threads[0]}" if threads else "")
            x_bare = f"{measured.ratio(case, base):.2f}" if base.startswith(family) else ""
            lines.append(
                f"| {name} | {measured.best(case):.2f} | {measured.median(case):.2f} | {x_bare} | {measured.ratio(case, floor):.3f} | "
                f"{low:.3f} to {high:.3f} |"
            )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "bench", help="where to build (build/bench)")
    parser.add_argument("--rounds", type=int, default=8)
    given = parser.parse_args()
    run("cmake", "-S", str(ROOT), "-B", str(given.build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DPFS_DEVELOPER=ON")
    run("cmake", "--build", str(given.build), "--target", "probe_bench")

    result = ratios.measure(given.build / "cpp" / "bench" / "probe_bench", given.rounds)
    measured = result.chosen
    with tempfile.TemporaryDirectory() as folder:
        program = instructions.build(Path(folder))
        counted = instructions.measure(program)
        resident = {events: reading.resident(program, events) for events in (1, 100_000)}
    frames, start = reading.frames(), reading.start_up()
    large_tables, every_table = reading.limits(), {size: reading.tables(size) for size in reading.SIZES}
    plot(measured, ROOT / "docs" / "performance.png")

    checks = ratios.limits(result)
    bare = start["python"]
    text = [
        "# What pfs costs",
        "",
        "Written by `python tests/bench/report.py`, which measures everything on this page anew. All ratios are of figures taken in one process, in",
        "short blocks in random order; a figure is its fastest block. Only ratios and differences mean something on another machine.",
        "",
        *machine(measured.context),
        f"- The floor is two `rdtsc` around a bare lock, then the unlock: {measured.best(ratios.FLOOR):.2f} ns here, its median block "
        f"{measured.median(ratios.FLOOR) / measured.best(ratios.FLOOR):.3f} times that. {result.repeated} of {result.attempts} rounds (processes) were "
        "disturbed (floor more than 3 % off) and repeated.",
        "",
        "## Limits",
        "",
        "Figures are of the least disturbed round (process). The last column is the range over all undisturbed rounds: where the loader puts stacks and memory",
        "moves a process by a few tenths of a nanosecond per event. The process has had a second thread, as programs with mutexes have: in one that never",
        "had, glibc leaves out the `lock` prefix, nothing waits for pfs's stores to reach the cache, and everything on costs 0.8 ns less.",
        "",
        "| | measured | 95 % interval | limit | | all rounds |",
        "| --- | --: | --: | --: | --- | --: |",
        *(
            f"| {check.text} | {check.value:.3f} | {check.interval[0]:.3f} to {check.interval[1]:.3f} | {'≥' if check.at_least else '≤'} {check.limit:g} "
            f"{check.unit} | {'met' if check.met else '**missed**'} | {check.rounds[0]:.3f} to {check.rounds[1]:.3f} |"
            for check in checks
        ),
        "",
        "## Beside others",
        "",
        "![cost of one recorded lock in floors](performance.png)",
        "",
        "Blue: this run. Grey: measured in an earlier run on the same kind of machine, not in this one (`shared/research/peer_overhead.md`, floor "
        f"{PEER_FLOOR} ns). Each is",
        "divided by the floor of its own run. Tracy is its slowest of six runs (19.4 to 29.6 ns).",
        "",
        "## Probes",
        *case_tables(measured),
        "",
        "A mutex whose address has the same low 12 bits as its own statistics, or as the stack of the caller, costs 0.8 to 1.5 ns more: on this family of",
        "processors loads wait for stores that look like theirs (4 KiB aliasing). The benchmark keeps its mutexes away from that.",
        "",
        "## Instructions per operation",
        "",
        f"Counted by callgrind; {instructions.compiler()}. `tests/bench/test_instructions.py` holds them against `tests/bench/baseline.json`.",
        "",
        "| | instructions | beyond the plain call |",
        "| --- | --: | --: |",
        *(
            f"| {name} | {value:.1f} | {value - counted['lock/bare']:.1f} |"
            if name.startswith("lock/")
            else f"| {name} | {value:.1f} | |"
            for name, value in counted.items()
        ),
        "",
        "## Reading",
        "",
        "To a DataFrame, in the program itself; fastest and median of 20.",
        "",
        "| table | rows | fastest, ms | median, ms |",
        "| --- | --: | --: | --: |",
        *(f"| {table} | {rows:,} | {best:.2f} | {median:.2f} |" for table, (rows, best, median) in sorted(frames.items())),
        "",
        "Large tables. The most that is needed while a frame is made is counted beyond what the process had, and holds the frame itself; texts that rows share",
        "are there once.",
        "",
        *reading.limits_page(large_tables),
        "",
        "Every table with 10, 1,000 and 100,000 mutexes, files and events, as far as it has so many; rows, and the fastest of 20 (or 7).",
        "",
        *reading.tables_page(every_table),
        "",
        "## Many objects and threads",
        "",
        "Each thread has made ten events and stays; every mutex was locked once. Rows, and the fastest of five readings to a DataFrame. Limits sixteen times as",
        "large take no memory and no time: what is used costs, not what is configured.",
        "",
        *scale.page([scale.measure(*case) for case in scale.CASES]),
        "",
        "## Start and memory",
        "",
        "| | | limit |",
        "| --- | --: | --: |",
        f"| Python {platform.python_version()} that does nothing, ms | {bare:.1f} | |",
        f"| `import pfs`, ms beyond that | {start['import pfs'] - bare:.1f} | 30 |",
        f"| `import pfs` and the first `pfs.Lock`, ms beyond that | {start['import pfs, first lock'] - bare:.1f} | |",
        f"| resident part of the segment, a C program after its first event, KiB | {resident[1] / 1024:.0f} | 4096 |",
        f"| the same after 100,000 events (all histories full), KiB | {resident[100_000] / 1024:.0f} | 4096 |",
        "",
        "## Again",
        "",
        "    apt-get install libbenchmark-dev valgrind && pip install '.[notebook,test]'",
        "    python tests/bench/report.py               this page, about three minutes",
        "    python tests/bench/ratios.py BUILD         the limits alone; BUILD is a Release build with PFS_DEVELOPER=ON",
        "    python tests/bench/instructions.py         instructions; --write makes a new baseline",
        "    pytest tests/bench                         what can be a test on any machine",
        "",
    ]
    (ROOT / "docs" / "performance.md").write_text("\n".join(text))
    print("\n".join(map(str, checks)))
    return 0 if all(check.met for check in [*checks, *large_tables]) else 1


if __name__ == "__main__":
    sys.exit(main())
