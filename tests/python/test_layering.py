"""The shape of the source tree: one way of includes, no huge file, pybind11 in one room. Each check sees a sin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A room may include itself and those before it.
ROOMS = ["base", "shm", "record", "setup", "aggregate", "snapshot", "table", "tables", "background", "capi", "bindings"]
# Folders of cpp/src/record: a header may include its own and those before it. Start-up and fork, in record/ itself, stand above.
RECORD = ["engine", "context", "probe", "family", "declared"]
# Source files that call upwards: a thread that ends folds what later folders counted for it, an index is built anew.
CALLS_UPWARDS = {
    "engine/cold_lock.cpp": {"principals", "digests", "facts"},
    "engine/free_lists.cpp": {"cells", "locks"},
    "context/actors.cpp": {"trace"},
    "context/attach.cpp": {"wait"},
    "context/identity.cpp": {"wait"},
    "context/principals.cpp": {"cells", "memory"},
    "context/tasks.cpp": {"nested", "text_buffers"},
    "context/threads.cpp": {"cells", "events", "facts", "text_buffers", "trace"},
    "probe/events.cpp": {"digests"},
}
# Folders of cpp/run: a file may include its own and those before it, but for what a Python lock is an object of.
RUN = ["loader", "protocols", "python", "calls"]
RUN_UPWARDS = {"python/python.h": {"run/calls/objects.h"}}
MOST_LINES = 500


def sources(root: Path) -> list[Path]:
    return sorted(path for path in (root / "cpp").rglob("*") if path.suffix in (".h", ".hpp", ".c", ".cpp"))


def room_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).parts
    return parts[2] if parts[1] == "src" else parts[1]


def includes(path: Path) -> list[tuple[int, str]]:
    """Line and name of all #includes."""
    found = re.finditer(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)
    return [(match.string.count("\n", 0, match.start()) + 1, match[1]) for match in found]


def wrong_includes(root: Path) -> list[str]:
    """Includes that run against the order."""
    wrong = []
    for path in sources(root):
        room = room_of(path, root)
        for line, name in includes(path):
            target = name.split("/")[0]
            where = f"{path.relative_to(root)}:{line}: {name}"
            if room in ROOMS:
                if target in ROOMS and ROOMS.index(target) > ROOMS.index(room):
                    wrong.append(where)
                elif (
                    "/" in name
                    and target not in ROOMS
                    and target not in ("perfschema", "sys", "netinet", "arpa", "linux", "asm", "pybind11")
                ):
                    wrong.append(where + " (of no room)")
            elif room in ("include", "demo") and target in ROOMS:
                wrong.append(where + " (only the public headers)")
            if name.endswith(".cpp"):
                wrong.append(where + " (a source file)")
    return wrong


def wrong_includes_in_record(root: Path) -> list[str]:
    """Includes between the folders of cpp/src/record that run against the order, and exceptions that are none any more."""
    wrong = []
    found: dict[str, set[str]] = {}
    for path in sources(root):
        parts = path.relative_to(root).parts
        if parts[1:3] != ("src", "record") or len(parts) != 5:
            continue
        for line, name in includes(path):
            folders = name.split("/")
            if folders[0] != "record":
                continue
            if len(folders) != 3 or folders[1] not in RECORD:
                wrong.append(f"{path.relative_to(root)}:{line}: {name} (of no folder)")
            elif RECORD.index(folders[1]) > RECORD.index(parts[3]):
                known = CALLS_UPWARDS.get(f"{parts[3]}/{parts[4]}", set())
                found.setdefault(f"{parts[3]}/{parts[4]}", set()).add(folders[2].removesuffix(".h"))
                if path.suffix == ".h" or folders[2].removesuffix(".h") not in known:
                    wrong.append(f"{path.relative_to(root)}:{line}: {name}")
    if root == ROOT:
        wrong += [
            f"{name} includes no {sorted(known - found.get(name, set()))}"
            for name, known in CALLS_UPWARDS.items()
            if known - found.get(name, set())
        ]
    return wrong


def wrong_includes_in_run(root: Path) -> list[str]:
    """Includes between the folders of cpp/run that run against the order."""
    wrong = []
    for path in sources(root):
        parts = path.relative_to(root).parts
        if parts[1] != "run":
            continue
        if len(parts) != 4 or parts[2] not in RUN:
            wrong.append(f"{path.relative_to(root)} (in no folder)")
            continue
        for line, name in includes(path):
            folders = name.split("/")
            if folders[0] != "run" or name in RUN_UPWARDS.get("/".join(parts[2:]), ()):
                continue
            if folders[1] not in RUN or RUN.index(folders[1]) > RUN.index(parts[2]):
                wrong.append(f"{path.relative_to(root)}:{line}: {name}")
    return wrong


def long_files(root: Path) -> list[str]:
    ours = [path for path in sources(root) if path.relative_to(root).parts[1] in ("src", "bindings")]
    return [str(path.relative_to(root)) for path in ours if path.read_text().count("\n") > MOST_LINES]


def pybind11_outside_bindings(root: Path) -> list[str]:
    outside = [path for path in sources(root) if room_of(path, root) != "bindings"]
    # libperfschema-run.so calls functions of CPython without its headers: cpp/run/python/python_api.h declares them.
    asks = {path for path in outside if room_of(path, root) == "run" and path.name.startswith("python")}
    pattern = r"pybind11|\bpy::|Python\.h"
    return [
        str(path.relative_to(root))
        for path in outside
        if re.search(pattern if path in asks else pattern + "|PyObject", path.read_text())
    ]


GIL = r"gil_scoped_\w+|call_guard|Py_\w*BLOCK_THREADS|Py_\w+_ALLOW_THREADS|PyEval_\w+Thread\b|PyGILState_"


def gil_released_outside_its_helper(root: Path) -> list[str]:
    """Whoever waits for the GIL when the interpreter ends must not unwind: gil.h sees to that, and is the only place."""
    others = [path for path in sources(root) if room_of(path, root) == "bindings" and path.name != "gil.h"]
    return [str(path.relative_to(root)) for path in others if re.search(GIL, path.read_text())]


PRIVILEGED = ("src", "bindings", "run")  # a program with another's rights may load these; a benchmark is our own
# execv() and its kin give the program's own environment to the next program.
PASSES_ENVIRON_ON = {"cpp/run/calls/exec.cpp"}


def plain_getenv(root: Path) -> list[str]:
    """A setuid program must take nothing from the environment of its caller: secure_getenv(), or Setting()."""
    theirs = [path for path in sources(root) if path.relative_to(root).parts[1] in PRIVILEGED]
    texts = {str(path.relative_to(root)): path.read_text() for path in theirs}
    wrong = [name for name, text in texts.items() if re.search(r'\bgetenv\b|secure_getenv\("PFS_', text)]
    return wrong + [name for name, text in texts.items() if name not in PASSES_ENVIRON_ON and re.search(r"\benviron\b", text)]


def elements_used_unchecked(root: Path) -> list[str]:
    """Whoever changes a segment may take an element away between two calls of at(): one call, whose result is checked."""
    readers = [path for path in sources(root) if room_of(path, root) == "snapshot"]
    return [
        str(path.relative_to(root))
        for path in readers
        if re.search(r"\*[\w.<>:()]+\.(at|chunk)\(|\b(at|chunk)\([^()]*\)->", path.read_text())
    ]


def columns_of_one_name(root: Path) -> list[str]:
    """Names of columns are arguments of templates: gcc 14 takes those of two files for one, though each is local to its file."""
    seen: set[str] = set()
    wrong = []
    for path in sources(root):
        if room_of(path, root) != "tables":
            continue
        for name in re.findall(r"^constexpr auto (k\w*Columns)\b", path.read_text(), re.MULTILINE):
            if name in seen:
                wrong.append(f"{path.relative_to(root)}: {name}")
            seen.add(name)
    return wrong


CHECKS = {
    check.__name__: check
    for check in (
        wrong_includes,
        wrong_includes_in_record,
        wrong_includes_in_run,
        long_files,
        pybind11_outside_bindings,
        gil_released_outside_its_helper,
        plain_getenv,
        elements_used_unchecked,
        columns_of_one_name,
    )
}


@pytest.mark.parametrize("name", CHECKS)
def test_tree_is_in_order(name: str) -> None:
    """base < shm < record < setup < aggregate < snapshot < table < tables < capi < bindings."""
    assert len(sources(ROOT)) > 30
    assert CHECKS[name](ROOT) == []


def test_every_room_exists_and_is_known() -> None:
    """No room that the order does not know."""
    found = {path.name for path in (ROOT / "cpp" / "src").iterdir() if path.is_dir()}
    assert found == set(ROOMS) - {"bindings"}


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        ("wrong_includes", "cpp/src/base/bad.h", '#include "shm/segment.h"\n'),
        ("wrong_includes", "cpp/src/snapshot/bad.cpp", '#include <mutex>\n  #  include "table/table_def.h"\n'),
        ("wrong_includes", "cpp/src/tables/bad.cpp", '#include "bindings/bindings.h"\n'),
        ("wrong_includes", "cpp/src/record/bad.cpp", '#include "tests/helper.h"\n'),
        ("wrong_includes", "cpp/src/record/bad.cpp", '#include "record/probe/events.cpp"\n'),
        ("wrong_includes", "cpp/include/perfschema/bad.h", '#include "shm/layout.h"\n'),
        ("wrong_includes", "cpp/demo/bad.cpp", '#include "record/probe/wait.h"\n'),
        ("wrong_includes_in_record", "cpp/src/record/engine/bad.h", '#include "record/probe/wait.h"\n'),
        ("wrong_includes_in_record", "cpp/src/record/context/bad.cpp", '#include "record/family/locks.h"\n'),
        ("wrong_includes_in_record", "cpp/src/record/family/bad.cpp", '#include "record/locks.h"\n'),
        ("wrong_includes_in_run", "cpp/run/loader/bad.h", '#include "run/calls/objects.h"\n'),
        ("wrong_includes_in_run", "cpp/run/bad.cpp", '#include "run/loader/real.h"\n'),
        ("long_files", "cpp/src/capi/bad.cpp", "//\n" * (MOST_LINES + 1)),
        ("pybind11_outside_bindings", "cpp/src/table/bad.h", "#include <pybind11/pybind11.h>\n"),
        ("pybind11_outside_bindings", "cpp/src/table/bad.cpp", "inline py::object Make();\n"),
        ("gil_released_outside_its_helper", "cpp/bindings/bad.cpp", "py::gil_scoped_release released;\n"),
        ("gil_released_outside_its_helper", "cpp/bindings/bad.cpp", "py::call_guard<Guard>()\n"),
        ("gil_released_outside_its_helper", "cpp/bindings/bad.cpp", "Py_BEGIN_ALLOW_THREADS;\n"),
        ("gil_released_outside_its_helper", "cpp/bindings/bad.cpp", "auto state = PyEval_SaveThread();\n"),
        ("gil_released_outside_its_helper", "cpp/bindings/bad.cpp", "PyGILState_Ensure();\n"),
        ("plain_getenv", "cpp/run/bad.cpp", 'const char* folder = std::getenv("PFS_DIR");\n'),
        ("plain_getenv", "cpp/run/bad.cpp", 'const char* folder = secure_getenv("PFS_DIR");\n'),
        ("plain_getenv", "cpp/src/shm/bad.cpp", "extern char** environ;\n"),
        ("elements_used_unchecked", "cpp/src/snapshot/bad.cpp", "add(*snapshot.array<ArrayId::kHolds>().at(i));\n"),
        (
            "elements_used_unchecked",
            "cpp/src/snapshot/bad.cpp",
            "const uint32_t seq = classes.at(row.index)->fold_seq.load();\n",
        ),
        (
            "columns_of_one_name",
            "cpp/src/tables/bad.cpp",
            "constexpr auto kColumns =\n  columns();\nconstexpr auto kColumns = columns();\n",
        ),
    ],
)
def test_checks_see_a_sin(tmp_path: Path, check: str, path: str, text: str) -> None:
    """Each checker rejects a bad sample, and accepts the good one beside it."""
    good, bad = tmp_path / "cpp/src/record/good.cpp", tmp_path / path
    for file in (good, bad):
        file.parent.mkdir(parents=True, exist_ok=True)
    good.write_text('#include "record/good.h"\n#include "base/clock.h"\n#include <sys/times.h>\n#include "perfschema/pfs.h"\n')
    good.write_text(good.read_text() + 'secure_getenv("PATH");\n')
    assert CHECKS[check](tmp_path) == []
    bad.write_text(text)
    found = CHECKS[check](tmp_path)
    assert len(found) == 1
    assert path in found[0]
