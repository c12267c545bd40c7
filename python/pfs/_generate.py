"""Files that are made from the declarations of the tables:

    python -m pfs._generate [ROOT]      writes them below the root of the source tree
    python -m pfs._generate --check     says which ones are out of date; exit code 1 if any is

docs/reference/tables.md (what every table and column means), tests/golden/schema.json (changed only on purpose), and
python/pfs/_names.pyi (names of tables for type checkers and editors).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pfs import _core

__all__ = ["files"]

_MADE = "Made by `python -m pfs._generate` from the declarations in cpp/src/tables. Do not edit."


def _facts() -> list[_core.TableFacts]:
    return [_core.facts(name) for name in _core.tables()]


def _reference() -> str:
    lines = ["# Tables", "", f"<!-- {_MADE} -->", ""]
    lines += [
        "Times (TIMER_*) are picoseconds since the start of the program. `pfs.table(name)` gives a table as a DataFrame, "
        "`pfs.ddl(name)` its CREATE TABLE text, `pfs.describe(name)` the columns below as a DataFrame.",
        "",
    ]
    lines += [f"- [{facts['name']}](#{facts['name']}): {facts['doc']}" for facts in _facts()]
    for facts in _facts():
        lines += ["", f"## {facts['name']}", "", facts["doc"], ""]
        lines += [f"Operations: {', '.join(facts['operations'])}. "]
        lines[-1] += f"Key: {', '.join(facts['key'])}." if facts["key"] else "No key."
        lines[-1] += " Readable when pfs is off." if facts["available_when_disabled"] else ""
        lines += ["", "| column | type | null | unit | |", "| --- | --- | --- | --- | --- |"]
        for column in facts["columns"]:
            written = " Can be updated." if column["writable"] else ""
            null = "NULL" if column["nullable"] else ""
            sql_type = column["sql_type"].replace("|", "\\|")
            lines.append(f"| {column['name']} | {sql_type} | {null} | {column['unit']} | {column['doc']}{written} |")
    return "\n".join(lines) + "\n"


def _golden() -> str:
    tables = {
        facts["name"]: {
            "operations": list(facts["operations"]),
            "key": list(facts["key"]),
            "available_when_disabled": facts["available_when_disabled"],
            "columns": [
                {
                    "name": column["name"],
                    "type": column["sql_type"],
                    "nullable": column["nullable"],
                    "writable": column["writable"],
                    "unit": column["unit"],
                    "combine": column["combine"],
                }
                for column in facts["columns"]
            ],
        }
        for facts in _facts()
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


def _names() -> str:
    names = "".join(f"    {json.dumps(name)},\n" for name in _core.tables())
    return f"# {_MADE}\nfrom typing import Literal, TypeAlias\n\nTableName: TypeAlias = Literal[\n{names}]\n"


def files() -> dict[str, str]:
    """Path below the root of the source tree -> text."""
    return {
        "docs/reference/tables.md": _reference(),
        "tests/golden/schema.json": _golden(),
        "python/pfs/_names.pyi": _names(),
    }


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    roots = [argument for argument in arguments if argument != "--check"]
    root = Path(roots[0] if roots else ".")
    if not (root / "pyproject.toml").exists():
        print(f"{root.absolute()} is not the root of the source tree", file=sys.stderr)
        return 2
    stale = 0
    for path, text in files().items():
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
