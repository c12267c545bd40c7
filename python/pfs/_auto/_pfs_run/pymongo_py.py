"""Makes a statement of each command that pymongo sends: statement/pymongo/find and the like.

The commands are documents. The text of a statement has their names and fields, and ? for each value: it is its own digest.
pymongo tells its listeners of commands, so nothing is wrapped.
"""

import threading

import _pfs_run_native as native
from _pfs_run.statements import Keys, clean, identity, quiet

_SKIPPED = "pymongo,gridfs,motor,mongoengine,bson,contextlib,concurrent,_pfs_run"
_MOST_FIELDS, _DEEPEST, _MOST_OPEN = 40, 6, 10_000
# Fields of a command that say what it does. Others are of the connection, or of one call.
_TOLD = (
    "filter",
    "query",
    "update",
    "pipeline",
    "sort",
    "projection",
    "key",
    "fields",
    "remove",
    "new",
    "upsert",
    "hint",
    "limit",
    "skip",
)
_listeners = []
_PARTS = {"insert": "documents", "update": "updates", "delete": "deletes"}
_OF_PARTS = ("q", "u", "limit", "multi", "upsert")


def _shape(value, depth=0):
    """Returns a document as text, with ? for each value."""
    if isinstance(value, dict):
        if depth == _DEEPEST:
            return "{?}"
        names = [f"{identity(str(name))}: {_shape(inner, depth + 1)}" for name, inner in list(value.items())[:_MOST_FIELDS]]
        return "{" + ", ".join(names) + (", ?" if len(value) > _MOST_FIELDS else "") + "}"
    if isinstance(value, (list, tuple)):
        shapes = list(dict.fromkeys(_shape(inner, depth + 1) for inner in value[:_MOST_FIELDS] if isinstance(inner, dict)))
        return "[" + ", ".join(shapes or ["?"]) + "]" if depth < _DEEPEST else "[?]"
    return "?"


def text_of(name, command):
    """Returns the text of a command."""
    target = command.get("collection") if name == "getMore" else command.get(name)
    words = [identity(name)]
    if isinstance(target, str):
        words.append(identity(target))
    parts = command.get(_PARTS.get(name, ""))
    if name == "insert" and isinstance(parts, (list, tuple)):
        words.append("(?)")
    elif isinstance(parts, (list, tuple)):
        words.append(_shape([{field: part[field] for field in _OF_PARTS if field in part} for part in parts]))
    words += [f"{field} {_shape(command[field])}" for field in _TOLD if name not in _PARTS and field in command]
    return " ".join(words)


def _counts(reply):
    """Returns the rows of a reply, the documents it says were changed, and its first error."""
    cursor = reply.get("cursor")
    batch = cursor.get("firstBatch", cursor.get("nextBatch")) if isinstance(cursor, dict) else None
    rows = len(batch) if isinstance(batch, list) else 0
    error = next(iter(reply.get("writeErrors") or ()), None) or reply.get("writeConcernError")
    return rows, int(reply.get("nModified", reply.get("n", 0)) or 0) if batch is None else 0, error


def _listener(monitoring):
    keys, running = Keys("pymongo"), {}

    class Listener(monitoring.CommandListener):
        """Hears of each command in the thread that sends it."""

        @quiet()
        def started(self, event):
            if len(running) >= _MOST_OPEN:
                return
            name = event.command_name
            text, schema = clean(text_of(name, event.command)), clean(event.database_name)[:64]
            handle = native.begin(keys[name], text, schema, _SKIPPED, True)
            if handle is not None:
                running[threading.get_ident(), event.request_id] = handle

        @quiet()
        def succeeded(self, event):
            handle = running.pop((threading.get_ident(), event.request_id), None)
            if handle is not None:
                rows, changed, error = _counts(event.reply)
                code = error.get("code", 1) if error else 0
                native.end(handle, rows, changed, code, clean(str(error.get("errmsg", ""))) if error else "")

        @quiet()
        def failed(self, event):
            handle = running.pop((threading.get_ident(), event.request_id), None)
            if handle is not None:
                failure = event.failure if isinstance(event.failure, dict) else {}
                code = failure.get("code")
                number = code if type(code) is int and code > 0 else 1
                native.end(handle, 0, 0, number, clean(str(failure.get("errmsg", ""))))

    if not _listeners:  # they stay: clients that have one keep it
        _listeners.append(Listener())
        monitoring.register(_listeners[0])


PATCHES = {"pymongo.monitoring": _listener}
