"""Makes statements of calls.

What a statement asks of the program's values may raise: an object whose str() fails, a text that is no address. That must not
become the program's error. So functions that look at such values are `quiet`.
"""

import sys
from functools import wraps
from weakref import ref

import _pfs_run_native as native

__all__ = [
    "ByObject",
    "Keys",
    "METHODS",
    "Methods",
    "clean",
    "fail",
    "fail_wsgi",
    "http_end",
    "identity",
    "is_shared",
    "literal",
    "message_of",
    "number_of",
    "quiet",
]


def quiet(otherwise=None):
    """Makes a function return `otherwise` where it would raise. The first time is noted in error_log."""

    def make(function):
        is_noted = False

        @wraps(function)
        def call(*arguments):
            nonlocal is_noted
            try:
                return function(*arguments)
            except Exception as error:
                if not is_noted:
                    is_noted = True
                    native.note(f"{function.__module__}.{function.__qualname__}: {type(error).__name__}; not recorded")
                return otherwise

        return call

    return make


class ByObject:
    """Maps objects to values until they die. Unlike a WeakKeyDictionary it asks for no hash of theirs, and costs half as much."""

    def __init__(self):
        self._entries = {}  # by id()

    def put(self, key, value):
        number, entries = id(key), self._entries
        entries[number] = value, ref(key, lambda _: entries.pop(number, None))

    def get(self, key):
        entry = self._entries.get(id(key))
        return entry and entry[0]

    def pop(self, key):
        entry = self._entries.pop(id(key), None)
        return entry and entry[0]


# The languages of texts, as PFS_DIALECT_... in perfschema/statement.h.
MYSQL, POSTGRESQL, REDIS, HTTP, PYTHON = 1, 2, 8, 9, 10


class Keys(dict):
    """Maps the name of a statement, in capitals or not, to the number of its instrument."""

    def __init__(self, component, dialect=0):
        self._component, self._dialect = component, dialect

    def __missing__(self, name):
        if len(self) >= 100:  # names of a program's making
            name = "other"
            if name in self:
                return self[name]
        key = self[name] = native.key(self._component, name.lower(), self._dialect)
        return key


# As IsHttpMethod() in cpp/run/protocols/http1.cpp.
METHODS = frozenset(
    (
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "PROPPATCH", "MKCOL", "COPY",
        "MOVE", "LOCK", "UNLOCK", "REPORT", "SEARCH", "QUERY",
    )
)  # fmt: skip


class Methods(Keys):
    """Maps the method of a request to the number of its instrument. A word that a client has invented is "other"."""

    def __missing__(self, method):
        if method.upper() in METHODS:
            return super().__missing__(method)
        return self["OTHER"] if method != "OTHER" else super().__missing__(method)


def is_shared():
    """Returns whether other tasks may run in this thread before a call has ended: greenlets."""
    return "gevent" in sys.modules or "eventlet" in sys.modules


def fail(handle, error):
    """Ends a statement that an exception has left."""
    native.end(handle, 0, 0, number_of(error), type(error).__name__)


def fail_wsgi(start, error):
    """Does the same for the statement of a WSGI request. `start`: of native.begin_wsgi()."""
    native.end_wsgi(start, number_of(error), type(error).__name__)


def clean(text):
    """Returns a text as the tables can have it."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def identity(name):
    """Returns a name as a quoted identifier: digests keep it as it is."""
    return "`" + clean(name).replace("`", "``") + "`"


def literal(text):
    """Returns a text as a quoted literal: digests have ? for it."""
    return "'" + clean(text).replace("\\", "\\\\").replace("'", "''") + "'"


def http_end(handle, status, reason=""):
    """Ends the statement of a request. A status from 400 on is its error."""
    is_error = status >= 400
    native.end(handle, 0, 0, status if is_error else 0, clean(reason) if is_error else "")


@quiet(1)
def number_of(error):
    """Returns the number of an exception: that of the database or of the system, else 1."""
    first = error.args[0] if getattr(error, "args", ()) else None
    return first if type(first) is int and 0 < first < 1 << 31 else 1


def message_of(error):
    """Returns the text of an exception, or its type where it has none."""
    text = _text_of(error)
    return type(error).__name__ if text is None else text


@quiet()
def _text_of(error):
    return clean(str(error))
