"""Measures what `pfs run` costs: an uncontended lock, and the processor time of servers.

    python lab/run_price.py locks [--rounds 5]
    python lab/run_price.py redis nginx postgres pgbench [--pairs 60] [--options TEXT | --floor]

`locks` runs lab/run_locks.c plain and under libperfschema-run.so with several settings, in turn. It prints nanoseconds
of a lock and an unlock, the fastest of all rounds, and what is promised of them.

A name of a program runs it twice, plain and under pfs with its defaults, to which --options adds PFS_OPTIONS. The same load goes
to both in turn: redis-benchmark, wrk, pgbench. It prints the processor time that the program took with pfs over that without,
for the same number of requests, twice: the median of the pairs, and the ratio of the lower quartiles, which other work on the
machine changes less. Each has a 95 % bootstrap interval. `postgres` is the server under pgbench, `pgbench` is that client.
--floor takes run_floor.c instead of pfs: two readings of the timer around each call, and nothing else.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import glob
import json
import os
import random
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pfs._process.run.launch import environment

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = ("plain", "inert", "off", "contended", "all on")


@functools.cache
def floor_library() -> str:
    folder = tempfile.mkdtemp(prefix="pfs-floor-", dir="/dev/shm")
    atexit.register(shutil.rmtree, folder)
    os.chmod(folder, 0o755)  # servers of other users load it
    target = f"{folder}/run_floor.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", target, ROOT / "lab/run_floor.c"], check=True)
    return target


def run_environment(setting: str, folder: str) -> dict[str, str]:
    """Returns the environment of a program: plain, with the floor, or recorded with a setting. Options of pfs may follow a
    comma."""
    setting, _, options = setting.partition(",")
    if setting == "plain":
        return dict(os.environ)
    if setting == "floor":
        return os.environ | {"LD_PRELOAD": floor_library()}
    only = ["files"] if setting == "off" else []
    more = environment(folder, only=only, all_on=setting == "all on")
    if setting == "inert":
        more["PFS_OPTIONS"] = "performance_schema=OFF"
    if options:
        more["PFS_OPTIONS"] += f",{options}"
    return os.environ | more | {"PFS_KEEP": "0"}


def measure_locks(rounds: int, milliseconds: float) -> dict[str, dict[str, float]]:
    """Returns nanoseconds by setting and by what is measured."""
    fastest: dict[str, dict[str, float]] = {setting: {} for setting in SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/run_locks"
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "lab/run_locks.c", "-lpthread"], check=True)
        for _ in range(rounds):
            for setting in SETTINGS:
                command = [program, str(milliseconds)]
                done = subprocess.run(command, env=run_environment(setting, folder), check=True, stdout=subprocess.PIPE)
                for name, nanos in json.loads(done.stdout).items():
                    fastest[setting][name] = min(nanos, fastest[setting].get(name, nanos))
    return fastest


def promises(nanos: dict[str, dict[str, float]]) -> list[tuple[str, float, float]]:
    """Returns what is promised: a text, the measured value, the limit."""
    bare, floor = nanos["plain"]["one"], nanos["plain"]["timed"]
    scattered = nanos["plain"]["scattered"]
    return [
        ("all on / floor", nanos["all on"]["one"] / floor, 1.3),
        ("contended - bare, ns", nanos["contended"]["one"] - bare, 8),
        ("off - bare, ns", nanos["off"]["one"] - bare, 4),
        ("16,384 mutexes, all on / floor", nanos["all on"]["scattered"] / floor, 2),
        ("16,384 mutexes, contended / floor", nanos["contended"]["scattered"] / floor, 2),
        ("16,384 mutexes, off - bare, ns", nanos["off"]["scattered"] - scattered, 4),
    ]


def show_locks(rounds: int, milliseconds: float) -> bool:
    nanos = measure_locks(rounds, milliseconds)
    columns = list(nanos["plain"])
    print("ns".ljust(12), *(column.rjust(10) for column in columns))
    for setting, row in nanos.items():
        print(setting.ljust(12), *(f"{row[column]:10.2f}" for column in columns))
    good = True
    for text, value, limit in promises(nanos):
        good &= value <= limit
        print(f"{text:40} {value:6.2f}  (limit {limit}){'' if value <= limit else '  MISSED'}")
    return good


# ---- Programs


def found(name: str) -> str:
    """Returns the path of a program."""
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"))])
    program = shutil.which(name, path=path)
    if program is None:
        sys.exit(f"{name} is not installed (Debian: redis-server, redis-tools, nginx-light, wrk, postgresql)")
    return program


def as_nobody(folder: Path) -> dict[str, object]:
    """Returns the arguments of subprocess for servers that refuse to run as root."""
    if os.geteuid() != 0:
        return {}
    os.chown(folder, 65534, 65534)
    return {"user": 65534, "group": 65534, "extra_groups": []}


def clock_of(pid: int) -> int:
    """Returns the number of the clock of a process, as clock_getcpuclockid() does: it counts nanoseconds."""
    return ~pid << 3 | 2


def processor_time(pid: int) -> float:
    """Returns the seconds that a process and its descendants have used so far."""
    try:
        own = time.clock_gettime(clock_of(pid))
        of_ended = sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]))
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return own + of_ended / os.sysconf("SC_CLK_TCK") + sum(processor_time(int(child)) for child in children)


@contextlib.contextmanager
def server(command: list[str], folder: Path, setting: str, takes: Callable[[], bool], **more: Any) -> Iterator[int]:
    """Runs a server and gives its process number."""
    (folder / "segments").mkdir(mode=0o777)
    os.chmod(folder / "segments", 0o777)
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            command, env=run_environment(setting, str(folder / "segments")), cwd=folder, stdout=log, stderr=log, **more
        )
        try:
            deadline = time.monotonic() + 60
            while not takes():
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{command[0]} does not start:\n{(folder / 'log').read_text()}")
                time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()
            process.wait()


def load(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


Measure = Callable[[], float]  # gives a load, and returns the processor time for it


@contextlib.contextmanager
def redis(setting: str, folder: Path) -> Iterator[Measure]:
    path = folder / "socket"
    command = [found("redis-server"), "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(folder)]
    with server(command, folder, setting, path.exists) as pid:

        def measure() -> float:
            begin = processor_time(pid)
            load(found("redis-benchmark"), "-s", str(path), "-n", "5000", "-c", "20", "-q", "-t", "set,get")
            return processor_time(pid) - begin

        yield measure


@contextlib.contextmanager
def nginx(setting: str, folder: Path) -> Iterator[Measure]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "index.html").write_text("x" * 600)
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = "".join(f"{kind}_temp_path {folder}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error; {user} events {{}}"
        f"http {{ access_log off; keepalive_requests 100000; {temporary} server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
    )

    def takes() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    with server([found("nginx"), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error")], folder, setting, takes) as pid:

        def measure() -> float:
            begin = processor_time(pid)
            output = load(found("wrk"), "-t", "1", "-c", "10", "-d", "1s", f"http://127.0.0.1:{port}/index.html")
            requests = re.search(r"(\d+) requests in", output)
            assert requests is not None
            return (processor_time(pid) - begin) / int(requests[1])

        yield measure


@contextlib.contextmanager
def postgres(setting: str, folder: Path, client: str = "") -> Iterator[Measure]:
    """`client`: measures pgbench with that setting instead of the server."""
    rights = as_nobody(folder)
    data = folder / "data"
    setup = [found("initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"]
    subprocess.run(setup, check=True, cwd=folder, stdout=subprocess.DEVNULL, **rights)  # type: ignore[call-overload]
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off", "autovacuum": "off"}
    command = [found("postgres"), "-D", str(data), *(word for item in settings.items() for word in ("-c", "=".join(item)))]
    pgbench = [found("pgbench"), "-h", str(folder), "-U", "postgres"]

    def takes() -> bool:
        return subprocess.run([found("pg_isready"), "-q", "-h", str(folder)], check=False).returncode == 0

    with server(command, folder, setting, takes, **rights) as pid:
        load(*pgbench, "-i", "-q", "-s", "1", "postgres")
        run = [*pgbench, "-n", "-c", "2", "-t", "1500", "postgres"]

        def measure() -> float:
            begin = processor_time(pid)
            load(*run)
            time.sleep(0.1)  # the server's processes of these connections end
            return processor_time(pid) - begin

        def measure_client() -> float:
            begin = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(run, env=run_environment(client, str(folder)), check=True, capture_output=True)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            return end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime

        yield measure_client if client else measure


@contextlib.contextmanager
def pgbench(setting: str, folder: Path) -> Iterator[Measure]:
    with postgres("plain", folder, setting) as measure:
        yield measure


PROGRAMS = {"redis": redis, "nginx": nginx, "postgres": postgres, "pgbench": pgbench}


def show_program(name: str, pairs: int, setting: str) -> None:
    with contextlib.ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pfs-price-", dir="/dev/shm"))) for _ in range(2)]
        for folder in folders:
            folder.chmod(0o755)
        plain = stack.enter_context(PROGRAMS[name]("plain", folders[0]))
        under = stack.enter_context(PROGRAMS[name](setting, folders[1]))
        plain(), under()
        times = []  # (plain, under pfs)
        for i in range(pairs):
            if i % 2 == 0:
                of_plain = plain()
                times.append((of_plain, under()))
            else:
                of_under = under()
                times.append((plain(), of_under))
    found = f"processor time x {with_interval(times, of_pairs)}, lower quartiles x {with_interval(times, of_quartiles)}"
    print(f"{name:10} {found}, {pairs} pairs", flush=True)


Times = list[tuple[float, float]]


def of_pairs(times: Times) -> float:
    return statistics.median(under / plain for plain, under in times)


def of_quartiles(times: Times) -> float:
    plain, under = zip(*times, strict=True)
    return statistics.quantiles(under)[0] / statistics.quantiles(plain)[0]


def with_interval(times: Times, ratio: Callable[[Times], float]) -> str:
    source = random.Random(1)
    drawn = sorted(ratio(source.choices(times, k=len(times))) for _ in range(1000))
    return f"{ratio(times):.3f} ({drawn[25]:.3f} to {drawn[974]:.3f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=("locks", *PROGRAMS), metavar="|".join(("locks", *PROGRAMS)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--milliseconds", type=float, default=20)
    parser.add_argument("--pairs", type=int, default=60)
    settings = parser.add_mutually_exclusive_group()
    settings.add_argument("--options", default="", help="PFS_OPTIONS besides those of pfs run")
    settings.add_argument("--floor", action="store_true", help="two readings of the timer around each call, instead of pfs")
    options = parser.parse_args()
    good = True
    for name in options.what:
        if name == "locks":
            good &= show_locks(options.rounds, options.milliseconds)
        else:
            show_program(name, options.pairs, "floor" if options.floor else f"contended,{options.options}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
