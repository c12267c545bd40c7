"""Answers scrapes over HTTP. Slow and broken clients hold no thread for long, and never more than some."""

from __future__ import annotations

import hmac
import ssl
import threading
from base64 import b64encode
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from typing import Any

from pfs._export.metrics.exporter import Exporter
from pfs._export.metrics.text import OPENMETRICS, PLAIN, text_of
from pfs.errors import InvalidValue

__all__ = ["Server", "address_of", "credentials_of", "tls_of"]

_MOST_CLIENTS = 16
_PATIENCE = 5.0  # seconds for one read or write of a client


def address_of(text: str) -> tuple[str, int]:
    """Returns the host and the port of "127.0.0.1:9404" or "[::1]:9404".

    Raises:
        InvalidValue: it is no such text.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise InvalidValue(f"bad value '{text}' for an address: legal is HOST:PORT, such as 127.0.0.1:9404")
    return host, int(port)


def credentials_of(password: str) -> bytes:
    """Returns the header of a client that knows the password of the user ``pfs``."""
    return b"Basic " + b64encode(b"pfs:" + password.encode())


def tls_of(certificate: str, key: str) -> ssl.SSLContext:
    """Returns what encrypts, with the certificates and the key of two PEM files.

    Raises:
        InvalidValue: they are no such files, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # it asks nobody
    except ssl.SSLError as error:
        raise InvalidValue(
            f"bad files '{certificate}' and '{key}': legal are a certificate and its key ({error.reason})"
        ) from None
    return context


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/-/healthy":
            self._answer(200, "pfs metrics is up\n", "text/plain; charset=utf-8")
            return
        given = self.headers.get("Authorization", "").encode("latin-1", "replace")
        if self.server.credentials and not hmac.compare_digest(given, self.server.credentials):
            self._answer(401, "user and password are wrong\n", "text/plain; charset=utf-8")
            return
        if path not in ("/", "/metrics"):
            self._answer(404, "the metrics are at /metrics\n", "text/plain; charset=utf-8")
            return
        is_open = "application/openmetrics-text" in self.headers.get("Accept", "")
        self._answer(200, text_of(self.server.exporter.metrics(), is_open), OPENMETRICS if is_open else PLAIN)

    do_HEAD = do_GET

    def _answer(self, code: int, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if code == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="pfs metrics"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "pfs"

    def log_message(self, *arguments: Any) -> None:
        pass  # a scrape is no news


class Server(ThreadingHTTPServer):
    """Serves the metrics of an exporter. A client beyond the most is hung up on."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, host: str, port: int, exporter: Exporter, tls: ssl.SSLContext | None = None, credentials: bytes = b""
    ) -> None:
        self.exporter = exporter
        self.credentials = credentials
        self._tls = tls
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self._places = threading.BoundedSemaphore(_MOST_CLIENTS)
        super().__init__((host, port), _Handler)

    def get_request(self) -> tuple[socket, Any]:
        client, address = super().get_request()
        if self._tls is not None:  # the first read of the client's thread shakes hands
            client = self._tls.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
        return client, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # A client that sends a byte now and then is cut off, too.
        alarm = threading.Timer(4 * _PATIENCE, _hang_up, [request])
        alarm.daemon = True
        alarm.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            alarm.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # the client has gone


def _hang_up(request: socket) -> None:
    with suppress(OSError):
        request.shutdown(SHUT_RDWR)
