"""Translates SHOW and DESCRIBE to SELECTs, so that LIKE and WHERE mean what they mean elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfs._export.serve.declared import NOTHING, SHOWN, columns

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["select_of"]

_VARIABLES = {"STATUS": "global_status", "VARIABLES": "session_variables"}
_DUCKDB = {"text": "VARCHAR", "int64": "BIGINT", "uint64": "UBIGINT", "double": "DOUBLE", "decimal": "DECIMAL(9, 6)"}


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _titled(words: str) -> tuple[str, str]:
    """Returns the columns of a SELECT, and the first title."""
    pairs = [
        (title.replace("~", " "), column or title.upper()) for title, _, column in (each.partition("=") for each in words.split())
    ]
    return ", ".join(f"{_name(column)} AS {_name(title)}" for title, column in pairs), pairs[0][0]


def select_of(show: exp.Show, database: str) -> str | None:
    """Returns the SELECT, in the dialect of DuckDB, or None if there is none."""
    kind = show.name.upper()
    schema = (show.text("db") or database).lower().replace("\0", "")  # DuckDB 1.5 cannot have it in a title
    full = f"FULL {kind}"
    if kind in _VARIABLES:
        table, about = _VARIABLES[kind], "Variable_name"
        table = table.replace("session", "global") if show.args.get("global_") else table
        inner = f'SELECT VARIABLE_NAME AS "Variable_name", VARIABLE_VALUE AS "Value" FROM performance_schema.{table} ORDER BY 1'
    elif kind in NOTHING:
        made = [f"CAST(NULL AS {_DUCKDB[kind]}) AS {_name(title)}" for title, kind in columns(NOTHING[kind])]
        inner, about = f"SELECT {', '.join(made)} WHERE false", columns(NOTHING[kind])[0][0]
    elif kind in SHOWN:
        table, words, rest = SHOWN[full if show.args.get("full") and full in SHOWN else kind]
        chosen, about = _titled(words)
        chosen, about = (each.replace("{of}", of) for each, of in ((chosen, schema.replace('"', '""')), (about, schema)))
        rest = rest.format(schema=_text(schema), table=_text(show.text("target").lower()))
        inner = f"SELECT {chosen} FROM information_schema.{table} {rest}"
    else:
        return None
    like, where = show.args.get("like"), show.args.get("where")
    if like is not None:
        title = f"{about} ({like.name})".replace("\0", "") if kind in ("TABLES", "DATABASES") else about  # as in MySQL
        renamed = "" if title == about else f" RENAME ({_name(about)} AS {_name(title)})"
        return f"SELECT *{renamed} FROM ({inner}) AS shown WHERE {_name(about)} LIKE {_text(like.name)}"
    if where is not None:
        return f"SELECT * FROM ({inner}) AS shown {where.sql(dialect='duckdb')}"
    return inner
