"""A user's own library between a program and its functions: tests/programs/interposer.c, built on the installed pfs."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

import pfs
from pfs._base import installed
from pfs._read.places.readable import Readable

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests/programs/unchanged/interposed.c"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns the program, compiled without any part of pfs, and the user's library."""
    folder = tmp_path_factory.mktemp("interposer")
    program, library = folder / "interposed-program-of-long-name", folder / "interposer.so"
    subprocess.run(["cc", "-O1", "-g", "-o", program, PROGRAM, "-lpthread"], check=True)
    where = [
        f"-I{installed.include_dir()}",
        f"-L{installed.library_dir()}",
        f"-Wl,-rpath,{installed.library_dir()}",
        "-lperfschema",
    ]
    source = ROOT / "tests/programs/interposer.c"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, source, *where, "-ldl"], check=True)
    return program, library


def environment(library: Path, tmp_path: Path, mode: str = "YES") -> dict[str, str]:
    options = "performance_schema_instrument='wait/synch/mutex/%=CONTENDED'" if mode == "CONTENDED" else ""
    (tmp_path / "segments").mkdir(mode=0o700, exist_ok=True)
    return os.environ | {
        "LD_PRELOAD": str(library),
        "PFS_DIR": str(tmp_path / "segments"),
        "PFS_KEEP": "1",
        "PFS_OPTIONS": f"performance_schema_events_waits_history_long_size=1000,{options}".rstrip(","),
    }


@pytest.mark.parametrize("mode", ["YES", "CONTENDED"])
def test_numbers_are_those_of_the_program(built: tuple[Path, Path], tmp_path: Path, mode: str) -> None:
    program, library = built
    done = subprocess.run(
        [program, tmp_path / "file"], env=environment(library, tmp_path, mode), capture_output=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"abcdefg", b"", 42)
    (segment,) = (tmp_path / "segments").glob("*.pfs")
    with pfs.attach(str(segment)) as schema:
        waits = schema.table("events_waits_summary_global_by_event_name").set_index("EVENT_NAME")["COUNT_STAR"]
        numbers = {str(name): int(count) for name, count in zip(waits.index, waits, strict=True)}
        counts = {name.rpartition("/")[2]: count for name, count in numbers.items() if count and "/interposed-" in name}
        assert counts.pop("COND") >= 1
        files = schema.table("file_summary_by_instance").set_index("FILE_NAME")
        columns = ["COUNT_READ", "SUM_NUMBER_OF_BYTES_READ", "COUNT_WRITE", "SUM_NUMBER_OF_BYTES_WRITE", "COUNT_MISC"]
        assert files.loc[[str(tmp_path / "file")], columns].values.tolist() == [[1, 7, 1, 7, 3]]  # open, sync, close
        assert files.loc[files.index.str.endswith("inherited"), columns].values.tolist() == [[0, 0, 1, 7, 0]]
        assert counts == {"LOCK": 10 + 2, "sem-any": 1, "file": 6}
        mutexes = schema.table("mutex_instances")
        assert (mutexes["NAME"].str.startswith("wait/synch/mutex/interposed-") & mutexes["LOCKED_BY_THREAD_ID"].isna()).sum() == 2
        status = schema.table("global_status")
        values = zip(status["VARIABLE_NAME"], status["VARIABLE_VALUE"], strict=True)
        assert {name: value for name, value in values if str(name).endswith("_lost") and str(value) != "0"} == {}


def test_a_hang_shows_lock_holder_and_line(built: tuple[Path, Path], tmp_path: Path) -> None:
    program, library = built
    process = subprocess.Popen(
        [program, tmp_path / "file", "hang"], env=environment(library, tmp_path), stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        blocked = None
        while (blocked is None or blocked.empty) and time.monotonic() < deadline:
            time.sleep(0.05)
            for segment in (tmp_path / "segments").glob("*.pfs"):
                with suppress(pfs.AttachError), pfs.attach(str(segment)) as schema:  # it may still be made
                    blocked = schema.table("blocked")
                    readable = Readable(schema._source)
                    sources = [readable.source(source) for source in blocked["SOURCE"]]
        assert blocked is not None
        (name,), (source,) = blocked["EVENT_NAME"], sources
        line = next(i for i, text in enumerate(PROGRAM.read_text().splitlines(), 1) if "/* hangs */" in text)
        assert name.startswith("wait/synch/mutex/interposed-")
        assert name.endswith("/LOCK")
        assert blocked["HOLDER"].notna().all()
        assert source is not None
        assert f"interposed.c:{line}" in source
    finally:
        process.kill()
        process.wait()
