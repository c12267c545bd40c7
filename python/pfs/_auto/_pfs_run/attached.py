"""Takes the place of the module _pfs_run_native in a program that ``pfs attach-run`` has found running.

The library that records calls of C can only come in when a program starts. Here the core is loaded with ctypes, and has what
Python code can tell it: statements and names of threads.
"""

import ctypes
import sys
import threading
import weakref

__all__ = [
    "ask",
    "begin",
    "begin_request",
    "begin_sent",
    "begin_wsgi",
    "end",
    "end_wsgi",
    "finder",
    "key",
    "leave_wsgi",
    "name_thread",
    "note",
    "note_calls",
    "note_queues",
    "request_text",
    "start",
    "take_asked",
]

_WAITING = ("threading", "queue", "asyncio", "concurrent", "multiprocessing")
_ROWS_AFFECTED, _ROWS_SENT = 3, 4  # enum pfs_statement_counter
_DIALECT_SHIFT = 16  # PFS_DIALECT_SHIFT
_WARNING = 2  # enum pfs_log_priority
_MOST_TEXT = 1024
_MARKS = dict.fromkeys(map(ord, "_.-~"))  # that names in a path may have
_core = None
_kept = {}  # bytes that the core keeps the address of
_named = threading.local()


class _Info(ctypes.Structure):
    """A pfs_instrument_info."""

    _fields_ = [
        ("key", ctypes.POINTER(ctypes.c_uint32)),
        ("name", ctypes.c_char_p),
        ("flags", ctypes.c_uint32),
        ("documentation", ctypes.c_char_p),
    ]


class _Handle:
    """A statement between begin() and end(). Any thread may end it."""

    def __init__(self):
        self.statement = (ctypes.c_uint64 * 48)()  # a pfs_statement_t
        self.suspended = None
        self.is_open = True

    def suspend(self):
        if self.is_open and self.suspended is None:
            size = _core.pfs_statement_suspend(self.statement, None, 0)
            state = ctypes.create_string_buffer(size) if size else None
            if size and _core.pfs_statement_suspend(self.statement, state, size) == size:
                self.suspended = state

    def resume(self):
        if self.suspended is not None:
            _core.pfs_statement_resume(self.statement, self.suspended)
            self.suspended = None

    def close(self):
        if self.is_open:
            self.is_open = False
            self.resume()
            _core.pfs_statement_end(self.statement)

    __del__ = close


def start(library):
    """Loads the core, and takes the place of the native module."""
    global _core
    core = ctypes.PyDLL(library)  # its functions take no long time: they keep the GIL
    text, number, size = ctypes.c_char_p, ctypes.c_uint32, ctypes.c_size_t
    for name, result, arguments in (
        ("pfs_init", ctypes.c_int, (text,)),
        ("pfs_register_statement", ctypes.c_int, (text, ctypes.POINTER(_Info), ctypes.c_int)),
        ("pfs_set_thread_name", ctypes.c_int, (text,)),
        ("pfs_log", ctypes.c_int, (ctypes.c_int, text, text, text)),
        ("pfs_statement_begin_at", ctypes.c_int, (ctypes.c_void_p, number, ctypes.c_void_p, text, number)),
        ("pfs_statement_set_text", None, (ctypes.c_void_p, text, size)),
        ("pfs_statement_set_schema", None, (ctypes.c_void_p, text)),
        ("pfs_statement_set_traceparent", ctypes.c_int, (ctypes.c_void_p, text, size)),
        ("pfs_statement_suspend", size, (ctypes.c_void_p, ctypes.c_void_p, size)),
        ("pfs_statement_resume", None, (ctypes.c_void_p, ctypes.c_void_p)),
        ("pfs_statement_set", None, (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)),
        ("pfs_statement_set_error", None, (ctypes.c_void_p, ctypes.c_int, text, text)),
        ("pfs_statement_end", None, (ctypes.c_void_p,)),
    ):
        function = getattr(core, name)
        function.restype, function.argtypes = result, arguments
    core.pfs_init(None)
    _core = core
    sys.modules["_pfs_run_native"] = sys.modules[__name__]
    name_thread(threading.current_thread().name)


def _bytes(text):
    return _kept.setdefault(text, text.encode("utf-8", "replace"))


def name_thread(name):
    """Names the calling thread thread/python/NAME."""
    _named.is_named = True
    _core.pfs_set_thread_name(f"python/{name}"[:100].encode("utf-8", "replace"))


def key(component, name, dialect=0):
    """Returns the number of the instrument statement/COMPONENT/NAME; 0 if there is none."""
    found = ctypes.c_uint32(0)
    about = b"Requests and queries of a Python program, by pfs attach-run."
    info = _Info(ctypes.pointer(found), name.encode("utf-8", "replace"), dialect << _DIALECT_SHIFT, about)
    _core.pfs_register_statement(component.encode(), ctypes.byref(info), 1)
    return found.value


def request_text(method, target):
    """Returns the text of a request, as the native module (run/protocols/conversations.cpp): what is no name is a literal."""
    path, question, query = target.partition("?")

    def part(text):
        letters = text.translate(_MARKS)
        is_name = (not letters or (letters.isascii() and letters.isalnum())) and not text[:1].isdigit()
        is_id = len(text) >= 16 and any(c.isdigit() for c in text)
        return text if not text or text.isdigit() or (is_name and not is_id) else _literal(text)

    from _pfs_run.statements import METHODS  # it imports this module

    name = method.upper() if method.upper() in METHODS else "OTHER " + _literal(method.lower())
    text = name + " " + "/".join(map(part, path.split("/"))) + (" " + _literal(question + query) if question else "")
    return text[:_MOST_TEXT]


def _literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _source(skipped):
    """Returns the file and line of the innermost frame that belongs to no package in `skipped`. One with a ! ends the search."""
    packages, frame = skipped.split(","), sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__") or "unknown"
        package = module.partition(".")[0]
        if f"{package}!" in packages or f"{module}!" in packages:
            break
        if package not in packages and package not in _WAITING:
            return frame.f_code.co_filename, frame.f_lineno or 0
        frame = frame.f_back
    return "python", 0


def begin(key, text, schema, skipped, detached, traceparent=None):
    """Begins a statement. Returns a handle, or None if it is not recorded."""
    if key == 0:
        return None
    if not getattr(_named, "is_named", False):
        name_thread(threading.current_thread().name)
    file, line = _source(skipped)
    handle = _Handle()
    if not _core.pfs_statement_begin_at(handle.statement, key, None, _bytes(file), line):
        handle.is_open = False
        return None
    data = text.encode("utf-8", "replace")
    _core.pfs_statement_set_text(handle.statement, data, len(data))
    if schema:
        _core.pfs_statement_set_schema(handle.statement, schema.encode("utf-8", "replace"))
    if traceparent is not None:
        _core.pfs_statement_set_traceparent(handle.statement, traceparent.encode(), len(traceparent))
    if detached:
        handle.suspend()
    return handle


def begin_request(key, method, target, skipped, detached, traceparent=None):
    """Begins the statement of a request."""
    if "\0" in method:
        raise ValueError("embedded null character")
    if not target.isascii() or "\0" in target:
        target = target.encode("ascii", "replace").decode().replace("\0", "?")
    return begin(key, request_text(method, target), None, skipped, detached, traceparent)


def end(handle, rows, affected, error, message):
    """Ends the statement. error: 0 = none."""
    if not handle.is_open:
        return
    handle.resume()
    if rows > 0:
        _core.pfs_statement_set(handle.statement, _ROWS_SENT, rows)
    if affected > 0:
        _core.pfs_statement_set(handle.statement, _ROWS_AFFECTED, affected)
    if error:
        _core.pfs_statement_set_error(handle.statement, error, b"HY000", message.encode("utf-8", "replace"))
    handle.close()


def _quiet(call, *arguments):
    """An exception that a value of the program raises is no error of the program."""
    try:
        return call(*arguments)
    except Exception as error:
        note(f"a request of unusual values is not recorded: {type(error).__name__}")
        return None


class _StartResponse:
    """Is what an application gets as its start_response: it remembers the status."""

    def __init__(self, handle, start_response, variable):
        self.handle, self.start_response, self.variable = handle, start_response, variable
        self.status, self.token = None, variable.set(True)

    def __call__(self, *given, **named):
        if given:
            self.status = given[0]
        return self.start_response(*given, **named)


def _begin_wsgi(about, environ, detached):
    keys, skipped, _, method, root, path, query, caller = about
    if not isinstance(environ, dict):
        raise TypeError
    method = environ.get(method) or "GET"
    target = (environ.get(root) or "") + (environ.get(path) or "/")
    if environ.get(query):
        target += "?" + environ[query]
    traceparent = environ.get(caller) or None
    if traceparent and (not traceparent.isascii() or "\0" in traceparent):
        traceparent = None
    return begin_request(keys[method], method, target, skipped, detached, traceparent)


def begin_wsgi(about, environ, start_response, detached):
    """Begins the statement of a request that a WSGI application answers. Returns the application's start_response."""
    variable = about[2]
    handle = None if variable.get() else _quiet(_begin_wsgi, about, environ, detached)
    return None if handle is None else _StartResponse(handle, start_response, variable)


def _leave(start):
    token, start.token = start.token, None
    if token is not None:
        start.variable.reset(token)


def leave_wsgi(start):
    """The call has returned, but the request goes on. Requests inside it count, and nothing is nested in it."""
    _leave(start)
    start.handle.suspend()


def end_wsgi(start, error=None, message=None):
    """Ends the statement: with an error, or as the status says that the application has given."""
    _leave(start)
    if error is None:
        number, _, message = (start.status if isinstance(start.status, str) else "").partition(" ")
        error = int(number) if number.isascii() and number.isdigit() and len(number) < 10 and int(number) >= 400 else 0
    end(start.handle, 0, 0, error, message.replace("\0", "?"))


def _begin_sent_to(keys, skipped, method, host, path):
    path = "/" + host + (path if path.startswith("/") else "/" + path)
    return begin_request(keys[method], method, path, skipped, True)


def _ask(about, asked, connection, method, url):
    keys, skipped, host = about
    url = (url or "").partition("://")[2].partition("/")[2] if "://" in (url or "") else url or "/"
    handle = _begin_sent_to(keys, skipped, method, getattr(connection, host), url)
    if handle is not None:
        number = id(connection)
        asked[number] = handle, weakref.ref(connection, lambda _: asked.pop(number, None))


def ask(about, asked, connection, method, url):
    """Begins the statement of a request that an HTTPConnection sends, and ends the one before it, which has no response."""
    before = take_asked(asked, connection)
    if before is not None:
        end(before, 0, 0, 0, "")
    _quiet(_ask, about, asked, connection, method, url)


def take_asked(asked, connection):
    """Returns the handle of the statement that a connection has, and forgets it."""
    entry = asked.pop(id(connection), None)
    return entry and entry[0]


def _begin_sent(about, method, address, client):
    keys, skipped, host, path, make = about
    if client is not None:
        address = getattr(client, make)(address)
    path = getattr(address, path)
    path = path.decode("ascii", "replace") if isinstance(path, bytes) else path
    return _begin_sent_to(keys, skipped, method, getattr(address, host) or "", path)


def begin_sent(about, method, address, client=None):
    """Begins the statement of a request that a client sends to an address."""
    return _quiet(_begin_sent, about, method, address, client)


def note(message):
    """Adds a row to error_log."""
    _core.pfs_log(_WARNING, b"PFS-PYTHON", b"run", message.encode("utf-8", "replace"))


def note_calls(offset, *functions):
    """Does nothing: waits are not seen."""


def note_queues(kind):
    """Does nothing: locks are not seen."""


def finder(wanted, find):
    """Returns a find_spec() that asks `find` for the names in `wanted`, and finds no other module."""

    def find_spec(name, path=None, target=None):
        return find(name, path, target) if name in wanted else None

    return find_spec
