"""What requests of unusual kinds are in a Python program: under ``pfs run``, and after ``pfs join``. The program itself sees no
difference.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import pfs
from tests.python.run.test_run import PFS, own_folder, pytestmark, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

# With an argument, a program waits until it is joined.
PROGRAM = """\
import collections, gc, http.client, io, os, sys
if len(sys.argv) > 1: input("ready\\n")
import wsgiref.handlers
# What a server calls instead of the application.
served = getattr(sys.modules.get("_pfs_run.servers"), "_served", lambda application: application)

def start(status, headers=(), exc_info=None):
    if status == "500 refused": raise AssertionError(status)
    return f"write {status!r} {headers} {exc_info}"
def call(application, environ):
    try: print([*served(application)(environ, start)])
    except BaseException as error: print(type(error), error, error.__traceback__.tb_next is not None)
def answers(*given, **named):
    def application(environ, start_response): return [start_response(*given, **named)]
    return application
def raises(error):
    def application(environ, start_response): raise error
    return application
def outer(environ, start_response):
    inner = served(answers("404 inner", []))(environ, start_response)
    start_response("200 OK", [])
    return inner
def parts(environ, start_response):
    start_response("503 Busy", [])
    yield "one"
    call(answers("200 OK", []), {"PATH_INFO": "/between"})
    yield "two"
    if "error" in environ: raise KeyError("late")
def at(path, **more): return {"REQUEST_METHOD": "POST", "PATH_INFO": path, **more}

call(answers("200 OK", []), {})
call(answers("200 OK", [1], None), {"REQUEST_METHOD": "", "PATH_INFO": None, "SCRIPT_NAME": "/shop", "QUERY_STRING": "a=1"})
call(answers("404 Not Found", []), at("/absent", SCRIPT_NAME="/shop"))
call(answers("404 n\\0t \\u00e9 \\u20ac", []), at("/texts"))
call(answers("404 \\udc80", []), at("/surrogate"))
for status in ("abc", "", "404", "399 Fine", "1" * 400 + " x", "\\u0664\\u0660\\u0664 x", 5, None):
    call(answers(status, []), at("/status"))
call(answers(status="404 named", headers=[]), at("/named"))
call(answers(), at("/nothing"))
call(answers("500 refused"), at("/refused"))
call(lambda environ, start_response: [], at("/silent"))
call(outer, at("/outer"))
call(parts, at("/parts"))
call(parts, at("/late", error=1))
half = served(parts)(at("/half"), start); print(next(half)); half.close()
for error in (ValueError("bad"), OSError(2, "none"), KeyboardInterrupt(), SystemExit(3)): call(raises(error), at("/raised"))
for odd in ({"PATH_INFO": b"/bytes"}, {"REQUEST_METHOD": 5}, {"REQUEST_METHOD": "G\\0T"}, {"QUERY_STRING": [1]}):
    call(answers("200 OK", []), at("/odd") | odd)
call(answers("200 OK", []), at("/odd", HTTP_TRACEPARENT=5))
call(answers("200 OK", []), collections.UserDict(at("/user")))
call(answers("200 OK", []), at("/stra\\u00dfe/\\u20ac\\udc80", QUERY_STRING="\\0"))
call(answers("200 OK", []), at("/last", REQUEST_METHOD="PropFind", HTTP_TRACEPARENT="\\u00e9"))

class Response(http.client.HTTPResponse):
    def begin(self): self.status, self.reason, self.will_close, self.version = *answer, False, 11
class Socket:
    def makefile(self, mode): return io.BytesIO()
    def sendall(self, data): pass
    def close(self): pass
def link(host="shop"):
    made = http.client.HTTPConnection(host); made.sock, made.response_class = Socket(), Response
    return made
def ask(link, *request):
    try: link.request(*request); print(link.getresponse().status)
    except Exception as error: print(type(error), error)
answer = (200, "OK")
for url in ("/orders/7", "", "orders", "http://other/x/y?z", "http://other", "/n\\u00e9", "/a b"): ask(link(), "GET", url)
for answer in ((404, "Not Found"), (500, None), (399, "Fine")): ask(link(), "PUT", "/answered")
del Response.begin
ask(link(), "PUT", "/broken")
again = link(); again.request("GET", "/never"); again.close(); again.sock = Socket(); again.request("GET", "/again"); del again
gone = link(); gone.request("GET", "/gone"); del gone; gc.collect()
odd = link(); odd.host = 5; odd.sock = Socket(); odd.putrequest("GET", "/host", skip_host=True); print(odd.host)
for n in range(300): link().request("GET", "/many")
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


def recorded(folder: Path) -> list[tuple[object, ...]]:
    [segment] = folder.glob("**/*.pfs")
    with pfs.attach(segment) as schema:
        rows = schema.table("events_statements_history_long").sort_values("EVENT_ID")
        assert (schema.table("events_statements_current")["END_EVENT_ID"].notna()).all()  # none is open
        assert int(schema.status["Performance_schema_locker_lost"]) == 0
    columns = rows[["EVENT_NAME", "SQL_TEXT", "MYSQL_ERRNO", "MESSAGE_TEXT"]].astype(object)
    return [tuple(row) for row in columns.where(columns.notna(), None).itertuples(index=False)]


def recorded_both_ways(tmp_path: Path, program: str, lines: int) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """What is recorded of a program under ``pfs run``, and of one that is joined. It prints the same in all ways."""
    (path := tmp_path / "app.py").write_text(program)
    plain = run(sys.executable, path)
    under = run(*PFS, "run", "--keep", "--no-report", "--", sys.executable, path)
    joined = after_join(tmp_path, path)
    assert plain.stdout.count("\n") == lines
    assert under.stdout == plain.stdout
    assert joined == plain.stdout
    return recorded(tmp_path / "segments"), recorded(tmp_path / "joined")


def after_join(tmp_path: Path, program: Path) -> str:
    """Joins a program, and returns what it says from then on."""
    (tmp_path / "joined").mkdir()
    process = subprocess.Popen([sys.executable, program, "joined"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PFS_DIR", str(tmp_path / "joined"))
            pfs.join(process.pid)
        return process.communicate("\n", timeout=120)[0]
    finally:
        process.kill()
        process.communicate()


def test_requests_of_unusual_kinds(tmp_path: Path) -> None:
    rows, joined = recorded_both_ways(tmp_path, PROGRAM, 47)
    assert rows == joined
    texts = [row[1] for row in rows]
    assert texts[:3] == ["GET /", "GET /shop/ '?a=1'", "POST /shop/absent"]
    assert texts.count("POST /outer") == 1
    assert texts.count("GET /between") == 2
    assert texts.count("POST /raised") == 4
    assert texts.count("GET /shop/many") == 300
    assert not {"POST /odd", "POST /user"} & set(texts)
    assert [(text, number, message) for _, text, number, message in rows if number] == [
        ("POST /shop/absent", 404, "Not Found"),
        ("POST /texts", 404, "n?t \u00e9 \u20ac"),
        ("POST /surrogate", 404, "?"),
        ("POST /status", 404, None),
        ("POST /nothing", 1, "TypeError"),
        ("POST /refused", 1, "AssertionError"),
        ("POST /parts", 503, "Busy"),
        ("POST /late", 1, "KeyError"),
        ("POST /half", 503, "Busy"),
        ("POST /raised", 1, "ValueError"),
        ("POST /raised", 2, "FileNotFoundError"),
        ("POST /raised", 1, "KeyboardInterrupt"),
        ("POST /raised", 3, "SystemExit"),
        ("PUT /shop/answered", 404, "Not Found"),
        ("PUT /shop/answered", 500, None),
        ("PUT /shop/broken", 1, "RemoteDisconnected"),
    ]


SENT = """\
import sys
if len(sys.argv) > 1: input("ready\\n")
import _pfs_run_native as native
class Keys(dict):
    def __missing__(self, name): return native.key("http-client", name.lower())
class Address:
    def __init__(self, host, path): self.host, self.path = host, path
class Client:
    def make(self, address): return Address("made", address)
class Raises:
    def __init__(self, error): self.error, self.path = error, "/"
    host = property(lambda self: exec("raise self.error", {"self": self}))
class Refuses:
    def make(self, address): raise ValueError(address)
about = Keys(), "none", "host", "path", "make"
for address, *client in (
    (Address("shop", "/orders/7?a=1"),),
    (Address("shop", b"/orders/8"),),
    (Address(None, "relative"),),
    (Address("sh\\u00f6p", b"/\\xff\\0"),),
    ("/of-client", Client()),
):
    native.end(native.begin_sent(about, "GET", address, *client), 0, 0, 0, "")
for address, *client in (
    (Address(5, "/"),), (Address("shop", 5),), (Address("shop", None),), ("no address",), (None,), (Raises(OSError(5)),),
    ("x", Refuses()), ("x", object()),
):
    assert native.begin_sent(about, "GET", address, *client) is None, address
assert native.begin_sent(about, 5, Address("shop", "/")) is None
assert native.begin_sent((), "GET", Address("shop", "/")) is None
for interrupt in (KeyboardInterrupt, SystemExit):
    try:
        native.begin_sent(about, "GET", Raises(interrupt()))
    except interrupt:
        continue
    sys.exit(f"{interrupt} is lost")
for wrong in ((), (about, "GET"), (about, "GET", Address("a", "/"), Client(), 5)):
    try:
        native.begin_sent(*wrong)
    except TypeError:
        continue
    sys.exit(f"{wrong} is no error")
if len(sys.argv) > 1: import os; os.kill(os.getpid(), 9)  # its segment stays
"""


def test_requests_to_addresses_of_any_kind(tmp_path: Path) -> None:
    """What an address raises is not the program's error, but a signal's exception that comes meanwhile is."""
    (path := tmp_path / "sent.py").write_text(SENT)
    run(*PFS, "run", "--keep", "--no-report", "--", sys.executable, path, check=True)
    after_join(tmp_path, path)
    for kept in ("segments", "joined"):
        texts = [row[1] for row in recorded(tmp_path / kept)]
        assert texts[:2] == ["GET /shop/orders/7 '?a=1'", "GET /shop/orders/8"]
        assert texts[2:] == ["GET //relative", "GET /sh '?p/??'", "GET /made/of-client"]


MOVED = (
    PROGRAM[: PROGRAM.index("\ncall(answers(") + 1]
    + PROGRAM[PROGRAM.index("class Response(") : PROGRAM.index("for url in")]
    + """
from concurrent.futures import ThreadPoolExecutor
pools = [ThreadPoolExecutor(1) for _ in range(3)]
def by(at, function, *given): return pools[at].submit(function, *given).result()
for n in range(20):
    half = by(0, lambda: served(parts)(at("/half"), start))
    print(by(0, next, half), by(1, next, half)); by(2, half.close)
    whole = by(0, lambda: served(parts)(at("/whole"), start))
    print(by(1, list, whole))
    late = by(0, lambda: served(parts)(at("/late", error=1), start))
    print(by(0, next, late), by(1, next, late))
    try: by(2, next, late)
    except KeyError as error: print(error)
    cell = [by(0, lambda: served(parts)(at("/dropped"), start))]
    print(by(0, next, cell[0])); by(2, cell.clear)
    asked = by(0, link); by(0, asked.request, "GET", "/asked")
    print(by(1, asked.getresponse).status)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""
)


def test_requests_that_end_in_another_thread(tmp_path: Path) -> None:
    """A server's pool advances the response, and closes it. The row stays in the thread where the request began."""
    rows, joined = recorded_both_ways(tmp_path, MOVED, 180)
    assert sorted(rows, key=str) == sorted(joined, key=str)
    found = [(text, number) for _, text, number, _ in rows if text != "GET /between"]
    expected = {"POST /half": 503, "POST /whole": 503, "POST /late": 1, "POST /dropped": 503, "GET /shop/asked": 0}
    assert Counter(found) == dict.fromkeys(expected.items(), 20)
    for folder in ("segments", "joined"):
        [segment] = (tmp_path / folder).glob("**/*.pfs")
        with pfs.attach(segment) as schema:
            history = schema.table("events_statements_history_long")
            moved = history[history["SQL_TEXT"].isin(list(expected))]
            assert len(set(moved["THREAD_ID"])) == 1
            counts = schema.table("events_statements_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
            assert counts[counts > 0].to_dict() == Counter(history["EVENT_NAME"])
            digests = schema.table("events_statements_summary_by_digest").set_index("DIGEST_TEXT")["COUNT_STAR"]
            assert {text: digests[text] for text in expected} == dict.fromkeys(expected, 20)
