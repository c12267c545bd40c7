"""Generates files from the declarations of the tables.

    python -m pfs._generate [ROOT]      writes them below the root of the source tree
    python -m pfs._generate --check     names the files that are out of date; exits with 1 if there is one

The files are docs/reference/tables.md (the meaning of every table and column), docs/reference/views.md and findings.md,
tests/golden/schema.json (it changes only on purpose), python/pfs/_names.pyi and __init__.pyi (names of tables, and the public
names, for type checkers and editors), docs/man (a man page for each command, which the wheel installs in share/man/man1), and
the headers of the wrapped calls.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from pfs import _core, setup
from pfs._base.public import MODULE_OF, MODULES
from pfs._generate import calls
from pfs._process.findings.limits import LEAST, MOST, SHARE
from pfs._process.findings.rules import RULES
from pfs._read.show import time_text
from pfs._sql.views.declared import VIEWS

__all__ = ["files", "main"]

_MADE = "Made by `python -m pfs._generate` from the declarations in cpp/src/tables. Do not edit."


def _declarations() -> list[_core.TableInfo]:
    return [_core.table_info(name) for name in _core.tables()]


def _reference() -> str:
    lines = ["# Tables", "", f"<!-- {_MADE} -->", ""]
    lines += [
        "Times (TIMER_*) are picoseconds since the start of the program. `pfs.table(name)` gives a table as a DataFrame, "
        "`pfs.ddl(name)` its CREATE TABLE text, `pfs.describe(name)` the columns below as a DataFrame.",
        "",
    ]
    lines += [f"- [{table['name']}](#{table['name']}): {table['doc']}" for table in _declarations()]
    for table in _declarations():
        lines += ["", f"## {table['name']}", "", table["doc"], ""]
        lines += [f"Operations: {', '.join(table['operations'])}. "]
        lines[-1] += f"Key: {', '.join(table['key'])}." if table["key"] else "No key."
        lines[-1] += " Readable when pfs is off." if table["available_when_disabled"] else ""
        lines += ["", "| column | type | null | unit | |", "| --- | --- | --- | --- | --- |"]
        for column in table["columns"]:
            written = " Can be updated." if column["writable"] else ""
            written += " [Can hold literals](../howto/texts.md)." if column["literals"] else ""
            null = "NULL" if column["nullable"] else ""
            sql_type = column["sql_type"].replace("|", "\\|")
            lines.append(f"| {column['name']} | {sql_type} | {null} | {column['unit']} | {column['doc']}{written} |")
    return "\n".join(lines) + "\n"


def _golden() -> str:
    tables = {
        table["name"]: {
            "operations": list(table["operations"]),
            "key": list(table["key"]),
            "available_when_disabled": table["available_when_disabled"],
            "columns": [
                {
                    "name": column["name"],
                    "type": column["sql_type"],
                    "nullable": column["nullable"],
                    "writable": column["writable"],
                    "unit": column["unit"],
                    "combine": column["combine"],
                    "literals": column["literals"],
                }
                for column in table["columns"]
            ],
        }
        for table in _declarations()
    }
    return _one_line_each(tables) + "\n"


def _one_line_each(tables: dict[str, dict[str, Any]]) -> str:
    """Returns JSON with one line for each column of each table."""
    blocks = []
    for name, facts in tables.items():
        columns = ",\n".join(f"   {json.dumps(column)}" for column in facts["columns"])
        others = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in facts.items() if key != "columns")
        blocks.append(f' {json.dumps(name)}: {{\n{others}  "columns": [\n{columns}\n  ]\n }}')
    return "{\n" + ",\n".join(blocks) + "\n}"


def _views() -> str:
    lines = [
        "# Views",
        "",
        "<!-- Made by `python -m pfs._generate` from the declarations in python/pfs/_sql/views. Do not edit. -->",
        "",
    ]
    lines += [
        "`pfs.view(name)` gives a view of the schema sys as a DataFrame; `pfs.sql` may use it as `sys.name`. "
        "`x$name` has the same columns without formatting; a view marked with * has no such twin.",
        "",
        "| view | rows and columns |",
        "| --- | --- |",
    ]
    for name, view in VIEWS.items():
        if not name.startswith("x$"):
            alone = "" if f"x${name}" in VIEWS else " *"
            lines.append(f"| {name}{alone} | {view.doc} Columns: {', '.join(view.columns)}. |")
    return "\n".join(lines) + "\n"


def _findings() -> str:
    least = f"{SHARE:.0%} of the time in which a thread did something, and {time_text(LEAST)}"
    parts = [
        "# Findings",
        "<!-- Made by `python -m pfs._generate` from the declarations in python/pfs/_process/findings. Do not edit. -->",
        "`pfs findings PID`, `pfs.findings(PID)` and the report of `pfs run` say what to mend first, at which line, and what it "
        f"takes: at most {MOST} findings, each at least {least}. `--fail-on RULE` makes the exit code 3 if a rule finds "
        "something. [What pfs finds in programs you know](../howto/found.md) shows six of them, and [before and "
        "after](before_and_after.md) has programs for them, run with the fault and mended.",
        '"At most" stands where there is a queue: threads or processes wait for a lock, or children run one after the other. '
        'Mending saves no more than the time in the queue, and often less. "Takes" is the time of the calls; '
        "mending can save less, or more if other work goes away with them. The times contain what pfs adds to each call.",
        "A thread does nothing while it sleeps, is idle, waits for another thread, or has no processor since the machine is "
        "busy. A fault is shown as a part of the whole time in which the program was not idle.",
        "Calls for which nobody waits, such as those of a thread that writes a log, are no finding. The history has the last "
        "events of a process: rules that read it scale its times up to the sums.",
    ]
    for rule in RULES:
        parts += [f"## {rule.name}", rule.means, f"To be sure: {rule.sure}", f"To mend it: {rule.do}"]
        if rule.covers:
            parts.append(f"Where this is found, these are silent: {', '.join(f'[{name}](#{name})' for name in rule.covers)}.")
    return "\n\n".join(textwrap.fill(part, 100, break_long_words=False, break_on_hyphens=False) for part in parts) + "\n"


def _names() -> str:
    names = "".join(f"    {json.dumps(name)},\n" for name in _core.tables())
    return f"# {_MADE}\nfrom typing import Literal, TypeAlias\n\nTableName: TypeAlias = Literal[\n{names}]\n"


def _stub() -> str:
    """Returns the public names for type checkers, which import what Python imports later."""
    lines = ["# Made by `python -m pfs._generate` from python/pfs/_base/public.py. Do not edit.", "# fmt: off", "# ruff: noqa"]
    lines += [f"from pfs import {name} as {name}" for name in (*MODULES, "_core")]
    lines += [f"from pfs.{module} import {name} as {name}" for name, module in MODULE_OF.items()]
    lines += ["", "PUBLIC: dict[str, dict[str, tuple[str, ...]]]", "MODULES: tuple[str, ...]"]
    lines += ["__version__: str", "", "def load_ipython_extension(shell: object) -> None: ..."]
    lines += ["def unload_ipython_extension(shell: object) -> None: ...", ""]
    lines += ["__all__ = [", *(f"    {json.dumps(name)}," for name in (*MODULE_OF, "__version__")), "]"]
    return "\n".join(lines) + "\n"


_SETUP = """
from collections.abc import Mapping
from typing import Generic, TypeAlias, TypeVar, overload

from pfs.setup._rows import Rows as Rows, Where
from pfs.setup._table import Only, Saved as Saved, SetupTable as SetupTable
from pfs.setup._values import UnknownKey as UnknownKey, Values as Values, option_text as option_text
from pfs._read.source import Source

T = TypeVar("T")
Condition: TypeAlias = str | Mapping[str, object] | None

class Column(Generic[T]):
    @overload
    def __get__(self, rows: None, owner: object) -> str: ...
    @overload
    def __get__(self, rows: Rows, owner: object) -> T | None: ...
    def __set__(self, rows: Rows, value: T | str) -> None: ...

class InstrumentRules(SetupTable): ...
"""


def _setup() -> str:
    """Returns the setup tables for type checkers: which columns their rows have, and what update() takes."""
    lines = [
        "# Made by `python -m pfs._generate` from the declarations of the tables. Do not edit.",
        "# fmt: off",
        "# ruff: noqa",
    ]
    lines += [_SETUP]
    for name, kind in setup.TABLES.items():
        types = {column["name"].lower(): _type_of(column) for column in _core.table_info(name)["columns"] if column["writable"]}
        lines += [f"class {kind.__name__}Rows(Rows):", *(f"    {column}: Column[{type_}]" for column, type_ in types.items()), ""]
        taken = {column: type_ if "str" in type_ else f"{type_} | str" for column, type_ in types.items()}
        keywords = "".join(f", {column}: {type_} | None = None" for column, type_ in taken.items())
        lines += [f"class {kind.__name__}(SetupTable):"]
        lines += [f"    def __getitem__(self, where: str | int | Mapping[str, object]) -> {kind.__name__}Rows: ..."]
        arguments = f"self, pattern: Where = None, /, *, where: Condition = None{keywords}"
        lines += [f"    def update({arguments}) -> int: ...  # type: ignore[override]"]
        if kind is setup.SetupInstruments:
            lines += ["    @property", "    def rules(self) -> InstrumentRules: ..."]
            lines += [f"    def only(self, pattern: Where, /) -> Only[{kind.__name__}]: ..."]
        lines += [""]
    attributes = [f"{name}: {kind.__name__}" for name, kind in setup.TABLES.items()]
    lines += ["class Tables:", "    def __init__(self, source: Source) -> None: ...", *(f"    {each}" for each in attributes), ""]
    lines += ["TABLES: dict[str, type[SetupTable]]", *attributes, "variables: Values", "status: Values", ""]
    lines += ["def configure(**options: bool | int | str) -> None: ...", ""]
    lines += ["__all__ = [", *(f"    {json.dumps(name)}," for name in setup.__all__), "]"]
    return "\n".join(lines) + "\n"


def _type_of(column: _core.ColumnInfo) -> str:
    """Returns the type of Python for a column that users set: YES and NO are bool."""
    if column["kind"] != "enum":
        return "str" if column["kind"] in ("text", "set") else "int"
    has_flag = "YES" in column["values"]
    return "bool | str" if has_flag and len(column["values"]) > 2 else "bool" if has_flag else "str"


def files(root: Path) -> dict[str, str]:
    """Returns the text of each file, by its path below the root of the source tree."""
    from pfs._ui.cli.manual import pages  # needs click

    return {
        **{f"docs/man/{name}": text for name, text in pages().items()},
        "docs/reference/tables.md": _reference(),
        "docs/reference/views.md": _views(),
        "docs/reference/findings.md": _findings(),
        "tests/golden/schema.json": _golden(),
        "python/pfs/_names.pyi": _names(),
        **calls.headers(root),
        "python/pfs/__init__.pyi": _stub(),
        "python/pfs/setup/__init__.pyi": _setup(),
    }


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    roots = [argument for argument in arguments if argument != "--check"]
    root = Path(roots[0] if roots else ".")
    if not (root / "pyproject.toml").exists():
        print(f"{root.absolute()} is not the root of the source tree", file=sys.stderr)
        return 2
    stale = 0
    for path, text in files(root).items():
        place = root / path
        if place.exists() and place.read_text() == text:
            continue
        stale = 1
        if check:
            print(f"{path} is out of date: run python -m pfs._generate")
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            print(f"wrote {path}")
    return stale if check else 0
