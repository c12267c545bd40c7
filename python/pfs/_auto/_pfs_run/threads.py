"""Names threads by Thread.name."""

import _pfs_run_native as native
from _pfs_run.wrapping import replace


def _threading(threading):
    def naming(original):
        # A thread calls this once for itself, before run(): no frame of this layer stays on its stack.
        def _set_native_id(self):
            original(self)
            native.name_thread(self._name)

        return _set_native_id

    replace(threading.Thread, "_set_native_id", naming)
    native.name_thread(threading.main_thread()._name)

    before = threading.Thread.name

    def name(self, name):
        before.fset(self, name)
        if threading.get_ident() == self._ident:
            native.name_thread(self._name)

    name.__doc__, name.__qualname__ = before.fset.__doc__, before.fset.__qualname__
    threading.Thread.name = before.setter(name)


PATCHES = {"threading": _threading}
