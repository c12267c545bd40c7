"""Literals leave a process only where the user asks for them: each kind of text gets a marker of its own, and every command whose
output is sent or shared is searched for all of them. With --sql-text the same commands have the markers.
"""

from __future__ import annotations

import re
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pytest

import pfs
from pfs._export.report import FORMS
from pfs._read.kinds import literals_of
from tests.python import servers
from tests.python._programs.subject import Subject, clean_environment, subject
from tests.python.run.test_run import PFS, run
from tests.python.run.test_run_decode import packed, redis, serving

MARKER = re.compile(rb"marker([a-z]+)7f3a")
TRACED = "performance_schema_trace_enabled=ON,performance_schema_trace_directory={}"

# Texts that a program gives by the API.
GIVEN = """
import logging, sqlite3
db = pfs.dbapi(sqlite3).connect(":memory:")
db.execute("create table t(a text primary key)")
db.execute("insert into t values ('markersql7f3a')")
db.execute("select 'markerselect7f3a' from t").fetchall()
for bad in ("select * from t where a = 'markermessage7f3a", "nonsense 'markererror7f3a'"):
    try: db.execute(bad)
    except sqlite3.Error: pass
with pfs.statement("web/get", text="GET /orders '?name=markerquery7f3a'") as s, pfs.transaction(), pfs.stage("web/render"):
    pass
try:
    with pfs.statement("web/post"): raise ValueError("markerexception7f3a")
except ValueError: pass
pfs.log("markerlog7f3a", "Error")
logging.getLogger("shop").addHandler(pfs.LoggingHandler())
logging.getLogger("shop").error("markerlogging7f3a")
pfs.server.set_user_variable("name", "markervariable7f3a")
pfs.server.set_processlist(command="Query", info="select 'markerinfo7f3a'")
open_one = pfs.statement("app/open", text="select 'markeropen7f3a'")
open_one.__enter__()
"""
OF_GIVEN = {"sql", "select", "message", "query", "exception", "log", "logging", "variable", "info", "open"}

# Texts that pfs run finds in an unchanged program. Arguments: the port of a server of redis, sockets of MariaDB and PostgreSQL.
FOUND = """
import asyncio, http.client, http.server, sqlite3, sys, threading
import asyncpg, httpx, psycopg, psycopg2, pymysql, MySQLdb, redis, requests
port, mariadb, postgresql = sys.argv[1:4]
def refused(call, *arguments, **named):
    try: call(*arguments, **named)
    except Exception: pass
db = sqlite3.connect(":memory:")
db.execute("create table t(a text)")
db.execute("insert into t values ('markersqlite7f3a')")
refused(db.execute, "select 'markersqliteerror7f3a")
client = redis.Redis(port=int(port), password="markerredispassword7f3a")
client.set("k", "markerredis7f3a")
refused(client.execute_command, "INCRBY", "k", "markerrediserror7f3a")
for connect in (lambda: pymysql.connect(unix_socket=mariadb, user="root", database="shop"),
                lambda: MySQLdb.connect(unix_socket=mariadb, user="root", database="shop")):
    cursor = connect().cursor()
    cursor.execute("select 'markermysql7f3a'")
    refused(cursor.execute, "select cast('markermysqlerror7f3a' as nonsense)")
for module in (psycopg2, psycopg):
    cursor = module.connect(postgresql).cursor()
    cursor.execute("select 'markerpg7f3a'")
    cursor.execute("select %s", ("markerpgparameter7f3a",))
    refused(cursor.execute, "select 'markerpgerror7f3a'::int")
async def ask():
    words = dict(word.split("=") for word in postgresql.split())
    db = await asyncpg.connect(host=words["host"], user=words["user"], database=words["dbname"])
    await db.fetch("select 'markerasyncpg7f3a'")
    await db.close()
asyncio.run(ask())
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404, "no markerreason7f3a")
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
at = "127.0.0.1:%d" % server.server_port
requests.get(f"http://bob:markeruser7f3a@{at}/orders/7?name=markerurl7f3a")
httpx.get(f"http://{at}/orders/7?name=markerhttpx7f3a")
link = http.client.HTTPConnection(at)
link.request("GET", "/orders/7?name=markerhttp7f3a")
link.getresponse()
server.shutdown()
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.instance().run_cell("a = 'markercell7f3a'", store_history=True)
"""


class Outputs:
    """Runs commands, and finds the markers in what they write."""

    def __init__(self, folder: Path, segments: Path) -> None:
        self.folder, self._environment = folder, clean_environment(segments)

    def of(self, *words: str | Path, file: str = "") -> bytes:
        """Returns everything that a command has written: its outputs, and a file or folder of this name."""
        done = run(*PFS, *words, env=self._environment, check=True, cwd=self.folder)
        return (done.stdout + done.stderr).encode() + (contents(self.folder / file) if file else b"")


def contents(path: Path) -> bytes:
    """Returns the bytes of a file, or of all files of a folder. Those of Arrow and Parquet are written as text."""
    if path.is_dir():
        return b"".join(contents(each) for each in sorted(path.rglob("*")) if each.is_file())
    if path.suffix == ".parquet":
        import pyarrow.parquet  # type: ignore[import-untyped, unused-ignore]

        return repr(pyarrow.parquet.read_table(path).to_pydict()).encode()
    if path.suffix != ".zip":
        return path.read_bytes()
    found = b""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            found += repr(pa.ipc.open_stream(data).read_all().to_pydict()).encode() if name.endswith(".arrow") else data
    return found


def markers(text: bytes) -> set[str]:
    return {found.decode() for found in MARKER.findall(text)}


Command = Callable[[Outputs, Path, tuple[str, ...]], bytes]
ASKED = ("--sql-text",)
# Commands that leave texts out unless they are asked.
OPTIONAL: dict[str, Command] = {
    "collect": lambda out, _, more: out.of("collect", "--once", "--to", "cuts", "--also", "%", *more, file="cuts"),
    "summaries": lambda out, path, more: out.of("snapshot", path, "s.pfs.zip", "--summaries", "--force", *more, file="s.pfs.zip"),
    "otel": lambda out, path, more: out.of("otel", path, "-o", "spans.jsonl", "--min-wait", "0", *more, file="spans.jsonl"),
}
# Commands that never write them.
NEVER: dict[str, Command] = {
    "metrics": lambda out, path, _: out.of("metrics", path),
    "compat": lambda out, _, __: out.of("metrics", "--compat"),
    "textfile": lambda out, _, __: out.of("metrics", "--textfile", "m.prom", file="m.prom"),
    "top": lambda out, path, _: out.of(
        "top", path, "--batch", "--count", "1", "--interval", "0.1", "--svg", "t.svg", file="t.svg"
    ),
    "report": lambda out, path, _: b"".join(out.of("report", path, "--format", form) for form in FORMS),
    "samples": lambda out, path, _: out.of("report", path, "--for", "0.2s", "-o", "r.html", file="r.html"),
    "fleet": lambda out, _, __: out.of("top", "--fleet", "cuts", "--batch", "--count", "1"),
}


def check(out: Outputs, path: Path, there: set[str]) -> None:
    """Nothing has a marker. With --sql-text each command has some, and all of them together have `there`."""
    for name, command in (OPTIONAL | NEVER).items():
        assert markers(command(out, path, ())) == set(), name
    asked = {name: markers(command(out, path, ASKED)) for name, command in OPTIONAL.items()}
    assert all(asked.values()), asked
    assert there <= set().union(*asked.values()), asked


def test_texts_that_a_program_gives(tmp_path: Path) -> None:
    segments, out = tmp_path / "segments", Outputs(tmp_path, tmp_path / "segments")
    program = Subject(segments, PFS_OPTIONS=TRACED.format(tmp_path / "trace"))
    try:
        program.do(GIVEN)
        check(out, program.path, OF_GIVEN)
        with pfs.attach(program.path) as schema:
            shown = "".join(schema.table(name)[[*literals_of(name)]].to_csv() for name in schema.tables() if literals_of(name))
        assert markers(shown.encode()) >= OF_GIVEN
    finally:
        program.close()
    for form in ("chrome", "perfetto"):
        export = ("trace", "export", "trace", "-f", form, "-o", "timeline")
        assert markers(out.of(*export, file="timeline")) == set()
        assert markers(out.of(*export, *ASKED, file="timeline")) >= {"sql", "select", "query", "exception"}
    assert markers(contents(tmp_path / "trace")) >= {"sql"}  # the files themselves have every event
    assert stat.S_IMODE((tmp_path / "trace").stat().st_mode) == 0o700


def test_whole_snapshots_are_for_their_user_alone(tmp_path: Path) -> None:
    out = Outputs(tmp_path, tmp_path / "segments")
    program = Subject(tmp_path / "segments")
    try:
        program.do(GIVEN)
        for name in ("all.pfs.zip", "all"):
            assert markers(out.of("snapshot", program.path, name, file=name)) >= OF_GIVEN
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) & 0o077 == 0
        refused = run(*PFS, "snapshot", program.path, "x.pfs.zip", *ASKED, cwd=tmp_path)
        assert (refused.returncode, "--sql-text needs --summaries" in refused.stderr) == (2, True)
    finally:
        program.close()


@pytest.fixture
def databases() -> Iterator[list[str]]:
    with servers.mariadb() as mariadb, servers.postgresql() as postgresql:
        yield [mariadb, f"{postgresql} dbname=shop"]


@pytest.mark.needs("redis")
def test_texts_that_pfs_run_finds(tmp_path: Path, databases: list[str]) -> None:
    """Of the drivers in a program, and of the commands that a server decodes."""
    for module in ("httpx", "asyncpg", "redis", "psycopg2", "psycopg", "MySQLdb", "pymysql", "requests", "IPython"):
        pytest.importorskip(module)
    segments, out = tmp_path / "segments", Outputs(tmp_path, tmp_path / "segments")
    program = tmp_path / "program.py"
    program.write_text(FOUND)
    password = "markerredispassword7f3a"
    server = tmp_path / "server"
    server.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PFS_DIR", str(segments))
        (server / "redis.conf").write_text(f"requirepass {password}\n")  # a command line is shown

        def command(port: int) -> list[str]:
            program, *options = redis(port)
            return [program, "redis.conf", *options]

        with serving(command, server, "--decode", "redis", "--keep") as store:
            report = ("run", "--keep", "--limit", "1000", "--json", "-o", "report.json", "--")
            written = out.of(*report, sys.executable, program, str(store.port), *databases, file="report.json")
            with store.connect() as link:
                link.sendall(
                    packed("AUTH", password) + packed("SET", "k", "markerdecoded7f3a") + packed("NOSUCH", "markerunknown7f3a")
                )
                while b"unknown" not in link.recv(1 << 16):
                    pass
    assert markers(written) == set()
    assert b"SELECT ?" in written
    texts = out.of(
        "run", "--limit", "1000", "--", sys.executable, "-c", "import sqlite3; sqlite3.connect('').execute('select 471147114711')"
    )
    assert b"SELECT ?" in texts
    assert b"471147114711" not in texts.partition(b"Statements")[2]
    found = {
        "sqlite", "sqliteerror", "redis", "mysql", "pg", "asyncpg", "url", "httpx", "http", "cell", "decoded", "unknown",
    }  # fmt: skip
    all_paths = sorted(segments.rglob("*.pfs"))
    assert len(all_paths) == 2
    for path in all_paths:
        for name, command_of in (OPTIONAL | NEVER).items():
            if name != "samples":  # the processes have ended
                assert markers(command_of(out, path, ())) == set(), name
    asked = set().union(*(markers(OPTIONAL[name](out, path, ASKED)) for name in ("otel", "summaries") for path in all_paths))
    assert asked >= found
    assert "redispassword" not in asked  # it is masked where it is recorded
    assert "user" not in asked


SECRET = "ALTER USER bob IDENTIFIED BY 'markerpassword7f3a'"


@pytest.mark.parametrize("normalizer", ["sql", "mysql", "identity"])
def test_secrets_are_masked_where_they_are_recorded(normalizer: str, tmp_path: Path) -> None:
    """In every table, whatever makes digests; also of a text that comes again, and of one that is too long for its column."""
    with subject(
        tmp_path,
        PFS_OPTIONS=f"performance_schema_digest_normalizer={normalizer},performance_schema_events_statements_history_long_size=100",
    ) as program:
        program.do(
            f"""
            for number in range(3):
                with pfs.statement("sql/alter_user", text={SECRET!r}): pass
            with pfs.statement("sql/long", text={SECRET!r} + " " * 5000): pass
            with pfs.statement("sql/other", text="ALTER USER bob ACCOUNT LOCK"): pass
            pfs.server.set_processlist(command="Query", info={SECRET!r})
            running = pfs.statement("sql/alter_user", text={SECRET!r}); running.__enter__()
            """
        )
        with pfs.attach(program.path) as schema:
            assert markers("".join(schema.table(name).to_csv() for name in schema.tables()).encode()) == set()
            texts = schema.table("events_statements_history_long")["SQL_TEXT"].to_list()
            assert texts[:3] == ["ALTER USER bob IDENTIFIED BY <secret>"] * 3
            assert texts[3].startswith(texts[0])
            assert texts[4] == "ALTER USER bob ACCOUNT LOCK"
            assert set(schema.table("threads")["PROCESSLIST_INFO"].dropna()) == {texts[0]}
        assert SECRET.encode()[-20:] not in program.path.read_bytes()


# Statements whose errors quote what their texts hide, each in a way of its own.
FAILING = """
import sqlite3, threading
db = pfs.dbapi(sqlite3).connect(":memory:")
def failing(call, *arguments):
    try: call(*arguments)
    except Exception: pass
for text in ("pragma key = 'markerkey7f3a", "attach 'x' as y key 'markerattach7f3a", "pragma rekey = 'markerrekey7f3a' oops"):
    failing(db.execute, text)
with pfs.statement("sql/set", text="ALTER USER bob IDENTIFIED BY 'markerset7f3a'") as s:
    s.error(1064, "42000", "near 'markerset7f3a'")
with pfs.statement("sql/warning", text="SET PASSWORD = 'markerwarning7f3a'") as s:
    s.error(0, "01000", "'markerwarning7f3a' is weak")
with pfs.statement("sql/before") as s:  # the error comes before the text
    s.error(1064, "42000", "near 'markerbefore7f3a'")
    s.text = "ALTER USER bob IDENTIFIED BY 'markerbefore7f3a'"
def around(text):
    with pfs.statement("web/get", text="GET /users"), pfs.statement("web/view"):
        with pfs.statement("sql/inner", text=text): raise ValueError(text)
failing(around, "ALTER USER bob IDENTIFIED BY 'markeraround7f3a'")
s = pfs.statement("sql/elsewhere", text="ALTER USER bob IDENTIFIED BY 'markerelsewhere7f3a'").begin()
t = pfs.statement("sql/text_elsewhere").begin()
def end():
    s.error(1064, "42000", "near 'markerelsewhere7f3a'")
    s.end()
    t.text = "ALTER USER bob IDENTIFIED BY 'markertext7f3a'"
    t.error(1064, "42000", "near 'markertext7f3a'")
    t.end()
thread = threading.Thread(target=end)
thread.start()
thread.join()
failing(db.execute, "select a from nowhere")
with pfs.statement("sql/open", text="ALTER USER bob IDENTIFIED BY 'markeropen7f3a'") as s:
    pass
with pfs.statement("web/later") as s:
    s.error(7, "HY000", "seven")
"""


@pytest.mark.parametrize("longest", [1024, 0])
def test_messages_that_quote_secrets_are_masked(longest: int, tmp_path: Path) -> None:
    """``unrecognized token: "'p4ssword"`` was shown beside ``pragma key = <secret>``."""
    options = f"{TRACED.format(tmp_path / 'trace')},performance_schema_max_sql_text_length={longest}"
    with subject(tmp_path, PFS_OPTIONS=f"{options},performance_schema_events_statements_history_long_size=100") as program:
        program.do(FAILING)
        with pfs.attach(program.path) as schema:
            assert markers("".join(schema.table(name).to_csv() for name in schema.tables()).encode()) == set()
            rows = schema.table("events_statements_history_long")
        assert markers(program.path.read_bytes()) == set()
        out = Outputs(tmp_path, tmp_path)
        for name, command in OPTIONAL.items():
            assert markers(command(out, program.path, ASKED)) == set(), name
    assert markers(contents(tmp_path / "trace")) == set()
    shown = {
        name: (row["MYSQL_ERRNO"], row["RETURNED_SQLSTATE"], row["MESSAGE_TEXT"])
        for name, row in zip(rows["EVENT_NAME"].str.removeprefix("statement/"), rows.to_dict("records"), strict=True)
    }
    refused = (1064, "42000", "<secret>")
    assert {name: shown[f"sql/{name}"] for name in ("set", "before", "elsewhere", "text_elsewhere")} == {
        "set": refused, "before": refused, "elsewhere": refused, "text_elsewhere": refused,
    }  # fmt: skip
    assert shown["sql/warning"] == (0, "01000", "<secret>")
    assert {shown[name][2] for name in ("web/get", "web/view", "sql/inner")} == {"<secret>"}
    assert shown["web/later"] == (7, "HY000", "seven")
    messages = rows["MESSAGE_TEXT"].dropna().to_list()
    assert messages.count("<secret>") == 11
    assert [m for m in messages if m != "<secret>"] == ["OperationalError: no such table: nowhere", "seven"]


def test_every_text_of_a_value_is_declared() -> None:
    """A new column of free text must be added here, as a name or as a text that can hold values."""
    free = {"longtext", "text", "mediumtext", "longblob"}
    texts = {
        (name, column["name"])
        for name in pfs.tables()
        for column in pfs._core.table_info(name)["columns"]
        if column["sql_type"] in free
    }
    names = {(name, column) for name, column in texts if column in ("DIGEST_TEXT", "DOCUMENTATION")}
    names.add(("busiest", "NAME"))  # a digest, an instrument or a file
    unmarked = {(name, column) for name, column in texts - names if column not in literals_of(name)}
    assert unmarked <= {("variables_metadata", "DOCUMENTATION")}, unmarked
