"""Answers scrapes over HTTP. Slow and broken clients hold no thread for long, and never more than some."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from typing import Any

from pfs._export.metrics.exporter import Exporter
from pfs._export.metrics.text import OPENMETRICS, PLAIN, text_of
from pfs.errors import InvalidValue

__all__ = ["Server", "address_of"]

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


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
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

    def __init__(self, host: str, port: int, exporter: Exporter) -> None:
        self.exporter = exporter
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self._places = threading.BoundedSemaphore(_MOST_CLIENTS)
        super().__init__((host, port), _Handler)

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
