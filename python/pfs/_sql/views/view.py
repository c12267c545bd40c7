"""What a view is: one declaration, from which its SQL, its raw twin, its page and its test derive.

An expression writes a time as ``$t(x)``, a size as ``$b(x)`` and a statement as ``$q(x)``. The view formats them; its twin
``x$name`` has the values as they are, as in MySQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["View", "declare"]

# In a view of sys a name without a schema means sys.
_FORMATS = {"$t(": "main.format_pico_time(", "$b(": "main.format_bytes(", "$q(": "sys.format_statement("}


@dataclass(frozen=True, slots=True)
class View:
    """Describes one view.

    Attributes:
        name: in the schema sys.
        doc: a sentence.
        columns: names, in the documented order.
        sql: the SELECT.
    """

    name: str
    doc: str
    columns: tuple[str, ...]
    sql: str


def declare(name: str, doc: str, columns: Mapping[str, str], source: str) -> list[View]:
    """Returns a view, and its twin if it formats anything. `source`: everything behind the columns."""
    text = "SELECT " + ", ".join(f'{expression} AS "{column}"' for column, expression in columns.items()) + " " + source
    formatted = text
    for mark, function in _FORMATS.items():
        formatted = formatted.replace(mark, function)
    views = [View(name, doc, tuple(columns), formatted)]
    raw = re.sub(r"\$[tbq]\(", "(", text)
    if raw != text:
        views.append(View(f"x${name}", doc[:-1] + ", without formatting.", tuple(columns), raw))
    return views
