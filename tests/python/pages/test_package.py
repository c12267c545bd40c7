"""What `pip install .` puts where, what `import pfs` costs, and that C and C++ programs build against the package."""

from __future__ import annotations

import os
import pickle
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import pfs
from pfs._base import installed
from tests.conftest import Run


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_import_loads_neither_pandas_nor_numpy_until_a_frame_is_asked_for(fresh: Run) -> None:
    out = fresh("""
        import sys
        import pfs
        assert pfs.tables() and pfs.status and pfs.setup_instruments
        lock = pfs.Lock("test/LOCK_a")
        with lock, pfs.wait("test/WAIT_a"):
            pass
        pfs.setup_consumers["global_instrumentation"].enabled = True
        repr(pfs.setup_consumers), repr(pfs.status)
        assert pfs.RLock and pfs.Condition and pfs.RWLock and pfs.SimpleQueue
        heavy = {"numpy", "pandas", "click", "rich", "typing", "threading", "queue", "socket"} & set(sys.modules)
        assert not heavy, heavy
        assert pfs.Event and pfs.Queue and pfs.socket and pfs.Thread  # from here on they are there
        assert {"threading", "queue", "socket"} <= set(sys.modules)
        pfs.table("threads")
        assert "pandas" in sys.modules
        print("good")
    """)
    assert out == "good\n"


def test_commands_without_frames_load_neither_pandas_nor_numpy(fresh: Run) -> None:
    """They take half a second on a slow machine, which `pfs --help`, `pfs set` and `pfs top` need not wait for."""
    out = fresh("""
        import contextlib, io, os, sys
        import pfs, pfs._ui.cli.commands
        pid = str(os.getpid())
        pfs.status  # it starts pfs
        for command in (
            ["--help"], ["show", "--help"], ["config", "--libs"], ["ddl", "threads"],
            ["trace", "ddl"], ["run", "--help"], ["ps"], ["gc"], ["set", pid, "wait/io/%", "--timed", "no"],
            ["top", pid, "--count", "1", "--interval", "0.1"], ["show", pid, "threads"],
        ):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                assert pfs._ui.cli.commands.main(command) == 0, (command, printed.getvalue())
            heavy = {"numpy", "pandas", "pyarrow", "duckdb"} & set(sys.modules)
            assert not heavy, (command, heavy)
        pfs.table("threads")
        assert "pandas" in sys.modules
        print("good")
    """)
    assert out == "good\n"


@pytest.mark.alone
def test_import_costs_at_most_30_ms_beyond_bare_python(tmp_path: Path) -> None:
    def best(code: str) -> float:
        import time

        times = []
        for _ in range(15):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
            times.append(time.perf_counter() - start)
        return min(times)

    cost = best("import pfs") - best("pass")
    assert cost <= 0.030, f"import pfs takes {cost * 1e3:.1f} ms"


def test_public_names_are_listed_and_exist() -> None:
    assert dir(pfs) == sorted({*pfs.__all__, *pfs.MODULES})
    for name in pfs.__all__:
        assert getattr(pfs, name) is not None
    assert len(pfs.__all__) == len(set(pfs.__all__)) <= 90  # what a user must look through, and what cannot be taken back
    with pytest.raises(AttributeError, match="module 'pfs' has no attribute 'nothing'"):
        pfs.nothing  # type: ignore[attr-defined]  # noqa: B018
    for name in pfs.errors.__all__:
        assert issubclass(getattr(pfs.errors, name), pfs.Error)


def test_modules_load_when_they_are_named(fresh: Run) -> None:
    """``import pfs`` is enough for ``pfs.fleet``; it loads none of these modules."""
    out = fresh("""
        import sys
        import pfs
        assert not {f"pfs.{name}" for name in pfs.MODULES if name != "errors"} & set(sys.modules)
        print(*(getattr(pfs, name).__name__ for name in ("fleet", "server", "plot", "setup")))
    """)
    assert out == "pfs.fleet pfs.server pfs.plot pfs.setup\n"


def test_classes_of_private_packages_have_public_names() -> None:
    """Tracebacks, help() and pickles name a place that stays when the package is rearranged."""
    pytest.importorskip("opentelemetry.proto")
    offered = [(pfs, pfs.__all__), *((each, each.__all__) for each in (pfs.setup, pfs.fleet, pfs.metrics, pfs.otel, pfs.server))]
    public = {value for module, names in offered for name in names if isinstance(value := getattr(module, name), type)}
    assert {pfs.Lock, pfs.Table, pfs.Schema, pfs.setup.Saved, pfs.fleet.Fleet} < public
    for kind in public:
        assert getattr(sys.modules[kind.__module__], kind.__name__) is kind
        assert "._" not in kind.__module__
    saved = pickle.loads(pickle.dumps(pfs.setup_consumers.save()))
    assert pfs.setup_consumers.restore(saved) == 0


def test_import_error_says_how_to_build(tmp_path: Path, fresh: Run) -> None:
    package = tmp_path / "broken" / "pfs"
    shutil.copytree(
        Path(pfs.__file__).parent,
        package,
        ignore=shutil.ignore_patterns("*.so", "lib", "bin", "include", "__pycache__"),
    )
    script = """
        import sys
        sys.path.insert(0, sys.argv[1])
        try:
            import pfs
        except ImportError as error:
            print(*error.__notes__)
    """
    out = fresh(script, str(package.parent))
    assert "pip install ." in out
    assert "another project" not in out
    # PyPI's pfs may have replaced files of ours, and taken them with it when it was uninstalled.
    other = package.parent / "pfs-0.6.1.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pfs\nVersion: 0.6.1\n")
    assert "the distribution 'pfs' 0.6.1 is installed, too" in fresh(script, str(package.parent))


def test_version_is_the_same_everywhere(root: Path) -> None:
    from importlib.metadata import version

    header = (Path(installed.include_dir()) / "perfschema/pfs.h").read_text()
    match = re.search(r'#define PFS_VERSION "(.*)"', header)
    assert match is not None
    assert match[1] == pfs.__version__ == version("perfschema")
    assert f"## {pfs.__version__}" in (root / "CHANGELOG.md").read_text()


def test_the_readme_for_pypi_links_to_the_repository(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dynamic_metadata = runpy.run_path(str(root / "cpp/cmake/pypi_readme.py"))["dynamic_metadata"]
    (tmp_path / "README.md").write_text((root / "README.md").read_text())
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nSource = "https://example.org/pfs"\n')
    monkeypatch.chdir(tmp_path)
    text = dynamic_metadata("readme", {}, {})["text"]
    assert "[what it costs](https://example.org/pfs/blob/main/docs/explanation/costs.md)" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


def test_the_readme_of_the_package_has_no_link_into_the_tree(root: Path) -> None:
    """On PyPI such links lead nowhere. cpp/cmake/pypi_readme.py makes them plain text while there is no address."""
    from importlib.metadata import distribution

    text = distribution("perfschema").read_text("METADATA")
    assert text is not None
    first = (root / "README.md").read_text().splitlines()[0]
    assert first in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


def test_one_install_has_what_the_first_commands_need() -> None:
    from importlib.metadata import requires

    needed = {re.split(r"[<>=!~; ]", text)[0] for text in requires("perfschema") or [] if "extra ==" not in text}
    assert needed == {"click", "numpy", "pandas", "pyelftools", "rich"}


def test_the_extra_all_has_those_for_users(root: Path) -> None:
    """An extra that is neither for users nor for the tests and the site of pfs does not exist."""
    import tomllib

    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found, open_ = set(), ["all"]
    while open_:
        found.add(extra := open_.pop())
        open_ += [name for need in extras[extra] if need.startswith("perfschema[") for name in need[11:-1].split(",")]
    assert found == set(extras) - {"databases", "dev", "docs", "test", "web"}


def test_package_has_library_headers_cmake_pkgconfig_and_demo() -> None:
    package = Path(pfs.__file__).parent
    for name in (
        "include/perfschema/pfs.h",
        "include/perfschema/pfs.hpp",
        "lib/libperfschema.so",
        "lib/libperfschema.a",
        "lib/cmake/PerfSchema/PerfSchemaConfig.cmake",
        "lib/cmake/PerfSchema/PerfSchemaConfigVersion.cmake",
        "lib/pkgconfig/perfschema.pc",
        "bin/pfs-demo-index",
        "py.typed",
        "_core.pyi",
        "_names.pyi",
    ):
        assert (package / name).is_file(), name
    assert os.access(package / "bin/pfs-demo-index", os.X_OK)


def test_a_man_page_of_each_command_is_installed() -> None:
    from pfs._ui.cli.manual import pages

    folder = Path(sysconfig.get_path("data")) / "share/man/man1"
    made = pages()
    assert {"pfs.1", "pfs-top.1", "pfs-trace-export.1"} < set(made)
    for name, text in made.items():
        assert (folder / name).read_text() == text
        assert text.startswith(f".TH {name.removesuffix('.1').upper()} 1 ")
        assert "\n.SH SYNOPSIS\n" in text


def test_library_exports_only_its_own_names() -> None:
    if shutil.which("nm") is None:
        pytest.skip("needs nm (binutils)")
    lines = run("nm", "-D", "--defined-only", LIBRARY).splitlines()
    # C names pfs_*, and the C++ functions of namespace perfschema for the Python module; weak ones (of the C++ library) aside.
    foreign = [line for line in lines if line.split()[-2] in "TDBR" and not re.search(r" (pfs_|_ZNK?10perfschema)", line)]
    assert not foreign


LIBRARY = next(Path(installed.library_dir()).glob("libperfschema.so.*"))
PROGRAM = """
#include <perfschema/pfs.hpp>
#include <cstdio>
int main() {
  perfschema::mutex mutex{"test/LOCK_built"};
  { perfschema::lock_guard guard(mutex); }
  std::puts(pfs_is_on() ? "on" : "off");
}
"""


def test_config_flags_build_a_program(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(PROGRAM)
    flags = run(sys.executable, "-m", "pfs", "config", "--cflags", "--libs").split()
    run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "program.cpp", *flags, "-o", "program", cwd=tmp_path)
    assert run("./program", cwd=tmp_path, PFS_DIR=str(tmp_path)) == "on\n"


def test_cmake_package_builds_a_program_and_pkg_config_knows_it(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(consumer CXX)\nfind_package(PerfSchema 0.1 REQUIRED)\n"
        "add_executable(program program.cpp)\ntarget_link_libraries(program PRIVATE PerfSchema::perfschema)\n"
    )
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    cmake, ninja = (shutil.which(tool, path=tools) for tool in ("cmake", "ninja"))
    if cmake is None or ninja is None:
        pytest.skip("needs cmake and ninja")
    package = f"-DPerfSchema_DIR={installed.cmake_dir()}"
    run(cmake, "-S", ".", "-B", "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", package, cwd=tmp_path)
    run(cmake, "--build", "build", cwd=tmp_path)
    assert run("build/program", cwd=tmp_path, PFS_DIR=str(tmp_path)) == "on\n"
    if shutil.which("pkg-config") is not None:
        path = run(sys.executable, "-m", "pfs", "config", "--pkgconfigdir").strip()
        include = run("pkg-config", "--cflags", "perfschema", PKG_CONFIG_PATH=path).strip().removeprefix("-I")
        assert Path(include).resolve() == Path(installed.include_dir()).resolve()


def test_python_and_its_extensions_share_one_library(fresh: Run) -> None:
    out = fresh("""
        import ctypes, glob
        import pfs
        from pfs._base import installed
        library = ctypes.CDLL(glob.glob(installed.library_dir() + "/libperfschema.so.*")[0])
        library.pfs_thread_id.restype = ctypes.c_uint64
        pfs.set_thread_name("test/main")
        rows = pfs.table("threads").set_index("THREAD_ID")["NAME"]
        print(rows[library.pfs_thread_id()])
    """)
    assert out == "thread/test/main\n"


def test_generated_files_are_up_to_date(root: Path) -> None:
    from pfs import _generate

    made = _generate.files(root)
    stale = [path for path, text in made.items() if not (root / path).exists() or (root / path).read_text() != text]
    assert not stale, f"run: python -m pfs._generate   (out of date: {stale})"


def test_sources_are_few_in_cmake(root: Path) -> None:
    assert len((root / "CMakeLists.txt").read_text().splitlines()) <= 200


def test_clean_exit_removes_the_segment_and_pfs_keep_leaves_it(fresh: Run, tmp_path: Path) -> None:
    script = """
        import pfs
        with pfs.Lock("test/LOCK_exit"):
            pass
        print(pfs._core.segment_path())
    """
    path = Path(fresh(script).strip())
    assert path.parent == tmp_path
    assert not path.exists()
    kept = Path(fresh(script, PFS_KEEP="1").strip())
    assert kept.exists()
    frame = pfs.attach(kept).table("events_waits_history_long", ["EVENT_NAME"])
    assert frame["EVENT_NAME"].tolist() == ["wait/synch/mutex/test/LOCK_exit"]
