"""Makes a statement of each request that a WSGI or ASGI application answers: statement/http/get and its like.

It wraps the __call__ of the frameworks' applications. Applications without a framework are wrapped where a server calls them
(servers.py). An application inside another one answers the same request: only the outer one counts.
"""

import sys
from contextvars import ContextVar
from types import GeneratorType, MethodType

import _pfs_run_native as native
from _pfs_run.statements import Keys, fail, http_end, quiet
from _pfs_run.wrapping import replace

__all__ = ["PATCHES", "answer_asgi", "answer_wsgi"]

_keys = Keys("http")
_is_in_request = ContextVar("pfs_run_is_in_request", default=False)
_SKIPPED = "flask,werkzeug,django,starlette,fastapi,uvicorn,hypercorn,gunicorn,waitress,wsgiref,socketserver,http,_pfs_run"


def _usable(traceparent):
    return traceparent if traceparent.isascii() and "\0" not in traceparent else None


@quiet()
def _begin_wsgi(environ, is_generator):
    find = environ.get
    method, path, query = find("REQUEST_METHOD", "GET"), find("PATH_INFO") or "/", find("QUERY_STRING")
    if root := find("SCRIPT_NAME"):
        path = root + path
    if query:
        path = f"{path}?{query}"
    caller = find("HTTP_TRACEPARENT")
    is_detached = is_generator or "gevent" in sys.modules or "eventlet" in sys.modules  # is_shared(), with a frame less
    return native.begin_request(_keys[method.lower()], method, path, _SKIPPED, is_detached, _usable(caller) if caller else None)


@quiet()
def _begin_asgi(scope):
    method, path, query = scope.get("method", "GET"), scope.get("path") or "/", scope.get("query_string")
    if query:
        path += "?" + query.decode("latin-1")
    caller = next((value.decode("latin-1") for name, value in scope.get("headers") or () if name == b"traceparent"), None)
    return native.begin_request(_keys[method.lower()], method, path, _SKIPPED, True, _usable(caller) if caller else None)


@quiet()
def _end(handle, status):
    number, _, reason = status.partition(" ")
    http_end(handle, int(number) if number.isdigit() else 0, reason)


def answer_wsgi(application, environ, start_response, is_generator=False):
    """Calls the application. The statement of a generator ends with its last part, that of others when the call returns."""
    if _is_in_request.get():
        return application(environ, start_response)
    handle = _begin_wsgi(environ, is_generator)
    if handle is None:
        return application(environ, start_response)
    status = "200 OK"

    def pfs_start_response(given, *more, **named):
        nonlocal status
        status = given
        return start_response(given, *more, **named)

    token = _is_in_request.set(True)
    try:
        response = application(environ, pfs_start_response)
    except BaseException as error:
        fail(handle, error)
        raise
    finally:
        _is_in_request.reset(token)
    if is_generator and type(response) is GeneratorType:
        return _parts(response, handle, lambda: status)
    if status == "200 OK":
        native.end(handle, 0, 0, 0, "")
    else:
        _end(handle, status)
    return response


def _parts(response, handle, status):
    try:
        yield from response
    except GeneratorExit:  # the server has closed it
        _end(handle, status())
        raise
    except BaseException as error:
        fail(handle, error)
        raise
    _end(handle, status())


async def answer_asgi(application, scope, receive, send):
    """Calls the application, and returns what it returns."""
    if scope.get("type") != "http" or _is_in_request.get():
        return await application(scope, receive, send)
    handle = _begin_asgi(scope)
    if handle is None:
        return await application(scope, receive, send)
    status = 0

    async def pfs_send(message):
        nonlocal status
        if message.get("type") == "http.response.start":
            status = message.get("status", 0)
        await send(message)

    token = _is_in_request.set(True)
    try:
        result = await application(scope, receive, pfs_send)
    except BaseException as error:
        fail(handle, error)
        raise
    finally:
        _is_in_request.reset(token)
    http_end(handle, status if type(status) is int else 0)
    return result


def _wsgi(original):
    def __call__(self, environ, start_response):
        return answer_wsgi(MethodType(original, self), environ, start_response)

    return __call__


def _asgi(original):
    async def __call__(self, scope, receive, send):
        return await answer_asgi(MethodType(original, self), scope, receive, send)

    return __call__


PATCHES = {
    "flask.app": lambda module: replace(module.Flask, "__call__", _wsgi),
    "starlette.applications": lambda module: replace(module.Starlette, "__call__", _asgi),
    "django.core.handlers.wsgi": lambda module: replace(module.WSGIHandler, "__call__", _wsgi),
    "django.core.handlers.asgi": lambda module: replace(module.ASGIHandler, "__call__", _asgi),
}
