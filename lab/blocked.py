"""Compares where ordinary programs were blocked: by ``strace`` and by pfs, in the same run.

    python -m lab.blocked [PROGRAM ...]

For each program: how long its calls that block took by strace, how much of it is in an event of pfs, and which calls are not. Calls of
less than a millisecond do not count: strace itself takes a tenth of that. A call is compared within its process and its kind: a lock of
pfs is a futex of strace. Then how long its threads lived by strace, and how much of it is in thread_time.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import pfs
from pfs._process.run.launch import environment
from pfs._process.run.watch import Watch
from tests.python._programs.witnessed import ALWAYS_UNSEEN

KINDS = {
    "sleep": "nanosleep clock_nanosleep",
    "child": "wait4 waitid vfork",
    "lock": "futex",
    "call": "read write pread64 pwrite64 readv writev recvfrom recvmsg sendto sendmsg sendfile splice copy_file_range fsync fdatasync "
    "sync_file_range msync flock fcntl poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 accept accept4 connect "
    "rt_sigtimedwait rt_sigsuspend pause msgrcv semop openat open unlink rename close",
}
KIND_OF = {call: kind for kind, calls in KINDS.items() for call in calls.split()}
LEAST = 0.001
LINE = re.compile(r"(?P<at>[\d.]+) (?:(?P<call>\w+)\((?P<rest>.*?)(?: <(?P<took>[\d.]+)>)?|\+\+\+ .*)$")
# What the dynamic linker, the C library and pfs call for themselves.
UNSEEN = re.compile("|".join(ALWAYS_UNSEEN).replace("$", """(?=[">])""").replace("^", """(?<=["<])"""))

THREADS = "import threading,time,queue\nq=queue.Queue()\nl=threading.Lock()\ndef f():\n  while q.get():\n    with l: time.sleep(.01)\n"
THREADS += "t=[threading.Thread(target=f) for _ in range(4)]\n[x.start() for x in t]\n[q.put(1) for _ in range(40)]\n[q.put(0) for _ in t]\n"
THREADS += "[x.join() for x in t]"
ASYNC = "import asyncio\nasync def m():\n  await asyncio.gather(*(asyncio.sleep(.2) for _ in range(9)))\n"
ASYNC += "  p=await asyncio.create_subprocess_exec('sleep','.2'); await p.wait()\nasyncio.run(m())"
POOL = "import multiprocessing as m,time\nif __name__=='__main__':\n  with m.Pool(2) as p: p.map(time.sleep,[.05]*8)"
SETUP = """
mkdir tree && for i in $(seq 200); do echo "line $i of a file" > tree/f$i; done; seq 200000 | shuf > numbers; head -c 3000000 /dev/urandom > noise
printf '#include <stdio.h>\\nint main(void) { puts("x"); }\\n' > x.c
printf 'all: a b\\na b:\\n\\tsleep 0.2; gcc -O2 -o $@ x.c\\n' > Makefile
"""


def often(command: str) -> str:
    """Returns a script that runs a short program ten times: the kernel tells the begin of its process in ticks of 10 ms."""
    return f"for i in {{1..10}}; do {command}; done"


PROGRAMS = {
    "git": "git init -q g && cd g && cp -r ../tree . && git add . && git -c user.name=x -c user.email=x@x commit -qm x && git gc -q",
    "git clone": "git init -q o && cd o && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x && git clone -q . ../c",
    "gcc": often("gcc -O2 -o x x.c"),
    "make -j2": "make -j2",
    "python threads": f'python3 -c "{THREADS}"',
    "python asyncio": f'python3 -c "{ASYNC}"',
    "python processes": f'python3 -c "{POOL}"',
    "sort": often("sort --parallel=2 -S 1M numbers -o sorted"),
    "tar": often("tar czf t.tgz tree noise"),
    "rsync": "rsync -a tree/ copy/",
    "sqlite3": often("sqlite3 s$i.db 'create table t(a); insert into t select value from generate_series(1,9); delete from t; insert into t values(1)'"),
    "perl": "perl -e 'for (1..3) { select undef, undef, undef, .1; system q(sleep .1) } if ($p = fork) { waitpid $p, 0 } else { sleep 1 }'",
    "curl": often("curl -s -o got http://127.0.0.1:PORT/noise"),
    "xz": "xz -T2 -0 -k noise",
    "zstd": often("zstd -qf -T2 noise"),
    "ssh-keygen": often("ssh-keygen -q -t rsa -b 2048 -N '' -f key$i"),
    "find": often("find . -name 'f*' -exec wc -l {} +"),
    "grep": often("grep -r 'line 7' tree | wc -l"),
    "awk": "seq 100000 | awk '{ s += $1; if (NR % 50000 == 0) system(\"sleep 0.1\") } END { print s }'",
    "dd": often("dd if=noise of=copied bs=64k conv=fsync status=none"),
    "flock": "flock lock sleep 0.3 & sleep 0.05; flock lock true; wait",
    "bash": "for i in 1 2 3; do sleep 0.1 | cat; done; read -t 0.3 x < <(sleep 1)",
    "xargs": "seq 6 | xargs -P2 -n1 sleep 0.1 2>&1 | cat; timeout 0.3 sleep 5; true",
    "wget": often("wget -q -O got2 http://127.0.0.1:PORT/noise"),
    "ruby": "ruby -e 'm = Mutex.new; 3.times.map { Thread.new { m.synchronize { sleep 0.1 } } }.each(&:join); `sleep 0.1`'",
    "node": "node -e 'require(\"fs\").readFile(\"noise\", () => setTimeout(() => {}, 300))'",
    "php": "php -r 'usleep(200000); exec(\"sleep 0.1\"); flock(fopen(\"lock\", \"c\"), LOCK_EX); file_get_contents(\"http://127.0.0.1:PORT/x.c\");'",
    "redis-cli": "redis-cli -p 1 ping; redis-server --port 0 --save '' > log & sleep 1; kill $!; wait",
}


def of_strace(folder: Path) -> tuple[dict[tuple[int, str], dict[str, float]], dict[int, float]]:
    """Returns the times of long calls by process, kind and call, and how long the threads of each process lived."""
    lines = {int(path.suffix[1:]): [m for m in map(LINE.match, path.read_text().splitlines()) if m] for path in folder.glob("trace.*")}
    process_of = {thread: thread for thread in lines}
    for thread, its in lines.items():
        for line in its[:-1]:
            if line["call"].startswith("clone") and "CLONE_THREAD" in line["rest"] and (made := re.search(r"= (\d+)$", line["rest"])):
                process_of[int(made[1])] = thread
    found: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    lived: dict[int, float] = defaultdict(float)
    for thread, its in lines.items():
        process = thread
        while process_of[process] != process:
            process = process_of[process]
        for line in its[:-1]:  # the last one says how the thread ended
            call, took = line["call"], float(line["took"] or 0)
            if line["rest"].endswith("= ?"):  # it had not ended when the thread did
                took = float(its[-1]["at"]) - float(line["at"])
            if (call == "fcntl" and "SETLKW" not in line["rest"]) or (call == "futex" and "FUTEX_WAKE" in line["rest"]):
                continue  # they do not wait
            kind = KIND_OF.get(call) or ("child" if "CLONE_VFORK" in line["rest"] else None)
            if kind and took >= LEAST and not UNSEEN.search(line["rest"]):
                found[process, kind][call] += took
        if its:  # a forked child begins with its parent's library
            begin = float(its[0]["at"]) + (float(its[0]["took"] or 0) if its[0]["call"] == "execve" else 0)  # strace starts the first one
            lived[process] += float(its[-1]["at"]) - begin
    return found, lived


def kind_of(event: str) -> str:
    if event.startswith("wait/system/"):
        for word, kind in (("/sleep", "sleep"), ("/child", "child"), ("/join", "lock")):
            if word in event:
                return kind
    return "lock" if event.startswith("wait/synch/") else "call"


def of_pfs(folder: Path, ended: dict[int, int]) -> tuple[dict[tuple[int, str], float], dict[int, float]]:
    found: dict[tuple[int, str], float] = defaultdict(float)
    lived: dict[int, float] = defaultdict(float)
    for path in folder.glob("**/*.pfs"):
        with pfs.attach(str(path)) as schema:
            if schema.pid in ended:
                schema._source.ran_until(ended[schema.pid])
            sums = schema._source.rows("events_waits_summary_global_by_event_name", ("EVENT_NAME", "SUM_TIMER_WAIT"))
            open_ = schema._source.rows("running", ("EVENT_NAME", "TIMER_WAIT"))  # as if it had ended with the process
            for event, time in (*sums, *open_):
                if event.startswith(("wait/", "idle")):
                    found[schema.pid, kind_of(event)] += (time or 0) / 1e12
            lived[schema.pid] += schema.table("thread_time")["SUM_TIMER_WAIT"].sum() / 1e12
    return found, lived


def compare(name: str, command: str, port: int) -> None:
    with tempfile.TemporaryDirectory(prefix="pfs-blocked-", dir="/dev/shm") as made, tempfile.TemporaryDirectory() as work:
        segments, traces = Path(made, "segments"), Path(made, "traces")
        for each in (segments, traces):
            each.mkdir(mode=0o700)
        subprocess.run(["bash", "-ec", SETUP], cwd=work, check=True)
        given = [word for key, value in environment(str(segments), keeps_dead=True).items() for word in ("-E", f"{key}={value}")]
        trace = ["strace", "-ff", "-ttt", "-T", "-y", "-s", "0", "--signal=none", "-o", str(traces / "trace"), *given]
        with Watch(str(segments), takes=False) as watch:
            traced = [*trace, "bash", "-c", command.replace("PORT", str(port))]
            subprocess.run(traced, cwd=work, capture_output=True, timeout=120, check=False)
        theirs, their_lives = of_strace(traces)
        ours, our_lives = of_pfs(segments, watch.ended)
    blocked = sum(sum(calls.values()) for calls in theirs.values())
    missed: dict[str, float] = defaultdict(float)
    for (process, kind), calls in theirs.items():
        total = sum(calls.values())
        lacks = max(0.0, total - ours.get((process, kind), 0.0))
        for call, time in calls.items():
            missed[call if process in our_lives else f"{call} of a process without a segment"] += lacks * time / total
    lacking = sum(missed.values())
    worst = ", ".join(f"{call} {time * 1e3:.1f} ms" for call, time in sorted(missed.items(), key=lambda item: -item[1])[:4] if time > 1e-4)
    lives = {process: (their_lives.get(process, 0.0), our_lives.get(process, 0.0)) for process in their_lives.keys() | our_lives.keys()}
    theirs_all, ours_all = (sum(life[i] for life in lives.values()) for i in (0, 1))
    share = 1 - lacking / blocked if blocked else 1.0
    print(f"| {name} | {blocked * 1e3:,.0f} | {share:.1%} | {theirs_all * 1e3:,.0f} | {ours_all / theirs_all:.1%} | {worst} |", flush=True)


def main() -> None:
    print("| program | blocked by strace, ms | in an event of pfs | threads lived by strace, ms | in thread_time | not in an event |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    with socket.socket() as free, tempfile.TemporaryDirectory() as served:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        subprocess.run(["bash", "-ec", SETUP], cwd=served, check=True)
        server = subprocess.Popen(
            [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"], cwd=served, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            for name, command in PROGRAMS.items():
                tool = re.split(r"[ \n]", name)[0].replace("python", "python3")
                if (not sys.argv[1:] or name in sys.argv[1:]) and shutil.which(tool):
                    compare(name, command, port)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
