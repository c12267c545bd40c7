"""Tries an installed wheel as a new user would: pfs records, a C program compiles and records, the demo runs.

pfs turns itself off where it cannot work, and says why in its status: a wheel is good only if it is on.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pfs
from pfs._base import installed

PROGRAM = """
#include <perfschema/pfs.h>
#include <stdio.h>
static pfs_key_t key;
static pfs_mutex_info_t mutexes[] = {{&key, "LOCK_c", 0, "Of a C program."}};
int main(void) {
  pfs_register_mutex("wheel", mutexes, 1);
  pfs_mutex_t mutex;
  pfs_mutex_init(key, &mutex, NULL);
  pfs_mutex_lock(&mutex);
  pfs_mutex_unlock(&mutex);
  pfs_mutex_destroy(&mutex);
  puts(pfs_is_on() ? "on" : "off");
  return 0;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(consumer C CXX)
find_package(PerfSchema REQUIRED)
foreach(kind perfschema perfschema_static)
  add_executable(${kind} program.c)
  target_link_libraries(${kind} PRIVATE PerfSchema::${kind})
  set_target_properties(${kind} PROPERTIES LINKER_LANGUAGE CXX)
endforeach()
"""


def output(*command: str, **environment: str) -> str:
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}"
    return done.stdout


def python_records() -> None:
    lock = pfs.Lock("wheel/LOCK_python")
    with lock:
        pass
    reason = pfs.status["Performance_schema_status_reason"]
    assert reason == "", reason
    counts = pfs.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
    assert counts["wait/synch/mutex/wheel/LOCK_python"] == 1


def c_program_records() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "program.c"), Path(folder, "program")
        source.write_text(PROGRAM)
        flags = output("pfs", "config", "--cflags", "--libs").split()
        output("gcc", str(source), *flags, "-o", str(program))
        assert output(str(program), PFS_DIR=folder, PFS_KEEP="1") == "on\n"
        (segment,) = Path(folder).glob("*.pfs")
        names = pfs.attach(segment).table("events_waits_history_long")["EVENT_NAME"].tolist()
        assert names == ["wait/synch/mutex/wheel/LOCK_c"], names


def cmake_package_is_whole() -> None:
    if shutil.which("cmake") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "CMakeLists.txt").write_text(PROJECT)
        Path(folder, "program.c").write_text(PROGRAM)
        output("cmake", "-S", folder, "-B", f"{folder}/build", f"-DPerfSchema_DIR={installed.cmake_dir()}")
        output("cmake", "--build", f"{folder}/build")
        for kind in ("perfschema", "perfschema_static"):
            assert output(f"{folder}/build/{kind}", PFS_DIR=folder) == "on\n"


def demo_runs() -> None:
    done = json.loads(output("pfs", "demo", "--json"))
    assert done["files"] > 100, done
    assert output("pfs", "demo").strip()


def main() -> None:
    print(f"   Python {platform.python_version()}, {platform.machine()}, {' '.join(platform.libc_ver())}")
    for part in (python_records, c_program_records, cmake_package_is_whole, demo_runs):
        start = time.perf_counter()
        part()
        print(f"   {part.__name__}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
