"""Names threads by Thread.name."""

import _pfs_run_native as native
from _pfs_run.wrapping import replace


def _threading(threading):
    def naming(original):
        # A thread calls this once for itself, before run(): no frame of this layer stays on its stack.
        def named(self):
            original(self)
            native.name_thread(self._name)

        return named

    # From CPython 3.14 on a thread then names itself for the system, too, by at most 15 bytes of its name: ours comes after that.
    last = "_set_os_name" if hasattr(threading.Thread, "_set_os_name") else "_set_native_id"
    replace(threading.Thread, last, naming)
    native.name_thread(threading.main_thread()._name)

    before = threading.Thread.name

    def name(self, name):
        before.fset(self, name)
        if threading.get_ident() == self._ident:
            native.name_thread(self._name)

    name.__doc__, name.__qualname__ = before.fset.__doc__, before.fset.__qualname__
    threading.Thread.name = before.setter(name)


PATCHES = {"threading": _threading}
