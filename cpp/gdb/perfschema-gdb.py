"""Shows the locks, files and sockets of perfschema in gdb, with their names and holders:

    gdb -x "$(pfs config --gdb)" program
    (gdb) print queue_lock
    $1 = wait/synch/mutex/jobs/LOCK_queue, held by thread 3, THREAD_ID 5

gdb imports this file into its own Python. It reads the memory of the program, and calls nothing there. Names lie in the segment, which
a core file has only if bit 3 of /proc/PID/coredump_filter was set.
"""

from __future__ import annotations

import gdb
import gdb.printing

# Places in ShmClass, from its flag word on, to which each object points (cpp/src/shm/layout.h).
NAME_BYTES, NAME, LONGEST_NAME = 40, 44, 128
OWNER, THREAD_ID = 48, (1 << 47) - 1  # in pfs_instance (perfschema/abi.h)


def bytes_at(address: int, size: int) -> bytes:
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def name_of(flags: gdb.Value) -> str:
    """Returns the name of an instrument, by the address of its flag word."""
    address = int(flags)
    if address == 0:
        return "not instrumented"
    try:
        size = int.from_bytes(bytes_at(address + NAME_BYTES, 4), "little")
        return bytes_at(address + NAME, min(size, LONGEST_NAME)).decode("utf-8", "replace")
    except gdb.MemoryError:
        return "instrumented (its segment cannot be read)"


def owner_of(instance: gdb.Value) -> str:
    """Returns the THREAD_ID of the holder as pfs knows it, with a comma before it. "" if pfs knows no holder."""
    if int(instance) == 0:
        return ""
    try:
        owner = int.from_bytes(bytes_at(int(instance) + OWNER, 8), "little")
    except gdb.MemoryError:
        return ""
    return f", THREAD_ID {owner & THREAD_ID}" if owner & THREAD_ID else ""


def thread(kernel_id: int) -> str:
    """Returns what gdb calls a thread of the program, by its number in the kernel."""
    for one in gdb.selected_inferior().threads():
        if kernel_id == one.ptid[1]:
            return f"thread {one.num}"
    return f"LWP {kernel_id}"


class Shown:
    """A value that a class below says in words."""

    def __init__(self, value: gdb.Value) -> None:
        self.value = value

    def by(self, kernel_id: int) -> str:
        return f"by {thread(kernel_id)}{owner_of(self.value['instance'])}"


class Mutex(Shown):
    def to_string(self) -> str:
        holder = int(self.value["mutex"]["__data"]["__owner"])
        state = f"held {self.by(holder)}" if holder else "free"
        return f"{name_of(self.value['flags'])}, {state}"


class RwLock(Shown):
    def to_string(self) -> str:
        lock = self.value["lock"]["__data"]
        writer, readers = int(lock["__cur_writer"]), int(lock["__readers"]) >> 3
        if writer:
            state = f"written {self.by(writer)}"
        else:
            state = f"read by {readers}" if readers else "free"
        return f"{name_of(self.value['flags'])}, {state}"


class Condition(Shown):
    def to_string(self) -> str:
        return name_of(self.value["flags"])


class Descriptor(Shown):
    def to_string(self) -> str:
        number = int(self.value)
        return f"descriptor {number}" if number >= 0 else "closed"


OF_C = {"pfs_mutex": Mutex, "pfs_rwlock": RwLock, "pfs_cond": Condition}
MEMBERS = ("mutex_", "lock_", "cond_")  # of the C++ classes, also of their bases


def printer(value: gdb.Value) -> object:
    """Returns what shows a value, if it is an object of perfschema."""
    name = value.type.strip_typedefs().tag or ""
    if name in OF_C:
        return OF_C[name](value)
    if not name.startswith("perfschema::"):
        return None
    for member in MEMBERS:
        try:
            object_of_c = value[member]
        except gdb.error:
            continue
        if (kind := OF_C.get(object_of_c.type.strip_typedefs().tag or "")) is not None:
            return kind(object_of_c)
    return Descriptor(value["fd_"]) if name.rpartition("::")[2] in ("file", "socket") else None


printer.__name__ = "perfschema"  # in `info pretty-printer`
gdb.printing.register_pretty_printer(gdb.current_objfile(), printer, replace=True)
