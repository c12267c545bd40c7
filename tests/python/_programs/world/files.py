"""Steps with files."""

from __future__ import annotations

import os

from tests.python._programs.driver import C, every, key_of, one
from tests.python._programs.world.base import Base
from tests.python._programs.world.compare import check_io, same, values
from tests.python.facts.model import FILE, File

DATA = "m/data"
READS, WRITES, MISC = ("read",), ("write",), ("open", "close", "seek", "rename", "delete", "stat")


class Files(Base):
    def __init__(self) -> None:
        super().__init__()
        self.file_key = self.registered(key_of("file", DATA))
        self.names: dict[str, File] = {}  # files as pfs knows them
        self.descriptors: list[tuple[int, File | None]] = []

    def open(self, t: int, n: int, create: int) -> None:
        if len(self.descriptors) >= 6:
            return
        worker, path = self.worker(t), os.path.abspath(f"f{n % 3}")
        event = self.model.begin(worker.id, FILE + DATA, "open")
        fd = worker.do(C.open, self.file_key, path, os.O_RDWR | os.O_CREAT if create % 2 else os.O_RDWR, 0o600)
        thing = None
        if fd >= 0:
            if event is not None:
                thing = self.names.get(path)
                if thing is None:
                    thing = self.names[path] = File(FILE + DATA, name=path)
                    self.model.add(thing)
                    thing.identity = one("file_summary_by_instance", FILE_NAME=path)["OBJECT_INSTANCE_BEGIN"]
                thing.open_count += 1
                event.target = thing.identity
            self.descriptors.append((fd, thing))
        self.model.end(event, thing)

    def on_descriptor(self, t: int, n: int, operation: str, target: int | None, *arguments: int) -> None:
        if not self.descriptors:
            return
        worker = self.worker(t)
        fd, thing = self.descriptors[n % len(self.descriptors)]
        event = None
        if thing is not None:
            event = self.model.begin(worker.id, FILE + DATA, operation, thing.identity if target is None else target)
        result = worker.do(getattr(C, {"seek": "lseek"}.get(operation, operation)), fd, *arguments)
        self.model.end(event, thing, max(result, 0) if operation in ("read", "write") else None)
        if operation == "close":
            self.descriptors.remove((fd, thing))
            if thing is not None:
                thing.open_count -= 1

    def read(self, t: int, n: int, size: int) -> None:
        self.on_descriptor(t, n, "read", None, size)

    def write(self, t: int, n: int, size: int) -> None:
        self.on_descriptor(t, n, "write", None, size)

    def seek(self, t: int, n: int, offset: int) -> None:
        self.on_descriptor(t, n, "seek", offset, offset, os.SEEK_SET)

    def close(self, t: int, n: int) -> None:
        self.on_descriptor(t, n, "close", None)

    def by_name(self, t: int, n: int, operation: str, other: str | None = None) -> None:
        worker, path = self.worker(t), os.path.abspath(f"f{n % 3}")
        event = self.model.begin(worker.id, FILE + DATA, operation)
        thing = self.names.get(path)
        more = () if other is None else (other,)
        rc = worker.do(getattr(C, {"delete": "unlink"}.get(operation, operation)), self.file_key, path, *more)
        if event is not None:
            event.target = thing.identity if thing is not None else 0
        self.model.end(event, thing)
        # Whether or not anybody looked: the file has gone, or has another name.
        if rc == 0 and operation == "delete" and thing is not None:
            self.model.kill(self.names.pop(path))
        if rc == 0 and other is not None and other != path:
            if other in self.names:
                self.model.kill(self.names.pop(other))
            if thing is not None:
                thing.name = other
                self.names[other] = self.names.pop(path)

    def unlink(self, t: int, n: int) -> None:
        self.by_name(t, n, "delete")

    def stat(self, t: int, n: int) -> None:
        self.by_name(t, n, "stat")

    def rename(self, t: int, n: int, to: int) -> None:
        self.by_name(t, n, "rename", os.path.abspath(f"f{to % 3}"))

    # ---- Comparison

    def compare(self) -> None:
        super().compare()
        check_io(one("file_summary_by_event_name"), self.model.of_class(FILE + DATA), READS, WRITES, MISC)
        shown = {row["FILE_NAME"]: row for row in every("file_summary_by_instance")}
        same("files", shown, self.names)
        for name, thing in self.names.items():
            check_io(shown[name], self.model.things[thing], READS, WRITES, MISC)
        opened = [values(row, "FILE_NAME", "OPEN_COUNT") for row in every("file_instances")]
        same("open", opened, [(name, thing.open_count) for name, thing in self.names.items()])
