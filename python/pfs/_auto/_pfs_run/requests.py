"""Makes a statement of each request that a WSGI or ASGI application answers: statement/http/get and the like.

It wraps the __call__ of the frameworks' applications. Applications without a framework are wrapped where a server calls them
(servers.py). An application inside another one answers the same request: only the outer one counts.
"""

import sys
from contextvars import ContextVar
from functools import partial
from types import GeneratorType, MethodType

import _pfs_run_native as native
from _pfs_run.statements import HTTP, Methods, fail, fail_wsgi, http_end, is_shared, quiet
from _pfs_run.wrapping import replace

__all__ = ["PATCHES", "answer_asgi", "answer_wsgi"]

_keys = Methods("http", HTTP)
_is_in_request = ContextVar("pfs_run_is_in_request", default=False)
# The line that calls an application is one of a test. A server's package, with a !, ends the search: below it is no such line.
_SKIPPED = (
    "werkzeug.serving!,uvicorn!,hypercorn!,gunicorn!,waitress!,wsgiref!,socketserver!,"
    "flask,werkzeug,django,starlette,fastapi,http,_pfs_run"
)
# What native.begin_wsgi() takes.
_WSGI = (
    _keys,
    _SKIPPED,
    _is_in_request,
    "REQUEST_METHOD",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "HTTP_TRACEPARENT",
)


def _usable(traceparent):
    return traceparent if traceparent.isascii() and "\0" not in traceparent else None


@quiet()
def _begin_asgi(scope):
    method, path, query = scope.get("method", "GET"), scope.get("path") or "/", scope.get("query_string")
    if query:
        path += "?" + query.decode("latin-1")
    caller = next((value.decode("latin-1") for name, value in scope.get("headers") or () if name == b"traceparent"), None)
    return native.begin_request(_keys[method], method, path, _SKIPPED, True, _usable(caller) if caller else None)


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


def _parts(response, start):
    """Returns the parts of a response that a generator makes. The statement ends with the last one."""
    try:
        yield from response
    except GeneratorExit:  # the server has closed it
        native.end_wsgi(start)
        raise
    except BaseException as error:
        fail_wsgi(start, error)
        raise
    native.end_wsgi(start)


@quiet()
def _closers(response):
    """Returns the functions that a streamed response of a framework calls when its server closes it, or None."""
    django, werkzeug = sys.modules.get("django.http.response"), sys.modules.get("werkzeug.wsgi")
    if django and issubclass(type(response), django.StreamingHttpResponse):
        return response._resource_closers
    if werkzeug and type(response) is werkzeug.ClosingIterator:
        makers = [getattr(callback, "__self__", None) for callback in response._callbacks[-1:]]
        return response._callbacks if makers and getattr(makers[0], "is_streamed", False) else None
    return None


def answer_wsgi(application, environ, start_response):
    """Calls the application, and returns what it returns."""
    start = native.begin_wsgi(_WSGI, environ, start_response, is_shared())
    if start is None:
        return application(environ, start_response)
    try:
        response = application(environ, start)
    except BaseException as error:
        fail_wsgi(start, error)
        raise
    if type(response) is GeneratorType:
        native.leave_wsgi(start)
        return _parts(response, start)
    if (closers := _closers(response)) is None:
        native.end_wsgi(start)
        return response
    native.leave_wsgi(start)
    closers.append(partial(native.end_wsgi, start))
    return response


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
