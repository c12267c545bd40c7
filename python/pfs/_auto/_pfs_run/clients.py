"""Makes a statement of each request that the program sends: statement/http-client/get and the like.

The text has the host as the first part of the path. A statement ends when the headers of the response have arrived.
"""

import _pfs_run_native as native
from _pfs_run.statements import HTTP, Methods, fail, http_end
from _pfs_run.wrapping import replace

_keys = Methods("http-client", HTTP)
_SKIPPED = "http,urllib,urllib3,requests,httpx,httpcore,aiohttp,anyio,contextlib,_pfs_run"


def _http_client(module):
    asked = {}  # statements by connection, the native module's
    about = _keys, _SKIPPED, "host"

    def put(original):
        def putrequest(self, method, url, *more, **named):
            result = original(self, method, url, *more, **named)
            native.ask(about, asked, self, method, url)
            return result

        return putrequest

    def get(original):
        def getresponse(self):
            handle = native.take_asked(asked, self)
            if handle is None:
                return original(self)
            try:
                response = original(self)
            except BaseException as error:
                fail(handle, error)
                raise
            if response.status < 400:
                native.end(handle, 0, 0, 0, "")
            else:
                http_end(handle, response.status, response.reason or "")
            return response

        return getresponse

    replace(module.HTTPConnection, "putrequest", put)
    replace(module.HTTPConnection, "getresponse", get)


def _httpx(module):
    about = _keys, _SKIPPED, "host", "raw_path", ""

    def sending(original):
        def _send_single_request(self, request):
            handle = native.begin_sent(about, request.method, request.url)
            if handle is None:
                return original(self, request)
            try:
                response = original(self, request)
            except BaseException as error:
                fail(handle, error)
                raise
            http_end(handle, response.status_code, response.reason_phrase)
            return response

        return _send_single_request

    def sending_async(original):
        async def _send_single_request(self, request):
            handle = native.begin_sent(about, request.method, request.url)
            if handle is None:
                return await original(self, request)
            try:
                response = await original(self, request)
            except BaseException as error:
                fail(handle, error)
                raise
            http_end(handle, response.status_code, response.reason_phrase)
            return response

        return _send_single_request

    replace(module.Client, "_send_single_request", sending)
    replace(module.AsyncClient, "_send_single_request", sending_async)


def _aiohttp(module):
    about = _keys, _SKIPPED, "host", "raw_path_qs", "_build_url"

    def requesting(original):
        async def _request(self, method, str_or_url, **named):
            handle = native.begin_sent(about, method, str_or_url, self)
            if handle is None:
                return await original(self, method, str_or_url, **named)
            try:
                response = await original(self, method, str_or_url, **named)
            except BaseException as error:
                fail(handle, error)
                raise
            http_end(handle, response.status, response.reason or "")
            return response

        return _request

    replace(module.ClientSession, "_request", requesting)


PATCHES = {"http.client": _http_client, "httpx._client": _httpx, "aiohttp.client": _aiohttp}
