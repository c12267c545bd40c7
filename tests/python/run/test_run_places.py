"""Places of an unchanged program: a lock by its symbol, a call by its function and line, as its source has them."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pfs
from pfs._base import installed
from pfs._read.places import elf, lines, own_names, symbols
from pfs._read.places.elf import build_id_of, files_of, opened
from pfs._read.places.readable import _module_name
from tests.python._programs.limited import fault_of

SOURCE = Path(__file__).resolve().parents[3] / "tests/programs/unchanged/stuck.c"
PFS = [sys.executable, "-m", "pfs"]

pytestmark = pytest.mark.skipif(
    not Path(installed.library_dir(), "libperfschema-run.so").exists(), reason="libperfschema-run.so is for x86-64"
)


def line_of(words: str) -> str:
    """Returns the line of the source whose comment has these words."""
    (number,) = [n for n, text in enumerate(SOURCE.read_text().splitlines(), 1) if f"/* {words} */" in text]
    return f"stuck.c:{number}"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("places") / "stuck"
    subprocess.run(["cc", "-O1", "-g", "-o", program, SOURCE, "-lpthread"], check=True)
    return program


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))


@contextmanager
def hanging(program: Path, mode: str, *options: str) -> Iterator[int]:
    """Runs the program until a thread of it has waited for 50 ms, and kills it at the end. Yields its process id."""
    command = [*PFS, "run", "--no-report", "--keep", *options, "--", str(program), mode]
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            there = pfs.processes()
            if list(there["STATE"]) == ["alive"]:
                with pfs.attach(int(there["PID"].iloc[0])) as schema:
                    if (schema.table("blocked")["TIMER_WAIT"] > 50e9).sum() == (2 if mode == "circle" else 1):
                        break
            time.sleep(0.05)
        yield int(there["PID"].iloc[0])
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)


def output(*command: str) -> str:
    return subprocess.run([*PFS, *command], capture_output=True, text=True, timeout=60, check=True).stdout


def test_top_names_the_lock_its_holder_and_the_line_where_it_was_taken(program: Path) -> None:
    with hanging(program, "held", "--all-on") as pid:
        text = output("top", str(pid), "--batch", "--count", "1")
        (shown,) = json.loads(output("show", str(pid), "blocked", "--json"))
    waits, held = text.splitlines()[3:5]
    assert re.search(
        rf"stuck/asker waits .* for wait/synch/mutex/stuck/queue_lock .* at asker\+0x\w+ \({line_of('asker waits')}\)$", waits
    )
    taken, pauses = line_of("keeper takes queue_lock"), line_of("keeper pauses")
    assert re.search(rf"held by \d+ stuck/keeper for .* from keeper\+0x\w+ \({taken}\), now in wait/system/", held)
    assert re.search(rf" at keeper\+0x\w+ \({pauses}\) for \S+ m?s$", held)
    assert re.search(r"^wait/synch/mutex/stuck/queue_lock ", text, re.MULTILINE)  # the part with the waits
    assert "data+0x" not in text
    assert shown["EVENT_NAME"] == "wait/synch/mutex/stuck/queue_lock"
    assert line_of("asker waits") in shown["SOURCE"]
    assert line_of("keeper takes queue_lock") in shown["HOLDER_SOURCE"]


def test_a_circle_is_shown_also_after_the_program_was_killed(program: Path) -> None:
    """With the default, uncontended locks have no event: the holder's line is that where it waits itself."""
    with hanging(program, "circle") as pid:
        path = pfs.processes()["PATH"].iloc[0]
        alive = output("top", str(pid), "--batch", "--count", "1")
    dead = output("top", path, "--batch", "--count", "1")
    for text in (alive, dead):
        assert text.count("DEADLOCK") == 2
        made, waits = line_of("makes heap_lock"), line_of("keeper waits")
        assert re.search(rf"held by \d+ stuck/keeper, now in \S+/make_lock\+0x\w+ \({made}\) at keeper\+0x\w+ \({waits}\)", text)
    with pfs.attach(path) as schema:
        assert schema.table("running")["SOURCE"].str.contains(line_of("asker waits"), regex=False).sum() == 1
        assert set(schema.table("events_waits_current", ["SOURCE"])["SOURCE"].str.match(r"stuck\+0x\w+$")) == {
            True
        }  # as recorded


@pytest.fixture(scope="module")
def place(program: Path) -> symbols.Place:
    """Is the return address of the call that waits in asker, found by objdump."""
    text = subprocess.run(["objdump", "-dl", "--no-show-raw-insn", program], capture_output=True, text=True, check=True).stdout
    after_line = text.split(f"{SOURCE}:{line_of('asker waits').split(':')[1]}\n", 1)[1]
    call = re.search(r"call .*<pthread_mutex_lock@plt>\n(?:\S.*\n)*\s*([0-9a-f]+):", after_line)
    assert call is not None
    with opened(str(program)) as elf:
        assert elf is not None
        build_id = build_id_of(elf)
    return symbols.Place(str(program), int(call[1], 16), build_id, is_return=True)


def variant(program: Path, folder: Path, *options: str) -> Path:
    """Compiles the program in another way."""
    other = folder / "stuck"
    subprocess.run(["cc", "-O1", "-g", *options, "-o", other, SOURCE, "-lpthread"], check=True)
    return other


def lines_of_all_calls(program: Path) -> dict[int, str]:
    """Returns what addr2line says of each call instruction in the program's own code, by return address."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True, check=True).stdout
    calls = [int(address, 16) for address in re.findall(r"call .*@plt>\n\s*([0-9a-f]+):", text)]
    inside = [f"{address - 1:x}" for address in calls]
    said = subprocess.run(["addr2line", "-e", program, *inside], capture_output=True, text=True, check=True).stdout.splitlines()
    return {at: os.path.basename(line.split(" (")[0]) for at, line in zip(calls, said, strict=True) if "?" not in line}


@pytest.mark.parametrize("option", ["-gdwarf-5", "-gdwarf-4", "-O2", "-ffunction-sections", "-gz"])
def test_lines_agree_with_addr2line(program: Path, tmp_path: Path, option: str) -> None:
    other = variant(program, tmp_path, option)
    expected = lines_of_all_calls(other)
    assert len(expected) > 8
    assert {at: lines.line_of(symbols.Place(str(other), at, "", is_return=True)) for at in expected} == expected
    bare = tmp_path / "no_aranges"  # as clang makes it
    subprocess.run(["objcopy", "--remove-section=.debug_aranges", other, bare], check=True)
    assert {at: lines.line_of(symbols.Place(str(bare), at, "", is_return=True)) for at in expected} == expected


def test_a_debug_file_by_its_link(program: Path, place: symbols.Place, tmp_path: Path) -> None:
    stripped, debug = tmp_path / "stuck", tmp_path / ".debug/stuck.debug"
    debug.parent.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, stripped], check=True)
    for build_id in (place.build_id, ""):  # without one the sum of the debug file is compared
        here = symbols.Place(str(stripped), place.offset, build_id, is_return=True)
        assert files_of(str(stripped), build_id) == (str(stripped), str(debug))
        assert lines.line_of(here) == line_of("asker waits")
        assert str(symbols.symbol_of(here)).startswith("asker+0x")
    # The debug file of another build is not used.
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(stripped, other / "stuck")
    subprocess.run(["objcopy", "--only-keep-debug", variant(program, other / "..", "-O2"), other / "stuck.debug"], check=True)
    for build_id in (place.build_id, ""):
        assert files_of(str(other / "stuck"), build_id) == (str(other / "stuck"),)
        assert lines.line_of(symbols.Place(str(other / "stuck"), place.offset, build_id, is_return=True)) is None


def test_a_debug_file_by_its_build_id(
    program: Path, place: symbols.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the folder where packages of debug files put theirs."""
    monkeypatch.setattr(elf, "_DEBUG", str(tmp_path / "debug"))
    stripped = tmp_path / "stuck"
    debug = tmp_path / f"debug/.build-id/{place.build_id[:2]}/{place.build_id[2:]}.debug"
    debug.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    here = symbols.Place(str(stripped), place.offset, place.build_id, is_return=True)
    assert files_of(str(stripped), place.build_id) == (str(stripped), str(debug))
    assert lines.line_of(here) == line_of("asker waits")
    assert str(symbols.symbol_of(here)).startswith("asker+0x")
    # What stands there of another build is not used.
    (tmp_path / "other").mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", variant(program, tmp_path / "other", "-O2"), debug], check=True)
    again = Path(shutil.copy(stripped, tmp_path / "again"))  # what is known of a path is kept
    assert files_of(str(again), place.build_id) == (str(again),)
    assert lines.line_of(symbols.Place(str(again), place.offset, place.build_id, is_return=True)) is None


@pytest.mark.needs("debuginfod")
def test_a_debug_file_from_a_server(program: Path, place: symbols.Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is asked only if DEBUGINFOD_URLS names it, and a file of another build is not taken."""
    stripped, asked = tmp_path / "stuck", []
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)
    served = tmp_path / "served"
    subprocess.run(["objcopy", "--only-keep-debug", variant(program, tmp_path, "-O2"), served], check=True)
    subprocess.run(["objcopy", "--strip-all", program, stripped], check=True)  # where the variant was

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(served.read_bytes())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert files_of(str(stripped), place.build_id) == (str(stripped),)
        assert asked == []
        monkeypatch.setenv("DEBUGINFOD_URLS", f"http://127.0.0.1:{server.server_port}")
        for attempt, of_this_build in enumerate([False, True]):
            if of_this_build:
                subprocess.run(["objcopy", "--only-keep-debug", program, served], check=True)
            monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / f"cache{attempt}"))
            files_of.cache_clear()
            found = files_of(str(stripped), place.build_id)
            assert asked == [f"/buildid/{place.build_id}/debuginfo"] * (attempt + 1)
            assert len(found) == 1 + of_this_build
        here = symbols.Place(str(stripped), place.offset, place.build_id, is_return=True)
        assert lines.line_of(here) == line_of("asker waits")
        assert files_of(str(program), place.build_id) == (str(program),)  # it has lines: nobody is asked
        monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache2"))
        assert files_of(str(stripped), str(program)) == ()  # no build-id: the client would read it from that file
        assert len(asked) == 2
        server.shutdown()
    files_of.cache_clear()


def test_a_file_that_has_changed_or_is_too_large_has_no_lines(place: symbols.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = symbols.Place(place.path, place.offset, "00" * 20, is_return=True)
    assert (symbols.symbol_of(changed), lines.line_of(changed)) == (None, None)
    assert lines.line_of(place) == line_of("asker waits")
    for bound in ("MOST_BYTES", "MOST_BYTES_OF_UNIT"):
        lines._units.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(lines, bound, 100)
            assert lines.line_of(place) is None
        assert str(symbols.symbol_of(place)).startswith("asker+0x")
    lines._units.cache_clear()
    assert lines.line_of(place) == line_of("asker waits")


def test_a_damaged_file_has_no_lines(program: Path, tmp_path: Path) -> None:
    """Each eighth of the file is overwritten in turn."""
    good = program.read_bytes()
    for part in range(8):
        bad = tmp_path / f"bad{part}"
        size = len(good) // 8
        bad.write_bytes(good[: part * size] + b"\xf3" * size + good[(part + 1) * size :])
        place = symbols.Place(str(bad), 0x1200, "", is_return=True)
        lines.line_of(place)  # raises nothing
        symbols.symbol_of(place)
    os.mkfifo(tmp_path / "pipe")
    assert files_of(str(tmp_path / "pipe"), "") == ()  # and does not wait for a writer


HOSTILE = ["compressed in the old way", "frames without bytes", "symbols in a hole", "notes in a hole", "a unit everywhere"]


def hostile(program: Path, how: str, path: Path) -> Path:
    """Returns a copy of the program that costs its reader gigabytes, or minutes."""
    if how in ("compressed in the old way", "a unit everywhere"):
        section = ".zdebug_info" if how == "compressed in the old way" else ".debug_info"
        packed = zlib.compressobj(wbits=-15)
        zeros = b"\x78\x9c" + (packed.compress(bytes(1 << 20)) + packed.flush(zlib.Z_FULL_FLUSH)) * 1100
        unit = struct.pack("<IHIB", 7, 4, 0, 8)
        (content := path.with_suffix(".content")).write_bytes(
            b"ZLIB" + struct.pack(">Q", 1100 << 20) + zeros if section == ".zdebug_info" else unit * ((30 << 20) // len(unit))
        )
        change = "--add-section" if section == ".zdebug_info" else "--update-section"
        subprocess.run(["objcopy", f"{change}={section}={content}", program, path], check=True)
        return path
    shutil.copy(program, path)
    name, kind, size = {
        "frames without bytes": (".eh_frame", 8, 2 << 30),  # SHT_NOBITS
        "symbols in a hole": (".symtab", 2, 3 << 29),
        "notes in a hole": (".note.gnu.build-id", 7, 3 << 29),
    }[how]
    with opened(str(path)) as elf:
        assert elf is not None
        index = next(i for i, section in enumerate(elf.sections) if section.name == name)
    with path.open("r+b") as file:
        file.seek(40)
        entry = int.from_bytes(file.read(8), "little") + 64 * index
        for field, layout, value in ((4, "<I", kind), (32, "<Q", size)):
            file.seek(entry + field)
            file.write(struct.pack(layout, value))
        file.truncate(8 << 30)
    return path


@pytest.mark.parametrize("how", HOSTILE)
def test_a_file_that_costs_its_reader_much_is_left(program: Path, place: symbols.Place, tmp_path: Path, how: str) -> None:
    path = hostile(program, how, tmp_path / "hostile")
    if how == "a unit everywhere":
        if os.geteuid() != 0:
            pytest.skip("only root reads a program of another user")
        os.chown(path, 65534, 65534)
    at = symbols.Place(str(path), place.offset, place.build_id, is_return=True)
    assert fault_of(lambda: (lines.line_of(at), symbols.symbol_of(at))) is None


def test_a_name_that_grows_with_each_reference_is_shown_as_it_is() -> None:
    """Each P has the one before it twice: 2^40 names."""
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names = ["S_", *(f"S{a}{b}_".replace("S0", "S") for a in digits[:2] for b in digits)]
    grown = {n: "_Z1f1PI1AS0_E" + "".join(f"S_I{names[i + 2]}{names[i + 2]}E" for i in range(n)) for n in (8, 40)}
    assert fault_of(lambda: symbols._demangled(grown[40])) is None
    assert symbols._demangled(grown[40]) == grown[40]
    assert symbols._demangled(grown[8]).startswith("f(P<A, A>, P<P<A, A>, P<A, A> >")


def test_a_large_table_of_symbols_costs_little(tmp_path: Path) -> None:
    """Programs of Rust and C++ have some hundred thousand symbols. A report needs ten of them."""
    count = 150_000
    functions = "".join(f".globl f{i}\n.type f{i}, @function\nf{i}: ret\n.size f{i}, 1\n" for i in range(count))
    (tmp_path / "large.s").write_text(f".globl _start\n_start: ret\n{functions}")
    subprocess.run(["cc", "-nostdlib", "-static", "-o", tmp_path / "large", tmp_path / "large.s"], check=True)
    said = subprocess.run(["nm", tmp_path / "large"], capture_output=True, text=True, check=True).stdout
    places = re.findall(r"^(\w+) T (f\w+)$", said, re.MULTILINE)[:: count // 8]
    expected = {int(address, 16): name for address, name in places}
    begin = time.process_time()
    found = {at: symbols.symbol_of(symbols.Place(str(tmp_path / "large"), at, "")) for at in expected}
    assert found == expected
    assert time.process_time() - begin < 0.5  # with an object of Python for each symbol: 3 to 8 s


def test_names_of_modules_in_sources() -> None:
    """As cpp/run/loader/sites.cpp clips them: FNV-1a, two digits."""
    assert _module_name("/usr/lib/libsqlite3.so.0.8.6") == "libsqlite3"
    assert _module_name("/tmp/a%b") == "a_b"
    clipped = _module_name("/x/" + "m" * 60)
    assert (len(clipped), clipped[:37]) == (39, "m" * 37)


# ---- The user's own names


def test_own_names_in_top_show_and_report(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.txt"
    own.write_text("# locks of the shop\n\nstuck/queue_lock -> shop/LOCK_queue\nmake_lock+* -> heap\nqueue_lock -> second\n")
    with hanging(program, "circle", "--names", str(own)) as pid:
        path = pfs.processes()["PATH"].iloc[0]
        top = output("top", str(pid), "--batch", "--count", "1")
        with pfs.attach(pid) as schema:
            blocked = schema.table("blocked")
            recorded = set(schema.table("mutex_instances", ["NAME"])["NAME"])
    assert set(blocked["EVENT_NAME"]) == {"wait/synch/mutex/shop/LOCK_queue", "wait/synch/mutex/heap"}
    assert re.search(r"^wait/synch/mutex/shop/LOCK_queue ", top, re.MULTILINE)
    assert "for wait/synch/mutex/heap (lock) at keeper+0x" in top
    assert all(re.search(r"/stuck/(data|code)\+0x", name) for name in recorded)  # the tables are as recorded
    # The reader's own file goes before the one of the run.
    later = tmp_path / "later.txt"
    (offset,) = {name.rpartition("/")[2] for name in recorded if "/data+" in name}
    later.write_text(f"wait/*/{offset} -> by its place\n")
    monkeypatch.setenv("PFS_NAMES", str(later))
    with pfs.attach(path) as schema:
        assert "wait/synch/mutex/by its place" in set(schema.table("blocked")["EVENT_NAME"])
    monkeypatch.setenv("PFS_NAMES", str(tmp_path / "nosuch"))
    with pfs.attach(path) as schema, pytest.raises(pfs.InvalidValue, match="nosuch cannot be read"):
        schema.table("blocked")


def test_own_names_in_the_report(tmp_path: Path) -> None:
    """Two locks with one name are added up."""
    source = tmp_path / "two.c"
    source.write_text(
        "#include <pthread.h>\npthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;\n"
        "int main(void) { for (int i = 0; i < 7; ++i) { pthread_mutex_lock(&one); pthread_mutex_lock(&two);"
        " pthread_mutex_unlock(&two); pthread_mutex_unlock(&one); } }\n"
    )
    subprocess.run(["cc", "-o", tmp_path / "two", source], check=True)
    (tmp_path / "own").write_text("two/[ot]* -> both\n")
    command = ["run", "--json", "--names", str(tmp_path / "own"), "-o", str(tmp_path / "report"), "--", str(tmp_path / "two")]
    output(*command)
    locks = json.loads((tmp_path / "report").read_text())["locks"]
    assert [(row["name"], row["count"]) for row in locks] == [("wait/synch/mutex/both", 14)]


def test_a_function_that_takes_a_lock_for_its_caller(tmp_path: Path) -> None:
    """Without the line of the file, the place is in the function."""
    source, program, own = tmp_path / "shop.c", tmp_path / "shop", tmp_path / "own"
    source.write_text("""#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t* lock;
__attribute__((noinline)) int shop_lock(pthread_mutex_t* which) { int rc = pthread_mutex_lock(which); return rc + 0 * rand(); }
static void* waits(void* nothing) {
  shop_lock(lock); /* waits */
  pthread_mutex_unlock(lock);
  return nothing;
}
int main(void) {
  pthread_t thread;
  pthread_mutex_t made = PTHREAD_MUTEX_INITIALIZER;
  lock = malloc(sizeof made);
  *lock = made;
  shop_lock(lock); /* holds */
  pthread_create(&thread, NULL, waits, NULL);
  usleep(30000);
  pthread_mutex_unlock(lock);
  return pthread_join(thread, NULL);
}
""")
    subprocess.run(["cc", "-O1", "-g", "-o", program, source, "-lpthread"], check=True)
    at = {text.rpartition("/* ")[2][:-3]: n for n, text in enumerate(source.read_text().splitlines(), 1) if text.endswith(" */")}
    for line, expected in [
        ("", [("shop_lock", 5), ("shop_lock", 5)]),
        ("shop_l* -> (caller)\n", [("main", at["holds"]), ("waits", at["waits"])]),
    ]:
        own.write_text(line)
        output("run", "--json", "--names", str(own), "-o", str(tmp_path / "report"), "--", str(program))
        [row] = json.loads((tmp_path / "report").read_text())["blocked"]
        seen = [re.search(r"(\w+)\+0x\w+ \(shop\.c:(\d+)\)", row[key]) for key in ("name", "source")]
        assert [(found[1], int(found[2])) for found in seen if found] == expected, row


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("queue_lock LOCK", "there is no '->'"),
        (" -> LOCK", "the pattern is empty"),
        ("queue_lock ->", "bad name ''"),
        ("queue_lock -> /LOCK", "bad name '/LOCK'"),
        ("queue_lock -> a\x1b[2J", "bad name"),
        ("app/my_lock* -> (caller)", "'app/my_lock*' is no symbol"),
    ],
)
def test_a_bad_line_of_a_file_of_names(line: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(pfs.InvalidValue) as raised:
        own_names.parse(f"# a comment\na -> b\n{line}\n", "own.txt")
    assert str(raised.value).startswith(f"own.txt:3: {said}")
    assert "legal is 'PATTERN -> NAME'" in str(raised.value)
    (tmp_path / "own").write_text(line)
    refused = subprocess.run(
        [*PFS, "run", "--names", tmp_path / "own", "--", "true"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, f"{tmp_path / 'own'}:1: {said}" in refused.stderr) == (2, True)
