"""A program may lie to whoever joins it: about its libraries, and about what is open. The joiner goes on, and harms nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pfs
from pfs.errors import Error
from tests.budgets import seed
from tests.python.join.test_come_late import SOURCES as JOINED
from tests.python.join.test_come_late import told
from tests.python.join.test_join import folder, programs, pytestmark, running

__all__ = ["folder", "programs", "pytestmark"]  # test_join's fixtures and mark hold here, too

# Changes what the libraries of a process say of themselves in its memory, and looks at the process each time.
FUZZ = """\
import os, random, resource, struct, sys, time
from collections import Counter
from pfs import _core
from pfs._process.run import launch
from pfs.errors import OperationNotAllowed, StateError
pid, seed, mutants, calls = map(int, sys.argv[1:])
chance = random.Random(seed)
memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
read = lambda at, form: struct.unpack(form, os.pread(memory, struct.calcsize(form), at))
places = []  # of headers, dynamic sections, tables of hashes, and symbols
frames = []  # of what says how the stack is read
for line in open(f"/proc/{pid}/maps"):
    words = line.split()
    if len(words) < 6 or words[2] != "00000000" or not words[5].startswith("/"): continue
    base = int(words[0].partition("-")[0], 16)
    offset, count = read(base + 32, "<Q")[0], read(base + 56, "<H")[0]
    segments = [read(base + offset + 56 * n, "<IIQQQQQQ") for n in range(count)]
    low = min(segment[3] for segment in segments if segment[0] == 1) & -4096
    [dynamic] = [base - low + segment[3] for segment in segments if segment[0] == 2]
    places += [(base, 64), (base + offset, 56 * count), (dynamic, 16 * 28)]
    more = 768 if "/told" in words[5] else 1
    frames += [(base - low + s[3] + n, 64) for s in segments if s[0] == 0x6474e550 for n in range(0, more, 48)]
    for n in range(40):
        tag, value = read(dynamic + 16 * n, "<QQ")
        if tag in (6, 0x6ffffef5): places += [(value if value > base else value + base - low, 64)]
def look(is_dry):
    begin = time.monotonic()
    try:
        _core.call_in_process(pid, launch.library(), "pfs_run_leave", b"", 0.1, is_dry, True)
        said = "can be joined"
    except (OperationNotAllowed, StateError) as error: said = str(error).partition(" (")[0].split("/")[-1]
    return said, time.monotonic() - begin
assert look(True)[0] == look(False)[0] == "can be joined"
before, longest, all_said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0, Counter()
for number in range(mutants + calls):
    at, size = chance.choice(frames if number >= mutants else places)
    was = os.pread(memory, size, at)
    now = bytearray(was)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(0, size, 4)
        if chance.random() < 0.3: now[chance.randrange(size)] = chance.randrange(256)
        else:
            value = chance.choice((0, 1, 1 << 20, 1 << 31, 1 << 33, 1 << 62, (1 << 64) - 1, chance.getrandbits(64)))
            now[place : place + 8] = struct.pack("<Q", value)[: size - place]
    os.pwrite(memory, now, at)
    said, took = look(number < mutants)
    os.pwrite(memory, was, at)
    longest = max(longest, took); all_said[said] += 1
assert look(False)[0] == "can be joined"
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(grown // 1024, round(longest, 1), all_said)
assert grown < 100 << 10 and longest < 60
"""


def test_a_program_whose_libraries_lie_is_judged_in_little_time_and_memory(programs: Path, tmp_path: Path) -> None:
    number = seed(47)
    print("seed", number)
    with told(programs / "told", tmp_path) as program:
        program.do("work 1")
        done = subprocess.run(
            [sys.executable, "-c", FUZZ, str(program.pid), str(number), "500", "100"], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        print(done.stdout)
        assert "damaged" in done.stdout
        program.do("work 1")


def test_no_file_is_written_that_the_program_may_only_read(tmp_path: Path) -> None:
    """The program says that this file is the memory into which the library is to be copied."""
    subprocess.run(["cc", "-O1", "-o", tmp_path / "forges", JOINED / "forges.c", "-lpthread"], check=True)
    (precious := tmp_path / "precious").write_bytes(b"precious")
    for _ in range(3):  # it may come too late with its lie
        with running(tmp_path / "forges", precious) as process:
            try:
                pfs.join(process.pid)
            except Error as error:
                print(error)
            assert precious.read_bytes() == b"precious"
