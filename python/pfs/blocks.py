"""Memory that Python code accounts for: buffers of C libraries, of a GPU, of memory maps."""

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
    """A block of ``memory.block(size)``: in use until ``free()``, the end of its ``with``, or until it is collected.

    It belongs to the thread that made it. Freed by another one it counts as freed in memory_summary_global_by_event_name only,
    unless that one has claimed it.
    """

    __slots__ = ("_block",)

    def __init__(self, key: int, size: int) -> None:
        self._block = _core.MemoryBlock(key, _bytes(size))

    @property
    def size(self) -> int:
        """Bytes."""
        return self._block.size

    def free(self) -> None:
        """It is in use no more. Doing so twice counts once."""
        self._block.free()

    def resize(self, size: int) -> None:
        """It has another size from now on: a free and an allocation.

        Raises:
            InvalidValue: no size, or the block was freed.
        """
        if not self._block.resize(_bytes(size)):
            raise InvalidValue("the block was freed: it has no size any more")

    def give(self) -> None:
        """The calling thread gives it away: it is nobody's until somebody takes it."""
        self._block.claim(False)

    def take(self) -> None:
        """It belongs to the calling thread from now on."""
        self._block.claim(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.free()


class memory:
    """Accounts for memory of one's own: rows ``memory/<name>`` of the ``memory_summary_...`` tables.

        buffers = pfs.memory("myapp/GPU buffers")

        with buffers.block(1 << 20):                # a buffer of 1 MiB lives here
            ...
        image = buffers.block(len(data))            # until image.free(), or until it is collected
        buffers.alloc(4096)                         # or by size only: as many frees of a size as allocations
        buffers.free(4096)

        with pfs.memory("myapp/arrays").numpy():    # what numpy allocates for arrays that are made here
            table = numpy.zeros((1000, 1000))

    Nothing is allocated here. The name is "component/name", or in full; an object of a name that is known goes on with its rows.
    May be used by many threads at once.

    Raises:
        InvalidValue: the name breaks the rules of instrument names.
    """

    __slots__ = ("_handler", "_key", "_name", "_sizes")

    def __init__(self, name: str) -> None:
        self._key = _core.memory_key(name)
        self._name = _core.memory_instrument(name)
        self._sizes: dict[int, list[MemoryBlock]] = {}
        self._handler: object = None

    @property
    def name(self) -> str:
        """Full name of the instrument."""
        return self._name

    def block(self, size: int) -> MemoryBlock:
        """A block of so many bytes is in use from now on."""
        return MemoryBlock(self._key, size)

    def alloc(self, size: int) -> None:
        """A block of so many bytes is in use from now on, until ``free`` of the same size."""
        block = MemoryBlock(self._key, size)
        self._sizes.setdefault(size, []).append(block)

    def free(self, size: int) -> None:
        """The block of this size that was allocated last by ``alloc`` is in use no more.

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
        """A block, or a decorator: the data of numpy arrays that are made inside count here, from their making until they are
        freed, wherever that is. For this thread or asyncio task only, and the tasks that it starts; inner blocks win.

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
