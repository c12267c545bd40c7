"""Known servers that are joined while they run: calls and bytes of each file and socket are those of a ``strace`` begun then.

A server that is not installed is skipped. tests/README.md says which ones the gate has.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pfs
from pfs.errors import StateError
from tests.python._programs.witnessed import CALLS, Key, Numbers, Witnessed, descendants, read, until
from tests.python.join.test_join import pytestmark
from tests.python.run.test_run_strace import KERNEL, POSTGRES, REDIS, SSL, found, free_port, listens, path_of

__all__ = ["pytestmark"]  # test_join's mark holds here, too

REQUESTS = 20
WEB = """\
import sqlite3
base = sqlite3.connect("data.db", check_same_thread=False, isolation_level=None)
base.execute("create table orders (id integer primary key, price integer)")
def order() -> bytes:
    base.execute("insert into orders (price) values (7)")
    with open("page.html", "rb") as file: return file.read()
"""
FASTAPI = f"""{WEB}
from fastapi import FastAPI, Response
app = FastAPI()
@app.get("/")
async def page() -> Response: return Response(order())
"""
DJANGO = f"""{WEB}
import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
settings.configure(ROOT_URLCONF="web", ALLOWED_HOSTS=["*"], SECRET_KEY="x")
urlpatterns = [path("", lambda request: HttpResponse(order()))]
app = get_wsgi_application()
"""
NODE = """\
const fs = require('fs'), http = require('http');
http.createServer((request, answer) => fs.readFile('page.html', (error, data) => {
  fs.writeFileSync('written', data);
  answer.end(data); })).listen(+process.argv[2], '127.0.0.1');
"""
JAVA = """\
import com.sun.net.httpserver.*;
import java.net.*;
import java.nio.file.*;
import java.util.concurrent.*;
public class Served {
  public static void main(String[] a) throws Exception {
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[0])), 0);
    server.createContext("/", asked -> {
      byte[] page = Files.readAllBytes(Path.of("page.html"));
      Files.write(Path.of("written"), page);
      asked.sendResponseHeaders(200, page.length);
      asked.getResponseBody().write(page);
      asked.close();
    });
    server.setExecutor(Executors.newFixedThreadPool(3));
    server.start();
  }
}
"""
RUST = """\
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
fn main() {
    let port = std::env::args().nth(1).unwrap();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    let log = Arc::new(Mutex::new(std::fs::File::create("written").unwrap()));
    let mut served = Vec::new();
    for _ in 0..3 {
        let (listener, log) = (listener.try_clone().unwrap(), log.clone());
        served.push(std::thread::spawn(move || loop {
            let (mut link, _) = listener.accept().unwrap();
            let mut bytes = [0; 4096];
            if link.read(&mut bytes).unwrap_or(0) == 0 { continue; }
            let page = std::fs::read("page.html").unwrap();
            log.lock().unwrap().write_all(b"one more\\n").unwrap();
            link.write_all(format!("HTTP/1.0 200 OK\\r\\nContent-Length: {}\\r\\n\\r\\n", page.len()).as_bytes()).unwrap();
            link.write_all(&page).unwrap();
        }));
    }
    for thread in served { thread.join().unwrap(); }
}
"""


@dataclass
class Server:
    """Is a server that runs, what it is asked to do, and a pattern of the files that it uses by stdio."""

    pid: int
    ask: Callable[[], None]
    unseen: str = SSL
    children: bool = True  # whether the processes that it has by then are joined, too

    def processes(self) -> list[int]:
        return [self.pid, *(descendants(self.pid) if self.children else ())]


def get(port: int) -> Callable[[], None]:
    def ask() -> None:
        for _ in range(REQUESTS):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                assert len(answer.read()) == 5000

    return ask


@contextlib.contextmanager
def started(folder: Path, *command: str | Path, **more: Any) -> Iterator[int]:
    with open(folder / "log", "wb") as log:
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": folder} | more
        process = subprocess.Popen(list(map(str, command)), **options)
    try:
        yield process.pid
    finally:
        for pid in (*descendants(process.pid), process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        process.wait(60)


@contextlib.contextmanager
def web(folder: Path, *command: str | Path, port: int) -> Iterator[Server]:
    (folder / "page.html").write_text("x" * 5000)
    with started(folder, *command) as pid:
        until(lambda: listens(port) or not Path(f"/proc/{pid}/exe").exists(), "the server does not listen")
        get(port)()  # what it does once has been done
        yield Server(pid, get(port))


@contextlib.contextmanager
def uvicorn(folder: Path) -> Iterator[Server]:
    (folder / "web.py").write_text(FASTAPI)
    port = free_port()
    with web(folder, sys.executable, "-m", "uvicorn", "web:app", "--port", str(port), port=port) as server:
        yield server


@contextlib.contextmanager
def gunicorn(folder: Path) -> Iterator[Server]:
    (folder / "web.py").write_text(DJANGO)
    port = free_port()
    with web(folder, sys.executable, "-m", "gunicorn", "web:app", "-b", f"127.0.0.1:{port}", "-w", "1", port=port) as server:
        yield server


@contextlib.contextmanager
def node(folder: Path) -> Iterator[Server]:
    (folder / "served.js").write_text(NODE)
    port = free_port()
    with web(folder, "node", "served.js", str(port), port=port) as server:
        yield server


@contextlib.contextmanager
def java(folder: Path) -> Iterator[Server]:
    (folder / "Served.java").write_text(JAVA)
    port = free_port()
    with web(folder, "java", "-XX:TieredStopAtLevel=1", "Served.java", str(port), port=port) as server:
        server.unseen = rf"{KERNEL}|^/etc/java"
        yield server


@contextlib.contextmanager
def rust(folder: Path) -> Iterator[Server]:
    (folder / "served.rs").write_text(RUST)
    subprocess.run(["rustc", "-O", "served.rs"], cwd=folder, check=True, capture_output=True)
    port = free_port()
    with web(folder, folder / "served", str(port), port=port) as server:
        yield server


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[Server]:
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error; {user} events {{}} "
        f"http {{ access_log {folder}/access; {temporary} server {{ listen 127.0.0.1:{port}; "
        f"root {folder}; index page.html; }} }}"
    )
    with web(folder, path_of("nginx"), "-c", folder / "nginx.conf", "-e", folder / "error", port=port) as server:
        server.pid = descendants(server.pid)[0]  # its parent waits for signals alone, and is at no safe point
        yield server


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[Server]:
    path = folder / "redis.sock"
    arguments = ["--port", "0", "--unixsocket", str(path), "--appendonly", "yes", "--appendfsync", "always", "--dir", str(folder)]
    with started(folder, "redis-server", *arguments) as pid:
        until(path.exists, "redis does not listen")

        def ask() -> None:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                for n in range(REQUESTS):
                    client.sendall(b"SET key%d %s\r\nGET key%d\r\n" % (n, b"v" * 500, n))
                    answer = b""
                    while not answer.endswith(b"v\r\n"):
                        answer += client.recv(10000)

        ask()
        yield Server(pid, ask, f"{SSL}|{KERNEL}|{REDIS}")


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Server]:
    rights: dict[str, Any] = {}
    if os.geteuid() == 0:
        rights = {"user": 65534, "group": 65534, "extra_groups": []}
        for own in (folder, folder / "segments"):
            os.chown(own, 65534, 65534)
        for above in (folder, *folder.parents):
            if above.stat().st_uid == 0 and above != Path("/"):
                above.chmod(above.stat().st_mode | 0o011)
    data, port = folder / "data", free_port()
    setup = [path_of("initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"]
    made = subprocess.run(list(map(str, setup)), cwd=folder, capture_output=True, text=True, check=False, **rights)
    assert made.returncode == 0, made.stderr
    command: list[str | Path] = [
        path_of("postgres"),
        "-D",
        data,
        "-p",
        str(port),
        "-k",
        folder,
        "-c",
        "autovacuum=off",
        "-c",
        "listen_addresses=",
    ]
    with started(folder, *command, **rights) as pid, contextlib.ExitStack() as stack:
        psql = [path_of("psql"), "-h", str(folder), "-p", str(port), "-U", "postgres", "-qAt"]
        create = [*psql, "-c", "create table orders (id serial primary key, price integer)"]
        until(lambda: subprocess.run(create, capture_output=True, check=False).returncode == 0, "postgres does not start")

        def ask() -> None:
            client = subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(client.communicate)  # it ends with its input; its process of the server must live until then
            assert client.stdin is not None
            assert client.stdout is not None
            for n in range(REQUESTS):
                client.stdin.write(f"insert into orders (price) values ({n}) returning price;\n")
                client.stdin.flush()
                assert int(client.stdout.readline()) == n

        ask()
        yield Server(pid, ask, f"{SSL}|{KERNEL}|{POSTGRES}", children=False)  # those work by themselves, for no client


SERVERS = {
    "uvicorn": (uvicorn, ()),
    "gunicorn": (gunicorn, ()),
    "node": (node, ("node",)),
    "java": (java, ("java", "javac")),
    "rust": (rust, ("rustc",)),
    "nginx": (nginx, ("nginx",)),
    "redis": (redis, ("redis-server",)),
    "postgres": (postgres, ("postgres", "initdb", "psql")),
}


def until_quiet(pid: int) -> None:
    """Waits until no thread of the server runs."""
    quiet = 0
    end = time.monotonic() + 60
    while quiet < 10:
        states = set()
        for one in (pid, *descendants(pid)):
            for task in Path(f"/proc/{one}/task").glob("*/stat"):
                with contextlib.suppress(OSError):
                    states.add(task.read_text().rpartition(")")[2].split()[0])
        quiet = quiet + 1 if states <= {"S"} else 0
        assert time.monotonic() < end, f"the server does not come to rest: {states}"
        time.sleep(0.01)


def join(pid: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            pfs.join(pid)
            return
        except StateError:
            if time.monotonic() > end:
                raise


@contextlib.contextmanager
def traced(folder: Path, processes: list[int]) -> Iterator[dict[int, int]]:
    """Runs strace on processes. Gives those of each thread."""
    (folder / "traces").mkdir()
    threads = {int(task.name): one for one in processes for task in Path(f"/proc/{one}/task").iterdir()}
    attached = [word for one in processes for word in ("-p", str(one))]
    trace = ["strace", "-ff", "-yy", "-s", "0", "--signal=none", "-e", f"trace={CALLS}", "-o", str(folder / "traces/trace")]
    strace = subprocess.Popen([*trace, *attached], stderr=subprocess.PIPE, text=True)
    try:
        assert strace.stderr is not None
        for _ in processes:
            assert "attached" in strace.stderr.readline()
        for thread in threads:
            until(lambda thread=thread: tracer_of(thread) == strace.pid, "strace does not come")  # type: ignore[misc]
        yield threads
    finally:
        strace.send_signal(2)
        strace.communicate(timeout=60)


def tracer_of(thread: int) -> int:
    [tracer] = re.findall(r"^TracerPid:\t(\d+)$", Path(f"/proc/{thread}/status").read_text(), re.MULTILINE)
    return int(tracer)


def since(now: Witnessed, begin: Witnessed) -> Witnessed:
    """Returns what was seen since the begin."""

    def less(more: list[int], before: list[int]) -> list[int]:
        return [a - b for a, b in zip(more, before, strict=True)]

    def since_then(more: dict[Key, Numbers], before: dict[Key, Numbers]) -> dict[Key, Numbers]:
        return {key: less(numbers, before.get(key, [0, 0])) for key, numbers in more.items() if numbers != before.get(key)}

    return Witnessed(
        since_then(now.strace, begin.strace),
        since_then(now.pfs, begin.pfs),
        less(now.strace_socket_bytes, begin.strace_socket_bytes),
        less(now.pfs_socket_bytes, begin.pfs_socket_bytes),
        now.lost,
    )


@pytest.mark.needs("strace")
@pytest.mark.parametrize("name", SERVERS)
def test_calls_and_bytes_from_the_join_on_are_those_of_strace(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, needed = SERVERS[name]
    if missing := [need for need in needed if found(need) is None]:
        pytest.skip(f"{missing[0]} is not installed")
    if name in ("uvicorn", "gunicorn"):
        pytest.importorskip({"uvicorn": "fastapi", "gunicorn": "django"}[name])
        pytest.importorskip(name)
    (tmp_path / "segments").mkdir(mode=0o700)
    monkeypatch.setenv("PFS_DIR", str(tmp_path / "segments"))
    monkeypatch.setenv("PFS_OPTIONS", "performance_schema_events_waits_history_long_size=200000")
    with server(tmp_path) as it:
        for one in it.processes():
            join(one)
        it.ask()
        until_quiet(it.pid)
        with traced(tmp_path, it.processes()) as threads:
            until_quiet(it.pid)
            begin = read(tmp_path, threads)
            it.ask()
            until_quiet(it.pid)
        seen = since(read(tmp_path, threads), begin)
    assert seen.differences(it.unseen) == {}
    assert seen.pfs_socket_bytes == seen.strace_socket_bytes
    assert seen.lost == {}
    assert min(*seen.total("read"), seen.total("write")[0]) > 0
    print(f"{name}: {len(seen.pfs)} files and sockets by action, reads {seen.total('read')}, writes {seen.total('write')}")
