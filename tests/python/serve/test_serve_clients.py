"""pfs serve and clients that no one here wrote: each reads the same things through its own driver.

Those that are missing are skipped: tests/README.md, "Not in the gate", says which packages have them.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import pfs
from tests.python._programs.subject import subject

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from tests.python.serve.serving import WORK, serving

FOLDER = Path(__file__).parents[2] / "programs" / "served"
DRIVER = Path("/usr/share/java/mariadb-java-client.jar")
ADMINER = Path("/usr/share/adminer")
GO = Path("/usr/share/gocode")
PHPMYADMIN = Path("/usr/share/phpmyadmin")


@dataclass
class Served:
    """Where a program is served, and what clients read there."""

    path: str
    port: str
    wanted: dict[str, str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("clients")
    secret = folder / "secret"
    secret.write_text("hush\n")
    secret.chmod(0o600)
    with ExitStack() as stack:
        program = stack.enter_context(subject(folder))
        program.do(WORK)
        path = stack.enter_context(serving(str(program.path), "--socket", str(folder / "s")))
        address = stack.enter_context(serving(str(program.path), "--port", "0", "--password-file", str(secret)))
        with pfs.attach(str(program.path)) as schema:
            name = schema.table("threads").NAME[0]
            wanted = {
                "answers": "1 2",
                "bounded": "2",
                "columns": str(len(schema.table("threads").columns)),
                "cursor": str(len(schema.table("setup_instruments"))),
                "described": "THREAD_ID BIGINT UNSIGNED",
                "error": "1142 42000",
                "key": "THREAD_ID",
                "prepared": f"1 {name} 1.5",
                "state": "Uptime: ",
                "time": "true",
                "titles": "version() Max(THREAD_ID)",
                "transaction": "true",
                "user": "you@localhost sys",
                "valid": "true",
                "values": "2024-02-29 01:02:03.0 3",
            }
        yield Served(path, address.rpartition(":")[2], wanted)


def check(place: Served, things: str, *command: str | Path, **more: str) -> None:
    """Runs a client, which must read these things, and nothing else."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, "LC_ALL": "C.UTF-8", **more}, check=False
    )
    found = {key: value.strip() for key, _, value in (line.partition(": ") for line in done.stdout.splitlines())}
    assert found == {key: place.wanted[key].strip() for key in things.split()}, done.stderr
    assert done.returncode == 0, done.stderr


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def needs(*command: str, **more: str) -> None:
    if subprocess.run(command, capture_output=True, env={**os.environ, **more}, check=False).returncode:
        pytest.skip(f"fails: {' '.join(command)}")


def test_ruby(place: Served) -> None:
    needs(tool("ruby"), "-rmysql2", "-e", "")
    check(place, "prepared titles time error answers", "ruby", FOLDER / "client.rb", place.path)


@pytest.mark.parametrize("driver", ["mysql", "MariaDB"])
def test_perl(place: Served, driver: str) -> None:
    needs(tool("perl"), f"-MDBD::{driver}", "-e", "")
    more = " state" if driver == "mysql" else ""
    check(place, "prepared titles error key columns" + more, "perl", FOLDER / "client.pl", driver, place.path)


def test_php(place: Served) -> None:
    needs(tool("php"), "-r", "exit(class_exists('mysqli') && in_array('mysql', PDO::getAvailableDrivers()) ? 0 : 1);")
    check(place, "prepared cursor titles answers state error user transaction", "php", FOLDER / "client.php", place.path)


def test_node(place: Served) -> None:
    where = "/usr/share/nodejs:/usr/lib/nodejs"  # of Debian, where a node of others does not look
    needs(tool("node"), "-e", "require('mysql')", NODE_PATH=where)
    check(place, "answers titles time error user", "node", FOLDER / "client.js", place.path, NODE_PATH=where)


def test_go(place: Served, tmp_path: Path) -> None:
    if not (GO / "src/github.com/go-sql-driver/mysql").exists():
        pytest.skip("needs golang-github-go-sql-driver-mysql-dev")
    more = {"GOPATH": str(GO), "GO111MODULE": "off", "GOCACHE": str(tmp_path)}
    known = "prepared titles time cursor columns answers transaction error"
    check(place, known, tool("go"), "run", FOLDER / "client.go", place.path, **more)


def test_r(place: Served) -> None:
    needs(tool("Rscript"), "-e", "library(RMySQL)")
    check(place, "prepared titles columns cursor error", "Rscript", FOLDER / "client.R", place.path)


@pytest.mark.parametrize("more", ["", "&useServerPrepStmts=true", "&sslMode=trust"])
def test_jdbc(place: Served, tmp_path: Path, more: str) -> None:
    if not DRIVER.exists():
        pytest.skip(f"needs {DRIVER}")
    subprocess.run([tool("javac"), "-d", tmp_path, FOLDER / "Client.java"], check=True)
    known = "prepared error values titles time cursor bounded transaction columns key valid described"
    check(place, known, "java", "-cp", f"{DRIVER}:/usr/share/java/slf4j-api.jar:{tmp_path}", "Client", place.port, "hush", more)


ODBC = """
import pyodbc, sys
driver = "/usr/lib/x86_64-linux-gnu/odbc/libmaodbc.so"
client = pyodbc.connect("DRIVER={%s};SOCKET=%s;UID=me;DATABASE=performance_schema" % (driver, sys.argv[1]))
cursor = client.cursor()
cursor.execute("select THREAD_ID, NAME, 1.5 from threads where THREAD_ID = ? and NAME like ?", 1, "%")
print("prepared:", *cursor.fetchone())
cursor.execute("select version(), Max(THREAD_ID) from threads")
print("titles:", *(column[0] for column in cursor.description))
assert len(cursor.execute("select NAME from setup_instruments").fetchall()) == int(sys.argv[2])
print("cursor:", sys.argv[2])
columns = cursor.columns(table="threads").fetchall()
assert [(row.column_name, row.data_type, row.type_name, row.column_size, row.buffer_length, row.nullable, row.sql_data_type)
        for row in columns[:2]] == [
    ("THREAD_ID", -5, "BIGINT UNSIGNED", 20, 20, 0, -5), ("NAME", -9, "VARCHAR", 128, 512, 0, -9)
]
print("columns:", len(columns))
assert len(cursor.columns(table="file\\_summary%", column="COUNT%").fetchall()) > 5
(key,) = cursor.primaryKeys("threads").fetchall()
assert [row.column_name for row in cursor.rowIdColumns("threads").fetchall()] == [key.column_name]
print("key:", key.column_name)
assert [row.column_name for row in cursor.statistics("threads", unique=True).fetchall() if row.column_name] == [key.column_name]
assert [cursor.procedures().fetchall(), cursor.procedureColumns().fetchall()] == [[], []]
assert cursor.foreignKeys("threads").fetchall() == []
assert {row.table_name for row in cursor.tables(table="threa%s").fetchall()} == {"threads"}
print("described:", columns[0].column_name, columns[0].type_name)
"""


def test_odbc(place: Served) -> None:
    if importlib.util.find_spec("pyodbc") is None or not Path("/usr/lib/x86_64-linux-gnu/odbc/libmaodbc.so").exists():
        pytest.skip("needs pyodbc of PyPI, and odbc-mariadb of Debian")
    check(place, "prepared titles cursor columns key described", sys.executable, "-c", ODBC, place.path, place.wanted["cursor"])


CONNECTORX = """
import connectorx, sys
address = f"mysql://me:hush@127.0.0.1:{sys.argv[1]}/performance_schema"
for protocol in ("binary", "text"):
    text = "select THREAD_ID, NAME, 1.5 as exact from threads where THREAD_ID = 1"
    (row,) = connectorx.read_sql(address, text, protocol=protocol).itertuples(index=False)
print("prepared:", int(row.THREAD_ID), row.NAME, row.exact)
print("titles:", *connectorx.read_sql(address, "select version(), Max(THREAD_ID) from threads").columns)
"""


def test_rust(place: Served) -> None:
    """Connectorx of PyPI has the driver that Rust programs have."""
    if importlib.util.find_spec("connectorx") is None:
        pytest.skip("needs connectorx of PyPI")
    check(place, "prepared titles", sys.executable, "-c", CONNECTORX, place.port)


CONNECTOR = """
import mysql.connector, sys
who = {"user": "me", "password": "hush", "database": "performance_schema"}
client = mysql.connector.connect(host="127.0.0.1", port=int(sys.argv[1]), use_pure=True, **who)
cursor = client.cursor(prepared=True)
cursor.execute("select THREAD_ID, NAME, 1.5 from threads where THREAD_ID = %s and NAME like %s", (1, "%"))
print("prepared:", *cursor.fetchall()[0])
cursor.close()
client.start_transaction()
assert client.in_transaction
client.commit()
print("transaction:", str(not client.in_transaction).lower())
print("state:", "Uptime: " if "Uptime" in client.cmd_statistics() else "")
client.cmd_change_user("you", "hush", "sys")
cursor = client.cursor()
cursor.execute("select user(), database()")
print("user:", *cursor.fetchall()[0])
client.reset_session()
"""


def test_connector_python(place: Served) -> None:
    if importlib.util.find_spec("mysql") is None:
        pytest.skip("needs mysql-connector-python of PyPI")
    check(place, "prepared transaction state user", sys.executable, "-c", CONNECTOR, place.port)


@pytest.mark.parametrize(
    "command",
    [
        "pt-config-diff S={0},u=me S={0},u=me",
        "pt-find -S {0} -u me",
        "pt-kill --busy-time 1 --run-time 1 --interval 1 --print S={0},u=me",
        "pt-query-digest --processlist h=localhost,S={0},u=me --run-time 1 --interval 0.5",
        "pt-variable-advisor S={0},u=me",
    ],
    ids=lambda command: str(command).split()[0],
)
def test_percona_toolkit(place: Served, command: str) -> None:
    name, *arguments = command.format(place.path).split()
    done = subprocess.run([tool(name), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def watched(*command: str, **more: str) -> str:
    done = subprocess.run(
        [tool(command[0]), *command[1:]],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TERM": "xterm", **more},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mytop(place: Served) -> None:
    """It leaves out the row that has the number of its connection."""
    shown = watched("mytop", "-b", "--nocolor", "--socket", place.path, "-u", "me")
    assert re.search(r"^ +1 python/", shown, re.MULTILINE), shown
    assert "Queries: 7.0 " in shown


@pytest.mark.parametrize("mode", ["Q", "C", "M", "T"])
def test_innotop(place: Served, mode: str) -> None:
    shown = watched("innotop", "--nonint", "--count", "1", "--mode", mode, "--socket", place.path, "-u", "me", "-p", "x")
    assert {"Q": "mysql_thread_id", "C": "Com_select"}.get(mode, "") in shown


def test_mycli(place: Served, tmp_path: Path) -> None:
    at = ("--myclirc", str(tmp_path / "rc"), "-S", place.path, "-u", "me", "-D", "performance_schema", "-t", "-e")
    questions = (
        "select count(*) from setup_instruments", "select NAME from threads where THREAD_ID = 1",
        "select count(*) from information_schema.columns where table_name = 'threads'",
    )  # fmt: skip
    shown = watched("mycli", *at, "; ".join(questions), HOME=str(tmp_path))
    cells = {cell.strip() for line in shown.splitlines() for cell in line.split("|")}
    assert {place.wanted["cursor"], place.wanted["columns"], place.wanted["prepared"].split()[1]} <= cells, shown


def test_mysqltuner(place: Served) -> None:
    memory = ("--forcemem", "1000", "--forceswap", "100")
    at = ("--host", "127.0.0.1", "--port", place.port, "--user", "me", "--pass", "hush")
    shown = watched("mysqltuner", *at, *memory, "--nocolor", "--skippassword")
    assert "(7 q [" in shown, shown


@pytest.mark.parametrize("arguments", ["status", "ping", "variables", "extended-status"])
def test_mariadb_admin(place: Served, arguments: str) -> None:
    done = subprocess.run(
        [tool("mariadb-admin"), "--no-defaults", "-S", place.path, "-u", "me", arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert arguments != "status" or done.stdout.startswith("Uptime: ")


PAGES = (
    "", "/database/structure&db=performance_schema", "/sql&db=performance_schema&table=threads&pos=0",
    "/table/structure&db=performance_schema&table=threads", "/server/status", "/server/variables", "/server/status/processes",
    "/server/engines", "/server/databases", "/server/plugins", "/database/structure&db=sys", "/server/collations",
)  # fmt: skip
CONFIG = """<?php
$cfg['blowfish_secret'] = str_repeat('x', 32);
$cfg['TempDir'] = '{0}';
$cfg['Servers'][1] = ['auth_type' => 'config', 'user' => 'me', 'password' => 'hush', 'host' => '127.0.0.1', 'port' => '{1}'];
"""


@contextmanager
def phpmyadmin(place: Served, folder: Path) -> Iterator[str]:
    """The pages of phpMyAdmin, which is logged in. Gives the address."""
    pages = folder / "pages"
    shutil.copytree(PHPMYADMIN, pages, ignore=shutil.ignore_patterns("doc", "config.inc.php"))
    config = folder / "config.inc.php"
    config.write_text(CONFIG.format(folder, place.port))
    vendor = pages / "libraries" / "vendor_config.php"
    text = re.sub(r"'configFile' => .*", f"'configFile' => '{config}',", vendor.read_text())
    vendor.write_text(text.replace("/var/lib/phpmyadmin", str(folder)))
    with php_at(pages) as address:
        yield f"{address}/index.php?route="


@contextmanager
def php_at(pages: Path) -> Iterator[str]:
    """Serves pages of PHP. Gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        ["php", "-S", f"127.0.0.1:{port}", "-t", pages], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as php:
        try:
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            php.send_signal(signal.SIGTERM)


def test_pages_of_phpmyadmin(place: Served, tmp_path: Path) -> None:
    needs(tool("php"), "-r", "exit(class_exists('mysqli') ? 0 : 1);")
    if not PHPMYADMIN.exists():
        pytest.skip(f"needs {PHPMYADMIN}")
    (tmp_path / "tmp").mkdir()
    with phpmyadmin(place, tmp_path) as address:
        for page in PAGES:
            with urllib.request.urlopen(address + page, timeout=60) as answer:
                text = answer.read().decode()
            assert answer.status == 200, page
            assert "pma_username" not in text, page  # it is logged in
            said = re.search(r"#\d{4} - [^<]*", text)
            assert said is None, (page, said)
            assert "sql" not in page or "thread/python/" in text


# What each page of adminer shows.
PAGES_OF_ADMINER = {
    "": "performance_schema",
    "&db=performance_schema": "threads",
    "&db=sys": "statement_analysis",
    "&db=performance_schema&table=threads": "PROCESSLIST_ID",
    "&db=performance_schema&indexes=threads": "THREAD_ID",
    "&db=performance_schema&select=threads": "{thread}",
    "&db=performance_schema&dump=threads": "setup_instruments",
    "&db=sys&view=version": "mysql_version",
    "&processlist=": "{name}",
    "&variables=": "max_connections",
    "&status=": "Uptime",
}


def test_pages_of_adminer(place: Served) -> None:
    needs(tool("php"), "-r", "exit(class_exists('mysqli') ? 0 : 1);")
    if not ADMINER.exists():
        pytest.skip(f"needs {ADMINER}")
    server = f"127.0.0.1:{place.port}"
    login = {"driver": "server", "server": server, "username": "me", "password": "hush", "db": "performance_schema"}
    reader = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    thread = place.wanted["prepared"].split()[1]
    with php_at(ADMINER) as address:

        def page(rest: str, form: dict[str, str] | None = None) -> str:
            data = None if form is None else urllib.parse.urlencode(form).encode()
            with reader.open(f"{address}/adminer/{rest}", data, timeout=60) as answer:
                text: str = answer.read().decode()
            said = re.search(r"class=.error.>[^<]*", text)
            assert said is None, (rest, said)
            return text

        page("", {f"auth[{key}]": value for key, value in login.items()})
        begin = "?" + urllib.parse.urlencode({"server": server, "username": "me"})
        for rest, shown in PAGES_OF_ADMINER.items():
            assert shown.format(thread=thread, name=thread.removeprefix("thread/")) in page(begin + rest), rest
        rows = page(begin + "&db=performance_schema&select=setup_instruments&limit=")
        assert f"{place.wanted['cursor']} row" in rows
        with pytest.raises(AssertionError, match="nothing"):  # an error of a page is seen
            page(begin + "&db=performance_schema&table=nothing")
