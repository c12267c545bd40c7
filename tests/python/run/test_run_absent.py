"""``pfs run``: functions that the C library lacks stay absent."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pfs._process.run import launch
from tests.python.run.test_run import LIBRARY, PFS, listed, own_folder, pytestmark

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too

NEWER = listed()[1]

# Says of each name whether dlsym() finds it, and whether a weak reference does.
PROGRAM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#define NAME(name) extern char weak_##name __asm__(#name) __attribute__((weak));
NAMES
#undef NAME
int main(void) {
#define NAME(name) printf("%s %d %d\\n", #name, dlsym(RTLD_DEFAULT, #name) != 0, &weak_##name != 0);
NAMES
}
"""


def outcome(*command: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def compiled(folder: Path, text: str, *flags: str) -> Path:
    (folder / "program.c").write_text(text)
    subprocess.run(["cc", "-w", "-fno-builtin", "-o", folder / "program", folder / "program.c", *flags], check=True)
    return folder / "program"


@pytest.mark.parametrize("linked", ["to the C library", "before it had them"])
def test_a_function_that_the_c_library_lacks_is_not_found(tmp_path: Path, linked: str) -> None:
    """It was there, and answered ENOSYS."""
    names = sorted(listed()[0])
    assert len(names) > 200
    assert len(NEWER) > 10
    assert set(names) > NEWER
    text = PROGRAM.replace("NAMES", "\n".join(f"NAME({name})" for name in names))
    flags: tuple[str, ...] = ()
    if linked != "to the C library":  # to one without versions, so the references have none
        (tmp_path / "old.c").write_text("".join(f"void {name}(void) {{}}\n" for name in ("__libc_start_main", "printf", "dlsym")))
        library = ["-shared", "-nostdlib", "-Wl,-soname,libc.so.6", "-o", f"{tmp_path}/old.so", f"{tmp_path}/old.c"]
        subprocess.run(["cc", "-w", "-fno-builtin", *library], check=True)
        flags = ("-nodefaultlibs", str(tmp_path / "old.so"))
    program = compiled(tmp_path, text, *flags)
    plain = outcome(program)
    assert plain[0] == 0, plain
    assert plain[1].count("\n") == len(names)
    assert outcome(*PFS, "run", "--no-report", "--", program) == plain


def versions(library: str | Path) -> dict[str, set[str]]:
    """The names that a library defines, each with its versions."""
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found: dict[str, set[str]] = {}
    for line in lines:
        name, _, version = line.split()[-1].replace("@@", "@").partition("@")
        found.setdefault(name, set()).add(version)
    return found


def test_functions_that_came_later_have_the_versions_of_the_c_library() -> None:
    """``stat`` had none: glibc has it since 2.33, and programs found it under each older one."""
    (libc,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("/libc.so.6")}
    theirs, ours = versions(libc), versions(LIBRARY)
    later = {
        name: theirs[name]
        for name in listed()[0] & set(theirs)
        if min(tuple(map(int, version.removeprefix("GLIBC_").split("."))) for version in theirs[name] if "PRIVATE" not in version)
        > (2, 28)
    }
    assert {"stat", "fstatat64", "pthread_mutex_clocklock", "close_range"} <= set(later)
    assert {name: ours[name] for name in later} == later
    assert set(later) <= NEWER


def test_a_weak_function_of_a_newer_c_library_is_not_called(tmp_path: Path) -> None:
    text = """
#include <errno.h>
#include <stdio.h>
#include <string.h>
extern int __isoc23_fscanf(FILE*, const char*, ...) __attribute__((weak));
int main(int argc, char** argv) {
  int number = 0;
  FILE* file = fopen(argv[1], "r");
  const int fields = __isoc23_fscanf ? __isoc23_fscanf(file, "%d", &number) : fscanf(file, "%d", &number);
  printf("%d %d\\n", fields, number);
}
"""
    (tmp_path / "number").write_text("42")
    program = compiled(tmp_path, text)
    assert outcome(program, tmp_path / "number") == (0, "1 42\n", "")
    assert outcome(*PFS, "run", "--no-report", "--", program, tmp_path / "number") == (0, "1 42\n", "")


# A client that has one function, and a library that would use it, and others, if they were there.
CLIENT = "int sqlite3_step(void* handle) { return 101; }"
USER = """
#define WEAK __attribute__((weak))
extern int sqlite3_step(void*) WEAK, sqlite3_finalize(void*) WEAK, mysql_query(void*, const char*) WEAK;
extern void* PQexec(void*, const char*) WEAK;
int has(void) { return (sqlite3_step ? 1 : 0) + (mysql_query ? 2 : 0) + (PQexec ? 4 : 0) + (sqlite3_finalize ? 8 : 0); }
int step(void) { return sqlite3_step ? sqlite3_step(0) : -7; }
int call_all(void) {  // as a program would that asks nothing
  return (sqlite3_step ? sqlite3_step(0) != 0 : 1) && (mysql_query ? mysql_query(0, "select 1") != 0 : 1)
      && (PQexec ? PQexec(0, "select 1") == 0 : 1);
}
"""
GUARDED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
extern int has(void), step(void);
int main(int argc, char** argv) {
  printf("start %d %d\\n", has(), step());
  void* late = dlopen(argv[1], RTLD_NOW);  // its references are bound now
  int (*call_all)(void) = dlsym(late, "call_all");
  printf("late %d\\n", call_all());
  void* client = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
  int (*by_handle)(void*) = dlsym(client, "sqlite3_step");
  int (*by_default)(void*) = dlsym(RTLD_DEFAULT, "sqlite3_step");
  printf("client %d %d\\n", by_handle(0), by_default(0));
}
"""


def library(folder: Path, name: str, text: str, *flags: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    made = folder / f"lib{name}.so"
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", made, folder / f"{name}.c", *flags], check=True)
    return made


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_weak_references_to_a_client_that_is_not_there_are_null(tmp_path: Path, binding: str) -> None:
    """A program that asked for one before it called it was ended by a signal: the function was found, and led nowhere."""
    user, late = (library(tmp_path, name, USER, f"-Wl,-z,{binding}") for name in ("user", "late"))
    client = library(tmp_path, "client", CLIENT)
    program = compiled(tmp_path, GUARDED, str(user), f"-Wl,-z,{binding}", "-ldl")
    plain = outcome(program, late, client)
    assert plain == (0, "start 0 -7\nlate 1\nclient 101 101\n", "")
    assert outcome(*PFS, "run", "--no-report", "--", program, late, client) == plain


def test_functions_with_versions_are_recorded(tmp_path: Path) -> None:
    """A program that is linked to a C library that has them calls the replacement."""
    text = """
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int main(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_sec += 60;
  for (int i = 0; i < 77; ++i) {
    if (pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &at) != 0) return 1;
    pthread_mutex_unlock(&lock);
  }
}
"""
    program = compiled(tmp_path, text, "-lpthread")
    report = tmp_path / "report.json"
    assert outcome(*PFS, "run", "--json", "-o", report, "--", program)[0] == 0
    assert [row["count"] for row in json.loads(report.read_text())["classes"] if row["class"] == "mutexes"] == [77]


@pytest.mark.parametrize(
    ("version", "is_loaded"), [("glibc 2.28", True), ("glibc 2.33", True), ("glibc 2.34", False), ("glibc 3.0", False)]
)
def test_functions_of_threads_can_be_called_where_they_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_loaded: bool
) -> None:
    """Before glibc 2.34 a program without libpthread found the recorder's by weak references, and each call returned -1."""
    monkeypatch.setattr(os, "confstr", {"CS_GNU_LIBC_VERSION": version}.get)
    variables = launch.environment(str(tmp_path))
    libraries = variables["LD_PRELOAD"].split(":")
    assert libraries[0].endswith("/libperfschema-run.so")  # its replacements come first
    assert ("libpthread.so.0" in libraries) == is_loaded
    assert variables["PFS_RUN_PRELOAD"] in variables["LD_PRELOAD"]  # programs that are not recorded lose both
    children = f"import os; print(os.environ['LD_PRELOAD'] == {variables['LD_PRELOAD']!r})"
    assert outcome("env", *(f"{name}={value}" for name, value in variables.items()), "python3", "-c", children) == (
        0,
        "True\n",
        "",
    )
