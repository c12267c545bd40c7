"""Leads methods of locks that are no semaphores through the native layer: of CPython 3.14, and of Debian 13's 3.13.5."""

import _pfs_run_native as native

# Of CPython 3.11 to 3.15, as in lines.py: where the objects of functions and of methods have the entry of their table.
_FUNCTION, _METHOD = 16, 40
_MAKING, _TAKING, _TAKING_BACK, _RELEASE, _WHOLE_RELEASE = range(2, 7)  # of the enumerator Around in cpp/run/python/python.h
_METHODS = {
    _TAKING: "acquire acquire_lock __enter__",
    _TAKING_BACK: "_acquire_restore",
    _RELEASE: "release release_lock __exit__",
    _WHOLE_RELEASE: "_release_save _at_fork_reinit",
}
_BUILT_IN, _DESCRIPTOR = type(len), type(str.join)


def _note(module):
    if module.LockType.__basicsize__ != object.__basicsize__ + 8:  # more than a byte
        return
    for lock, is_recursive in (module.allocate_lock(), 0), (module.RLock(), 1):
        if not native.note_lock(lock, is_recursive):
            continue
        for around, names in _METHODS.items():
            found = [vars(type(lock)).get(name) for name in names.split()]
            native.note_calls(_METHOD, around, *(each for each in found if type(each) is _DESCRIPTOR))
        if not is_recursive:
            makers = [module.allocate_lock, getattr(module, "allocate", None)]
            native.note_calls(_FUNCTION, _MAKING, *(each for each in makers if type(each) is _BUILT_IN))


PATCHES = {"_thread": _note}
