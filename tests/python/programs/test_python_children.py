"""Children of Python programs: multiprocessing, concurrent.futures, subprocess, os. Each ends as it would without pfs.

They say the same, and what all of them leave behind is bounded.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.python.programs.test_programs import environment, rows, segments_in

DEAD = 5  # segments of dead processes that may stay when another is made
ROOT_ONLY = pytest.mark.needs("root")

# The program imports pfs, or a module that looks like it. A child has an event whenever it can.
BEGIN = """
import multiprocessing, os, signal, subprocess, sys, threading
from concurrent.futures import ProcessPoolExecutor
if os.environ["WITH"] == "pfs":
    import pfs
    lock = pfs.Lock("children/LOCK")
else:
    lock = threading.Lock()

def work(n=0):
    with lock:
        pass
    return n * n

def end(code):
    work()
    sys.exit(code)

def kill():
    work()
    os.kill(os.getpid(), signal.SIGKILL)

def ends(process):
    process.start()
    process.join(60)
    return process.exitcode

def main():
    work()
"""
END = """
if __name__ == "__main__":
    main()
    work()
    print("end", flush=True)
"""

PROGRAMS = {
    "Process": """
        context = multiprocessing.get_context(sys.argv[1])
        print([ends(context.Process(target=target, args=arguments)) for target, arguments in
               [(work, ()), (end, (3,)), (kill, ()), (print, ("said",)), (work, ())]])
    """,
    "Pool": """
        with multiprocessing.get_context(sys.argv[1]).Pool(2, maxtasksperchild=3) as pool:
            print(pool.map(work, range(20), chunksize=1), flush=True)  # before a worker is replaced: it would print it, too
            pool.close()
            pool.join()
    """,
    "ProcessPoolExecutor": """
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
            print(list(pool.map(work, range(20))))
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
            print(type(pool.submit(kill).exception()).__name__)
    """,
    "Manager": """
        with multiprocessing.get_context(sys.argv[1]).Manager() as manager:
            numbers = manager.list(range(3))
            numbers.append(work(2))
            print(list(numbers))
    """,
}
OTHER_PROGRAMS = {
    "os.fork": """
        for code in range(20):
            child = os.fork()
            if child == 0:
                work()
                os._exit(code)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
    "os.fork and sys.exit": """
        for code in range(5):
            child = os.fork()
            if child == 0:
                end(code)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
    "os.forkpty": """
        child, terminal = os.forkpty()
        if child == 0:
            work()
            print("in the child", flush=True)
            os._exit(3)
        said = b""
        try:
            while more := os.read(terminal, 100):
                said += more
        except OSError:  # the child has ended
            pass
        print(said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
    "os.spawnl": """
        print([os.spawnl(os.P_WAIT, "/bin/sh", "sh", "-c", f"exit {n}") for n in range(10)])
        os.waitpid(os.spawnl(os.P_NOWAIT, "/bin/true", "true"), 0)
        print(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/false", ["false"], os.environ), 0)[1]))
    """,
    "subprocess with preexec_fn": """
        for _ in range(10):
            done = subprocess.run(["/bin/echo", "said"], preexec_fn=work, capture_output=True)
            print(done)
        try:
            subprocess.run(["/bin/true"], preexec_fn=lambda: 1 / 0)
        except subprocess.SubprocessError as error:
            print(error)
        try:
            subprocess.run(["/no/such/program"], preexec_fn=work)
        except OSError as error:
            print(error)
    """,
    "subprocess": """
        print(os.system("exit 7"), subprocess.run(["/bin/sh", "-c", "echo said; exit 3"], capture_output=True))
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            print(child.communicate(b"bytes")[0])
    """,
    "subprocess with user=": """
        for _ in range(10):
            print(subprocess.run(["id", "-u"], user=65534, group=65534, extra_groups=[], capture_output=True).stdout)
    """,
    "fork in a thread": """
        def fork():
            child = os.fork()
            if child == 0:
                work()
                os._exit(4)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for _ in range(5):
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
    """,
}


def program(body: str) -> str:
    return textwrap.dedent(BEGIN) + textwrap.indent(textwrap.dedent(body), "    ") + textwrap.dedent(END)


def result(script: str, folder: Path, *arguments: str, with_pfs: bool, **more: object) -> tuple[int, str]:
    """Exit code and output. Multiprocessing imports the file again."""
    file = folder / "program.py"
    file.write_text(script)
    options = f"performance_schema_max_dead_segments={DEAD}"
    for may_hang in [False] if with_pfs else [True, True, False]:  # a pool of CPython has hung at its end, without pfs
        try:
            done = subprocess.run(
                [sys.executable, file, *arguments],
                env=environment(folder / "segments", WITH="pfs" if with_pfs else "nothing", PFS_OPTIONS=options), cwd=folder,
                capture_output=True, text=True, timeout=120, check=False, **more,  # type: ignore[call-overload]
            )  # fmt: skip
            break
        except subprocess.TimeoutExpired:
            if not may_hang:
                raise
    assert "leaked" not in done.stderr
    # Addresses of objects differ from run to run.
    return done.returncode, re.sub(r"0x[0-9a-f]+", "0x", done.stdout)


def check(body: str, folder: Path, *arguments: str) -> None:
    plain = result(program(body), folder, *arguments, with_pfs=False)
    assert plain[0] == 0
    assert plain[1].endswith("end\n")
    assert result(program(body), folder, *arguments, with_pfs=True) == plain
    left = segments_in(folder / "segments")
    assert len(left) <= DEAD + 3, left  # the last ones that were made, and the processes that were alive at that moment


@pytest.mark.parametrize("way", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_children_of_multiprocessing_do_not_notice(tmp_path: Path, name: str, way: str) -> None:
    check(PROGRAMS[name], tmp_path, way)


@pytest.mark.parametrize("name", [pytest.param(name, marks=ROOT_ONLY if "user=" in name else ()) for name in OTHER_PROGRAMS])
def test_children_do_not_notice(tmp_path: Path, name: str) -> None:
    check(OTHER_PROGRAMS[name], tmp_path)


@pytest.mark.parametrize("megabytes", [0, 200, 1000, 6000, 12000])
def test_a_pool_under_a_limit_of_addresses_does_its_work(tmp_path: Path, megabytes: int) -> None:
    """ulimit -v, so much above what the program has before it imports pfs: no worker is killed and replaced for ever."""
    limit = textwrap.dedent(f"""
        import resource
        pages = int(open("/proc/self/statm").read().split()[0])
        size = pages * resource.getpagesize() + (200 + {megabytes} << 20)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    """)
    script = limit + program(PROGRAMS["Pool"])
    plain = result(script, tmp_path, "fork", with_pfs=False)
    assert plain[0] == 0
    assert result(script, tmp_path, "fork", with_pfs=True) == plain


# ---- Ends by others ----------------------------------------------------------------------------------------------------------

BUSY = """
import os, sys, threading, time
import pfs
locks = [pfs.Lock("children/LOCK") for _ in range(4)]
def work(lock):
    while True:
        with lock: pass
        with pfs.open("/dev/null", name="children/null") as file: file.read()
for lock in locks:
    threading.Thread(target=work, args=(lock,), daemon=True).start()
print(pfs._core.segment_path(), flush=True)
time.sleep(60)
"""


def test_sigterm_ends_a_program_of_four_threads_and_its_segment_goes_with_the_next_one(tmp_path: Path) -> None:
    """docker stop, systemctl stop: five times, and five segments are not left."""
    options = {"PFS_OPTIONS": "performance_schema_max_dead_segments=2"}
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", BUSY], env=environment(tmp_path, **options), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            path = process.stdout.readline().strip()
            time.sleep(0.1)
            process.terminate()
        assert process.returncode == -signal.SIGTERM
        events = [
            row["COUNT_STAR"]
            for row in rows(path, "events_waits_summary_global_by_event_name")
            if "children" in row["EVENT_NAME"]
        ]
        assert len(events) == 2
        assert all(events)
    assert len(segments_in(tmp_path)) == 3


@ROOT_ONLY
def test_what_a_daemon_leaves_that_gave_up_root_goes_with_the_next_one(tmp_path: Path) -> None:
    """Its segment is root's, so it cannot be removed at the end by the daemon, but by the next start of one."""
    folder = tmp_path / "segments"
    folder.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    script = """
        import os, pfs
        with pfs.Lock("a/b"): pass
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        with pfs.Lock("a/b"): pass
        child = os.fork()
        if child == 0:
            with pfs.Lock("a/b"): pass
            os._exit(5)
        print(os.getuid(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            env=environment(folder, PFS_OPTIONS="performance_schema_max_dead_segments=1"),
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "65534 5\n", "")
    assert len(segments_in(folder)) <= 2
