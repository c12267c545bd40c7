"""Gives waits and statements within functions of C the line that calls the function: time.sleep(), cursor.execute().

Functions that are over soon have it for some of their calls.
"""

import sys

import _pfs_run_native as native

# Of CPython 3.11 to 3.15: where the objects of functions and of methods have the entry of their table. It is behind the head,
# which is longer without the GIL.
_FUNCTION = object.__basicsize__
_METHOD = _FUNCTION + 24
_OF_PSYCOPG = "exec_ exec_params prepare exec_prepared send_query send_query_params send_prepare send_query_prepared"
_FUNCTIONS = {
    "time": "sleep",
    "posix": "waitpid waitid wait wait3 wait4 system posix_spawn posix_spawnp fsync fdatasync lockf "
    "rename replace mkdir rmdir link symlink listdir scandir",
    "_posixsubprocess": "fork_exec",
    "select": "select",
    "fcntl": "flock lockf fcntl",
    "_signal": "pause sigwait sigwaitinfo sigtimedwait",
    "_socket": "getaddrinfo gethostbyname gethostbyname_ex gethostbyaddr getnameinfo",
}
_METHODS = {
    "select": {"epoll": "poll", "poll": "poll"},
    "_socket": {"socket": "connect connect_ex"},
    "_ssl": {"_SSLSocket": "do_handshake shutdown"},
    "mmap": {"mmap": "flush"},
    "_sqlite3": {
        "Connection": "execute executemany executescript commit rollback",
        "Cursor": "execute executemany executescript fetchone fetchmany fetchall",
    },
    "psycopg2._psycopg": {
        "connection": "commit rollback reset",
        "cursor": "execute executemany callproc fetchmany fetchall scroll copy_from copy_to copy_expert",
    },
    "psycopg_binary.pq": {"PGconn": _OF_PSYCOPG},
    "psycopg_c.pq": {"PGconn": _OF_PSYCOPG},
    "MySQLdb._mysql": {"connection": "query store_result"},
}
_SOON_FUNCTIONS = {
    "posix": "open read write pread pwrite readv writev sendfile stat lstat access truncate ftruncate unlink remove",
    "_io": "open open_code",
}
_SOON_METHODS = {
    "_io": {"FileIO": "read readall readinto write"},
    "_socket": {"socket": "_accept send sendall sendto sendmsg recv recv_into recvfrom close"},
    "_ssl": {"_SSLSocket": "read write"},
}


def hash_again():
    """Builds the sets of functions in ``os`` again: the hash of a function of C is that of its code, which has changed."""
    for name, functions in vars(sys.modules.get("os", object)).items():
        if name.startswith("supports_") and type(functions) is set:
            functions.__init__(list(functions))  # at once: another thread may look


def _note(module):
    name = module.__spec__.name
    for is_soon, functions, methods in (0, _FUNCTIONS, _METHODS), (1, _SOON_FUNCTIONS, _SOON_METHODS):
        found = [getattr(module, each, None) for each in functions.get(name, "").split()]
        for kind, names in methods.get(name, {}).items():
            its_type = getattr(module, kind, object)
            if type(its_type) is _BUILT_IN:  # select.poll() makes the only objects of a type that has no name
                its_type = type(its_type())
            found += [vars(its_type).get(each) for each in names.split()]
        for offset, kinds in _KINDS:
            native.note_calls(offset, is_soon, *(each for each in found if type(each).__name__ in kinds))
    if name == "posix":
        hash_again()


_BUILT_IN = type(len)
_KINDS = (_FUNCTION, (_BUILT_IN.__name__, "cython_function_or_method")), (_METHOD, (type(str.join).__name__,))
PATCHES = dict.fromkeys((*_FUNCTIONS, *_METHODS, *_SOON_FUNCTIONS, *_SOON_METHODS), _note)
