"""Measures the processor time of Python programs under `pfs run` against the same program without it.

    python tests/bench/python_work.py [NAME ...] [--pairs 11]
    python tests/bench/python_work.py [NAME ...] --instructions

Programs run in pairs, plain and under pfs in turn. Each says its own processor time just before it ends: that of its threads,
from its start on, but not that of `pfs run`. The ratio is the median of the pairs; the interval is a 95 % bootstrap over them.

--instructions counts instructions of the program's work with callgrind instead, one pair each, from when it has imported all that
it needs: other load does not change them, but they leave out the kernel and what memory costs. Hashes of texts are the same in
all runs.

The segments are where `pfs run` has them, in /dev/shm: on a disk, each page of them would cost time of its own. `pfs run` must be
installed with its byte code, as pip does without --no-compile: else each start compiles the Python layer.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SERVE = """\
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "5"); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *more): pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
address = "http://127.0.0.1:%d/" % server.server_port
"""
PROGRAMS = {
    "pass": "",
    "requests": SERVE
    + """
import requests
BEGIN()
with requests.Session() as session:
    for n in range(TIMES): assert session.get(address + str(n)).text == "hello"
""",
    "sqlalchemy": """\
from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
class Base(DeclarativeBase): pass
class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
engine = create_engine("sqlite:///orders.db")
Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
BEGIN()
for turn in range(TIMES):
    with Session(engine) as session:
        session.add_all([Order(name=str(n)) for n in range(20)])
        session.commit()
        for n in range(20): session.scalars(select(Order).where(Order.id == n)).all()
""",
    "flask": """\
import flask, http.client, logging, threading
from werkzeug.serving import make_server
app = flask.Flask("shop")
@app.get("/orders/<int:n>")
def order(n): return {"n": n}
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
def ask():
    for n in range(TIMES):
        link = http.client.HTTPConnection("127.0.0.1", server.server_port)
        link.request("GET", f"/orders/{n}"); assert link.getresponse().read(); link.close()
BEGIN()
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    "aiohttp": """\
import aiohttp, asyncio
from aiohttp import web
async def order(request): return web.json_response({"n": request.match_info["n"]})
async def main():
    app = web.Application()
    app.router.add_get("/orders/{n}", order)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    BEGIN()
    async with aiohttp.ClientSession() as session:
        async def ask(first):
            for n in range(first, first + TIMES):
                async with session.get(f"http://127.0.0.1:{port}/orders/{n}") as response: await response.read()
        await asyncio.gather(*(ask(1000 * n) for n in range(4)))
    await runner.cleanup()
asyncio.run(main())
""",
}
# How often each does its work when it is timed, and when its instructions are counted: these need no repetition, and take 50 x.
TIMES = {"pass": (1, 1), "requests": (400, 60), "sqlalchemy": (20, 2), "flask": (100, 15), "aiohttp": (100, 15)}
# The programs call it when their work begins: callgrind counts from there on. Before, it takes 10 x instead of 50 x.
# CPython collects its garbage after so many objects, and pfs adds some 50. From the same state on, both programs collect at the
# same places: a whole collection takes 4 % of SQLAlchemy's time, and was in one of both programs only. This one does not count.
BEGIN = """\
COLLECTED = 0
def BEGIN():
    global COLLECTED
    import gc, os, time
    COLLECTED -= time.process_time()
    gc.collect()
    COLLECTED += time.process_time()
    if library := os.environ.get("PFS_WORK_BEGIN"):
        import ctypes
        ctypes.CDLL(library).begin()
"""
COUNTER = "#include <valgrind/callgrind.h>\nvoid begin(void) { CALLGRIND_START_INSTRUMENTATION; }\n"
PFS_RUN = (sys.executable, "-m", "pfs", "run", "--no-report")
END = "\nimport sys, time; sys.stderr.flush(); print('processor time', time.process_time() - COLLECTED)\n"


def write(name: str, times: int, folder: Path) -> Path:
    """Writes the program, and returns its path."""
    (path := folder / f"{name}_program.py").write_text(f"TIMES = {times}\n{BEGIN}{PROGRAMS[name]}{END}")
    return path


def once(path: Path, *before: str) -> float:
    done = subprocess.run([*before, sys.executable, str(path)], cwd=path.parent, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def instructions(path: Path, *before: str, from_start: bool = False) -> int:
    library = path.with_name("counter.so")
    if not library.exists():
        compiler = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
        subprocess.run(compiler, input=COUNTER, text=True, check=True)
    valgrind = [
        "valgrind",
        "--tool=callgrind",
        f"--instr-atstart={'yes' if from_start else 'no'}",
        "--callgrind-out-file=/dev/null",
    ]
    command = [*before, *valgrind, sys.executable, str(path)]
    same = os.environ | {"PYTHONHASHSEED": "0", "PFS_WORK_BEGIN": str(library)}
    done = subprocess.run(
        command, cwd=path.parent, env=same, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True
    )
    return int(re.findall(r"Collected : (\d+)", done.stderr)[-1])


def pair_of_instructions(name: str, folder: Path) -> tuple[int, int]:
    """Returns the instructions of a program, plain and under pfs."""
    path, from_start = write(name, TIMES[name][1], folder), "BEGIN()" not in PROGRAMS[name]
    under = (*PFS_RUN, "--force", "--")
    return instructions(path, from_start=from_start), instructions(path, *under, from_start=from_start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"programs: {', '.join(PROGRAMS)} (all)")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--instructions", action="store_true", help="count instructions instead of time")
    options = parser.parse_args()
    if unknown := set(options.names) - set(PROGRAMS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; legal are {', '.join(PROGRAMS)}")
    source = random.Random(1)
    if options.instructions:
        print("| program | plain, million instructions | under pfs run | ratio |\n| --- | --: | --: | --: |")
    else:
        print("| program | plain, ms | under pfs run, ms | ratio | interval |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="pfs-work-") as folder:
        for name in options.names or PROGRAMS:
            if options.instructions:
                pair = pair_of_instructions(name, Path(folder))
                print(f"| {name} | {pair[0] / 1e6:,.0f} | {pair[1] / 1e6:,.0f} | {pair[1] / pair[0]:.2f} |", flush=True)
                continue
            path = write(name, TIMES[name][0], Path(folder))
            pairs = [(once(path), once(path, *PFS_RUN, "--")) for _ in range(options.pairs)]
            ratios = [under / plain for plain, under in pairs]
            drawn = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(1000))
            plain, under = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
            print(
                f"| {name} | {plain:.0f} | {under:.0f} | {statistics.median(ratios):.2f} | {drawn[25]:.2f} to {drawn[974]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
