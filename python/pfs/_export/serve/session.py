"""Answers the statements of one client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import time, timedelta
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from pfs._export.serve import changes
from pfs._export.serve.accounts import account_answer, has_killed
from pfs._export.serve.answers import MOST_ROWS, Answer, Rows, Waiting, answer_of, text_answer
from pfs._export.serve.assigned import without_assignments
from pfs._export.serve.care import Prepared, cared_for
from pfs._export.serve.codes import code_of
from pfs._export.serve.declared import NOTHING
from pfs._export.serve.functions import is_not_in_group, replaced, with_any_values, without_case
from pfs._export.serve.information import SCHEMAS
from pfs._export.serve.origins import origins_of, set_origins
from pfs._export.serve.plans import plan_of
from pfs._export.serve.settings import assign, names_of, set_one
from pfs._export.serve.shows import select_of
from pfs._export.serve.statements import Statement, statements
from pfs._export.serve.status import ADDED, statistics
from pfs._export.serve.stream import ConnectionClosed
from pfs._export.serve.tables import INFORMATION, Served
from pfs._export.serve.transaction import Transaction
from pfs._export.serve.variables import Session, Value, codec_of, of_server
from pfs._export.serve.wire import BINARY, BINARY_VALUE, UTF8, Column, Kind, Refusal, Status, time_text
from pfs._export.serve.workers import Workers
from pfs._sql.query import run
from pfs.errors import Error, InvalidValue, UnknownTable

if TYPE_CHECKING:
    import socket

    from pfs._export.serve.sources import Source
    from pfs._export.serve.stream import Stream

__all__ = ["Client", "Context"]

_DENIED, _UNKNOWN_DATABASE, _UNKNOWN_TABLE, _NO_SUCH_PROCEDURE = 1142, 1049, 1146, 1305
_NO_DATABASE, _NO_SQL, _NO_BINARY_LOG, _UNKNOWN_ENGINE, _IS_OFF = 1046, 1064, 1381, 1286, 1289
_NO_CREATED = {"CREATE PROCEDURE": 1305, "CREATE FUNCTION": 1305, "CREATE TRIGGER": 1360, "CREATE EVENT": 1539}
_OTHER_COUNT, _SEVERAL_ROWS, _INTERRUPTED = 1222, 1172, 1317
_MOST_DESCRIBED = 256
_MOST_WARNINGS = 1024
_LONG = 10_000  # characters that sqlglot parses in 0.1 s
_COLLATIONS = {"latin1": 8, "utf8mb3": 33, "utf8": 33, "ascii": 11}  # of answers; others are utf8mb4's, or that of bytes
_WITHOUT_COLUMNS = {
    "SET", "USE", "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "UPDATE", "TRUNCATE", "INSERT", "DELETE",
    "CREATE", "DROP", "ALTER", "REPLACE", "CALL", "KILL", "LOCK", "FLUSH", "UNLOCK", "DO", "PREPARE", "DEALLOCATE",
}  # fmt: skip
# Statements that change a server, or that take its locks. sqlglot does not know all of them.
_OF_ADMINISTRATORS = {
    "ALTER", "CHANGE", "CREATE", "DROP", "INSTALL", "LOAD", "LOCK", "OPTIMIZE", "PURGE", "RENAME", "REPAIR", "REPLACE", "RESET",
    "REVOKE", "SHUTDOWN", "STOP", "UNINSTALL",
}  # fmt: skip
_ENGINES = {"PERFORMANCE_SCHEMA", "INNODB", "MYISAM", "MEMORY", "CSV", "ARCHIVE", "BLACKHOLE", "ALL"}
_OF_PREPARED = {"PREPARE", "EXECUTE", "DEALLOCATE"}
_GUESSES: tuple[object, ...] = (None, 1, "1")  # values of parameters that nobody knows yet


class Context:
    """Holds what all clients of a server share."""

    def __init__(self, source: Source, listening: socket.socket | None = None, seconds: float = 60) -> None:
        """``seconds``: that a statement may take. REQUIRES: the process has no other thread."""
        self.source = source
        self.seconds = seconds
        self.variables = of_server(source, listening)
        self.tables = Served(source, self.variables)
        self.workers = Workers(self.tables)
        self.turn = asyncio.Semaphore(2)  # what takes time in this process
        self.waiting = Waiting()
        self.described: dict[tuple[str | None, str], Sequence[Column]] = {}  # columns by database and statement
        self.clients: dict[int, Client] = {}  # that are connected, by the number of their connection

    async def begin(self) -> None:
        """Returns when a process has answered a statement: the first one waits for modules, and for DuckDB."""
        given = (dict(self.variables), parsed_duckdb("select 1"), None)
        await self.workers.ask(_answer, *given, seconds=self.seconds, check=lambda: None)


class Client:
    """Is one client.

    Attributes:
        user: its name, once it has logged in.
        status: what each answer says of the session.
        warnings: about its last statement.
    """

    def __init__(self, context: Context, number: int, stream: Stream) -> None:
        """``number``: of the connection."""
        self._context = context
        self._number = number
        self._host = stream.peer()
        self._stream = stream
        self._is_stopped = False
        self.user: str | None = None
        self.database: str | None = None
        self.reset()

    def reset(self) -> None:
        """Forgets all that the client has set."""
        self.variables = Session(self._context.variables, self._context.source)
        self._users: dict[str, Value | None] = {}
        self._transaction = Transaction()
        self._counts = {"FOUND_ROWS": 0, "ROW_COUNT": -1}
        self._prepared = Prepared()
        self.warnings: list[Refusal] = []

    def reset_charset(self, charset: str) -> None:
        """Takes the character set that a login names."""
        self.variables.set_charset(charset)

    @property
    def status(self) -> Status:
        found = Status.AUTOCOMMIT if self.variables["autocommit"] else Status(0)
        return found | Status.IN_TRANS if self._transaction.is_open else found

    @property
    def codec(self) -> str:
        """Python's name for the character set of statements."""
        return codec_of(str(self.variables["character_set_client"]))

    @property
    def answers(self) -> tuple[str, int]:
        """Python's name for the character set of answers, and the number of its collation."""
        name = str(self.variables["character_set_results"])
        return codec_of(name), _COLLATIONS.get(name, UTF8) if codec_of(name) in ("utf-8", "cp1252", "ascii") else BINARY

    def statistics(self) -> str:
        return statistics(self._context.source)

    def use(self, database: str) -> None:
        """Chooses the database of names without one.

        Raises:
            Refusal: there is none.
        """
        if database.lower() not in SCHEMAS:
            raise Refusal(_UNKNOWN_DATABASE, f"Unknown database '{database}': legal are {', '.join(SCHEMAS)}")
        self.database = database.lower()
        self._counts["ROW_COUNT"] = 0

    def _has_mode(self, begin: str) -> bool:
        return any(mode.startswith(begin) for mode in str(self.variables["sql_mode"]).upper().split(","))

    async def statements(self, text: str) -> list[Statement]:
        """Returns the statements of a text."""
        try:
            if len(text) <= _LONG:
                return statements(text, self._has_mode("ANSI"))
            async with self._context.turn:  # other clients must not wait for it
                return await asyncio.to_thread(statements, text, self._has_mode("ANSI"))
        except InvalidValue as error:
            raise Refusal(_NO_SQL, str(error)) from None

    async def described(self, statement: Statement) -> Sequence[Column]:
        """Returns the columns that a statement will have, whatever its parameters are.

        Raises:
            Refusal: it will fail.
        """
        if statement.word(0) in _WITHOUT_COLUMNS:
            return ()
        known, key = self._context.described, (self.database, statement.text)
        if key in known:
            return known[key]
        for guess in _GUESSES if statement.parameters else _GUESSES[:1]:
            try:
                found = (await self._guarded(statement, [guess] * statement.parameters, describe=True)).columns
                break
            except Refusal as refusal:
                reason = refusal
        else:
            raise reason
        for column in found:
            if column.name == "?":  # nothing but a parameter
                column.kind, column.length, column.flags = Kind.VAR_STRING, 65532, 0
        if len(known) >= _MOST_DESCRIBED:
            known.clear()
        if len(statement.text) <= _LONG and "@" not in statement.text:  # variables have values of any type
            known[key] = found
        return found

    async def answered(self, statement: Statement, values: Sequence[object] = ()) -> Answer:
        """Returns the answer to a statement.

        Args:
            values: of its parameters.

        Raises:
            Refusal: it is no statement, or one that nothing answers.
        """
        self._is_stopped = False
        is_about_warnings = statement.word(0) == "SHOW" and statement.word(1) in ("WARNINGS", "COUNT", "ERRORS")
        before, self.warnings = self.warnings, []
        if is_about_warnings:
            self.warnings = before
        found = await self._guarded(statement, values, describe=False)
        if not is_about_warnings:
            self.variables.own["warning_count"] = len(self.warnings)
        self._counts = (
            {"FOUND_ROWS": found.count, "ROW_COUNT": -1} if found.columns else {**self._counts, "ROW_COUNT": found.changed}
        )
        return found

    async def _guarded(self, statement: Statement, values: Sequence[object], describe: bool) -> Answer:
        try:
            return await self._answered(statement, values, describe)
        except Error as error:
            raise Refusal(code_of(error, statement.text), str(error)) from None
        except RecursionError:
            raise Refusal(_NO_SQL, "the statement is nested too deeply") from None

    async def _answered(self, statement: Statement, values: Sequence[object], describe: bool) -> Answer:
        word = statement.word(0)
        if word == "SET":
            await self._set(statement)
            return Answer()
        if word in ("SELECT", "WITH") and (found := statement.without_into()) is not None:
            answer = await self._answered(found[0], values, describe)
            return Answer() if describe else self._taken(answer, found[1])
        schema = self.database or "performance_schema"
        if (done := cared_for(statement, schema, self._context.tables.information)) is not None:
            return done
        if self._transaction.takes(statement, bool(self.variables["autocommit"])):
            return Answer()
        if word == "KILL" and has_killed(statement, self.user, self._context.clients):
            return Answer()
        if word in ("KILL", "SHOW"):
            account = (str(self.user), self._host)
            if (
                done := await asyncio.to_thread(account_answer, statement, *account, self._context.tables.information.threads)
            ) is not None:
                return done
        if word in _OF_PREPARED:
            execution = self._prepared.answered(statement, self._users)
            return Answer() if execution is None else await self._answered(*execution, describe)
        if word == "DO":
            await self._answered(statement.as_select(), values, describe)
            return Answer()
        if word in _OF_ADMINISTRATORS:
            raise self._denied(word, "pfs serve answers SELECT and SHOW")
        if word == "SHOW" and statement.word(1) == "COUNT":
            is_of_errors = statement.text.upper().endswith("ERRORS")
            title = "@@session.error_count" if is_of_errors else "@@session.warning_count"
            return Answer([Column(title, Kind.LONGLONG, 21)], [(0 if is_of_errors else len(self.warnings),)])
        if word == "SHOW" and statement.word(1) == "ENGINE" and statement.word(2) not in _ENGINES:
            raise Refusal(_UNKNOWN_ENGINE, f"Unknown storage engine '{statement.word(2)}'")
        if word == "SHOW" and statement.is_of(["ENGINE INNODB STATUS"]):
            about = "pfs has no InnoDB. sys.innodb_lock_waits has the threads that wait for locks, and who holds them."
            return text_answer(["Type", "Name", "Status"], [("InnoDB", "", about)])
        if word == "SHOW" and (kind := statement.is_of(NOTHING)):
            return await self._show(exp.Show(this=kind), describe)
        if len(statement.text) > _LONG:
            async with self._context.turn:
                tree = await asyncio.to_thread(statement.tree, values)
        else:
            tree = statement.tree(values)
        titles = statement.titles(tree)
        origins = origins_of(tree, schema, self._context.tables.columns_in) if isinstance(tree, exp.Query) else None
        tree = replaced(without_assignments(tree), self.variables, self._users, self._facts())
        if isinstance(tree, exp.Use):
            self.use(tree.this.name)
            return Answer()
        if isinstance(tree, exp.Update | exp.TruncateTable):
            return await self._change(tree)
        if isinstance(tree, exp.Show):
            return await self._show(tree, describe)
        if isinstance(tree, exp.Describe) and isinstance(tree.this, exp.Table):
            target = tree.this
            show = exp.Show(this="COLUMNS", target=exp.to_identifier(target.name), db=target.args.get("db"))
            return await self._show(show, describe)
        if isinstance(tree, exp.Describe) and isinstance(tree.this, exp.Select | exp.SetOperation | exp.Subquery):
            await self._run(tree.this, None, describe=True)  # it is refused if the statement is
            return plan_of(tree)
        if isinstance(tree, exp.Query):
            answer = await self._run(tree, titles, describe)
            set_origins(answer.columns, origins)
            return answer
        if isinstance(tree, exp.Command) and tree.name.upper() == "CALL":
            raise Refusal(_NO_SUCH_PROCEDURE, "PROCEDURE does not exist: pfs has no procedures")
        if (isinstance(tree, exp.Command | exp.Alias | exp.Column) and word != "GRANT") or word == "VALUES":
            raise Refusal(_NO_SQL, f"{statement.text[:80]!r} is no statement that pfs answers")
        raise self._denied(word, "pfs serve answers SELECT and SHOW")

    def stop(self, only_statement: bool) -> None:
        """Ends the statement that runs, if one does, and else the connection, too."""
        self._is_stopped = True
        if not only_statement:
            self._stream.hang_up()

    def _check(self) -> None:
        if self._stream.is_gone():
            raise ConnectionClosed
        if self._is_stopped:
            raise Refusal(_INTERRUPTED, "Query execution was interrupted")

    async def _set(self, statement: Statement) -> None:
        """Does what a SET says, and warns of what it ignores. All values are those before it, as in MySQL."""
        items = statement.values()
        values: list[list[Value | None] | None] = []
        for place, words in enumerate(items):
            names = names_of(words)
            is_known = names[:1] == ["@"] or (names and names[-1].lower() in self.variables)
            select = statement.value_as_select(place) if is_known else None
            values.append(None if select is None else self._only_row(await self._answered(select, (), describe=False), 1))
        before = dict(self._users)
        for words, value in zip(items, values, strict=True):
            try:
                if value is None:
                    self.warnings += set_one(words, self.variables, self._users, before)
                else:
                    assign(names_of(words), value[0], self.variables, self._users)
            except Refusal as refusal:
                if value is None:
                    raise
                self.warnings.append(refusal)
        del self.warnings[_MOST_WARNINGS:]

    def _taken(self, answer: Answer, names: Sequence[str]) -> Answer:
        """Gives variables the values of the only row of an answer. Without a row they stay as they are."""
        if answer.count:
            for name, value in zip(names, self._only_row(answer, len(names)), strict=True):
                assign(["@", name], value, self.variables, self._users)
        return Answer(changed=answer.count)

    @staticmethod
    def _only_row(answer: Answer, count: int) -> list[Value | None]:
        if len(answer.columns) != count:
            raise Refusal(_OTHER_COUNT, "The used SELECT statements have a different number of columns")
        if answer.count != 1:
            raise Refusal(_SEVERAL_ROWS, "Result consisted of more than one row")
        (row,) = next(answer.batches())
        return [value if value is None or isinstance(value, int | str) else _text(value) for value in row]

    def _facts(self) -> dict[str, Value | None]:
        who = f"{self.user}@{self._host}"
        return {
            **dict.fromkeys(("USER", "SYSTEM_USER", "SESSION_USER", "CURRENT_USER"), who),
            **dict.fromkeys(("DATABASE", "SCHEMA", "CURRENT_SCHEMA", "CURRENT_DATABASE"), self.database),
            **dict.fromkeys(("VERSION", "CURRENT_VERSION"), self.variables["version"]),
            "CONNECTION_ID": self._number,
            "LAST_INSERT_ID": 0,
            **self._counts,
        }

    def _denied(self, word: str, why: str) -> Refusal:
        return Refusal(_DENIED, f"{word} command denied to user '{self.user}'@'{self._host}': {why}")

    async def _change(self, tree: exp.Update | exp.TruncateTable) -> Answer:
        writer = self._context.source.writer
        if writer is None:
            word = "UPDATE" if isinstance(tree, exp.Update) else "TRUNCATE"
            raise self._denied(word, "it only reads; start pfs serve with --write")

        def change() -> int:
            if isinstance(tree, exp.Update):
                return changes.update(tree, self._context.source, writer)
            changes.truncate(tree, writer)
            return 0

        async with self._context.turn:
            return Answer(changed=await asyncio.to_thread(change))

    async def _show(self, show: exp.Show, describe: bool) -> Answer:
        kind = show.name.upper()
        schema = (show.text("db") or self.database or "").lower()
        information = self._context.tables.information
        if kind in ("WARNINGS", "ERRORS"):
            answer = text_answer(["Level", "Code", "Message"], [])
            answer.columns[1].kind, answer.columns[1].length = Kind.LONGLONG, 21
            answer.rows = [("Warning", each.code, str(each)) for each in self.warnings if kind == "WARNINGS"]
            return answer
        if kind == "BINARY LOGS":
            raise Refusal(_NO_BINARY_LOG, "You are not using binary logging")
        if kind in ("CREATE DATABASE", "CREATE SCHEMA") and (name := show.text("target").lower()) in SCHEMAS:
            text = f"CREATE DATABASE `{name}` /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci */"
            return text_answer(["Database", "Create Database"], [(name, text)])
        if kind in ("CREATE DATABASE", "CREATE SCHEMA"):
            raise Refusal(_UNKNOWN_DATABASE, f"Unknown database '{show.text('target')}'")
        if kind in ("PROCEDURE CODE", "FUNCTION CODE"):
            raise Refusal(_IS_OFF, f"The 'SHOW {kind}' feature is disabled")
        if kind in _NO_CREATED:
            raise Refusal(_NO_CREATED[kind], f"{kind.removeprefix('CREATE ')} {show.text('target')} does not exist")
        if kind in ("CREATE TABLE", "CREATE VIEW", "COLUMNS", "INDEX"):
            table = show.text("target").lower()
            columns = await asyncio.to_thread(information.types, schema, table)
            if not columns:
                raise Refusal(_UNKNOWN_TABLE, f"Table '{schema}.{table}' doesn't exist")
            if kind.startswith("CREATE"):
                rows, names = information.created(schema, table)
                return text_answer(names, rows)
        if kind in ("TABLES", "TABLE STATUS") and not schema:
            raise Refusal(_NO_DATABASE, "No database selected")
        if kind in ("TABLES", "TABLE STATUS", "TRIGGERS", "EVENTS", "OPEN TABLES") and schema and schema not in SCHEMAS:
            raise Refusal(_UNKNOWN_DATABASE, f"Unknown database '{schema}'")
        select = select_of(show, schema)
        if select is None:
            raise Refusal(_NO_SQL, f"SHOW {kind} is no statement that pfs answers")
        return await self._run(parsed_duckdb(select), None, describe)

    async def _run(self, tree: exp.Expression, titles: Sequence[str | None] | None, describe: bool) -> Answer:
        database = self.database or "performance_schema"
        limit = int(self.variables["sql_select_limit"]) if titles is not None else MOST_ROWS + 1
        named = _named(without_case(tree, database), database)
        if isinstance(named, exp.Query) and (describe or named.args.get("limit") is None):
            # DuckDB stops at an answer that is too large.
            named = named.limit(0 if describe else min(limit, MOST_ROWS + 1))
        try:
            (columns, count), batches = await self._asked(named, titles)
        except InvalidValue as error:
            if not is_not_in_group(error) or self._has_mode("ONLY_FULL_GROUP_BY"):
                raise
            (columns, count), batches = await self._asked(with_any_values(named), titles)
        rows = Rows(count, batches)
        self._context.waiting.add(rows, self._stream.hang_up)
        return Answer(columns, rows)

    async def _asked(self, tree: exp.Expression, titles: Sequence[str | None] | None) -> tuple[Any, list[bytes]]:
        seconds = self._context.seconds
        given = (dict(self.variables), tree, titles)
        return await self._context.workers.ask(_answer, *given, seconds=seconds, check=self._check)


def _text(value: object) -> str:
    if isinstance(value, time | timedelta):
        return time_text(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _answer(
    tables: Served, session: Mapping[str, Value], tree: exp.Expression, titles: Sequence[str | None] | None
) -> tuple[tuple[Sequence[Column], int], Iterable[bytes]]:
    """Answers a statement, in a worker."""
    (columns, count), batches = answer_of(run(tree, tables.of(session), views=tables.views, exact=True), titles)
    if isinstance(tree, exp.Select) and len(tree.expressions) == len(columns):
        for column, item in zip(columns, tree.expressions, strict=True):
            if isinstance(item.unalias(), exp.Null):  # elsewhere NULL takes a type
                column.kind, column.length, column.flags = Kind.NULL, 0, BINARY_VALUE
    return (columns, count), batches


def parsed_duckdb(select: str) -> exp.Expression:
    import sqlglot

    tree: exp.Expression = sqlglot.parse_one(select, read="duckdb")  # type: ignore[assignment, unused-ignore]
    return tree


def _named(tree: exp.Expression, database: str) -> exp.Expression:
    """Returns a tree whose tables have the names that DuckDB gets."""
    tree = tree.copy()
    inner = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function that returns rows
        if table.name.lower() == "dual" and not table.text("db") and isinstance(table.parent, exp.From):
            table.parent.pop()
            continue
        schema = table.text("db").lower() or ("" if table.name.lower() in inner else database)
        if schema == "information_schema" and table.name.lower() in ADDED:  # where MySQL had them before 8.0
            schema = "performance_schema"
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
