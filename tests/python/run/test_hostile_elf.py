"""A file of a program can be made to cost who reads its symbols and lines any time: it costs seconds, and is named."""

from __future__ import annotations

import random
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pfs._process.run.program import Program, look
from pfs._process.run.report import gather
from pfs._process.run.report_text import text_of
from pfs._read.places import elf, lines, symbols
from tests import budgets
from tests.python._programs import hostile_elf, limited
from tests.python._programs.limited import fault_of

# Inlined code, and two units with tables of their own.
SOURCE = """
#include <mutex>
#include <vector>
std::mutex m;
std::vector<int> kept;
template <typename T> static T add(T a) { std::lock_guard<std::mutex> lock(m); kept.push_back(a); return a + 1; }
int main(int count, char**) { return add(count) + add(2); }
"""


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "SECONDS", 8)
    monkeypatch.setattr(limited, "BYTES", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) + (256 << 20))
    for path in list(elf.LEFT):  # by other tests
        monkeypatch.delitem(elf.LEFT, path)


def test_a_symbol_and_a_line_of_a_file_in_order_are_found(tmp_path: Path) -> None:
    """Positive control of the files that the other tests write."""
    code = hostile_elf.at(hostile_elf.FIRST) + b"\x14\x14"
    path = tmp_path / "good"
    hostile_elf.with_lines(path, [hostile_elf.line_program(code)])
    assert lines.line_of(symbols.Place(str(path), hostile_elf.FIRST + 1, "")) == "a.h:5"


@pytest.mark.parametrize(("make", "said"), hostile_elf.MAKERS.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_file_that_costs_much_is_left_and_named(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    make(path := tmp_path / "hostile")

    def work() -> None:
        begin = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        for i in range(60):
            place = symbols.Place(str(path), hostile_elf.FIRST + i * hostile_elf.STEP + 8, "")
            lines.line_of(place)
            symbols.symbol_of(place)
        print(f"{make.__name__}: {resource.getrusage(resource.RUSAGE_SELF).ru_utime - begin:.1f} s")
        left = " ".join(elf.LEFT.values())
        assert said in left if said else not left, left

    assert (fault := fault_of(work)) is None, fault


@pytest.mark.parametrize("value", [1 << 31, 1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("word", ["table", "linker", "length"])
def test_pfs_run_looks_at_a_program_that_claims_any_place(tmp_path: Path, word: str, value: int) -> None:
    """Its header says where the table of segments is, and that table where the name of the dynamic linker is."""
    image = bytearray(Path("/bin/true").read_bytes())
    table = int.from_bytes(image[32:40], "little")
    (linker,) = (at for at in range(table, table + 56 * image[56], 56) if image[at] == 3)  # PT_INTERP
    at = {"table": 32, "linker": linker + 8, "length": linker + 32}[word]
    image[at : at + 8] = value.to_bytes(8, "little")
    (path := tmp_path / "program").write_bytes(image)
    path.chmod(0o700)
    assert look(str(path), {}) == Program(str(path))


def test_the_report_names_what_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(elf.LEFT, "/bin/\x1bapp", "more than 4,096 sections")
    report = gather([], gather([]))
    assert report.unread == ["symbols and lines of /bin/\x1bapp: more than 4,096 sections"]
    assert "Not read: symbols and lines of /bin/?app: more than 4,096 sections" in text_of(report, 10)


def damaged(good: bytes, dice: random.Random) -> bytes:
    """Changes words of the header, of the table of sections and of sections, copies a part over another, or cuts the end."""
    bad = bytearray(good)
    table = int.from_bytes(good[40:48], "little")
    for _ in range(dice.randrange(1, 12)):
        at = dice.choice([dice.randrange(64), dice.randrange(table, len(good) - 8), dice.randrange(len(good) - 8)])
        way = dice.randrange(8)
        if way < 4:
            word = dice.choice([0, 1, 0xFF, 0x7FFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1, dice.getrandbits(64)])
            size = dice.choice([1, 2, 4, 8])
            bad[at : at + size] = word.to_bytes(8, "little")[:size]
        elif way < 7:
            source, size = dice.randrange(len(good)), dice.randrange(1, 2000)
            part = good[source : source + size]
            bad[at : at + len(part)] = part
    return bytes(bad[: dice.randrange(len(bad)) if dice.randrange(10) == 0 else len(bad)])


def test_no_damage_of_a_file_harms_its_reader(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text(SOURCE)
    for number, options in enumerate((["-gdwarf-5"], ["-gdwarf-4", "-O1"])):
        subprocess.run(["c++", *options, "-o", tmp_path / f"good{number}", tmp_path / "a.cpp"], check=True)
    good = [(tmp_path / f"good{number}").read_bytes() for number in range(2)]
    places = [
        int(line.split()[0], 16)
        for line in subprocess.run(["nm", tmp_path / "good1"], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.split()[1] in "tTwWbB"
    ]
    seed = budgets.seed()
    print(f"PFS_TEST_SEED={seed}")
    found = []
    for number in range(seed, seed + budgets.ELF_MUTANTS):
        dice = random.Random(number)
        (bad := tmp_path / f"bad{number}").write_bytes(damaged(dice.choice(good), dice))

        def read(path: Path = bad) -> None:
            for offset in places:
                place = symbols.Place(str(path), offset + 4, "", is_return=True)
                lines.line_of(place)
                symbols.symbol_of(place)

        if (fault := fault_of(read)) is not None:
            found.append(f"{number}: {fault}")
        bad.unlink()
    assert not found, "\n".join(found)
