"""Makes a statement of each request that a server passes to an application of no known framework.

What a server calls is wrapped, not the application: the program's own name still has the application itself. Applications of
the frameworks count for themselves (requests.py); in a middleware, the middleware counts.
"""

from functools import wraps
from weakref import WeakSet

from _pfs_run.requests import answer_asgi, answer_wsgi
from _pfs_run.wrapping import is_replaced, replace

_serving = WeakSet()  # what `_served` has made


def _served(application):
    """Returns what a server calls instead of a WSGI application."""
    if type(application) is type(_served) and application in _serving:  # a server may pass it on to another one
        return application
    if is_replaced(getattr(type(application), "__call__", None)):  # noqa: B004 (the class has the wrapped one)
        return application

    def serve(environ, start_response):
        return answer_wsgi(application, environ, start_response)

    serve = wraps(application)(serve)
    _serving.add(serve)
    return serve


def _werkzeug(original):
    def __init__(self, host, port, app, *arguments, **named):
        original(self, host, port, _served(app), *arguments, **named)

    return __init__


def _waitress(original):
    def __init__(self, application, *arguments, **named):  # it puts a middleware of its own around it
        original(self, _served(application), *arguments, **named)

    return __init__


def _gunicorn(original):
    def load_wsgi(self):
        result = original(self)
        # Workers of other packages may ask for an application of ASGI here.
        if callable(self.wsgi) and type(self).__module__.startswith("gunicorn.") and hasattr(self, "handle_request"):
            self.wsgi = _served(self.wsgi)
        return result

    return load_wsgi


def _wsgiref(original):
    def run(self, application):
        return original(self, _served(application))

    return run


def _uvicorn(original):
    async def run_asgi(self, app):
        async def application(scope, receive, send):
            return await answer_asgi(app, scope, receive, send)

        return await original(self, application)

    return run_asgi


def _of_uvicorn(module):
    replace(module.RequestResponseCycle, "run_asgi", _uvicorn)


PATCHES = {
    "wsgiref.handlers": lambda module: replace(module.BaseHandler, "run", _wsgiref),
    "gunicorn.workers.base": lambda module: replace(module.Worker, "load_wsgi", _gunicorn),
    "werkzeug.serving": lambda module: replace(module.BaseWSGIServer, "__init__", _werkzeug),
    "waitress.server": lambda module: replace(module.BaseWSGIServer, "__init__", _waitress),
    "uvicorn.protocols.http.h11_impl": _of_uvicorn,
    "uvicorn.protocols.http.httptools_impl": _of_uvicorn,
}
