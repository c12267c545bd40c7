"""``pfs run`` makes statements of requests and queries of unchanged Python programs. The clients count them themselves."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs._process.run.launch import PYTHON_MORE, PYTHON_PARTS
from tests.python import servers
from tests.python._programs.witnessed import until_at_rest
from tests.python.run.test_run import PFS, own_folder, pytestmark, report_of, run
from tests.python.run.test_run_decode import free_port, redis_program
from tests.python.run_python.test_run_python import running

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

FLASK = """\
import flask
app = flask.Flask(__name__)
@app.get("/orders/<int:n>")
def order(n): return {"n": n}
@app.post("/orders")
def new(): return "", 201
@app.get("/bad")
def bad(): raise RuntimeError("bad")
"""

FASTAPI = """\
import asyncio, fastapi
app, inner = fastapi.FastAPI(), fastapi.FastAPI()
@app.get("/orders/{n}")
async def order(n: int):
    await asyncio.sleep(0.001 * (n % 3))
    return n
@app.post("/orders", status_code=201)
def new(): return {}
@app.get("/bad")
async def bad(): raise RuntimeError("bad")
@inner.get("/items/{n}")
async def item(n: int): return n
app.mount("/inside", inner)
"""

# What the servers are asked, and the digests that the requests must have.
ASKED = {
    ("GET", "/orders/{n}"): "GET /orders/?",
    ("GET", "/orders/{n}?verbose={n}"): "GET /orders/? ?",
    ("POST", "/orders"): "POST /orders",
    ("GET", "/bad"): "GET /bad",
    ("GET", "/absent/here"): "GET /absent/here",
}


def ask(port: int, asked: dict[tuple[str, str], str], log: Counter[tuple[str, bool]], turns: int) -> None:
    """Sends requests and notes the digest of each, and whether its answer was an error."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for turn in range(turns):
        for (method, path), digest in asked.items():
            link.request(method, path.format(n=turn + 1))
            response = link.getresponse()
            response.read()
            log[digest, response.status >= 400] += 1
            if response.status == 500:
                link.close()  # uvicorn closes its side, too
    link.close()


def answered(
    tmp_path: Path, command: list[str], port: int, asked: dict[tuple[str, str], str], turns: int = 10
) -> tuple[Any, Any]:
    """Runs a server under pfs and asks it from three threads. Returns the log of the client and that of pfs: requests and
    errors by digest."""
    file = tmp_path / "report.json"
    with open(tmp_path / "log", "w") as output:
        line = [*PFS, "run", "--json", "--limit", "1000", "-o", str(file), "--", *command]
        server = subprocess.Popen(line, cwd=tmp_path, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + 60
            while not servers.takes(lambda: __import__("socket").create_connection(("127.0.0.1", port), 1)):
                assert server.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            log: Counter[tuple[str, bool]] = Counter()
            threads = [threading.Thread(target=ask, args=(port, asked, log, turns)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            until_at_rest(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
    report = json.loads(file.read_text())
    assert report["lost"] == {}
    client = {digest: (log[digest, False] + log[digest, True], log[digest, True]) for digest, _ in log}
    return client, {row["digest_text"]: (row["count"], row["errors"]) for row in report["statements"]}


@pytest.mark.parametrize("server", ["flask", "gunicorn"])
def test_requests_of_flask(tmp_path: Path, server: str) -> None:
    pytest.importorskip(server)
    (tmp_path / "app.py").write_text(FLASK)
    port = free_port()
    module = {
        "flask": ["flask", "--app", "app", "run", "-p", str(port)],
        "gunicorn": ["gunicorn", "--workers", "2", "--threads", "3", "-b", f"127.0.0.1:{port}", "app:app"],
    }
    client, seen = answered(tmp_path, [sys.executable, "-m", *module[server]], port, ASKED)
    assert sum(count for count, _ in client.values()) == 3 * 10 * len(ASKED)
    assert seen == client


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_of_fastapi(tmp_path: Path, workers: int) -> None:
    """An application that is mounted in another one answers the same request."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    (tmp_path / "app.py").write_text(FASTAPI)
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--workers", str(workers), "app:app"]
    asked = ASKED | {("GET", "/inside/items/{n}"): "GET /inside/items/?"}
    client, seen = answered(tmp_path, command, port, asked)
    assert sum(count for count, _ in client.values()) == 3 * 10 * len(asked)
    assert seen == client


# ---- Clients of HTTP


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log: Counter[str]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.log[self.path] += 1
        body = b"found"
        self.send_response(302 if self.path == "/moved" else 404 if self.path == "/absent" else 200)
        if self.path == "/moved":
            self.send_header("Location", "/orders")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def site() -> Iterator[tuple[int, Counter[str]]]:
    """Gives the port of a server and how often it was asked for each path."""
    log: Counter[str] = Counter()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Logging", (Handler,), {"log": log}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1], log
    server.shutdown()
    server.server_close()
    thread.join()


CLIENTS = {
    "http.client": """
c = http.client.HTTPConnection("127.0.0.1", port)
for path in paths:
    c.request("GET", path); c.getresponse().read()
c.close()
""",
    "urllib.request": """
import urllib.error
for path in paths:
    try: urllib.request.urlopen(f"http://127.0.0.1:{port}{path}").read()
    except urllib.error.HTTPError as error: error.read()
""",
    "requests": """
with requests.Session() as s:
    for path in paths: s.get(f"http://127.0.0.1:{port}{path}")
""",
    "httpx": """
with httpx.Client(follow_redirects=True, trust_env=False) as s:
    for path in paths: s.get(f"http://127.0.0.1:{port}{path}")
async def main():
    async with httpx.AsyncClient(trust_env=False) as s:
        await asyncio.gather(*(s.get(f"http://127.0.0.1:{port}/orders") for _ in range(5)))
asyncio.run(main())
""",
    "aiohttp": """
async def main():
    async with aiohttp.ClientSession() as s:
        async def get(path):
            async with s.get(f"http://127.0.0.1:{port}{path}", allow_redirects=False) as response: await response.read()
        await asyncio.gather(*(get(path) for path in paths))
asyncio.run(main())
""",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_requests_that_a_program_sends(tmp_path: Path, site: tuple[int, Counter[str]], client: str) -> None:
    pytest.importorskip(client)
    port, log = site
    head = f"import asyncio, sys, {client}\nport = {port}\npaths = ['/orders', '/orders', '/moved', '/absent']\n"
    (path := tmp_path / "client.py").write_text(head + CLIENTS[client])
    report = report_of(tmp_path, sys.executable, path, options=("--keep",))
    seen = {row["digest_text"]: (row["count"], row["errors"]) for row in report["statements"]}
    wanted = {f"GET /?{path}": (count, count if path == "/absent" else 0) for path, count in log.items()}
    assert seen == wanted
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", closed := free_port()).request("GET", "/")
    path.write_text(f"import http.client\nhttp.client.HTTPConnection('127.0.0.1', {closed}).request('GET', '/')\n")
    assert run(*PFS, "run", "--no-report", "--", sys.executable, path).stderr.endswith("Connection refused\n")


# What a program may do wrong. `tell` prints what a call returns or raises.
WRONG = {
    "threading": """
for name in ("a\\0b", "\\udc80", "", "long" * 100, "a/b%c", 5, None):
    thread = threading.Thread(target=lambda: tell(lambda: ascii(threading.current_thread().name)), name=name or "none")
    thread.start()
    thread.join()
    threading.current_thread().name = name
""",
    "asyncio": """
class Queue(asyncio.Queue):
    def __eq__(self, other): raise Wrong()
class Lock(asyncio.Lock):
    __hash__ = None
    def locked(self): raise KeyError("locked")
async def main():
    queue, lock = Queue(1), Lock()
    for n in range(3):
        await queue.put(n)
        print(await queue.get())
        async with lock: print(n)
asyncio.run(main())
""",
    "http.client": """
for method, url in (("GET", None), ("GET", ""), ("GET", b"/x"), ("GET", "/\\udc80"), (None, "/"), ("G T", "/"), ("GET", "/ \\n")):
    tell(lambda: http.client.HTTPConnection("127.0.0.1", 1).putrequest(method, url))
""",
    "httpx": """
for url in ("http://[::1/", "ftp://127.0.0.1/", 5, "/", "http://127.0.0.1:1/\\udc80"):
    tell(lambda: httpx.get(url, trust_env=False))
""",
    "aiohttp": """
import asyncio
async def main():
    async with aiohttp.ClientSession() as session:
        for url in ("http://[::1/", "http://127.0.0.1:99999999/", "", 5, "ftp://127.0.0.1/"):
            try: await session.get(url)
            except Exception as error: print(type(error), error)
    try: await session.get("http://[::1/")
    except Exception as error: print(type(error), error)
asyncio.run(main())
""",
    "redis": """
client = redis.Redis(port=1)
for command in ((Wrong(),), ("GET", Wrong()), (), ("SET", "\\udc80", None)): tell(lambda: client.execute_command(*command))
pipeline = client.pipeline(transaction=False)
pipeline.command_stack.append(Wrong())
tell(pipeline.execute)
""",
    "flask": """
class App(flask.Flask):
    def wsgi_app(self, environ, start_response): return start_response(environ["status"], [])
app = App("shop")
for status in ("404 \\udc80", "500 \\0", "", None, 5):
    tell(lambda: app({"REQUEST_METHOD": "GET", "PATH_INFO": "/", "status": status}, lambda *given: given))
for environ in ({}, {"REQUEST_METHOD": None}, {"PATH_INFO": b"/"}, None, {"REQUEST_METHOD": "GET", "HTTP_TRACEPARENT": 5}):
    tell(lambda: app(environ, print))
""",
}


@pytest.mark.parametrize("package", WRONG)
def test_what_a_program_does_wrong_stays_its_own_error(tmp_path: Path, package: str) -> None:
    """pfs looks at the same values; it neither raises for them nor hides what the package raises."""
    pytest.importorskip(package)
    head = f"""
import {package}
class Wrong:
    def __str__(self): raise KeyError("no text")
def tell(call):
    try: print(call())
    except Exception as error: print(type(error), ascii(error))
"""
    (path := tmp_path / "wrong.py").write_text(head + WRONG[package])
    under = (*PFS, "run", "--no-report", "--python", ",".join((*PYTHON_PARTS, *PYTHON_MORE)), "--")
    plain, seen = (run(*command, sys.executable, path) for command in ((), under))
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.count("\n") > 4
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, plain.stdout, plain.stderr)


# ---- Drivers

QUERIES = """
import pymysql, sys, threading
def work(turns, log):
    db = pymysql.connect(unix_socket=sys.argv[1], user="root", database="shop")
    rows = db.cursor()
    for turn in range(turns):
        rows.execute("insert into t (a) values (%s)", (turn,))
        rows.executemany("insert into t (a) values (%s)", [(1,), (2,), (3,)])
        db.commit() if turn % 2 else db.rollback()
        rows.execute("select a from t where a < %s limit 2", (9,))
        log.append(len(rows.fetchall()))
        try: rows.execute("select nothing from t")
        except pymysql.Error: pass
        rows.execute("select 1")
    stream = db.cursor(pymysql.cursors.SSCursor)
    stream.execute("select a from t"); stream.fetchone(); stream.close()
    sys.stdout.write(f'{db.thread_id()} {sum(log)}\\n'); db.close()  # at once: other threads write, too
db = pymysql.connect(unix_socket=sys.argv[1], user="root", database="shop", autocommit=True)
db.cursor().execute("create or replace table t (a int)")
db.cursor().execute("set global log_output = 'table', global general_log = 1")
threads = [threading.Thread(target=work, args=(n, [])) for n in (5, 8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.needs("mariadb")
def test_statements_of_pymysql(tmp_path: Path) -> None:
    """Equal to the server's own log of what these connections sent."""
    pymysql = pytest.importorskip("pymysql")
    with servers.mariadb() as socket:
        (path := tmp_path / "shop.py").write_text(QUERIES)
        file = tmp_path / "report.json"
        line = [*PFS, "run", "--json", "--limit", "1000", "-o", file, "--", sys.executable, path, socket]
        done = run(*map(str, line))
        assert done.returncode == 0, done.stderr
        connections = [int(line.split()[0]) for line in done.stdout.splitlines()]
        fetched = sum(int(line.split()[1]) for line in done.stdout.splitlines())
        db = pymysql.connect(unix_socket=socket, user="root")
        cursor = db.cursor()
        cursor.execute(
            "select argument, thread_id from mysql.general_log where command_type = 'Query' and thread_id in %s", (connections,)
        )
        logged = [str(text) for text, _ in cursor.fetchall()]
        db.close()
    rows = {row["digest_text"]: row for row in json.loads(file.read_text())["statements"]}
    before = {"CREATE": 1, "SET": 2}  # of the first connection, which is not in the log: names and the log
    seen = {text: row["count"] for text, row in rows.items()}
    begun = Counter(text.split()[0].upper() for text in logged)
    assert len(logged) == 13 * 6 + 2 + 2 * 2
    counted: Counter[str] = Counter()
    for text, count in seen.items():
        counted[text.split()[0].upper()] += count
    assert counted == begun + Counter(before)
    assert seen["COMMIT"] == begun["COMMIT"] == 2 + 4
    assert seen["ROLLBACK"] == begun["ROLLBACK"] == 3 + 4
    inserts = [row for text, row in rows.items() if text.startswith("INSERT")]
    assert sum(row["rows_affected"] for row in inserts) == 13 * 4
    assert rows["SELECT `nothing` FROM `t`"]["errors"] == 13
    limited = rows["SELECT `a` FROM `t` WHERE `a` < ? LIMIT ?"]
    assert (limited["count"], limited["rows_sent"]) == (13, fetched)


def test_a_statement_has_its_line_and_its_waits(tmp_path: Path, site: tuple[int, Counter[str]]) -> None:
    """SOURCE is a line of the program, not one of a library."""
    port, _ = site
    lines = ["import urllib.request", f"urllib.request.urlopen('http://127.0.0.1:{port}/orders').read()"]
    (path := tmp_path / "shop.py").write_text("\n".join(lines))
    done = run(*PFS, "run", "--keep", "--no-report", "--", sys.executable, path)
    [segment] = Path(done.stderr.split("Segments: ")[1].strip()).glob("*.pfs")
    with pfs.attach(segment) as schema:
        rows = schema.table("events_statements_history_long")
    assert list(zip(rows["EVENT_NAME"], rows["SOURCE"], strict=True)) == [("statement/http-client/get", "shop.py:2")]


REDIS = """
import asyncio, redis, redis.asyncio, sys
r = redis.Redis(unix_socket_path=sys.argv[1])
for n in range(7):
    r.set(f"key{n}", "it's"); r.get(f"key{n}")
r.lpush("list", 1, 2, 3)
try: r.incr("list")
except redis.ResponseError: pass
with r.pipeline(transaction=False) as p:
    for n in range(5): p.hset("h", n, n)
    p.hgetall("h"); p.execute()
async def main():
    a = redis.asyncio.Redis(unix_socket_path=sys.argv[1])
    await asyncio.gather(*(a.get(f"key{n}") for n in range(9)))
    async with a.pipeline(transaction=False) as p:
        p.get("key1"); p.get("key2"); await p.execute()
    await a.aclose()
asyncio.run(main())
r.close()
"""


@contextmanager
def redis_server() -> Iterator[str]:
    """Gives the socket of a server of Debian's package."""
    redis = pytest.importorskip("redis")
    program = redis_program("redis-server")
    with servers.folder() as where:
        path = where / "redis"
        command = [program, "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "777", "--save", ""]
        with servers.running(command, where / "log", path, lambda: redis.Redis(unix_socket_path=str(path))):
            yield str(path)


@pytest.mark.needs("redis")
def test_commands_of_redis_py(tmp_path: Path) -> None:
    """Equal to the server's own counts."""
    with redis_server() as server:
        (path := tmp_path / "shop.py").write_text(REDIS)
        report = report_of(tmp_path, sys.executable, path, server)
        link = __import__("redis").Redis(unix_socket_path=server)
        counted = {name.removeprefix("cmdstat_"): row for name, row in link.info("commandstats").items()}
        link.close()
    seen: Counter[str] = Counter()
    for row in report["statements"]:
        seen[row["digest_text"].split()[0].strip("`").lower()] += row["count"]
    of_connections = {"hello", "client", "info", "client|setinfo", "client|maint_notifications"}
    assert seen == {name: row["calls"] for name, row in counted.items() if name not in of_connections}
    assert sum(seen.values()) == 14 + 2 + 6 + 11
    assert {row["digest_text"]: row["errors"] for row in report["statements"] if row["errors"]} == {"`INCRBY` ?, ...": 1}


ASYNCPG = """
import asyncio, asyncpg, sys
async def main():
    db = await asyncpg.connect(host=sys.argv[1], user="postgres", database="shop")
    await db.execute("create table t (a int)")
    for n in range(6): await db.execute("insert into t values ($1)", n)
    await db.executemany("insert into t values ($1)", [(1,), (2,)])
    print(len(await db.fetch("select a from t where a < $1", 4)))
    async with db.transaction():
        await db.execute("update t set a = a + 1")
    few = await db.prepare("select a from t limit 3")
    for n in range(4): await few.fetch()
    try: await db.fetchval("select nothing")
    except asyncpg.PostgresError: pass
    await db.close()
asyncio.run(main())
"""


@pytest.mark.needs("postgresql")
def test_statements_of_asyncpg(tmp_path: Path) -> None:
    pytest.importorskip("asyncpg")
    with servers.postgresql() as given:
        host = dict(part.split("=") for part in given.split())["host"]
        (path := tmp_path / "shop.py").write_text(ASYNCPG)
        report = report_of(tmp_path, sys.executable, path, host)
    rows = {
        row["digest_text"]: (row["count"], row["rows_sent"], row["rows_affected"], row["errors"]) for row in report["statements"]
    }
    assert rows == {
        "CREATE TABLE `t` ( `a` INTEGER )": (1, 0, 0, 0),
        "INSERT INTO `t` VALUES (?)": (7, 0, 6, 0),
        "SELECT `a` FROM `t` WHERE `a` < ?": (1, 6, 0, 0),
        "BEGIN": (1, 0, 0, 0),
        "UPDATE `t` SET `a` = `a` + ?": (1, 0, 8, 0),
        "COMMIT": (1, 0, 0, 0),
        "SELECT `a` FROM `t` LIMIT ?": (4, 12, 0, 0),
        "SELECT NOTHING": (1, 0, 0, 1),
    }


JOINED = """\
import asyncio, sys, time
import flask, starlette.applications, starlette.responses, starlette.routing
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0%d"
SENT = [PARENT % 1, None, "no traceparent", "\\0", "00-" + "\\xe9" * 32, PARENT % 0]
web = flask.Flask(__name__)
@web.get("/web")
def answer(): return "yes"
for sent in SENT:
    environ = {"HTTP_TRACEPARENT": sent} if sent is not None else {}
    assert web.test_client().get("/web", environ_overrides=environ).status_code == 200
async def asked(request): return starlette.responses.PlainTextResponse("yes")
app = starlette.applications.Starlette(routes=[starlette.routing.Route("/asgi", asked)])
async def ask(sent):
    headers = [] if sent is None else [(b"traceparent", sent.encode("latin-1"))]
    scope = {"type": "http", "method": "GET", "path": "/asgi", "query_string": b"", "headers": headers}
    async def receive(): return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message): assert message.get("status", 200) == 200
    await app(scope, receive, send)
async def all_of_them(): await asyncio.gather(*map(ask, SENT))
asyncio.run(all_of_them())
open(sys.argv[1], "w").close()
time.sleep(100)
"""


def test_requests_join_the_trace_of_their_caller(tmp_path: Path) -> None:
    """The header traceparent of a request is in the row of its statement. What is none changes nothing."""
    pytest.importorskip("flask")
    pytest.importorskip("starlette")
    (tmp_path / "app.py").write_text(JOINED)
    with running(tmp_path, sys.executable, tmp_path / "app.py", tmp_path / "done") as schema:
        deadline = time.monotonic() + 60
        while not (tmp_path / "done").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        rows = schema.table("events_statements_history_long", ["DIGEST_TEXT", "TRACEPARENT"])
        found = Counter((row.DIGEST_TEXT, row.TRACEPARENT or None) for row in rows.astype(object).fillna("").itertuples())
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
    for path in ("web", "asgi"):
        digest = f"GET /{path}"
        assert {key[1]: count for key, count in found.items() if key[0] == digest} == {parent + "1": 1, parent + "0": 1, None: 4}


TARGETS = ("/orders/7", "/stra\u00dfe/8?q", "/a\0b/9", "/\udc80/10", "/\u20ac\u20ac", "/" + "x" * 2000)
BEGUN = """\
import json, sys, _pfs_run_native as native
key = native.key("http", "get")
for target in json.load(open(sys.argv[1])):
    native.end(native.begin_request(key, "get", target, "none", True), 1, 2, 0, "")
    plain = target.encode("ascii", "replace").decode().replace("\\0", "?")
    print(json.dumps(native.request_text("get", plain)))
handle = native.begin_request(key, "get", "/last", "none", False, None)
for call, arguments in (
    (native.begin_request, (key, "get", "/", "none")),
    (native.begin_request, (key, "get", "/", "none", True, None, None)),
    (native.begin_request, (key, "ge\\0t", "/", "none", True)),
    (native.begin_request, (key, b"get", "/", "none", True)),
    (native.begin_request, (key, "get", b"/", "none", True)),
    (native.begin_request, ("key", "get", "/", "none", True)),
    (native.begin, (key, "text", 5, "none", True)),
    (native.begin, (key, "text", None, "no\\0ne", True)),
    (native.begin, (key, "text", None, "none", True, 5)),
    (native.request_text, ("get",)),
    (native.request_text, ("get", "/\\0")),
    (native.end, (handle, 0, 0, 0)),
    (native.end, (handle, 0.5, 0, 0, "")),
    (native.end, (handle, 0, 0, 1 << 40, "")),
    (native.end, (key, 0, 0, 0, "")),
    (native.begin_wsgi, ((), {}, print)),
    (native.leave_wsgi, (5,)),
    (native.leave_wsgi, (len,)),
    (native.end_wsgi, ()),
    (native.end_wsgi, (len,)),
    (native.end_wsgi, (print, 1)),
    (native.ask, ((), {}, sys, "get")),
    (native.take_asked, ({},)),
):
    try:
        call(*arguments)
    except (TypeError, ValueError):
        continue
    sys.exit(f"{call.__name__}{arguments} is no error")
native.end(handle, 0, 0, 404, "Not Found")
"""


def test_requests_of_any_text(tmp_path: Path) -> None:
    """What ASCII does not have, and a zero, is a question mark. Wrong arguments raise, and the statement can still end."""
    (tmp_path / "begun.py").write_text(BEGUN)
    (tmp_path / "targets").write_text(json.dumps(TARGETS))
    done = run(
        *PFS, "run", "--keep", "--no-report", "--", sys.executable, tmp_path / "begun.py", tmp_path / "targets", check=True
    )
    (segment,) = (tmp_path / "segments").glob("*/*.pfs")
    with pfs.attach(str(segment)) as schema:
        rows = schema.table("events_statements_history_long").sort_values("EVENT_ID")
    texts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(texts) == len(TARGETS)
    assert rows["SQL_TEXT"].tolist() == [*texts, "GET /last"]
    assert rows["MYSQL_ERRNO"].tolist() == [*[0] * len(TARGETS), 404]
    assert rows["ROWS_SENT"].tolist() == [*[1] * len(TARGETS), 0]
