"""``pfs run`` calls no function that the program defines under a name of the C library: a sanitizer's, a checker's."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.python.run.test_run import LIBRARY, PFS, own_folder, pytestmark, run

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

# A function of any signature: it counts its call under a lock, and goes on as the C library's function of that name.
STUB = r"""
__asm__(".globl {0}\n.type {0}, @function\n{0}:\n"
        "push %rbp\nmov %rsp, %rbp\npush %rax\npush %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\n"
        "sub $136, %rsp\nand $-16, %rsp\n"
        "movups %xmm0, (%rsp)\nmovups %xmm1, 16(%rsp)\nmovups %xmm2, 32(%rsp)\nmovups %xmm3, 48(%rsp)\n"
        "movups %xmm4, 64(%rsp)\nmovups %xmm5, 80(%rsp)\nmovups %xmm6, 96(%rsp)\nmovups %xmm7, 112(%rsp)\n"
        "mov ${1}, %edi\ncall count@PLT\n"
        "movups (%rsp), %xmm0\nmovups 16(%rsp), %xmm1\nmovups 32(%rsp), %xmm2\nmovups 48(%rsp), %xmm3\n"
        "movups 64(%rsp), %xmm4\nmovups 80(%rsp), %xmm5\nmovups 96(%rsp), %xmm6\nmovups 112(%rsp), %xmm7\n"
        "lea -56(%rbp), %rsp\npop %r9\npop %r8\npop %rcx\npop %rdx\npop %rsi\npop %rdi\npop %rax\npop %rbp\n"
        "mov real@GOTPCREL(%rip), %r11\njmp *8*{1}(%r11)\n");
"""

DEFINITIONS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
extern int write(int, const void*, unsigned long);
static const char* const names[] = {NAMES};
#define COUNT (sizeof names / sizeof *names)
void* real[COUNT];
long calls[COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void count(int which) {
  static __thread int inside __attribute__((tls_model("initial-exec")));
  if (inside++ == 0) {
    pthread_mutex_lock(&lock);
    ++calls[which];
    pthread_mutex_unlock(&lock);
  }
  --inside;
}
void find_real(void) {
  for (unsigned i = 0; i < COUNT; ++i) real[i] = dlsym(RTLD_NEXT, names[i]);
}
void tell(void) {
  for (unsigned i = 0; i < COUNT; ++i) {
    char text[99], *at = text;
    for (const char* name = names[i]; *name; ++name) *at++ = *name;
    *at++ = ' ';
    for (long unit = 1000000; unit; unit /= 10) *at++ = '0' + calls[i] / unit % 10;
    *at++ = '\n';
    write(1, text, at - text);
  }
}
"""
# Before all constructors if it is in the program itself.
BEFORE_ALL = '__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = find_real;\n'

PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
void tell(void);
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static void* work(void* unused) {
  char text[64];
  for (int i = 0; i < 2000; ++i) {
    pthread_mutex_lock(&m);
    int fd = open(i % 2 ? "/etc/passwd" : "/nowhere", O_RDONLY);
    read(fd, text, sizeof text);
    close(fd);
    pthread_mutex_unlock(&m);
    pthread_rwlock_rdlock(&rw);
    pthread_rwlock_unlock(&rw);
  }
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, work, 0);
  pthread_setname_np(thread, "worker");
  work(0);
  pthread_join(thread, 0);
  int pair[2];
  char byte = 1;
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  write(pair[0], &byte, 1);
  read(pair[1], &byte, 1);
  FILE* file = fopen("/etc/passwd", "r");
  fread(&byte, 1, 1, file);
  fclose(file);
  const int child = fork();
  if (child == 0) {
    work(0);
    execl("/bin/true", "true", (char*)0);
  }
  waitpid(child, 0, 0);
  tell();
  _exit(7);
}
"""


def imported() -> list[str]:
    """Returns the functions of the C library that the library imports."""
    both = (LIBRARY, LIBRARY.with_name("libperfschema-run-memory.so"))
    symbols = [
        line.split() for library in both for line in run("readelf", "--dyn-syms", "-W", library, check=True).stdout.splitlines()
    ]
    c_library = ctypes.CDLL("libc.so.6")
    names = {fields[7].split("@")[0] for fields in symbols if len(fields) > 7 and fields[3] == "FUNC" and fields[6] == "UND"}
    return sorted(
        name for name in names - {"dlsym"} if hasattr(c_library, name)
    )  # the program itself finds the others with dlsym()


def built(folder: Path, names: list[str], in_library: bool) -> list[str]:
    """Compiles a program that defines the functions, in itself or in a library that it needs."""
    head = DEFINITIONS.replace("NAMES", ",".join(f'"{name}"' for name in names))
    stubs = "".join(STUB.format(name, at).replace("\n        ", "\n") for at, name in enumerate(names))
    first = "__attribute__((constructor)) static void first(void) { find_real(); }\n" if in_library else BEFORE_ALL
    (folder / "defined.c").write_text(head + stubs + first)
    (folder / "program.c").write_text(PROGRAM)
    flags = ["-O1", "-w", "-fno-builtin", "-fno-stack-protector", "-U_FORTIFY_SOURCE"]
    if in_library:
        subprocess.run(["cc", *flags, "-shared", "-fPIC", "-o", folder / "libdefined.so", folder / "defined.c"], check=True)
        more: list[str | Path] = [folder / "libdefined.so", f"-Wl,-rpath,{folder}"]
    else:
        more = ["-rdynamic", folder / "defined.c"]
    subprocess.run(["cc", *flags, "-o", folder / "program", folder / "program.c", *more, "-lpthread"], check=True)
    return [str(folder / "program")]


@pytest.mark.parametrize("in_library", [False, True], ids=["program", "library"])
@pytest.mark.parametrize("options", [(), ("--all-on",), ("--only", "memory,locks,files")], ids=["default", "all on", "memory"])
def test_no_function_of_a_program_is_called(tmp_path: Path, in_library: bool, options: tuple[str, ...]) -> None:
    """The program counts the calls of each function that pfs imports. Each takes a lock, which is instrumented."""
    names = imported()
    assert len(names) > 60
    assert {"memcpy", "memset", "strlen", "mmap", "sigaction", "clock_gettime"} <= set(names)
    program = built(tmp_path, names, in_library)
    plain = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert (plain.returncode, plain.stderr) == (7, "")
    assert plain.stdout.count("\n") == len(names)
    seen = subprocess.run(
        [*PFS, "run", "--no-report", *options, "--", *program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (seen.returncode, seen.stdout, seen.stderr) == (plain.returncode, plain.stdout, plain.stderr)


SANITIZED = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static long n;
static void* work(void* unused) {
  for (int i = 0; i < 1000; ++i) {
    sched_getcpu();
    pthread_mutex_lock(&m);
    ++n;
    pthread_mutex_unlock(&m);
  }
  return unused;
}
int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], 0);
  FILE* file = fopen("/etc/passwd", "r");
  printf("%ld %c\n", n, fgetc(file));
  fclose(file);
}
"""


# A library in front of the C library that calls a function by its name: pfs did so, too. Newer sanitizers find the functions
# that they watch behind it, so it stands before one that they do not.
CALLS_BY_NAME = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
static char here[64], there[64];
int sched_getcpu(void) {
  memcpy(here, there, sizeof here);
  return ((int (*)(void))dlsym(RTLD_NEXT, "sched_getcpu"))();
}
"""


@pytest.fixture(
    params=[("clang", "-fsanitize=thread"), ("gcc", "-fsanitize=thread", "-static-libtsan")], ids=["clang", "gcc static"]
)
def sanitized(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A program with the sanitizer's functions inside."""
    if shutil.which(request.param[0]) is None:
        pytest.skip(f"{request.param[0]} is not installed")
    (tmp_path / "sanitized.c").write_text(SANITIZED)
    program = tmp_path / "sanitized"
    subprocess.run([*request.param, "-g", "-O1", "-pthread", tmp_path / "sanitized.c", "-o", program], check=True)
    return program


def test_a_thread_sanitizer_inside_the_program_sees_no_race(sanitized: Path) -> None:
    """It defines memcpy, mmap and all else that it watches. Half of the runs ended with a race or without memory."""
    for _ in range(10):
        done = subprocess.run(
            [*PFS, "run", "--no-report", "--", sanitized], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "4000 r\n", "")


def test_a_thread_sanitizer_sees_a_library_that_calls_its_functions(sanitized: Path, tmp_path: Path) -> None:
    """Negative control."""
    (tmp_path / "calls.c").write_text(CALLS_BY_NAME)
    library = tmp_path / "libcalls.so"
    subprocess.run(["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, tmp_path / "calls.c", "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run([sanitized], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 66, done.stderr
    assert "data race" in done.stderr
    assert library.name in done.stderr


def test_a_library_between_pfs_and_the_c_library_is_not_called(tmp_path: Path) -> None:
    """The fstat() of fakeroot calls __fxstat(), which pfs replaces: that called fstat() again, until there was no stack."""
    if shutil.which("fakeroot") is None:
        pytest.skip("fakeroot is not installed")
    (tmp_path / "sanitized.c").write_text(SANITIZED)
    program = str(tmp_path / "plain")
    subprocess.run(["cc", "-pthread", tmp_path / "sanitized.c", "-o", program], check=True)
    for command in (
        ["fakeroot", *PFS, "run", "--no-report", "--", program],
        [*PFS, "run", "--no-report", "--", "fakeroot", program],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "4000 r\n", "")
