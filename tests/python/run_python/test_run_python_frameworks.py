"""``pfs run`` makes statements of requests, tasks, tests and cells of frameworks that nobody has changed. Clients, logs and
servers of the tests count them.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.python.run.test_run import PFS, own_folder, pytestmark, report_of, run
from tests.python.run.test_run_decode import free_port
from tests.python.run_python.test_run_python_statements import ASKED, answered, redis_server

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

# ---- Requests

DJANGO = """\
import sys
from django.conf import settings
settings.configure(SECRET_KEY="-", ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], MIDDLEWARE=[])
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path
def order(request, n): return JsonResponse({"n": n})
def orders(request): return HttpResponse(status=201)
async def bad(request): raise RuntimeError("bad")
urlpatterns = [path("orders/<int:n>", order), path("orders", orders), path("bad", bad)]
wsgi, asgi = get_wsgi_application(), get_asgi_application()
"""

# Applications of no framework. `streamed` is a generator: nothing of it has run when its call returns.
BARE = """\
STATUS = {"/orders": "201 Created", "/absent/here": "404 Not Found"}
def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/bad": raise RuntimeError("bad")
    start_response(STATUS.get(path, "200 OK"), [("Content-Length", "2"), ("Content-Type", "text/plain")])
    return [b"ok"]
def streamed(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/bad": raise RuntimeError("bad")
    start_response(STATUS.get(path, "200 OK"), [("Content-Length", "2"), ("Content-Type", "text/plain")])
    yield b"o"
    yield b"k"
async def asgi(scope, receive, send):
    if scope["type"] != "http": return
    if scope["path"] == "/bad": raise RuntimeError("bad")
    status = int(STATUS.get(scope["path"], "200").split()[0])
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
"""
WSGIREF = """\
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server
import app
class Server(ThreadingMixIn, WSGIServer): daemon_threads = True
make_server("127.0.0.1", int(sys.argv[1]), app.application, Server).serve_forever()
"""
WERKZEUG = """\
import sys, app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), app.streamed, threaded=True)
"""
SERVERS = {
    "django, gunicorn": (DJANGO, ["-m", "gunicorn", "--workers", "2", "--threads", "2", "-b", "127.0.0.1:PORT", "app:wsgi"]),
    "django, uvicorn": (DJANGO, ["-m", "uvicorn", "--port", "PORT", "--lifespan", "off", "app:asgi"]),
    "wsgiref": (BARE, ["wsgi.py", "PORT"]),
    "werkzeug": (BARE, ["served.py", "PORT"]),
    "gunicorn": (BARE, ["-m", "gunicorn", "--workers", "2", "-b", "127.0.0.1:PORT", "app:streamed"]),
    "waitress": (BARE, ["-m", "waitress", "--listen=127.0.0.1:PORT", "app:streamed"]),
    "uvicorn": (BARE, ["-m", "uvicorn", "--port", "PORT", "app:asgi"]),
}


@pytest.mark.parametrize("name", SERVERS)
def test_requests_of_servers(tmp_path: Path, name: str) -> None:
    for module in name.split(", "):
        pytest.importorskip(module)
    text, arguments = SERVERS[name]
    (tmp_path / "app.py").write_text(text)
    (tmp_path / "wsgi.py").write_text(WSGIREF)
    (tmp_path / "served.py").write_text(WERKZEUG)
    port = free_port()
    client, seen = answered(tmp_path, [sys.executable, *(word.replace("PORT", str(port)) for word in arguments)], port, ASKED)
    assert sum(count for count, _ in client.values()) == 3 * 10 * len(ASKED)
    assert sum(errors for _, errors in client.values()) == 3 * 10 * 2
    assert seen == client


# Each body takes 0.3 s to make, and says which statement it was made in.
STREAMS = {
    "flask": """
import flask
app = flask.Flask(__name__)
@app.get("/stream")
def stream(): return app.response_class(parts())
@app.get("/whole")
def whole(): return "whole"
""",
    "django": DJANGO
    + """
from django.http import StreamingHttpResponse
app = wsgi
urlpatterns += [path("stream", lambda _: StreamingHttpResponse(parts())), path("whole", lambda _: HttpResponse("whole"))]
""",
    "wsgiref": """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return parts() if environ["PATH_INFO"] == "/stream" else [b"whole"]
""",
}
PARTS = """
import time
def parts():
    for part in b"parts":
        time.sleep(0.06)
        yield bytes([part])
"""


@pytest.mark.parametrize("server", ["gunicorn", "wsgiref"])
@pytest.mark.parametrize("framework", STREAMS)
def test_a_streamed_response_belongs_to_its_request(tmp_path: Path, framework: str, server: str) -> None:
    """A server makes the body of a response after the call of the application, until it closes the response."""
    for module in (framework, server):
        pytest.importorskip(module)
    (tmp_path / "app.py").write_text(PARTS + STREAMS[framework])
    (tmp_path / "wsgi.py").write_text(WSGIREF.replace("app.application", "app.app"))
    port = free_port()
    words = (
        ["-m", "gunicorn", "--threads", "3", "-b", f"127.0.0.1:{port}", "app:app"]
        if server == "gunicorn"
        else ["wsgi.py", str(port)]
    )
    asked = {("GET", "/stream"): "GET /stream", ("GET", "/whole"): "GET /whole"}
    client, seen = answered(tmp_path, [sys.executable, *words], port, asked, turns=3)
    assert client == {"GET /stream": (9, 0), "GET /whole": (9, 0)}
    assert seen == client
    times = {row["digest_text"]: row["time"] for row in json.loads((tmp_path / "report.json").read_text())["statements"]}
    assert times["GET /stream"] >= 9 * 5 * 0.06 * 1e12


# ---- Tasks

CELERY = """\
import os, sys
from celery import Celery
app = Celery("shop", broker="redis+socket://" + os.environ["BROKER"])
app.conf.worker_cancel_long_running_tasks_on_connection_loss = True
def log(name):
    fd = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, name.encode() + b"\\n"); os.close(fd)
@app.task
def add(a, b): log("add")
@app.task(bind=True, max_retries=1)
def again(self):
    log("again")
    raise self.retry(countdown=0)
@app.task
def bad():
    log("bad"); raise ValueError("bad")
"""


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_tasks_of_celery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: str) -> None:
    """The tasks themselves write the log."""
    pytest.importorskip("celery")
    (tmp_path / "shop.py").write_text(CELERY)
    send = "import shop\nfor n in range(12): shop.add.delay(n, 1)\nfor n in range(3): shop.bad.delay(); shop.again.delay()"
    worker = [sys.executable, *f"-m celery -A shop worker -P {pool} -c 2 --without-gossip --without-mingle".split()]
    file, log = tmp_path / "report.json", tmp_path / "log"
    with redis_server() as server, open(tmp_path / "output", "w") as output:
        monkeypatch.setenv("BROKER", server)
        run(sys.executable, "-c", send, cwd=tmp_path, check=True)
        line = [*PFS, "run", "--json", "--limit", "1000", "-o", str(file), "--", *worker]
        child = subprocess.Popen(line, cwd=tmp_path, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + 90
            while (log.read_text().count("\n") if log.exists() else 0) < 12 + 3 + 3 * 2:
                assert child.poll() is None, (tmp_path / "output").read_text()
                assert time.monotonic() < deadline, (tmp_path / "output").read_text()
                time.sleep(0.1)
        finally:
            child.send_signal(signal.SIGTERM)  # it ends what it has begun
            child.wait(60)
    logged = Counter(log.read_text().split())
    assert logged == {"add": 12, "again": 6, "bad": 3}
    rows = {row["digest_text"]: (row["count"], row["errors"]) for row in json.loads(file.read_text())["statements"]}
    # A retry is no error. The last one of a task that retries too often is.
    tasks = {text: numbers for text, numbers in rows.items() if text.startswith("`shop.")}
    assert tasks == {"`shop.add`": (12, 0), "`shop.again`": (6, 3), "`shop.bad`": (3, 3)}


# ---- MongoDB


def mongo_reply(command: dict[str, Any]) -> dict[str, Any]:
    """Answers as a server does, as far as the test asks."""
    name = next(iter(command))
    if name in ("hello", "ismaster", "isMaster"):
        wire = {"maxWireVersion": 21, "minWireVersion": 0, "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 1 << 25}
        return {"isWritablePrimary": True, "ismaster": True, "helloOk": True, "maxWriteBatchSize": 1000, "ok": 1.0, **wire}
    if name == "insert":
        documents = command["documents"]
        if any(document.get("bad") for document in documents):
            return {"ok": 1.0, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "duplicate key"}]}
        return {"ok": 1.0, "n": len(documents)}
    if name == "update":
        return {"ok": 1.0, "n": 4, "nModified": 3}
    if name == "find":
        more = 7 if command["find"] == "big" else 0
        return {"ok": 1.0, "cursor": {"id": more, "ns": f"shop.{command['find']}", "firstBatch": [{"a": 1}, {"a": 2}]}}
    if name == "getMore":
        return {"ok": 1.0, "cursor": {"id": 0, "ns": "shop.big", "nextBatch": [{"a": 3}]}}
    if name == "nonsense":
        return {"ok": 0.0, "code": 59, "errmsg": "no such command", "codeName": "CommandNotFound"}
    return {"ok": 1.0}


@pytest.fixture
def mongo() -> Iterator[tuple[int, Counter[str]]]:
    """Gives the port of a server that speaks MongoDB's protocol (OP_MSG), and the commands that it got: Debian has no server."""
    bson = pytest.importorskip("bson")
    got: Counter[str] = Counter()

    def exactly(link: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = link.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def serve(link: socket.socket) -> None:
        with link:
            try:
                while True:
                    size, request, _, operation = struct.unpack("<iiii", exactly(link, 16))
                    body = exactly(link, size - 16)
                    if operation == 2004:  # OP_QUERY, of the first hello
                        at = 4 + body.index(b"\0", 4) - 3 + 8
                        command = bson.decode(body[at:])
                        reply = bson.encode(mongo_reply(command))
                        message = struct.pack("<iqii", 8, 0, 0, 1) + reply
                        link.sendall(struct.pack("<iiii", 16 + len(message), 0, request, 1) + message)
                        continue
                    command, at = {}, 4
                    while at < len(body):
                        kind, at = body[at], at + 1
                        length = struct.unpack_from("<i", body, at)[0]
                        if kind == 0:
                            command |= bson.decode(body[at : at + length])
                        else:  # a sequence of documents, which has a name
                            end = body.index(b"\0", at + 4)
                            command[body[at + 4 : end].decode()] = bson.decode_all(body[end + 1 : at + length])
                        at += length
                    got[next(iter(command))] += 1
                    message = b"\0\0\0\0\0" + bson.encode(mongo_reply(command))
                    link.sendall(struct.pack("<iiii", 16 + len(message), 0, request, 2013) + message)
            except (EOFError, ConnectionError):
                pass

    def accept() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(link,), daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1], got
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


PYMONGO = """\
import asyncio, pymongo, sys, threading
at = f"mongodb://127.0.0.1:{sys.argv[1]}/?retryWrites=false"
with pymongo.MongoClient(at) as client:
    db = client.shop
    def work():
        for n in range(5):
            db.orders.insert_many([{"a": n}, {"a": n}])
            assert len(list(db.orders.find({"state": "new", "total": {"$gt": n}}).sort("total"))) == 2
        assert len(list(db.big.find())) == 3
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    db.orders.update_many({"state": "new"}, {"$set": {"state": "old"}})
    try: db.orders.insert_one({"bad": 1})
    except pymongo.errors.DuplicateKeyError: pass
    try: db.command("nonsense")
    except pymongo.errors.OperationFailure: pass
async def main():
    async with pymongo.AsyncMongoClient(at) as client:
        await asyncio.gather(*(client.shop.other.find_one({"a": n}) for n in range(4)))
asyncio.run(main())
"""


def test_commands_of_pymongo(tmp_path: Path, mongo: tuple[int, Counter[str]]) -> None:
    """Equal to what the server got. The digest of a command has its fields, and none of its values."""
    pytest.importorskip("pymongo")
    port, got = mongo
    (path := tmp_path / "shop.py").write_text(PYMONGO)
    report = report_of(tmp_path, sys.executable, path, str(port))
    rows = {
        row["digest_text"]: (row["count"], row["rows_sent"], row["rows_affected"], row["errors"]) for row in report["statements"]
    }
    change = "`q` : { `state` : ? } , `u` : { `$set` : { `state` : ? } }"
    assert rows == {
        "`insert` `orders` (?)": (16, 0, 30, 1),
        "`find` `orders` `filter` { `state` : ? , `total` : { `$gt` : ? } } `sort` { `total` : ? }": (15, 30, 0, 0),
        "`find` `big` `filter` { }": (3, 6, 0, 0),
        "`getMore` `big`": (3, 3, 0, 0),
        f"`update` `orders` [ {{ {change} , `multi` : ? , `upsert` : ? }} ]": (1, 0, 3, 0),
        "`nonsense`": (1, 0, 0, 1),
        "`find` `other` `filter` { `a` : ? } LIMIT ?": (4, 8, 0, 0),
    }
    sent = Counter(text.split("`")[1] for text, numbers in rows.items() for _ in range(numbers[0]))
    assert sent == {name: count for name, count in got.items() if name not in ("hello", "ismaster", "endSessions")}


# ---- Tests and cells

TESTS = """\
import pytest
@pytest.mark.parametrize("n", [1, 2, "it's"])
def test_number(n): assert n != 2
class TestShop:
    def test_good(self): pass
@pytest.mark.skip
def test_skipped(): pass
def test_later(): pytest.skip("later")
"""


def test_tests_of_pytest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test_shop.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:pfs", "-p", "no:cacheprovider", "test_shop.py"]
    report = report_of(tmp_path, *command, code=1)
    rows = {row["digest_text"]: (row["count"], row["errors"]) for row in report["statements"]}
    assert {text: numbers for text, numbers in rows.items() if "test_shop" in text} == {
        "`test_shop.py::test_number` ?": (3, 1),
        "`test_shop.py::TestShop::test_good`": (1, 0),
        "`test_shop.py::test_later`": (1, 0),
    }
    assert report_of(tmp_path, *command, code=1, options=("--python", "threads"))["statements"] == []


CELLS = """\
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
for cell in ("a = 1", "a = 2", "import asyncio; await asyncio.sleep(0)", "1 / 0", "%time a", "  "):
    shell.run_cell(cell)
"""


def test_cells_of_ipython(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (path := tmp_path / "cells.py").write_text(CELLS)
    report = report_of(tmp_path, sys.executable, path, options=("--python", "cells"))
    rows = {row["digest_text"]: (row["count"], row["errors"]) for row in report["statements"]}
    assert sum(count for count, _ in rows.values()) == 5, rows
    assert rows["a = ?"] == (2, 0)
    assert rows["? / ?"] == (1, 1)


# ---- asyncio

ASYNCIO = """\
import asyncio
async def main():
    lock = asyncio.Lock()
    gate = asyncio.BoundedSemaphore(2)
    queue = asyncio.PriorityQueue()
    ready = asyncio.Event()
    changed = asyncio.Condition(lock)
    async def pass_by(what):
        async with what:
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
    await asyncio.gather(*(pass_by(lock) for _ in range(5)), *(pass_by(gate) for _ in range(5)))
    getters = asyncio.gather(*(queue.get() for _ in range(3)), *(ready.wait() for _ in range(2)))
    await asyncio.sleep(0)
    for n in range(4): await queue.put(n)
    ready.set()
    await getters
    await queue.get(); await ready.wait()
    async def wait_for_change():
        async with changed: await changed.wait()
    waiter = asyncio.create_task(wait_for_change())
    await asyncio.sleep(0)
    async with changed:
        changed.notify_all()
        try: await asyncio.wait_for(lock.acquire(), 0.01)
        except asyncio.TimeoutError: pass
    await waiter
    assert not [name for name in vars(lock) if "pfs" in name]
asyncio.run(main())
"""


def test_tasks_of_asyncio_wait_by_the_line_of_the_object(tmp_path: Path) -> None:
    """Who need not wait makes no statement: the first of five tasks at the lock, the first two at the semaphore.

    Three of the five get the lock while others wait for it: what they await is known.
    """
    (path := tmp_path / "tasks.py").write_text(ASYNCIO)
    locks = {
        "`asyncio.Lock __main__:9`": (4 + 1 + 1, 1),  # one in vain; the task that waited for the condition takes the lock again
        "`asyncio.Lock __main__:9 held at tasks.py:11`": (3, 0),
        "`asyncio.BoundedSemaphore __main__:9`": (3, 0),
    }
    others = {
        "`asyncio.PriorityQueue __main__:5`": (3, 0),
        "`asyncio.Event __main__:6`": (2, 0),
        "`asyncio.Condition __main__:7`": (1, 0),
    }

    def seen(*options: str) -> dict[str, tuple[int, int]]:
        statements = report_of(tmp_path, sys.executable, path, options=options)["statements"]
        return {row["digest_text"]: (row["count"], row["errors"]) for row in statements}

    assert seen("--python", "threads,asyncio,queues") == locks | others
    assert seen() == locks
    assert seen("--python", "threads") == {}


HELD = """\
import asyncio
async def first(lock):
    async with lock: await asyncio.sleep(0.03)
async def second(lock):
    async with lock: await asyncio.sleep(0)
    await asyncio.sleep(0.02)
async def main():
    lock = asyncio.Lock()
    asyncio.create_task(first(lock))
    await asyncio.sleep(0)
    await asyncio.gather(*(second(lock) for _ in range(3)))
    async with lock:  # nobody waits
        task = asyncio.create_task(second(lock))
        await asyncio.sleep(0.01)
    await task
    waiters = [asyncio.create_task(second(lock)) for _ in range(3)]
    async with lock:
        await asyncio.sleep(0)
        waiters[1].cancel()
        await asyncio.sleep(0.01)
    await asyncio.gather(*waiters, return_exceptions=True)
asyncio.run(main())
"""


def test_what_a_task_awaits_after_it_gave_the_lock_away_is_not_under_the_lock(tmp_path: Path) -> None:
    (path := tmp_path / "held.py").write_text(HELD)
    statements = report_of(tmp_path, sys.executable, path)["statements"]
    seen = {row["digest_text"]: (row["count"], row["errors"]) for row in statements}
    assert seen == {"`asyncio.Lock __main__:5`": (3 + 1 + 3, 1)}


# ---- sqlite3

SQLITE = """\
import sqlite3, sys, threading
log = []
def work(turns):
    db = sqlite3.connect(sys.argv[1], timeout=60)
    db.set_trace_callback(log.append)  # SQLite's own log, of what begins
    fetched = changed = failed = 0
    for turn in range(turns):
        with db:
            changed += db.execute("insert into t(b) values (?)", (turn,)).rowcount
            changed += db.executemany("insert into t(b) values (?)", [(n,) for n in range(3)]).rowcount
            changed += db.execute("update t set b = b + 1 where b = ?", (turn,)).rowcount
        fetched += len(db.execute("select b from t where b < ? limit 5", (turn,)).fetchall())
        fetched += db.execute("select a, b from t limit 1").fetchone() is not None
        try: db.execute("insert into t(a) values (1)")
        except sqlite3.IntegrityError: failed += 1
        db.rollback()
    db.close()
    results.append((fetched, changed, failed))
results = []
db = sqlite3.connect(sys.argv[1])
db.execute("pragma journal_mode = wal").fetchall()
db.execute("create table t(a integer primary key, b)"); db.execute("insert into t values(1, 1)"); db.commit(); db.close()
threads = [threading.Thread(target=work, args=(turns,)) for turns in (20, 30)]
for thread in threads: thread.start()
for thread in threads: thread.join()
words = ("insert into t(b)", "update", "select b", "BEGIN", "COMMIT", "ROLLBACK")
print([sum(column) for column in zip(*results)])
print([len(log), *(sum(text.startswith(word) for text in log) for word in words)])
"""


def test_statements_of_sqlite3(tmp_path: Path) -> None:
    """Equal to SQLite's own log and to what the program got: statements, rows, affected rows, errors."""
    (path := tmp_path / "shop.py").write_text(SQLITE)
    file = tmp_path / "report.json"
    line = [*PFS, "run", "--json", "--limit", "1000", "-o", file, "--", sys.executable, path, tmp_path / "shop.db"]
    done = run(*map(str, line))
    assert done.returncode == 0, done.stderr
    report = json.loads(file.read_text())
    assert report["lost"] == {}
    (fetched, changed, failed), (logged, *by_name) = map(json.loads, done.stdout.splitlines())
    rows = {row["digest_text"]: row for row in report["statements"]}
    of_threads = [row for text, row in rows.items() if not text.startswith(("CREATE", "PRAGMA", "INSERT INTO `t` VALUES"))]
    assert failed == 50
    assert sum(row["errors"] for row in of_threads) == failed
    assert sum(row["rows_sent"] for row in of_threads) == fetched
    assert sum(row["rows_affected"] for row in of_threads) == changed
    assert sum(row["count"] for row in of_threads) == logged + 2  # BEGIN and COMMIT of the main thread
    names = ["INSERT INTO `t` ( `b` ) VALUES (?)", "UPDATE", "SELECT `b` FROM", "BEGIN", "COMMIT", "ROLLBACK"]
    seen = [sum(row["count"] for text, row in rows.items() if text.startswith(name)) for name in names]
    assert seen == [*by_name[:3], by_name[3] + 1, by_name[4] + 1, by_name[5]]
