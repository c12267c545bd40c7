"""A service with many paths: ARGV says how many statements and files. It uses shared memory itself, and says how it fares."""

from __future__ import annotations

import os
import sys
from multiprocessing import shared_memory
from pathlib import Path

import pfs

MIB = 1 << 20


def main(digests: int, files: int, own_megabytes: int, folder: Path) -> None:
    for turn in range(3):
        for i in range(digests):
            # As an ORM writes it, with a literal.
            text = f"SELECT u.id, u.name FROM users_{i} AS u WHERE u.id = {turn}{i}"
            with pfs.statement("web/get", text=text):
                pass
    for i in range(files):
        with pfs.open(folder / f"upload-of-a-user-{i}", "w", name="web/upload"):
            pass
    pairs = [pfs.socketpair("web/pair") for _ in range(50)]
    if own_megabytes:
        block = shared_memory.SharedMemory(create=True, size=own_megabytes * MIB)
        assert block.buf is not None
        for at in range(0, own_megabytes * MIB, 4096):
            block.buf[at] = 1  # SIGBUS where there is no memory
        block.close()
        block.unlink()
    (segment,) = Path(os.environ["PFS_DIR"]).rglob(f"{os.getpid()}.pfs")
    status = pfs.status
    rows = pfs.table("events_statements_summary_by_digest")
    print("segment", segment.stat().st_blocks * 512)
    print("digests", len(rows), "statements", int(rows.COUNT_STAR.sum()))
    print("files", len(pfs.table("file_instances")), "sockets", len(pfs.table("socket_instances")), "of", 2 * len(pairs))
    for name in ("digest", "file_instances", "socket_instances", "names", "object_cells", "segment_memory"):
        print(f"{name}_lost", status[f"Performance_schema_{name}_lost"])
    print("reason", status["Performance_schema_status_reason"])
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
