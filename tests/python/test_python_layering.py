"""The shape of python/pfs: imports run one way, without circles; few modules import pandas. Each check rejects a bad sample."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 500
MOST_UNITS = 25
MOST_LEVELS = 8
# A unit is a package or a module of python/pfs; "pfs" is __init__.py. A unit may import the units of the lines above it, and of
# its own line only itself. This holds for imports inside functions and for type checkers, too.
ORDER = [
    ("_auto", "_base", "_core", "_names", "errors"),
    ("_read",),
    ("_record", "_sql", "setup"),
    ("_save", "server", "sqlalchemy"),
    ("_process",),
    ("_export", "_many", "demo"),
    ("_ui", "dask", "fleet", "metrics", "otel", "plot"),
    ("__main__", "_generate", "pfs"),
]
LINE = {unit: number for number, line in enumerate(ORDER) for unit in line}
# Modules that import numpy or pandas when they are imported themselves. `import pfs` imports none of them.
SLOW = {
    "demo",
    "_many.dask.frames",
    "_read.arrow",
    "_many.fleet.collector",
    "_many.fleet.sums",
    "_process.history.sampled",
    "_process.history.weights",
    "_sql.columns",
    "_save.archive",
    "_save.averages",
    "_save.columns",
    "_save.diff",
    "_save.merge",
    "_save.parquet",
    "_read.frame",
    "_read.readable",
    "_read.columns",
    "_read.dtypes",
    "_ui.testing.view",
    "_save.trace.frames",
}


def modules(root: Path) -> dict[Path, str]:
    """Returns the names of the modules of pfs by their files, without the "pfs." in front. A stub has the name of its module."""
    package = root / "python/pfs"
    found = {}
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pyi")]):
        parts = path.relative_to(package).with_suffix("").parts
        found[path] = ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "pfs"
    return found


def unit_of(module: str) -> str:
    return module.split(".")[0]


def imports(path: Path, known: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yields the line and the module of each import of a module of pfs, wherever it stands."""

    def module_named(name: str) -> str:
        inside = name.removeprefix("pfs").removeprefix(".")
        while inside and inside not in known:
            inside = inside.rpartition(".")[0]
        return inside or "pfs"

    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if unit_of(alias.name) == "pfs":
                    yield node.lineno, module_named(alias.name)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and unit_of(node.module) == "pfs":
            for alias in node.names:
                yield node.lineno, module_named(f"{node.module}.{alias.name}")


def wrong_imports(root: Path) -> list[str]:
    """Imports that run against ORDER, and those that are relative."""
    wrong = []
    known = modules(root)
    names = set(known.values())
    for path, module in known.items():
        for line, imported in imports(path, names):
            here, there = unit_of(module), unit_of(imported)
            if here != there and LINE.get(there, 99) >= LINE.get(here, -1):
                wrong.append(f"{path.relative_to(root)}:{line}: {imported}")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                wrong.append(f"{path.relative_to(root)}:{node.lineno}: a relative import")
    return wrong


def circles(root: Path) -> list[str]:
    """Circles of imports between the modules of a package."""
    known = modules(root)
    names = set(known.values())
    graph: dict[str, set[str]] = {module: set() for module in names}
    for path, module in known.items():
        inside = {imported for _, imported in imports(path, names) if unit_of(imported) == unit_of(module)}
        graph[module] |= inside - {unit_of(module), module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" -> ".join(error.args[1]) + " in python/pfs/" + unit_of(error.args[1][0])]
    return []


def units(root: Path) -> dict[str, set[str]]:
    """Returns the units, each with those that it imports."""
    known = modules(root)
    names = set(known.values())
    graph: dict[str, set[str]] = {unit_of(module): set() for module in names}
    for path, module in known.items():
        graph[unit_of(module)] |= {unit_of(imported) for _, imported in imports(path, names)} - {unit_of(module)}
    return graph


def many_units(root: Path) -> list[str]:
    """More units than a reader sees at a glance."""
    found = [f"python/pfs/{unit}" for unit in sorted(units(root))]
    return [f"{len(found)} units: {', '.join(found)}"] if len(found) > MOST_UNITS else []


def high_levels(root: Path) -> list[str]:
    """Units above MOST_LEVELS: the level of a unit is one more than the highest of those that it imports."""
    graph = units(root)
    level: dict[str, int] = {}
    try:
        for unit in TopologicalSorter(graph).static_order():
            level[unit] = 1 + max((level[imported] for imported in graph[unit]), default=0)
    except CycleError as error:
        return [" -> ".join(f"python/pfs/{unit}" for unit in error.args[1])]
    return [f"python/pfs/{unit} is on level {number}" for unit, number in level.items() if number > MOST_LEVELS]


def at_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yields the statements that run when a module is imported."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            is_for_checkers = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            yield from at_top(node.orelse if is_for_checkers else [*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from at_top([*node.body, *(each for handler in node.handlers for each in handler.body), *node.orelse])


def slow_imports(root: Path) -> list[str]:
    """Modules that import numpy or pandas at the top and are not named in SLOW."""
    wrong = []
    for path, module in modules(root).items():
        if module in SLOW or path.suffix == ".pyi":
            continue
        for node in at_top(ast.parse(path.read_text()).body):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if {name.split(".")[0] for name in names} & {"numpy", "pandas"}:
                wrong.append(f"{path.relative_to(root)}:{node.lineno}")
    return wrong


def long_files(root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in modules(root) if path.read_text().count("\n") > MOST_LINES]


CHECKS = {check.__name__: check for check in (wrong_imports, circles, many_units, high_levels, slow_imports, long_files)}


@pytest.mark.parametrize("name", CHECKS)
def test_package_is_in_order(name: str) -> None:
    assert len(modules(ROOT)) > 50
    assert CHECKS[name](ROOT) == []


def test_every_module_has_its_place_in_the_order() -> None:
    assert set(units(ROOT)) == set(LINE)


def test_slow_modules_are_slow() -> None:
    """SLOW names no module that could be taken off the list."""
    heavy = re.compile(r"^(import|from) (numpy|pandas)\b", re.MULTILINE)
    assert {module for path, module in modules(ROOT).items() if path.suffix == ".py" and heavy.search(path.read_text())} == SLOW


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        ("wrong_imports", "_read/bad.py", "from pfs import setup\n"),
        ("wrong_imports", "_read/bad.py", "def read():\n    from pfs._process import attach\n"),
        ("wrong_imports", "_read/bad.py", "if TYPE_CHECKING:\n    from pfs._process.attach import Schema\n"),
        ("wrong_imports", "server.py", "import pfs.sqlalchemy\n"),
        ("wrong_imports", "_save/bad.py", "import pfs\n"),
        ("wrong_imports", "_save/bad.py", "from pfs import table\n"),
        ("wrong_imports", "_ui/bad.py", "def load():\n    import pfs\n"),
        ("wrong_imports", "_save/bad.py", "from . import good\n"),
        ("wrong_imports", "_unknown/bad.py", "from pfs import errors\n"),
        ("wrong_imports", "_read/__init__.pyi", "from pfs._ui import commands\n"),
        ("circles", "_read/good.py", "from pfs._read import other\n"),
        ("circles", "_read/good.py", "def read():\n    from pfs._read.other import read\n"),
        ("many_units", "another/__init__.py", ""),
        ("high_levels", "_top/high.py", "def show():\n    from pfs import _highest\n"),
        ("high_levels", "_read/bad.py", "def read():\n    from pfs import setup\n"),
        ("slow_imports", "server.py", "import pandas as pd\n"),
        ("slow_imports", "server.py", "if TYPE_CHECKING:\n    import pandas\nelse:\n    from numpy import array\n"),
        ("slow_imports", "server.py", "try:\n    import numpy.linalg\nexcept ImportError:\n    pass\n"),
        ("long_files", "server.py", "#\n" * (MOST_LINES + 1)),
    ],
)
def test_checks_reject_a_bad_sample(tmp_path: Path, check: str, path: str, text: str) -> None:
    """Each check accepts the good package and rejects one bad file in it."""
    good = {
        "__init__.py": "import os\nif TYPE_CHECKING:\n    import pandas\n    from pfs._process.attach import attach\n",
        "errors.py": "",
        "_read/__init__.py": "",
        "_read/good.py": "from pfs.errors import Error\ndef read():\n    import pandas\n",
        "_read/other.py": "from pfs._read import good\n",
        "_process/attach.py": "from pfs._read.good import read\n",
        "_ui/commands.py": "",
        "_save/good.py": "",
        "server.py": "",
        "setup/__init__.py": "",
    }
    if check == "many_units":
        good |= {f"unit{number}.py": "" for number in range(MOST_UNITS - len({name.split("/")[0] for name in good}))}
    if check == "high_levels":
        chain = ["_read.good", *(f"level{number}" for number in range(MOST_LEVELS - 3)), "_highest"]
        good |= {f"{above}.py": f"import pfs.{below}\n" for below, above in pairwise(chain)}
        good["setup/__init__.py"] = "from pfs._read import good\n"
    for name, content in good.items():
        file = tmp_path / "python/pfs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert CHECKS[check](tmp_path) == []
    bad = tmp_path / "python/pfs" / path
    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text(text)
    found = CHECKS[check](tmp_path)
    assert len(found) == 1, found
    assert f"python/pfs/{path.split('/')[0]}" in found[0]
