"""Known programs under ``pfs run``: calls and bytes of each file and socket are those that ``strace`` sees in the same run.

A program that is not installed is skipped. tests/README.md says which ones the gate has, and how to run all of them.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.python._programs.witnessed import descendants, read, until, until_at_rest, witnessed
from tests.python.run.test_run import pytestmark

__all__ = ["pytestmark"]  # test_run's mark holds here, too

Run = Callable[[Path], None]


@dataclass(frozen=True)
class Program:
    """Is a program, what it is given to do in a folder, and a pattern of the files that it uses by stdio."""

    run: Run
    needs: tuple[str, ...]
    package: str
    stdio: str = "$^"


def found(name: str) -> str | None:
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"))])
    return shutil.which(name, path=path)


def path_of(name: str) -> str:
    path = found(name)
    assert path is not None
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def serving(folder: Path, *command: str, port: int, ends: int = 15, **more: Any) -> Iterator[None]:
    """Runs a server that listens on a port. The signal `ends` goes to its first process."""
    with open(folder / "log", "wb") as log, witnessed(folder, *command, stdout=log, **more) as process:
        until(lambda: listens(port) or process.poll() is not None, "the server does not listen")
        assert process.poll() is None, (folder / "log").read_text()
        yield
        until_at_rest(process.pid)
        os.kill(descendants(process.pid)[0], ends)
        process.wait(60)


def ended(folder: Path, *command: str | Path, **more: Any) -> None:
    with witnessed(folder, *command, **more) as process:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said


# ---- What the programs do


def xz(folder: Path) -> None:
    (folder / "data").write_bytes(os.urandom(1 << 20))
    ended(folder, "xz", "-T2", "-0", "-k", folder / "data")
    assert (
        subprocess.run(["xz", "-dc", folder / "data.xz"], capture_output=True, check=True).stdout
        == (folder / "data").read_bytes()
    )


def sqlite(folder: Path) -> None:
    inserts = "".join(f"insert into t values ({i}, 'x');" for i in range(30))
    ended(folder, "sqlite3", folder / "new.db", f"create table t(a integer primary key, b); {inserts} select count(*) from t;")


def ripgrep(folder: Path) -> None:
    (folder / "texts").mkdir()
    for i in range(200):
        (folder / "texts" / f"file{i}").write_text(f"line {i}\n" * 50)
    ended(folder, "rg", "-j2", "-c", "line 7", folder / "texts")


def redis(folder: Path) -> None:
    port = free_port()
    command = ("redis-server", "--port", str(port), "--appendonly", "yes", "--appendfsync", "everysec", "--dir", str(folder))
    with serving(folder, *command, port=port):
        for what in (["-t", "set,get", "-n", "300"], ["-t", "lpush,mset", "-n", "100", "-P", "4"]):
            subprocess.run(["redis-benchmark", "-p", str(port), "-c", "5", "-q", *what], check=True, capture_output=True)
        client = ["redis-cli", "-p", str(port)]
        subprocess.run([*client, "bgrewriteaof"], check=True, capture_output=True)
        # Else the server ends its child by a signal, whose handler may come into a probe: counted in locker_lost.
        rewriting = "aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1"
        asked = [*client, "info", "persistence"]
        until(
            lambda: (
                not any(word in subprocess.run(asked, check=True, capture_output=True, text=True).stdout for word in rewriting)
            ),
            "the file is not rewritten",
        )


def memcached(folder: Path) -> None:
    port = free_port()
    user = ("-u", "root") if os.geteuid() == 0 else ()
    command = ("memcached", "-l", "127.0.0.1", "-p", str(port), "-t", "2", *user)
    with serving(folder, *command, port=port), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(4)]
        for i in range(200):
            client = clients[i % 4]
            client.sendall(b"set k%d 0 0 100\r\n%s\r\nget k%d\r\n" % (i, b"v" * 100, i))
            answer = b""
            while not answer.endswith(b"END\r\n"):
                answer += client.recv(10000)
            assert answer.startswith(b"STORED\r\nVALUE")


def nginx(folder: Path) -> None:
    port = free_port()
    (folder / "small.html").write_text("x" * 600)
    (folder / "large.bin").write_bytes(os.urandom(300_000))
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/error; {user} events {{}} "
        f"http {{ access_log {folder}/access; {temporary} server {{ listen 127.0.0.1:{port}; root {folder}; "
        "location /sent/ { alias " + f"{folder}/; sendfile on; }} }} }}"
    )
    with serving(folder, path_of("nginx"), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error"), port=port, ends=3):
        for i in range(60):
            path = ("small.html", "large.bin", "sent/large.bin")[i % 3]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
                assert len(answer.read()) == (300_000 if "large" in path else 600)


def postgres(folder: Path) -> None:
    rights: dict[str, Any] = {}
    if os.geteuid() == 0:
        rights = {"user": 65534, "group": 65534, "extra_groups": []}
        os.chown(folder, 65534, 65534)
        for above in (folder, *folder.parents):
            if above.stat().st_uid == 0 and above != Path("/"):
                above.chmod(above.stat().st_mode | 0o011)
    data, port = folder / "data", free_port()
    setup = [path_of("initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"]
    subprocess.run(setup, check=True, cwd=folder, capture_output=True, **rights)
    with open(folder / "log", "wb") as log:
        command = [path_of("postgres"), "-D", str(data), "-p", str(port), "-k", str(folder), "-c", "autovacuum=off"]
        with witnessed(folder, *command, "-c", "listen_addresses=", stdout=log, **rights) as process:
            ready = [path_of("pg_isready"), "-q", "-h", str(folder), "-p", str(port)]
            until(lambda: subprocess.run(ready, check=False).returncode == 0, "postgres does not start")
            client = [path_of("pgbench"), "-h", str(folder), "-p", str(port), "-U", "postgres"]
            subprocess.run([*client, "-i", "-q", "-s", "1", "postgres"], check=True, capture_output=True)
            subprocess.run([*client, "-n", "-c", "2", "-t", "50", "postgres"], check=True, capture_output=True)
            os.kill(descendants(process.pid)[0], 2)
            process.wait(60)


def http_server(folder: Path) -> None:
    port = free_port()
    (folder / "page.html").write_text("x" * 5000)
    with serving(folder, "/usr/bin/python3", "-m", "http.server", str(port), "--bind", "127.0.0.1", port=port):
        for _ in range(50):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/page.html") as answer:
                assert len(answer.read()) == 5000


def node(folder: Path) -> None:
    port = free_port()
    (folder / "page.html").write_text("x" * 5000)
    (folder / "server.js").write_text(
        "const fs = require('fs'), http = require('http');\n"
        "http.createServer((request, answer) => fs.readFile('page.html', (error, data) => {\n"
        "  fs.writeFileSync('written', data);\n"
        f"  answer.end(data); }})).listen({port}, '127.0.0.1');\n"
    )
    with serving(folder, "node", str(folder / "server.js"), port=port):
        for _ in range(50):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
                assert len(answer.read()) == 5000


def java(folder: Path) -> None:
    (folder / "Files100.java").write_text(
        "import java.nio.file.*; import java.net.*; import java.io.*;\n"
        "public class Files100 { public static void main(String[] a) throws Exception {\n"
        '  for (int i = 0; i < 100; i++) { Path p = Path.of(a[0], "f" + i); Files.write(p, new byte[1000 + i]);\n'
        "    if (Files.readAllBytes(p).length != 1000 + i) System.exit(1); }\n"
        '  try (RandomAccessFile f = new RandomAccessFile(a[0] + "/random", "rw")) {\n'
        "    for (int i = 0; i < 50; i++) { f.seek(i * 10); f.write(new byte[7]); } f.getFD().sync(); } } }\n"
    )
    ended(folder, "java", "-XX:TieredStopAtLevel=1", folder / "Files100.java", folder)


# The programs read and write these by stdio: pfs counts the calls of stdio, strace its buffers.
REDIS = r"^/dev/urandom|/temp-.*\.(rdb|aof)$"
SSL, KERNEL = r"/openssl\.cnf$|/ca-certificates\.crt$", r"^/(proc|sys)/"
POSTGRES = r"/PG_VERSION$|\.conf$|/postmaster\.opts$|/pgstat\.(tmp|stat)$|/pg_internal\.init|/timezonesets/"

PROGRAMS = {
    "xz": Program(xz, ("xz",), "xz-utils"),
    "sqlite": Program(sqlite, ("sqlite3",), "sqlite3", r"^pipe:"),
    "redis": Program(redis, ("redis-server", "redis-benchmark", "redis-cli"), "redis-server", f"{SSL}|{KERNEL}|{REDIS}"),
    "memcached": Program(memcached, ("memcached",), "memcached"),
    "nginx": Program(nginx, ("nginx",), "nginx-light", SSL),
    "postgres": Program(postgres, ("postgres", "pgbench", "initdb", "pg_isready"), "postgresql", f"{SSL}|{KERNEL}|{POSTGRES}"),
    "ripgrep": Program(ripgrep, ("rg",), "ripgrep"),
    "http_server": Program(http_server, ("/usr/bin/python3",), "python3", SSL),
    "node": Program(node, ("node",), "nodejs", SSL),
    "java": Program(java, ("java", "javac"), "default-jdk-headless", rf"{KERNEL}|^/etc/java"),
}


@pytest.mark.needs("strace")
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_and_bytes_are_those_of_strace(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    if missing := [need for need in program.needs if found(need) is None]:
        pytest.skip(f"{missing[0]} is not installed (Debian: {program.package})")
    program.run(tmp_path)
    seen = read(tmp_path)
    assert seen.differences(program.stdio) == {}
    assert seen.pfs_socket_bytes == seen.strace_socket_bytes
    assert seen.lost == {}
    assert min(*seen.total("read"), seen.total("write")[0]) > 0
    print(f"{name}: {len(seen.pfs)} files and sockets by action, reads {seen.total('read')}, writes {seen.total('write')}")


def test_a_journal_takes_one_critical_section(tmp_path: Path) -> None:
    """A file is made, written, read and removed under one name again and again. Each critical section blocks signals, which
    strace counts. One is for the file's end; now and then another one is for memory, or for new files in advance."""
    program = tmp_path / "journal.py"
    program.write_text(
        "import os, sys\n"
        "for _ in range(int(sys.argv[1])):\n"
        "    fd = os.open('journal', os.O_RDWR | os.O_CREAT)\n"
        "    os.write(fd, b'x'); os.pread(fd, 1, 0); os.close(fd); os.unlink('journal')\n"
    )

    def blocked(times: int) -> int:
        trace = tmp_path / f"trace{times}"
        command = ["strace", "-f", "-qq", "-e", "trace=rt_sigprocmask", "-e", "signal=none", "-o", str(trace)]
        recorded = [sys.executable, "-m", "pfs", "run", "--no-report", "--", sys.executable, str(program), str(times)]
        subprocess.run([*command, *recorded], cwd=tmp_path, check=True)
        return sum("SIG_BLOCK" in line and line.rstrip().endswith("= 0") for line in trace.read_text().splitlines())

    sections = (blocked(300) - blocked(100)) / 200
    assert 1 <= sections < 1.5
