"""``pfs run --decode``: the requests that an unchanged server answers are statements: as many as the server counts itself."""

from __future__ import annotations

import http.client
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pfs
from tests.python import servers
from tests.python.run.test_run import PFS, own_folder, pytestmark, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

Statements = dict[str, tuple[int, int, int]]  # by command: count, rows, errors


class Server:
    """A server on a port of its own, below pfs run or alone."""

    def __init__(self, port: int, process: subprocess.Popen[str]) -> None:
        self.port = port
        self.process = process

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def statements(self, protocol: str) -> Statements:
        there = pfs.processes()
        assert len(there) == 1
        with pfs.attach(str(there["PATH"].iloc[0])) as schema:
            table = schema.table("events_statements_summary_global_by_event_name")
            lost = schema.table("global_status").set_index("VARIABLE_NAME")["VARIABLE_VALUE"]
            assert lost["Performance_schema_statement_classes_lost"] == "0"
        rows = table[table["EVENT_NAME"].str.startswith(f"statement/{protocol}/") & (table["COUNT_STAR"] > 0)]
        return {
            str(row.EVENT_NAME).rpartition("/")[2]: (int(row.COUNT_STAR), int(row.SUM_ROWS_SENT), int(row.SUM_ERRORS))  # type: ignore[arg-type]
            for row in rows.itertuples()
        }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def serving(command: Callable[[int], list[str]], folder: Path, *options: str) -> Iterator[Server]:
    """Starts a server below pfs run; without options, alone."""
    port = free_port()
    before = [*PFS, "run", "--no-report", *options, "--"] if options else []
    with subprocess.Popen(
        [*before, *command(port)], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < end
                    time.sleep(0.02)
            yield Server(port, process)
        finally:
            process.terminate()
            process.communicate(timeout=60)


# ---- Redis


def redis_program(name: str) -> str:
    """Returns the path as it is: redis-server is a link to a program that does what its name says."""
    servers.find(name)  # or skips
    return shutil.which(name) or name


def redis(port: int) -> list[str]:
    return [redis_program("redis-server"), "--port", str(port), "--save", "", "--appendonly", "yes", "--appendfsync", "no"]


def packed(*words: str | bytes) -> bytes:
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def answer(link: socket.socket, until: bytes) -> bytes:
    """Reads until the answer to ``ECHO until``."""
    link.sendall(packed("ECHO", until))
    data, end = b"", b"$%d\r\n%s\r\n" % (len(until), until)
    while not data.endswith(end):
        piece = link.recv(1 << 16)
        assert piece
        data += piece
    return data[: -len(end)]


def commands_of(chance: random.Random) -> list[tuple[bytes, str]]:
    """Returns requests of all forms, as bytes, with the command."""
    large = bytes(chance.randrange(256) for _ in range(5000))
    some: list[tuple[bytes, str]] = []
    for number in range(300):
        some += chance.choice(
            [
                [(packed("SET", f"key{number}", f"it's {number}"), "set")],
                [(packed("set", "large", large * 40), "set"), (packed("GET", "large"), "get")],
                [(packed("RPUSH", "list", *"abc"), "rpush"), (packed("LRANGE", "list", "0", "4"), "lrange")],
                [(packed("LPUSH", "key-of-text", "x"), "lpush"), (packed("SET", "key-of-text", ""), "set")],
                [(packed("INCR", "list"), "incr")],  # an error
                [(packed("NOSUCH", "a", "b"), "nosuch")],
                [(b"GET key1\r\n", "get"), (b"  \r\n", "")],  # as a line
                [(packed("MGET", *(f"key{i}" for i in range(20))), "mget")],
                [(packed("EVAL", "return {1,{2,{3,4}},'x',false}", "0"), "eval")],
                [(packed("HELLO", "3"), "hello"), (packed("HGETALL", "none"), "hgetall"), (packed("HELLO", "2"), "hello")],
                [(b"*0\r\n", ""), (packed("PING"), "ping")],
            ]
        )
    return some


@pytest.mark.parametrize("pieces", ["whole", "random", "bytes"])
def test_redis_counts_the_same_commands(tmp_path: Path, pieces: str) -> None:
    """Requests come in a pipeline, in pieces of any size; replies leave as the server likes."""
    chance = random.Random(seed := random.randrange(10**9))
    print(f"seed {seed}")
    requests = commands_of(chance)
    if pieces == "bytes":
        requests = [each for each in requests if len(each[0]) < 1000]
    sent = b"".join(request for request, _ in requests)
    with serving(redis, tmp_path, "--decode", "redis") as server, server.connect() as link:
        writer = threading.Thread(target=send, args=(link, sent, pieces, chance))
        received = []
        reader = threading.Thread(target=lambda: received.append(read_until(link, b"$8\r\nend-here\r\n")))
        reader.start()
        writer.start()
        writer.join()
        link.sendall(packed("ECHO", "end-here"))
        reader.join()
        info = stats_of(server)
        found = server.statements("redis")
    expected = Counter(command for _, command in requests if command)
    expected_known = expected.copy()
    del expected_known["nosuch"]
    assert {name: count for name, (count, _, _) in found.items() if name in expected} == dict(expected_known)
    # The server counts calls by itself, and those that failed; it does not count a command that it does not know.
    for name in expected_known:
        calls, failed = info[name]
        assert (found[name][0], found[name][2]) == (calls, failed), name
    assert "nosuch" not in found
    assert (found["other"][0], found["other"][2]) == (expected["nosuch"],) * 2
    assert found["mget"][1] == 20 * expected["mget"]
    assert found["eval"][1] == 4 * expected["eval"]
    assert b"-ERR unknown command" in received[0]


def send(link: socket.socket, data: bytes, pieces: str, chance: random.Random) -> None:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    at = 0
    while at < len(data):
        size = len(data) if pieces == "whole" else 1 if pieces == "bytes" else chance.choice([1, 2, 3, 20, 1000, 70_000])
        link.sendall(data[at : at + size])
        at += size


def read_until(link: socket.socket, end: bytes) -> bytes:
    data = bytearray()
    while not data.endswith(end):
        piece = link.recv(1 << 16)
        assert piece
        data += piece
    return bytes(data)


def stats_of(server: Server) -> dict[str, tuple[int, int]]:
    """Returns calls and failures by command, from a connection of its own."""
    with server.connect() as link:
        text = answer_of(link, packed("INFO", "commandstats")).decode()
    found = {}
    for line in text.splitlines():
        if line.startswith("cmdstat_"):
            name, _, values = line.removeprefix("cmdstat_").partition(":")
            numbers = dict(part.split("=") for part in values.split(","))
            found[name] = (int(numbers["calls"]), int(numbers["failed_calls"]) + int(numbers["rejected_calls"]))
    return found


def answer_of(link: socket.socket, request: bytes) -> bytes:
    link.sendall(request)
    return answer(link, b"that-is-all")


MODULE = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    link, _ = listener.accept()
    with link, link.makefile("rb") as file:
        while line := file.readline():  # *N
            words = [(file.readline(), file.readline().strip())[1] for _ in range(int(line[1:]))]
            link.sendall(b"-ERR unknown command\\r\\n" if words[0].startswith(b"NO") else b"+OK\\r\\n")
"""


def test_a_word_that_a_client_invents_is_no_instrument(tmp_path: Path) -> None:
    """Commands of a module are known once the server has answered them. Passwords that were typed as commands are not."""
    (program := tmp_path / "module.py").write_text(MODULE)
    requests = [packed("NO" + word, "x") for word in ("secret1", "secret2", *map(str, range(300)))]
    with serving(lambda port: [sys.executable, str(program), str(port)], tmp_path, "--decode", "redis") as server:
        with server.connect() as link:
            for request in (*requests, packed("FT.SEARCH", "a"), packed("FT.SEARCH", "b"), packed("GET", "a")):
                link.sendall(request)
                assert link.recv(100)
            # The server's write of an answer ends after the client has read it; it has read the next request after that.
            link.sendall(packed("FT.SEARCH", "c"))
            assert link.recv(100)
            found = server.statements("redis")
        assert {**found, "ft.search": (2, 0, 0)} == {"other": (302, 0, 302), "ft.search": (2, 0, 0), "get": (1, 0, 0)}
        metrics = run(*PFS, "metrics", check=True).stdout
        with pfs.attach(str(pfs.processes()["PATH"].iloc[0])) as schema:
            digests = schema.table("events_statements_summary_by_digest")["DIGEST_TEXT"].to_list()
            texts = schema.table("events_statements_history_long")["SQL_TEXT"]
    assert "secret" not in metrics
    assert sorted(digests) == ["`FT` . `SEARCH` ?", "`GET` ?", "`OTHER` ?, ..."]
    assert "OTHER 'nosecret1', 'x'" in set(texts)


def test_a_benchmark_is_counted_and_times_are_those_of_the_server(tmp_path: Path) -> None:
    """Many connections, each with many requests under way. A command that sleeps takes that long."""
    with serving(redis, tmp_path, "--decode", "redis") as server:
        command = [
            redis_program("redis-benchmark"),
            "-p",
            str(server.port),
            "-n",
            "3200",
            "-c",
            "20",
            "-P",
            "16",
            "-q",
            "-t",
            "set,get",
        ]
        run(*command, check=True)
        with server.connect() as link:
            answer_of(link, packed("DEBUG", "SLEEP", "0.1") + packed("BLPOP", "nothing", "0.1"))
        found = server.statements("redis")
        assert (found["set"][0], found["get"][0]) == (3200, 3200)
        with pfs.attach(str(pfs.processes()["PATH"].iloc[0])) as schema:
            table = schema.table("events_statements_summary_global_by_event_name").set_index("EVENT_NAME")
            texts = schema.table("events_statements_summary_by_digest")
        assert 100e9 <= table["MAX_TIMER_WAIT"]["statement/redis/blpop"] < 30e12
        digests = dict(zip(texts["DIGEST_TEXT"], texts["COUNT_STAR"], strict=True))
        assert digests["SET ?, ..."] == 3200
        assert digests["`GET` ?"] == 3200


def test_connections_that_are_not_followed(tmp_path: Path) -> None:
    """Subscribers, clients that go away in the middle of a request, and bytes of no protocol: the server answers all the same."""
    with serving(redis, tmp_path, "--decode", "redis") as server:
        with server.connect() as subscriber, server.connect() as other:
            subscriber.sendall(packed("SUBSCRIBE", "news", "weather"))
            time.sleep(0.1)
            assert b"*3\r\n$9\r\nsubscribe" in subscriber.recv(1000)
            other.sendall(packed("PUBLISH", "news", "hello"))
            assert other.recv(100) == b":1\r\n"
            assert b"hello" in subscriber.recv(1000)
        for half in (
            packed("SET", "a", "b" * 100)[:-30],
            b"*3\r\n$3\r\n",
            b"*",
            b"\x16\x03\x01\x02\x00junk",
            b"*2\r\n$-1\r\n",
            os.urandom(200),
        ):
            with server.connect() as link:
                link.sendall(half)
        with server.connect() as link:
            assert answer_of(link, packed("SET", "a", "b")) == b"+OK\r\n"
            assert answer_of(link, packed("PING")) == b"+PONG\r\n"  # the statement of the SET has ended by now
        found = server.statements("redis")
        assert found["set"] == (1, 0, 0)
        assert found["publish"] == (1, 0, 0)
        assert "subscribe" not in found


def test_without_the_option_a_server_has_no_statements(tmp_path: Path) -> None:
    with serving(redis, tmp_path, "--only", "sockets,statements") as server:
        with server.connect() as link:
            assert answer_of(link, packed("SET", "a", "b")) == b"+OK\r\n"
        assert server.statements("redis") == {}


# ---- HTTP


SITE = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def reply(self, body, status=200, chunked=False):
        self.send_response(status)
        if chunked: self.send_header("Transfer-Encoding", "chunked")
        else: self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if chunked:
            for at in range(0, len(body), 7): self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(body[at:at+7]), body[at:at+7]))
            self.wfile.write(b"0\\r\\n\\r\\n")
        elif self.command != "HEAD": self.wfile.write(body)
    def do_GET(self):
        if self.path.startswith("/missing"): self.reply(b"no", 404)
        elif self.path == "/file":
            with open(__file__, "rb") as file:
                size = len(file.read()); file.seek(0)
                self.send_response(200); self.send_header("Content-Length", str(size)); self.end_headers()
                self.wfile.flush(); self.connection.sendfile(file)
        else: self.reply(b"x" * 1000, chunked=self.path.startswith("/chunks"))
    do_HEAD = do_GET
    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        self.reply(b"%d" % len(self.rfile.read(size)), 201)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_requests_of_a_web_server(tmp_path: Path) -> None:
    (program := tmp_path / "site.py").write_text(SITE)
    requests = [
        *[("GET", f"/user/{number}/posts?page={number}", None) for number in range(10)],
        *[("GET", "/chunks", None)] * 5,
        *[("HEAD", "/user/1", None)] * 3,
        *[("POST", "/orders", b"y" * size) for size in (0, 1, 70_000)],
        *[("GET", f"/missing/{number:032x}", None) for number in range(4)],
        *[("GET", "/file", None)] * 2,
    ]
    chance = random.Random(seed := random.randrange(10**9))
    print(f"seed {seed}")
    chance.shuffle(requests)

    def ask(port: int) -> list[tuple[int, bytes]]:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        answers = []
        for method, path, body in requests:
            link.request(method, path, body)
            response = link.getresponse()
            answers.append((response.status, response.read()))
        link.close()
        return answers

    def command(port: int) -> list[str]:
        return [sys.executable, str(program), str(port)]

    with serving(command, tmp_path) as alone:
        plain = ask(alone.port)
    with serving(command, tmp_path, "--decode", "http") as server:
        assert ask(server.port) == plain
        end = time.monotonic() + 10
        while sum(count for count, _, _ in server.statements("http").values()) < len(requests) and time.monotonic() < end:
            time.sleep(0.02)  # the client has a reply before the server's write has returned
        assert server.statements("http") == {"get": (21, 0, 4), "head": (3, 0, 0), "post": (3, 0, 0)}
        with pfs.attach(str(pfs.processes()["PATH"].iloc[0])) as schema:
            digests = schema.table("events_statements_summary_by_digest")
            errors = schema.table("events_statements_summary_by_digest")["SUM_ERRORS"].sum()
    found = dict(zip(digests["DIGEST_TEXT"], digests["COUNT_STAR"], strict=True))
    assert found == {
        "GET /user/?/posts ?": 10,
        "GET /chunks": 5,
        "HEAD /user/?": 3,
        "POST /orders": 3,
        "GET /missing/?": 4,
        "GET /file": 2,
    }
    assert errors == 4


def test_a_method_that_a_client_invents_is_no_instrument(tmp_path: Path) -> None:
    (program := tmp_path / "site.py").write_text(SITE)
    with serving(lambda port: [sys.executable, str(program), str(port)], tmp_path, "--decode", "http") as server:
        for method in ("secretword", "PROPFIND"):
            link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            for asked in ("GET", method):
                link.request(asked, "/file")
                assert link.getresponse().read() is not None
            link.close()
        assert set(server.statements("http")) == {"get", "other", "propfind"}


def test_an_unknown_protocol_is_refused() -> None:
    done = run(*PFS, "run", "--decode", "smtp", "--", shutil.which("true") or "true")
    assert done.returncode == 2
    assert "there is no protocol 'smtp': legal are redis, http" in done.stderr
