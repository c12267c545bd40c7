"""Gives waits and statements within functions of C the line that calls the function: time.sleep(), cursor.execute()."""

import _pfs_run_native as native

# Of CPython 3.11 to 3.14: where the objects of functions and of methods have the entry of their table.
_FUNCTION, _METHOD = 16, 40
_FUNCTIONS = {
    "time": "sleep",
    "posix": "waitpid waitid wait wait3 wait4 system fsync fdatasync",
    "select": "select",
    "_socket": "getaddrinfo gethostbyname gethostbyname_ex gethostbyaddr getnameinfo",
}
_METHODS = {
    "select": {"epoll": "poll"},
    "_sqlite3": {
        "Connection": "execute executemany executescript commit rollback",
        "Cursor": "execute executemany executescript fetchone fetchmany fetchall",
    },
}


def _note(module):
    name = module.__name__
    functions = [getattr(module, each, None) for each in _FUNCTIONS.get(name, "").split()]
    native.note_calls(_FUNCTION, *(each for each in functions if type(each) is _BUILT_IN))
    for kind, names in _METHODS.get(name, {}).items():
        methods = [vars(getattr(module, kind, object)).get(each) for each in names.split()]
        native.note_calls(_METHOD, *(each for each in methods if type(each) is _DESCRIPTOR))


_BUILT_IN, _DESCRIPTOR = type(len), type(str.join)
PATCHES = dict.fromkeys((*_FUNCTIONS, *_METHODS), _note)
