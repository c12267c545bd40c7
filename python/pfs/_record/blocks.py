"""Counts memory that Python code accounts for: buffers of C libraries, of a GPU, of memory maps."""

from __future__ import annotations

from contextlib import contextmanager

from pfs import _core
from pfs.errors import InvalidValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

__all__ = ["MemoryBlock", "memory"]


def _bytes(size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 1 << 63:
        raise InvalidValue(f"bad size {size!r}: legal is a number of bytes, 0 or more")
    return size


class MemoryBlock:
    """A block of ``memory.block(size)`` is in use until ``free()``, the end of its ``with``, or until it is collected.

    It belongs to the thread that made it. If another thread frees it without ``take()``, only
    memory_summary_global_by_event_name counts the free.
    """

    __slots__ = ("_block",)

    def __init__(self, key: int, size: int) -> None:
        self._block = _core.MemoryBlock(key, _bytes(size))

    @property
    def size(self) -> int:
        """The size of the block in bytes."""
        return self._block.size

    def free(self) -> None:
        """Counts the block as freed. A second call has no effect."""
        self._block.free()

    def resize(self, size: int) -> None:
        """Changes the size of the block: a free and an allocation.

        Raises:
            InvalidValue: no size, or the block was freed.
        """
        if not self._block.resize(_bytes(size)):
            raise InvalidValue("the block was freed: it has no size any more")

    def give(self) -> None:
        """Ends the calling thread's ownership. The block has no owner until a thread calls ``take()``."""
        self._block.claim(False)

    def take(self) -> None:
        """Makes the calling thread the owner of the block."""
        self._block.claim(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.free()


class memory:
    """Counts memory of the program in the rows ``memory/<name>`` of the ``memory_summary_...`` tables.

        buffers = pfs.memory("myapp/GPU buffers")

        with buffers.block(1 << 20):                # a buffer of 1 MiB is in use here
            ...
        image = buffers.block(len(data))            # until image.free(), or until it is collected
        buffers.alloc(4096)                         # or by size only: as many frees of a size as allocations
        buffers.free(4096)

        with pfs.memory("myapp/arrays").numpy():    # what numpy allocates for arrays that are made here
            table = numpy.zeros((1000, 1000))

    It allocates nothing itself. The name is "component/name" or the full name; objects of one name share its rows. Threads may
    share an object.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
    """

    __module__ = "pfs"  # where users find it

    __slots__ = ("_handler", "_key", "_name", "_sizes")

    def __init__(self, name: str) -> None:
        self._key = _core.memory_key(name)
        self._name = _core.memory_instrument(name)
        self._sizes: dict[int, list[MemoryBlock]] = {}
        self._handler: object = None

    @property
    def name(self) -> str:
        """The full name of the instrument."""
        return self._name

    def block(self, size: int) -> MemoryBlock:
        """Counts a new block of `size` bytes and returns it."""
        return MemoryBlock(self._key, size)

    def alloc(self, size: int) -> None:
        """Counts a new block of `size` bytes, which is in use until ``free`` of the same size."""
        block = MemoryBlock(self._key, size)
        self._sizes.setdefault(size, []).append(block)

    def free(self, size: int) -> None:
        """Counts as freed the last block of this size that ``alloc`` counted.

        Raises:
            InvalidValue: there is none.
        """
        try:
            block = self._sizes[_bytes(size)].pop()
        except (KeyError, IndexError):
            raise InvalidValue(f"{self._name} has no block of {size} bytes in use") from None
        block.free()

    @contextmanager
    def numpy(self) -> Iterator[None]:
        """Counts the data of numpy arrays that are made inside the block or the decorated function, until they are freed,
        wherever that is. It acts on this thread or asyncio task only, and on the tasks that it starts; inner blocks win.

        The data are allocated by ``pfs_malloc``, through numpy's own hook (``PyDataMem_SetHandler``). Numpy does not keep small
        blocks of such arrays for the next one, nor ask for huge pages for large ones. Python's own objects have no such hook:
        an allocator of the interpreter cannot be exchanged once there are blocks of the one before; see ``tracemalloc``.
        """
        if self._handler is None:
            self._handler = _core.numpy_handler(self._key)
        before = _core.set_numpy_handler(self._handler)
        try:
            yield
        finally:
            _core.set_numpy_handler(before)

    def __repr__(self) -> str:
        return f"pfs.memory({self._name!r})"
