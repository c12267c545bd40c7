"""Joins programs with other C libraries: their counts, and programs that are nearly nowhere safe. Needs root, gcc, dpkg and a network.

    python lab/join_glibc.py                         # releases of Debian and Ubuntu, by the names below
    python lab/join_glibc.py trixie noble            # these
    python lab/join_glibc.py --root /path --storms 20    # a folder that has a C library, its headers and those of the kernel

A root has the C library alone: the programs of tests/programs/joined are compiled here for it, and run there by chroot.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import lzma
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pfs
from pfs.errors import AttachError, StateError

SOURCES = Path(__file__).resolve().parent.parent / "tests/programs/joined"
DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
SUITES = {
    **dict.fromkeys(("bionic", "focal", "jammy", "noble", "plucky", "questing", "resolute"), UBUNTU),
    **dict.fromkeys(("bullseye", "bookworm", "trixie", "sid"), DEBIAN),
}
PACKAGES = ("libc6", "libc6-dev", "libcrypt-dev", "linux-libc-dev", "zlib1g")
INSIDE = 'mount -t proc proc "$0/proc" && mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" "$@"'
THREADS = 3  # of told.c
WITHOUT_LOADER = """
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t lock;
static void* Lock(void* unused) {
  for (int i = 0; i < 50; ++i) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); }
  return unused;
}
int main(void) {
  for (int byte = 'x'; byte == 'x'; byte = getchar()) {
    pthread_t thread;
    pthread_create(&thread, NULL, Lock, NULL);
    pthread_join(thread, NULL);
    Lock(NULL);
    puts("done");
    fflush(stdout);
  }
  return 7;
}
"""
SINGLE = '#include <stdio.h>\nint main(void) { puts("ready"); fflush(stdout); return getchar(); }\n'


def fetched(suite: str, root: Path) -> None:
    """Unpacks the C library of a release."""
    place = f"{SUITES[suite]}/dists/{suite}/main/binary-amd64/Packages"
    with urllib.request.urlopen(f"{place}.{'gz' if SUITES[suite] == UBUNTU else 'xz'}") as answer:
        text = (gzip if SUITES[suite] == UBUNTU else lzma).decompress(answer.read()).decode()
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Filename): (.*)$", block, re.MULTILINE))
        if fields.get("Package") in PACKAGES:
            with urllib.request.urlopen(f"{SUITES[suite]}/{fields['Filename']}") as answer, tempfile.NamedTemporaryFile() as file:
                file.write(answer.read())
                file.flush()
                subprocess.run(["dpkg", "-x", file.name, root], check=True)


def prepared(root: Path) -> list[str]:
    """Compiles the programs for the C library of a root. Returns the options of the compiler."""
    for name in ("lib", "lib64"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for link in root.rglob("*"):  # an absolute link leads to this machine
        if link.is_symlink() and os.readlink(link).startswith("/"):
            target = os.path.relpath(f"{root}{os.readlink(link)}", link.parent)
            link.unlink()
            link.symlink_to(target)
    for name in ("proc", "dev/shm", "tmp", "etc", "t"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/hostname").write_text("lab\n")
    libraries = root / "usr/lib/x86_64-linux-gnu"
    options = [f"--sysroot={root}", f"-B{libraries}", f"-L{libraries}", f"-L{root}/lib/x86_64-linux-gnu", "-O1", "-Wno-nonnull"]
    (root / "t/single.c").write_text(SINGLE)
    (root / "t/without.c").write_text(WITHOUT_LOADER)
    programs = [[name, "-lpthread", "-ldl"] for name in ("told", "storms")]
    programs += [["single"], ["without", "-lpthread", "-Wl,-z,lazy"], ["plugin", "-shared", "-fPIC"]]
    for name, *more in programs:
        source = root / f"t/{name}.c" if name in ("single", "without") else SOURCES / f"{name}.c"
        subprocess.run(["gcc", *options, "-o", root / "t" / name, source, *more], check=True)
    return options


@contextlib.contextmanager
def running(root: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    words = ["unshare", "-m", "sh", "-c", INSIDE, str(root), *command]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={})
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def counts(path: str) -> Counter[str]:
    found: Counter[str] = Counter()
    with pfs.attach(path) as schema:
        table = schema.table("events_waits_summary_global_by_event_name", where="EVENT_NAME like 'wait/synch/%'")
        for name, count in zip(table.EVENT_NAME, table.COUNT_STAR, strict=True):
            found[name.split("/")[2]] += int(count)  # of "wait/synch/mutex/told": the name of the module needs glibc 2.35
    return found


def exact(root: Path) -> str:
    """Joins a program that says what it does, and compares its counts with it. Returns what is wrong."""
    with running(root, "/t/told", "/t/data") as process:

        def do(line: str) -> int:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        wrong, plugins = [], 0
        do("work 10")
        for times in (100, 250):
            path = pfs.join(process.pid)
            do("work 100" if times == 100 else "work 150")
            plugin = do("plugin /t/plugin 5")
            ended = do("fork 7")
            pfs.leave(process.pid)
            do("work 30")
            seen = counts(path)
            plugins += 5
            if (plugin, ended) != (5, 9):
                wrong.append(f"plugin {plugin}, child {ended}")
            for kind, count in (("mutex", THREADS * times + plugins), ("rwlock", THREADS * times)):
                if seen[kind] != count:
                    wrong.append(f"{kind} {seen[kind]} instead of {count}")
            with pfs.attach(path) as schema:
                table = schema.table("file_summary_by_instance")
            data = table[table.FILE_NAME.str.endswith("/data")]
            if data.COUNT_WRITE.tolist() != [THREADS * times]:
                wrong.append(f"writes {data.COUNT_WRITE.tolist()}")
        said, _ = process.communicate("exit\n", timeout=60)
        if process.returncode != 0:
            wrong.append(f"it ended with {process.returncode}: {said}")
    return "; ".join(wrong) or "exact"


def without_loader(root: Path) -> str:
    """Joins a program that has no libdl, with a glibc before 2.34, and compares its locks. Returns what is wrong."""
    with running(root, "/t/without") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        path = pfs.join(process.pid)
        process.stdin.write("x")
        process.stdin.flush()
        process.stdout.readline()
        pfs.leave(process.pid)
        process.stdin.write("x")
        process.stdin.flush()
        process.stdout.readline()
        locks = counts(path)["mutex"]
        process.communicate("y", timeout=30)
    return "exact" if (locks, process.returncode) == (100, 7) else f"{locks} locks instead of 100, ended with {process.returncode}"


def without_threads(root: Path) -> str:
    """Returns what a program that needs no thread says."""
    with running(root, "/t/single") as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            pfs.join(process.pid)
            pfs.leave(process.pid)
            said = "joined"
        except (AttachError, StateError) as error:
            said = str(error).partition(": ")[2]
        process.communicate("x", timeout=30)
        return said if process.returncode == ord("x") else f"{said}; it ended with {process.returncode}"


def storms(root: Path, programs: int) -> str:
    """Joins and leaves programs that are nearly nowhere safe, twice each."""
    seen: Counter[str] = Counter()
    for _ in range(programs):
        with running(root, "/t/storms", "60") as process:
            assert process.stdout is not None
            process.stdout.readline()
            for call in (pfs.join, pfs.leave, pfs.join, pfs.leave):
                try:
                    call(process.pid)
                    seen["done"] += 1
                except (AttachError, StateError) as error:
                    seen["declined: " + str(error).partition(": ")[2][:60]] += 1
            try:
                said = process.communicate(timeout=120)[0]
            except subprocess.TimeoutExpired:
                seen["HANGS"] += 1
                continue
            seen[f"ended with {process.returncode}" if said.startswith("ended") else "WRONG: " + said] += 1
    return ", ".join(f"{what} {times}" for what, times in seen.items())


def tried(root: Path, name: str, programs: int) -> None:
    options = prepared(root)
    asked = subprocess.run(
        ["gcc", *options, "-E", "-"], input="#include <features.h>\n__GLIBC__ __GLIBC_MINOR__", capture_output=True, text=True, check=True
    )
    version = ".".join(asked.stdout.split()[-2:])
    print(f"| {version} ({name}) | {exact(root)} | {without_loader(root)} | {without_threads(root)} | {storms(root, programs)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--root", type=Path, action="append", default=[], help="a folder that has a C library")
    parser.add_argument("--storms", type=int, default=5, help="programs that are nearly nowhere safe: each is joined and left twice")
    arguments = parser.parse_args()
    os.environ.pop("PFS_DIR", None)
    if os.geteuid() != 0:
        sys.exit("join_glibc: run it as root")
    print("| glibc | counts | without libdl | without libpthread | programs that are nearly nowhere safe |")
    print("| --- | --- | --- | --- | --- |")
    for root in arguments.root:
        tried(root.resolve(), root.name, arguments.storms)
    for suite in arguments.suites or ([] if arguments.root else SUITES):
        with tempfile.TemporaryDirectory() as folder:
            fetched(suite, Path(folder))
            tried(Path(folder), suite, arguments.storms)


if __name__ == "__main__":
    main()
