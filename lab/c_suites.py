"""Runs test suites of C and C++ libraries plain and under `pfs run`, and compares the result of each test.

    python lab/c_suites.py                      # all: those of SUITES
    python lab/c_suites.py glibc --only mutex   # those of its programs whose names have "mutex"
    python lab/c_suites.py --all-on --folder DIR

Needs root, Debian, its packages dpkg-dev, cmake, ninja-build, uuid-dev, procps and stress-ng, and the network: it takes sources
from Debian, by apt with lists of its own. glibc's tests are compiled against this machine's C library, with the part of glibc
that serves tests; those that need more of its sources are left out. The tests of the Open POSIX Test Suite and of libstdc++
(threads, file streams, file systems) are programs as well, and each kind of load of stress-ng is one. The other suites are
built as their authors say.

A program that differs runs a second time both ways: a test that differs once only is printed as unstable, and so is one whose two
plain runs differ. Exits with 1 if one differs twice.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import Progress

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script

from lab import both_ways, debian  # noqa: E402
from lab.both_ways import Results  # noqa: E402
from pfs._process.run.launch import environment  # noqa: E402

NOBODY = 65534


@dataclass(frozen=True)
class Suite:
    """`build` takes the folder of the sources, and returns the commands that are the tests."""

    package: str
    build: Callable[[Path], list[list[str]]]
    result: str = ""  # a pattern for `name` and `result` of a test in what a program prints; "": its exit code is the result
    user: int | None = None
    inside: str = ""  # a folder of the sources, which is the working directory; "": each program has one of its own
    leave_out: dict[str, str] = field(default_factory=dict)  # a program, or one of its tests, and why
    at_once: int = 1  # programs that run side by side: those of some suites sleep for most of their time


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout[-3000:]}\nended with {done.returncode}: {' '.join(map(str, command))}")


def by_cmake(*programs: str, options: tuple[str, ...] = ()) -> Callable[[Path], list[list[str]]]:
    def build(source: Path) -> list[list[str]]:
        run("cmake", "-S", source, "-B", "built", "-G", "Ninja", "-DCMAKE_POLICY_VERSION_MINIMUM=3.5", *options, cwd=source)
        run("cmake", "--build", "built", cwd=source)
        return [[str(source / "built" / program)] for program in programs]

    return build


def build_apr(source: Path) -> list[list[str]]:
    run("./configure", "-q", cwd=source)
    run("make", "-s", "-j2", cwd=source)
    run("make", "-s", "-j2", "all", cwd=source / "test")
    return [[str(source / "test/testall")]]


def build_zeromq(source: Path) -> list[list[str]]:
    by_cmake(options=("-DBUILD_TESTS=ON", "-DWITH_PERF_TOOL=OFF"))(source)
    return [[str(one)] for one in sorted((source / "built/bin").glob("test_*"))]


def build_coreutils(source: Path) -> list[list[str]]:
    """The tests of gnulib that come with it, and its own scripts."""
    run("env", "FORCE_UNSAFE_CONFIGURE=1", "./configure", "-q", cwd=source)  # it does not like root
    run("make", "-s", "-j2", cwd=source)
    run("make", "-s", "-j2", "check", "TESTS=", cwd=source)
    programs = [one for one in sorted((source / "gnulib-tests").glob("test-*")) if not one.suffix and os.access(one, os.X_OK)]
    scripts = [str(one.relative_to(source)) for one in sorted(source.glob("tests/*/*.sh"))]
    groups = [scripts[at : at + 20] for at in range(0, len(scripts), 20)]  # each ends long before --seconds
    by_make = [["make", "-s", "-k", "check", "SUBDIRS=.", f"TESTS={' '.join(group)}"] for group in groups]
    return [[str(one)] for one in programs] + by_make


def installed_tests_of_glib(source: Path) -> list[list[str]]:
    folder = source / "usr/libexec/installed-tests/glib"
    programs = [one for one in sorted(folder.iterdir()) if one.is_file() and os.access(one, os.X_OK)]
    return [[str(one), "--tap"] for one in programs if not one.read_bytes().startswith(b"#!")]


# ---- stress-ng ----------------------------------------------------------------------------------------------------------


def stressors(source: Path) -> list[list[str]]:
    """A second of each kind of load, with its checks."""
    tool, folder = source / "usr/bin/stress-ng", source / "pfs"
    folder.mkdir(exist_ok=True)
    programs = []
    for name in subprocess.run([tool, "--stressors"], capture_output=True, text=True, check=True).stdout.split():
        program = folder / name
        program.write_text(f"#!/bin/sh\nexec {tool} --{name} 1 --timeout 1 --verify --temp-path . --oomable\n")
        program.chmod(0o755)
        programs.append([str(program)])
    return programs


# ---- glibc --------------------------------------------------------------------------------------------------------------

FOLDERS_OF_GLIBC = [
    "nptl",
    "sysdeps/pthread",
    "sysdeps/unix/sysv/linux",
    "io",
    "libio",
    "stdio-common",
    "posix",
    "rt",
    "socket",
    "misc",
    "signal",
    "stdlib",
    "malloc",
    "dirent",
    "time",
    "dlfcn",
    "setjmp",
    "debug",
    "termios",
    "inet",
]
HEADERS_OF_GLIBC = [
    "libc-diag.h",
    "array_length.h",
    "intprops.h",
    "libc-pointer-arith.h",
    "scratch_buffer.h",
    "allocate_once.h",
    "file_change_detection.h",
    "shlib-compat.h",
    "idx.h",
    "verify.h",
    "xalloc.h",
    "first-versions.h",
    "hp-timing.h",
]
# What the part that serves tests takes from headers of glibc which cannot be used outside it.
INSTEAD = {
    "stackinfo.h": """
#define _STACK_GROWS_DOWN 1
#define stackinfo_get_sp() __builtin_frame_address(0)
#define DEFAULT_STACK_PERMS 3
""",
    "config.h": "#define PIE_DEFAULT 1\n",
    "kernel-features.h": "#define __LINUX_KERNEL_VERSION 0x50000\n",
    "socket-constants-time64.h": "",
    "sysdep.h": "",
    "stap-probe.h": "",
    "atomic.h": """
#define atomic_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define atomic_load_relaxed(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define atomic_store_relaxed(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define atomic_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
""",
    "first.h": """
#include <elf.h>
#include <limits.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#define attribute_hidden
#define attribute_relro
#define weak_alias(a, b)
#define libc_hidden_proto(a)
#define libc_hidden_def(a)
#define TEST_COMPAT(a, b, c) 0
#define TIMEOUTFACTOR 1
#define IS_IN(x) 0
#define __glibc_likely(x) __builtin_expect((x), 1)
#define __glibc_unlikely(x) __builtin_expect((x), 0)
#define INTERNAL_SYSCALL_CALL(n, a...) ({ long r__ = syscall(__NR_##n, ##a); r__ == -1 ? -errno : r__; })
#define INLINE_SYSCALL_CALL(n, a...) syscall(__NR_##n, ##a)
#define OBJDIR_PATH "/nowhere"
#define SRCDIR_PATH "/nowhere"
#define OBJDIR_ELF_LDSO_PATH "/nowhere"
#define INSTDIR_PATH "/usr"
#define LIBDIR_PATH "/usr/lib"
#define SLIBDIR_PATH "/lib"
#define BINDIR_PATH "/usr/bin"
#define SBINDIR_PATH "/usr/sbin"
#define ROOTSBINDIR_PATH "/sbin"
#define COMPLOCALEDIR_PATH "/usr/lib/locale"
#define SYSCONFDIR_PATH "/etc"
struct __timespec64 { long tv_sec, tv_nsec; };
""",
}


def compiled(jobs: list[tuple[list[str | Path], Path]]) -> list[Path]:
    """Runs compilers, two at a time. Returns the targets of those that succeeded."""

    def make(job: tuple[list[str | Path], Path]) -> bool:
        command, target = job
        return subprocess.run([*command, "-o", target], capture_output=True, check=False).returncode == 0

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [target for (_, target), is_made in zip(jobs, pool.map(make, jobs), strict=True) if is_made]


def build_glibc(source: Path) -> list[list[str]]:
    shim, objects, programs = (source / "pfs" / name for name in ("shim", "objects", "programs"))
    shutil.rmtree(source / "pfs", ignore_errors=True)
    for folder in (shim, objects, programs):
        folder.mkdir(parents=True)
    for name in HEADERS_OF_GLIBC:
        for found in (source / "include" / name, source / name):
            if found.exists():
                shutil.copy(found, shim)
    for name, text in INSTEAD.items():
        (shim / name).write_text(text)
    for name in ("support", "malloc", "nptl"):
        (shim / name).symlink_to(source / name)
    gcc: list[str | Path] = ["gcc", "-std=gnu11", "-fgnu89-inline", "-O2", "-w", "-D_GNU_SOURCE", "-DMODULE_NAME=testsuite"]
    gcc += ["-include", shim / "first.h", f"-I{source}/support", f"-I{shim}"]
    are_no_part = ("tst-", "test-driver", "test-container")
    parts = [one for one in (source / "support").glob("*.c") if not one.name.startswith(are_no_part)]
    made = compiled([([*gcc, "-c", one], objects / f"{one.stem}.o") for one in parts])
    run("ar", "rcs", "libsupport.a", *made, cwd=objects)
    libraries: list[str | Path] = [objects / "libsupport.a", "-lpthread", "-lrt", "-ldl", "-lm", "-lresolv"]
    jobs: list[tuple[list[str | Path], Path]] = []
    for place in FOLDERS_OF_GLIBC:
        for one in sorted([*(source / place).glob("tst-*.c"), *(source / place).glob("bug*.c")]):
            command = [*gcc, f"-iquote{source / place}", one, *libraries]
            jobs.append((command, programs / f"{place.replace('/', '_')}.{one.stem}"))
    return [[str(one)] for one in compiled(jobs)]


# ---- Programs that are tests ---------------------------------------------------------------------------------------------


def build_posix(source: Path) -> list[list[str]]:
    """A program for each file that has a main(). Those that set the clock of the machine are left out."""
    programs = source / "pfs"
    programs.mkdir(exist_ok=True)
    files = [one for one in sorted(source.glob("conformance/*/*/*.c")) if one.parent.name != "clock_settime"]
    files = [one for one in files if re.search(r"^(int|void)?\s*main\s*\(", one.read_text(errors="replace"), re.MULTILINE)]
    gcc: list[str | Path] = ["gcc", "-std=gnu99", "-O2", "-w", "-D_GNU_SOURCE", f"-I{source}/include"]
    made = compiled([([*gcc, one, "-lpthread", "-lrt", "-lm"], programs / f"{one.parent.name}.{one.stem}") for one in files])
    return [[str(one)] for one in made]


def build_libstdcxx(source: Path) -> list[list[str]]:
    """A program for each test that runs, with the version of C++ that it asks for."""
    [sources] = source.glob("usr/src/gcc-*/gcc-*-dfsg.tar.xz")
    folders = ["util", "30_threads", "27_io/basic_filebuf", "27_io/filesystem/operations", "27_io/filesystem/iterators"]
    run(
        "tar",
        "-xf",
        sources,
        "--strip-components=3",
        "--wildcards",
        *(f"*/libstdc++-v3/testsuite/{one}" for one in folders),
        cwd=source,
    )
    gxx: list[str | Path] = ["g++", "-O1", "-w", "-pthread", f"-I{source}/util"]
    run(*gxx, "-std=gnu++20", "-c", "util/testsuite_hooks.cc", cwd=source)
    (programs := source / "pfs").mkdir(exist_ok=True)
    jobs: list[tuple[list[str | Path], Path]] = []
    for one in sorted(file for folder in folders[1:] for file in (source / folder).glob("**/*.cc")):
        text = one.read_text(errors="replace")
        if re.search(r"^(int\s+)?main\s*\(", text, re.MULTILINE):
            asked = re.search(r"-std=gnu\+\+\w+", text)
            command = [*gxx, asked[0] if asked else "-std=gnu++20", one, source / "testsuite_hooks.o", "-latomic"]
            jobs.append((command, programs / ".".join(one.relative_to(source).with_suffix("").parts)))
    return [[str(one)] for one in compiled(jobs)]


LITTLE_MEMORY = "locks all its memory as nobody, who may lock 8 MiB: with pfs it has more"
SUITES = {
    "glibc": Suite(
        "glibc",
        build_glibc,
        leave_out={
            "sysdeps_pthread.tst-key1": "takes all 1,024 keys for data of threads, of which pfs has one",
            "stdlib.tst-arc4random-fork": "forks for minutes",
            "stdlib.tst-arc4random-thread": "its bounds on time fail on a loaded machine",
        },
    ),
    "glib": Suite(
        "libglib2.0-tests",
        installed_tests_of_glib,
        r"^(?P<result>(?:not )?ok) \d+ (?P<name>\S+?)(?:/seed:\d+)?(?:\s|$)",
        leave_out={"fake-document-portal": "serves until it is ended", "fake-service-name": "serves until it is ended"},
    ),
    "libuv": Suite(
        "libuv1",
        by_cmake("uv_run_tests", options=("-DBUILD_TESTING=ON",)),
        r"^(?P<result>(?:not )?ok) \d+ - (?P<name>\S+)",
        NOBODY,
        ".",
        leave_out={"tcp_close_while_connecting": "depends on how soon the network refuses"},
    ),
    "apr": Suite("apr", build_apr, r"^(?P<name>\S+) +:.*?(?P<result>SUCCESS|FAILED)", inside="test"),
    "libevent": Suite(
        "libevent",
        by_cmake("bin/regress", options=("-DEVENT__DISABLE_OPENSSL=ON",)),
        r"^(?P<name>\S+/\S+): .*?(?P<result>OK|FAILED)",
        leave_out={"util/monotonic_prc_fallback": "reads a variable that it has not set: valgrind says so of the plain program"},
    ),
    "zeromq": Suite("zeromq3", build_zeromq, r"^.*:(?P<name>\w+):(?P<result>PASS|FAIL|IGNORE)"),
    "coreutils": Suite(
        "coreutils",
        build_coreutils,
        r"^(?P<result>PASS|FAIL|SKIP|XFAIL|ERROR): (?P<name>tests/\S+\.sh)$",
        inside=".",
        leave_out={
            "tests/ls/stat-free-color.sh": "has strace count the program's calls: those of pfs are there, too",
            "tests/ls/stat-free-symlinks.sh": "the same",
            "tests/misc/cut-huge-range.sh": "leaves the program no address space for a library more",
            "tests/misc/printf-surprise.sh": "the same",
        },
    ),
    "posix": Suite(
        "posixtestsuite",
        build_posix,
        user=NOBODY,
        leave_out={"mlockall.3-6": LITTLE_MEMORY, "mlockall.8-1": LITTLE_MEMORY},
        at_once=5,
    ),
    "stress-ng": Suite(
        "stress-ng",
        stressors,
        user=NOBODY,
        leave_out=dict.fromkeys(["bigheap", "brk", "oom-pipe", "resources", "stack"], "takes all memory")
        | dict.fromkeys(["sysinval", "softlockup", "swap", "watchdog"], "may stop the machine"),
    ),
    "libstdc++": Suite("gcc-12-source", build_libstdcxx, at_once=3),
}


def fetch(suite: Suite, folder: Path) -> Path:
    """Returns the sources of a suite or, for a package of programs, tests or sources, its content."""
    if suite.package.endswith(("-tests", "-source", "stress-ng")):
        run("apt-get", "download", "-qq", suite.package, cwd=folder)
        [package] = folder.glob(f"{suite.package}_*.deb")
        run("dpkg-deb", "-x", package, folder / suite.package, cwd=folder)
        return folder / suite.package
    source = debian.source(suite.package, folder)
    if suite.user is not None:
        run("chown", "-R", f"{suite.user}:{suite.user}", source, cwd=folder)
    return source


def leaves_processes(session: int) -> bool:
    """Ends what is left of a session of processes, and returns whether that lived on for two seconds."""
    of_session = ["--session", str(session), "--runstates", "R,S,D,T"]
    for _ in range(20):
        if subprocess.run(["pgrep", *of_session], stdout=subprocess.PIPE, check=False).returncode != 0:
            return False
        time.sleep(0.1)
    subprocess.run(["pkill", "-KILL", *of_session], check=False)
    return True


@dataclass(frozen=True)
class Session:
    """Runs the programs of a suite. `folder` is for what they leave."""

    suite: Suite
    source: Path
    folder: Path
    all_on: bool
    seconds: float

    def results_of(self, command: list[str], env: dict[str, str]) -> Results:
        """Returns the result of each test of a program, or its exit code if it said none, or was killed.

        A process that it leaves is a result, too.
        """
        name, user = Path(command[0]).name, self.suite.user
        as_user = [] if user is None else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        with tempfile.TemporaryDirectory(dir=self.folder) as work, tempfile.TemporaryFile(dir=self.folder) as said:
            if user is not None:
                os.chown(work, user, user)
            child = subprocess.Popen(
                [*as_user, *command],
                cwd=self.source / self.suite.inside if self.suite.inside else work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
            try:
                code = str(child.wait(self.seconds))
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                child.wait()
                code = f"killed after {self.seconds:.0f} s"
            if leaves_processes(child.pid):
                code += ", leaves a process"
            said.seek(0)
            text = said.read().decode(errors="replace")
        found = re.finditer(self.suite.result, text, re.MULTILINE) if self.suite.result else ()
        results = {f"{name}: {one['name']}": one["result"] for one in found if one["name"] not in self.suite.leave_out}
        return results | ({} if results and code.isdecimal() else {name: code})

    def compare(self, command: list[str]) -> both_ways.Compared:
        there = str(Path(command[0]).parent)
        of_glib = {"G_TEST_SRCDIR": there, "G_TEST_BUILDDIR": there, "LD_LIBRARY_PATH": there}
        plain = os.environ | {"LC_ALL": "C.UTF-8", "TIMEOUTFACTOR": "3"} | of_glib

        def both(_: int) -> tuple[Results, Results]:
            with tempfile.TemporaryDirectory(prefix="pfs-suites-", dir="/dev/shm") as segments:
                if self.suite.user is not None:
                    os.chown(segments, self.suite.user, self.suite.user)
                under = plain | environment(segments, all_on=self.all_on) | {"PFS_KEEP": "0"}
                return self.results_of(command, plain), self.results_of(command, under)

        return both_ways.compare(both)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"suites: {', '.join(SUITES)} (all)")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs whose names have it")
    parser.add_argument("--all-on", action="store_true", help="everything timed, as pfs run --all-on")
    parser.add_argument("--folder", type=Path, help="sources and programs; without it, a temporary folder")
    parser.add_argument("--seconds", type=float, default=300, help="ends a program after that time (300)")
    options = parser.parse_args()
    if unknown := set(options.names) - set(SUITES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; legal are {', '.join(SUITES)}")
    good = True
    with tempfile.TemporaryDirectory(prefix="pfs-suites-") as temporary, Progress(transient=True) as progress:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # nobody's tests are there, too
        print("| suite | programs | tests | differ | unstable |\n|" + " --- |" * 5, flush=True)
        for name in options.names or SUITES:
            suite = SUITES[name]
            task = progress.add_task(f"{name}: building", total=None)
            session = Session(suite, fetch(suite, folder), folder, options.all_on, options.seconds)
            commands = [one for one in suite.build(session.source) if options.only in one[0]]
            commands = [one for one in commands if Path(one[0]).name not in suite.leave_out]
            progress.update(task, description=name, total=len(commands))
            tests, differ, unstable, lines = 0, 0, 0, []
            with concurrent.futures.ThreadPoolExecutor(suite.at_once) as pool:
                for compared in pool.map(session.compare, commands):
                    tests += len(compared.plain)
                    differ += len(compared.always)
                    unstable += len(compared.unstable)
                    lines += compared.lines()
                    progress.advance(task)
            progress.remove_task(task)
            good &= differ == 0 and tests > 0
            print("\n".join([f"| {name} | {len(commands)} | {tests} | {differ} | {unstable} |", *lines]), flush=True)
    return not good


if __name__ == "__main__":
    sys.exit(main())
