"""Answers the statements of one client."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mysql_mimic import Session
from mysql_mimic.errors import SQLSTATES, ErrorCode, MysqlError
from mysql_mimic.variables import SYSTEM_VARIABLES, GlobalVariables, SessionVariables
from sqlglot import exp

from pfs._serve import changes
from pfs._serve.answers import MOST_ROWS, Waiting, answer_of
from pfs._serve.information import SCHEMAS
from pfs._serve.shows import select_of
from pfs._serve.status import added_variables
from pfs._serve.tables import INFORMATION, Served
from pfs._sql.mysql import parsed, translated_tree
from pfs._sql.query import run
from pfs.errors import Error, InvalidValue, OperationNotAllowed, UnknownColumn, UnknownTable

if TYPE_CHECKING:
    from mysql_mimic.connection import Connection
    from mysql_mimic.results import AllowedResult, ResultSet
    from mysql_mimic.session import Query

    from pfs._serve.sources import Source

__all__ = ["MOST_BYTES", "Client", "Context"]

_DENIED, _UNKNOWN_DATABASE, _UNKNOWN_TABLE, _UNKNOWN_COLUMN, _NO_SUCH_PROCEDURE, _NO_MEMORY = 1142, 1049, 1146, 1054, 1305, 1041
_CODES: tuple[tuple[type[Error], int], ...] = (
    (UnknownTable, _UNKNOWN_TABLE),
    (UnknownColumn, _UNKNOWN_COLUMN),
    (OperationNotAllowed, _DENIED),
    (InvalidValue, ErrorCode.PARSE_ERROR),
)
SQLSTATES.update(dict.fromkeys((_DENIED, _UNKNOWN_DATABASE, _NO_SUCH_PROCEDURE), b"42000"))
SQLSTATES.update({_UNKNOWN_TABLE: b"42S02", _UNKNOWN_COLUMN: b"42S22"})
MOST_BYTES = 1 << 18  # of a statement: sqlglot takes 2 s and 150 MB for so many
_LONG = 10_000  # characters that sqlglot parses in 0.1 s
_MOST_TITLE = 64  # characters of the title of a column


def failure(code: int, text: str) -> MysqlError:
    return MysqlError(text, code)


class Context:
    """Holds what all clients of a server share."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tables = Served(source)
        self.turn = asyncio.Semaphore(2)  # statements that run at one time: each may take memory
        self.waiting = Waiting()
        known = dict(SYSTEM_VARIABLES)
        for name, value in added_variables(source).items():
            known[name] = (str, value, False)
        known["performance_schema"] = (bool, True, False)
        known["max_allowed_packet"] = (int, MOST_BYTES, False)
        known["sql_mode"] = (str, "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES", True)
        self.variables = GlobalVariables(known)


class Client(Session):  # type: ignore[misc]
    """Is one client. mysql-mimic calls it."""

    def __init__(self, context: Context) -> None:
        super().__init__(SessionVariables(context.variables))
        self._context = context
        self._trees: tuple[str, list[Any]] = ("", [])  # of a statement that a thread has parsed
        self.middlewares = [self._set_var_middleware, self._lenient_set, self._use_middleware]

    async def init(self, connection: Connection) -> None:
        # mysql-mimic goes on after it has denied a user: the connection must end here.
        if self.username is None:
            raise failure(ErrorCode.ACCESS_DENIED_ERROR, "Access denied")
        await super().init(connection)

    async def use(self, database: str) -> None:
        if database.lower() not in SCHEMAS:
            raise failure(_UNKNOWN_DATABASE, f"Unknown database '{database}': legal are {', '.join(SCHEMAS)}")
        self.database = database.lower()

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> AllowedResult:
        try:
            if len(sql) > _LONG:  # other clients must not wait for it
                async with self._context.turn:
                    self._trees = sql, await asyncio.to_thread(parsed, sql)
            return await super().handle_query(sql, attrs)
        except Error as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), ErrorCode.UNKNOWN_ERROR)
            is_large = str(error).startswith("Out of Memory")  # DuckDB's words
            raise failure(_NO_MEMORY if is_large else code, str(error)) from None
        except RecursionError:
            raise failure(ErrorCode.PARSE_ERROR, "the statement is nested too deeply") from None
        finally:
            self._trees = "", []

    def _parse(self, sql: str) -> list[Any]:
        text, trees = self._trees
        return list(trees if text == sql else parsed(sql))

    async def _lenient_set(self, query: Query) -> AllowedResult:
        """Ignores variables that it does not know: clients set many."""
        if not isinstance(query.expression, exp.Set):
            return await query.next()
        try:
            return await self._set_middleware(query)
        except (MysqlError, KeyError, ValueError, AttributeError, TypeError):
            return [], []

    async def query(self, expression: exp.Expression, sql: str, attrs: dict[str, str]) -> AllowedResult:
        if isinstance(expression, exp.Transaction | exp.Commit | exp.Rollback):
            return [], []
        if isinstance(expression, exp.Update | exp.TruncateTable):
            return await self._change(expression)
        if isinstance(expression, exp.Show):
            return await self._show(expression)
        if isinstance(expression, exp.Describe) and isinstance(expression.this, exp.Table):
            target = expression.this
            show = exp.Show(this="COLUMNS", target=exp.to_identifier(target.name), db=target.args.get("db"))
            return await self._show(show)
        if isinstance(expression, exp.Query | exp.Describe):
            return await self._run(expression, titles=True)
        if isinstance(expression, exp.Command) and expression.name.upper() == "CALL":
            raise failure(_NO_SUCH_PROCEDURE, "PROCEDURE does not exist: pfs has no procedures")
        word = (sql.split() or [""])[0].upper()
        if isinstance(expression, exp.Command | exp.Alias | exp.Column) and word not in ("LOCK", "FLUSH", "GRANT"):
            raise failure(ErrorCode.PARSE_ERROR, f"{sql[:80]!r} is no statement that pfs answers")
        raise failure(_DENIED, f"{word} command denied to user '{self.username}'@'localhost': pfs serve answers SELECT and SHOW")

    async def _change(self, tree: exp.Update | exp.TruncateTable) -> AllowedResult:
        word = "UPDATE" if isinstance(tree, exp.Update) else "TRUNCATE"
        writer = self._context.source.writer
        if writer is None:
            hint = "start pfs serve with --write"
            raise failure(_DENIED, f"{word} command denied to user '{self.username}'@'localhost': it only reads; {hint}")

        def change() -> None:
            if isinstance(tree, exp.Update):
                changes.update(tree, self._context.source, writer)
            else:
                changes.truncate(tree, writer)

        async with self._context.turn:
            await asyncio.to_thread(change)
        return [], []

    async def _show(self, show: exp.Show) -> AllowedResult:
        kind = show.name.upper()
        schema = (show.text("db") or self.database or "").lower()
        information = self._context.tables.information
        if kind in ("CREATE TABLE", "CREATE VIEW", "COLUMNS", "INDEX"):
            table = show.text("target").lower()
            columns = await asyncio.to_thread(information.types, schema, table)
            if not columns:
                raise failure(_UNKNOWN_TABLE, f"Table '{schema}.{table}' doesn't exist")
            if kind.startswith("CREATE"):
                return information.created(schema, table)
        if kind in ("TABLES", "TABLE STATUS") and not schema:
            raise failure(ErrorCode.NO_DB_ERROR, "No database selected")
        select = select_of(show, schema)
        if select is None:
            raise failure(ErrorCode.PARSE_ERROR, f"SHOW {kind} is no statement that pfs answers")
        return await self._run(parsed_duckdb(select), titles=False)

    async def _run(self, tree: exp.Expression, titles: bool) -> AllowedResult:
        is_plan = isinstance(tree, exp.Describe)
        database = self.database or "performance_schema"

        def answer() -> ResultSet:
            named = _named(tree.this if is_plan else tree, database, titles)
            if not is_plan and isinstance(named, exp.Query) and named.args.get("limit") is None:
                named = named.limit(MOST_ROWS + 1)  # so that DuckDB stops at an answer that is too large
            text = translated_tree(named)
            return answer_of(run(("explain " if is_plan else "") + text, self._context.tables))

        async with self._context.turn:
            answered = await asyncio.to_thread(answer)
            self._context.waiting.add(answered.rows, self.connection.stream.reader.hang_up)
            return answered


def parsed_duckdb(select: str) -> exp.Expression:
    import sqlglot

    tree: exp.Expression = sqlglot.parse_one(select, read="duckdb")  # type: ignore[assignment, unused-ignore]
    return tree


def _named(tree: exp.Expression, database: str, titles: bool) -> exp.Expression:
    """Returns a tree whose tables have the names that DuckDB gets, and whose columns have the titles of MySQL."""
    tree = tree.copy()
    inner = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function that returns rows
        if table.name.lower() == "dual" and not table.text("db") and isinstance(table.parent, exp.From):
            table.parent.pop()
            continue
        schema = table.text("db").lower() or ("" if table.name.lower() in inner else database)
        if schema not in ("", *SCHEMAS):
            raise UnknownTable(f"Table '{schema}.{table.name}' doesn't exist")
        if schema == "information_schema":
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            table.set("this", exp.to_identifier(INFORMATION + table.name.lower(), quoted=True))
            table.set("db", None)
        elif schema:
            table.set("db", exp.to_identifier(schema))
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):
        column.set("db", None)  # schema.table.column
        column.set("catalog", None)
        if column.name.upper() == "VARIABLE_NAME":
            _ignore_case(column)
    if titles and isinstance(tree, exp.Select):
        for item in tree.expressions:
            if not isinstance(item, exp.Alias | exp.Column | exp.Star) and not item.is_star:
                item.replace(exp.alias_(item.copy(), item.sql(dialect="mysql")[:_MOST_TITLE], quoted=True))
    return tree


def _ignore_case(column: exp.Column) -> None:
    """Compares a column with texts as MySQL does: clients write names of variables in any case."""
    parent = column.parent
    is_compared = isinstance(parent, exp.EQ | exp.In) and parent.this is column
    texts = [parent.expression] if isinstance(parent, exp.EQ) else parent.expressions if isinstance(parent, exp.In) else []
    if is_compared and texts and all(isinstance(text, exp.Literal) and text.is_string for text in texts):
        column.replace(exp.Lower(this=column.copy()))
        for text in texts:
            text.set("this", text.name.lower())
