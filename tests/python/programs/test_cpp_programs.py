"""C++ programs as people write them: names, guards of std, flags of compilers, and each way to build against the package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import pfs
from pfs._base import installed
from tests.conftest import PROGRAMS, ROOT
from tests.each import for_each
from tests.python.programs.test_programs import count, environment, rows, run, segments_in

SOURCE = PROGRAMS / "cpp_names.cpp"
INCLUDE = f"-I{installed.include_dir()}"
STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Wold-style-cast", "-Wconversion", "-pedantic", "-Werror"]


def shell(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def linker_flags() -> list[str]:
    return [f"-L{installed.library_dir()}", "-lperfschema", f"-Wl,-rpath,{installed.library_dir()}"]


@pytest.mark.parametrize("flags", [["-std=c++17"], ["-std=c++20"], ["-std=c++20", "-DPFS_DISABLE"]], ids=" ".join)
def test_classes_as_people_write_them(flags: list[str], tmp_path: Path) -> None:
    """Vectors of mutexes, guards of std, recursive mutexes, semaphores, latches, barriers and streams: results as std's."""
    libraries = ["-pthread"] if "-DPFS_DISABLE" in flags else linker_flags()
    shell("g++", *flags, "-O1", *STRICT, INCLUDE, SOURCE, "-o", tmp_path / "program", *libraries)
    done = subprocess.run(
        [tmp_path / "program", tmp_path], env=environment(tmp_path, PFS_KEEP="1"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "cpp_names ok\n"), done.stderr
    if "-DPFS_DISABLE" in flags:
        assert done.stderr == ""
        return
    # A refused name is reported once.
    assert done.stderr.count("\n") == 1
    assert "not instrumented" in done.stderr
    assert "bad%name" in done.stderr

    (segment,) = [tmp_path / name for name in segments_in(tmp_path)]
    mutex = "wait/synch/mutex/"
    assert count(segment, mutex + "index/LOCK_node") == 5
    assert count(segment, mutex + "program/mutex") == 3
    assert count(segment, mutex + "program/LOCK_noslash") == 1
    assert count(segment, "wait/synch/rwlock/program/shared_mutex") == 2
    assert count(segment, mutex + "index/LOCK_leaf") == (2 if "-std=c++20" in flags else 0)
    assert count(segment, mutex + "index/LOCK_recursive") == 4
    assert count(segment, "wait/synch/cond/index/slots") >= 2
    assert count(segment, "wait/synch/cond/index/phase") > 0
    names = {row["NAME"] for row in rows(segment, "setup_instruments", "NAME")}
    assert "wait/io/file/index/stream" in names
    # std's guards show the line of the guard.
    marked = [number for number, line in enumerate(SOURCE.read_text().splitlines(), 1) if line.endswith("// SOURCE")]
    events = rows(segment, "events_waits_history_long", "EVENT_NAME", "SOURCE")
    seen = {row["SOURCE"] for row in events if row["EVENT_NAME"].endswith("/LOCK_guarded")}
    assert seen == {f"cpp_names.cpp:{line}" for line in marked}
    assert all(row["SOURCE"].startswith("cpp_names.cpp:") for row in events if "/index/s" in row["EVENT_NAME"])


def test_bytes_of_a_stream_are_those_of_its_file(tmp_path: Path) -> None:
    """H10: the stream's writes add up to the file, in blocks of the buffer."""
    shell("g++", "-std=c++17", "-O1", INCLUDE, SOURCE, "-o", tmp_path / "program", *linker_flags())
    run(tmp_path / "program", str(tmp_path), cwd=tmp_path, env={"PFS_KEEP": "1"})
    (segment,) = [tmp_path / name for name in segments_in(tmp_path)]
    (row,) = [row for row in rows(segment, "file_summary_by_instance") if row["FILE_NAME"].endswith("/stream")]
    size = (tmp_path / "stream").stat().st_size
    assert row["SUM_NUMBER_OF_BYTES_WRITE"] == size + 2  # two bytes are overwritten
    assert row["COUNT_WRITE"] <= 8
    assert row["SUM_NUMBER_OF_BYTES_READ"] >= size


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@for_each("flags", [*product(["-std=c++17", "-std=c++20"], ["", "-fno-exceptions -fno-rtti", "-DPFS_DISABLE"])])
def test_headers_compile_without_a_warning(compiler: str, flags: tuple[str, str]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    of_gcc = ["-Wuseless-cast"] if compiler == "g++" else []  # clang has no such warning
    shell(compiler, *" ".join(flags).split(), *STRICT, *of_gcc, INCLUDE, "-fsyntax-only", SOURCE)


def test_an_old_standard_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "old.cpp").write_text("#include <perfschema/pfs.hpp>\n")
    done = subprocess.run(
        ["g++", "-std=c++14", INCLUDE, "-fsyntax-only", tmp_path / "old.cpp"], capture_output=True, text=True, check=False
    )
    assert "need C++17: -std=c++17" in done.stderr


def test_the_header_of_mutexes_is_light(tmp_path: Path) -> None:
    """It may not include the heavy headers of the C++ library: <mutex> alone has 31,000 lines."""
    (tmp_path / "light.cpp").write_text(
        "#include <perfschema/mutex.hpp>\n"
        'perfschema::mutex m{"light/LOCK_m"};\n'
        "int main() { perfschema::lock_guard guard{m}; return 0; }\n"
    )
    text = shell("g++", "-std=c++17", INCLUDE, "-E", tmp_path / "light.cpp")
    plain = shell("g++", "-std=c++17", INCLUDE, "-E", "-include", "perfschema/pfs.h", "-x", "c++", "/dev/null")
    assert len(text.splitlines()) < len(plain.splitlines()) + 1000
    assert not re.search(r'"[^"]*/(chrono|system_error|string|mutex)"', text)
    shell("g++", "-std=c++17", *STRICT, INCLUDE, tmp_path / "light.cpp", "-o", tmp_path / "light", *linker_flags())
    run(tmp_path / "light", cwd=tmp_path, env={"PFS_KEEP": "1"})
    (segment,) = segments_in(tmp_path)
    assert count(tmp_path / segment, "wait/synch/mutex/light/LOCK_m") == 1


# ---- Ways to build -----------------------------------------------------------------------------------------------------------

PROGRAM = """
#include <perfschema/pfs.hpp>
#include <cstdio>
int main() {
  perfschema::mutex mutex{"test/LOCK_built"};
  { std::lock_guard guard{mutex}; }
  perfschema::statement statement{"test/query", "select 1 from t"};
  std::puts(pfs_is_on() ? "on" : "off");
}
"""


def needed(program: Path) -> list[str]:
    return re.findall(r"NEEDED.*\[(.*)\]", shell("readelf", "-d", program))


def pkg_config(package: str, *flags: str) -> list[str]:
    folder = f"{installed.library_dir()}/pkgconfig"
    return shell("pkg-config", *flags, package, PKG_CONFIG_PATH=folder).split()


def test_flags_of_pkg_config_build_a_program_that_starts(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(PROGRAM)
    flags = pkg_config("perfschema", "--cflags", "--libs")
    shell("g++", "-std=c++17", "program.cpp", *flags, "-o", "program", cwd=tmp_path)
    assert run(tmp_path / "program", cwd=tmp_path) == "on\n"
    # A program built against this version does not start with the library of another ABI.
    (library,) = [name for name in needed(tmp_path / "program") if "perfschema" in name]
    assert library == "libperfschema.so." + ".".join(pfs.__version__.split(".")[:2])


def test_a_static_program_needs_no_library_and_shows_the_c_api_alone(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(PROGRAM)
    flags = pkg_config("perfschema-static", "--cflags", "--libs")
    shell("g++", "-std=c++17", "program.cpp", *flags, "-o", "program", cwd=tmp_path)
    assert not [name for name in needed(tmp_path / "program") if "perfschema" in name]
    assert run(tmp_path / "program", cwd=tmp_path, env={"PFS_KEEP": "1"}) == "on\n"
    (segment,) = segments_in(tmp_path)
    assert count(tmp_path / segment, "wait/synch/mutex/test/LOCK_built") == 1
    names = shell("nm", "--defined-only", "-g", Path(installed.library_dir()) / "libperfschema.a").splitlines()
    # "u": constants of templates, which the linker joins with their like.
    assert not [line for line in names if " " in line and not re.search(r"( pfs_\w+| u _Z\w+)$", line)]


EARLY = """
#include <perfschema/mutex.hpp>
#include <cstdio>

static perfschema::mutex guard{"test/LOCK_early"};
static const bool used = [] {
  guard.lock();
  guard.unlock();
  return true;
}();

int main() { std::printf("%s\\n", used && pfs_is_on() ? "on" : "off"); }
"""


@pytest.mark.parametrize("package", ["perfschema", "perfschema-static"])
def test_global_objects_of_a_program_are_recorded_from_their_construction(package: str, tmp_path: Path) -> None:
    """A static library is part of the program: its own globals are there before those of the program."""
    (tmp_path / "program.cpp").write_text(EARLY)
    shell("g++", "-std=c++17", "program.cpp", *pkg_config(package, "--cflags", "--libs"), "-o", "program", cwd=tmp_path)
    assert run(tmp_path / "program", cwd=tmp_path, env={"PFS_KEEP": "1"}) == "on\n"
    (segment,) = segments_in(tmp_path)
    assert count(tmp_path / segment, "wait/synch/mutex/test/LOCK_early") == 1


def configured(folder: Path, text: str) -> str:
    """Writes a project and configures it. Returns the path of cmake."""
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    program, ninja = (shutil.which(tool, path=tools) for tool in ("cmake", "ninja"))
    if program is None or ninja is None:
        pytest.skip("needs cmake and ninja")
    folder.mkdir(exist_ok=True)
    (folder / "program.cpp").write_text(PROGRAM)
    (folder / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.22)\nproject(consumer CXX)\n" + text)
    settings = [
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
        f"-DPerfSchema_DIR={installed.cmake_dir()}",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
    ]
    shell(program, "-S", ".", "-B", "build", "-G", "Ninja", *settings, cwd=folder)
    return program


def cmake(folder: Path, text: str, target: str) -> None:
    program = configured(folder, text)
    shell(program, "--build", "build", "--target", target, cwd=folder)
    assert run(folder / "build" / target, cwd=folder) == "on\n"


def test_find_package_has_the_static_library(tmp_path: Path) -> None:
    text = "find_package(PerfSchema REQUIRED)\nadd_executable(program program.cpp)\n"
    cmake(tmp_path, text + "target_link_libraries(program PRIVATE PerfSchema::perfschema_static)\n", "program")
    assert not [name for name in needed(tmp_path / "build/program") if "perfschema" in name]


def commands(folder: Path, place: str) -> list[str]:
    """Returns the compiler's commands of a project that has the library's tree at `place`."""
    entries = json.loads((folder / "build/compile_commands.json").read_text())
    return sorted(entry["command"].replace(f"{folder}/", "").replace(place, "PLACE") for entry in entries)


@pytest.mark.needs("trees")
def test_a_project_builds_the_library_as_its_part(tmp_path: Path) -> None:
    """The library alone is built, nothing is installed, and the project's own build type stays. FetchContent and
    add_subdirectory lead to the same commands, so it is built once."""
    fetch = f"include(FetchContent)\nFetchContent_Declare(PerfSchema SOURCE_DIR {ROOT})\nFetchContent_MakeAvailable(PerfSchema)\n"
    rest = (
        'if(CMAKE_BUILD_TYPE)\n  message(FATAL_ERROR "changed")\nendif()\n'
        "add_executable(program program.cpp)\ntarget_link_libraries(program PRIVATE PerfSchema::perfschema)\n"
    )
    configured(tmp_path / "part", f"add_subdirectory({ROOT} the_library)\n" + rest)
    configured(tmp_path / "fetched", fetch + rest)
    part, fetched = commands(tmp_path / "part", "the_library"), commands(tmp_path / "fetched", "_deps/perfschema-build")
    groups = [path.read_text() for path in tmp_path.glob("part/build/**/Unity/*.cxx")]
    compiled = "\n".join([*part, *groups])
    assert groups
    assert not [path for path in ROOT.glob("cpp/src/**/*.cpp") if str(path) not in compiled]
    assert fetched == part
    cmake(tmp_path / "fetched", fetch + rest, "program")
    assert not list(tmp_path.rglob("pfs-demo-index"))
