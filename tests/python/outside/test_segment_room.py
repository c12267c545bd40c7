"""What a segment takes from the program that is watched: length of the file, addresses, memory.

Also where addresses are few, under valgrind, and under an emulator.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pfs import _core
from tests.conftest import Build
from tests.python._programs.segment_file import ARRAYS, PAGE, SegmentFile
from tests.python.programs.test_programs import TIMEOUT, count, environment, in_small_tmpfs, rows, status_of

MIB = 1 << 20
EVENTS = 20_000  # of tests/programs/first_mutex.c, of LOCK_queue


@contextmanager
def held(folder: Path, *command: str | Path, limit: int | None = None, **more: str) -> Iterator[subprocess.Popen[str]]:
    """first_mutex, at its end: "hold" lets it wait."""

    def limit_addresses() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    with subprocess.Popen(
        [*command, "hold"], env=environment(folder, **more), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=limit_addresses,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"counter {EVENTS}\n"
            assert process.stdout.readline() == "ready\n"
            yield process
            _, said = process.communicate("\n", timeout=TIMEOUT)
            assert process.returncode == 0, said
        finally:
            process.kill()


def addresses(pid: int, word: str = "VmSize") -> int:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(f"{word}:"))
    return int(line.split()[1]) * 1024


def pages_without_memory(path: Path) -> dict[str, int]:
    """Pages that a program may store to, of the arrays that are reserved from their begin."""
    missing = {}
    with SegmentFile(path) as file:
        for name in ARRAYS:
            array = file.array(name)
            if not name.endswith(("Records", "ThreadCells", "AccountCells", "UserCells", "HostCells", "GlobalCells")):
                missing[name] = sum(not file.has_memory(array.place(at)) for at in range(0, array.reserved, PAGE))
    return missing


def test_a_c_program_gives_little_of_its_addresses_and_has_a_short_file(build: Build, tmp_path: Path) -> None:
    # One heap: else glibc takes 64 MiB of addresses for each thread that allocates, which those of the plain program do not.
    with held(tmp_path, build("first_mutex", disabled=True), MALLOC_ARENA_MAX="1") as plain:
        bare = addresses(plain.pid)
    with held(tmp_path, build("first_mutex"), MALLOC_ARENA_MAX="1") as process:
        (segment,) = tmp_path.glob("*.pfs")
        assert addresses(process.pid) - bare <= 64 * MIB
        assert segment.stat().st_size <= 16 * MIB
        assert count(segment, "wait/synch/mutex/first_mutex/LOCK_queue") == EVENTS


def test_few_addresses_are_enough_for_a_file(build: Build, tmp_path: Path) -> None:
    """`ulimit -v`, 200 MB above what the program needs without pfs."""
    with held(tmp_path, build("first_mutex", disabled=True)) as plain:
        bare = addresses(plain.pid, "VmPeak")
    with held(tmp_path, build("first_mutex"), limit=bare + 200_000_000):
        (segment,) = tmp_path.glob("*.pfs")
        assert status_of(segment)["Performance_schema_status_reason"] in (None, "")
        assert count(segment, "wait/synch/mutex/first_mutex/LOCK_queue") == EVENTS
        assert len(rows(segment, "threads")) >= 1


@pytest.mark.alone  # a processor that is shared takes up to 1.8 x as long, for minutes
@pytest.mark.needs("valgrind")
def test_valgrind_takes_no_longer_and_finds_nothing(build: Build, tmp_path: Path) -> None:
    """With its default options: it looks for leaks in all memory that is mapped.

    What pfs adds is its start, whose blocks of code valgrind translates once: 0.1 s to 0.2 s, whatever the program does. A
    lock that is free takes more than a microsecond here: the path of a long wait, which notes its place, is in the blocks.
    """
    limit = 1.2  # of the processor's time without pfs
    # That are translated for pfs: 1,818, a count that no other load changes; 26 are a long wait's, 85 are times of threads.
    most_blocks = 1_830
    place = Path(f"/dev/shm/pfs-test-valgrind-{os.getpid()}")
    place.mkdir(mode=0o700)

    def measure(**more: str) -> tuple[float, int]:
        """Returns seconds of the processor, and blocks translated."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            ["valgrind", "--stats=yes", "--error-exitcode=9", program],
            env=environment(place, PFS_KEEP="1", **more), capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        blocks = re.search(r"transtab: new +([0-9,]+)", done.stderr)
        assert blocks is not None, done.stderr
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, int(blocks[1].replace(",", ""))

    try:
        program = build("small")
        off, blocks_off = measure(PFS_OPTIONS="performance_schema=OFF")
        assert not list(place.iterdir())
        on, blocks_on = measure()
        ratios = [on / off]
        # In pairs, for a machine has fast and slow phases: the least of each could be of two phases.
        while len(ratios) < 3 or (statistics.median(ratios) > limit and len(ratios) < 15):
            off, on = measure(PFS_OPTIONS="performance_schema=OFF")[0], measure()[0]
            ratios.append(on / off)
        ratio = statistics.median(ratios)
        files = [path.stat() for path in place.glob("*.pfs")]
        memory = max(file.st_blocks for file in files) * 512 / MIB
        print(f"\n{ratio:.2f} x, {blocks_on - blocks_off} blocks, {memory:.2f} MiB of memory")
        assert len(files) == len(ratios)
        assert count(next(place.glob("*.pfs")), "wait/synch/mutex/small/lock") == 100
        # The leak check reads all that may be stored to, and a page on tmpfs that is read has memory: holes are read-only.
        assert max(file.st_size for file in files) <= 19 * MIB
        assert memory <= 1
        assert blocks_on - blocks_off <= most_blocks
        assert ratio <= limit
    finally:
        shutil.rmtree(place)


@pytest.mark.needs("valgrind")
def test_valgrind_ends_where_memory_is_that_of_a_container(build: Build, tmp_path: Path) -> None:
    """/dev/shm of 64 MiB: the leak check, which reads all that is mapped, leaves the file as small as it is."""
    if in_small_tmpfs(65536, ["true"], tmp_path).returncode != 0:
        pytest.skip("needs root, and a mount namespace of its own")
    done = in_small_tmpfs(
        64 * MIB, ["valgrind", "--leak-check=full", "--error-exitcode=9", str(build("small"))], tmp_path, PFS_KEEP="1"
    )
    assert done.returncode == 0, done.stderr
    (kibibytes,) = re.findall(r"^ *([0-9]+) [0-9]+\.pfs$", done.stderr, re.MULTILINE)
    assert int(kibibytes) <= 1024


@pytest.mark.needs("qemu")
def test_pages_have_memory_under_an_emulator(build: Build, tmp_path: Path) -> None:
    """qemu-user says that it has made the pages real, and has not: pfs looks, and makes them."""
    place = Path(f"/dev/shm/pfs-test-emulator-{os.getpid()}")
    place.mkdir(mode=0o700)
    try:
        with held(place, "qemu-x86_64", "-cpu", "max", build("first_mutex")):
            (segment,) = place.glob("*.pfs")
            assert {name: pages for name, pages in pages_without_memory(segment).items() if pages} == {}
            assert count(segment, "wait/synch/mutex/first_mutex/LOCK_queue") == EVENTS
            for table in _core.tables():
                assert _core.read(table, None, _core.Segment(str(segment)))[1] == 0, table
            assert status_of(segment)["Performance_schema_rows_skipped"] == "0"
    finally:
        shutil.rmtree(place)
