"""Sends OTLP messages over HTTP, or writes them to a file as lines of JSON."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import urllib3
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from urllib3.util import Retry, Timeout, parse_url

from pfs._base import paths
from pfs._export.otel.attributes import of_environment
from pfs.errors import Error, InvalidValue

__all__ = ["Endpoint", "Lines", "Outbox", "Refused", "Target", "line_of"]

Request = ExportTraceServiceRequest | ExportMetricsServiceRequest
_PATIENCE = 10.0  # seconds for one request
_LATER = (429, 502, 503, 504)  # the answers after which OTLP sends again
_MOST_WAITING = 100_000  # spans


class Refused(Error):
    """The receiver will never take this message."""


class Target(Protocol):
    def send(self, request: Request) -> None: ...


class Endpoint:
    """Sends messages to a receiver of OTLP over HTTP, in protobuf."""

    def __init__(self, url: str) -> None:
        try:
            parsed = parse_url(url)
        except urllib3.exceptions.LocationParseError:
            parsed = parse_url("")
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InvalidValue(f"bad value '{url}' for an endpoint: legal is a URL such as http://127.0.0.1:4318")
        self._url = re.sub(r"(/v1/(traces|metrics))?/*$", "", url)  # some give the whole address
        self._headers = {"Content-Type": "application/x-protobuf", "User-Agent": "pfs"}
        self._headers |= of_environment("OTEL_EXPORTER_OTLP_HEADERS")
        retries = Retry(
            total=2, backoff_factor=0.5, status_forcelist=_LATER, allowed_methods=None, redirect=0, raise_on_status=False
        )
        self._pool = urllib3.PoolManager(timeout=Timeout(_PATIENCE), retries=retries)

    def send(self, request: Request) -> None:
        """Sends a message.

        Raises:
            Refused: the receiver does not take it, or a part of it.
            Error: the receiver does not answer, or asks to be asked later.
        """
        is_trace = isinstance(request, ExportTraceServiceRequest)
        url = f"{self._url}/v1/{'traces' if is_trace else 'metrics'}"
        try:
            answer = self._pool.request("POST", url, body=request.SerializeToString(), headers=self._headers)
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise Error(f"cannot send to {url}: {reason}") from None
        if answer.status in _LATER:
            raise Error(f"cannot send to {url}: it answered {answer.status} {answer.reason or ''}".rstrip())
        if not 200 <= answer.status < 300:
            raise Refused(f"{url} refused a message: it answered {answer.status} {answer.reason or ''}".rstrip())
        _check(url, is_trace, answer.data)


def _check(url: str, is_trace: bool, body: bytes) -> None:
    """Raises Refused if the receiver took only a part."""
    answer = ExportTraceServiceResponse() if is_trace else ExportMetricsServiceResponse()
    try:
        answer.ParseFromString(body)
    except DecodeError:
        return  # it took the message; the specification asks for a body, but some have none
    part = answer.partial_success
    count = part.rejected_spans if is_trace else part.rejected_data_points
    if count:
        raise Refused(f"{url} refused {count} {'spans' if is_trace else 'points'}: {part.error_message}")


class Lines:
    """Adds a line of OTLP's JSON for each message to a file; "-" is the standard output."""

    def __init__(self, path: str, mode: Callable[[], int]) -> None:
        """`mode`: returns the mode of a file that is made."""
        self._path = path
        self._mode = mode

    def send(self, request: Request) -> None:
        line = line_of(request) + "\n"
        if self._path == "-":
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        with paths.appended(self._path, self._mode()) as file:
            file.write(line.encode())


def line_of(request: Request) -> str:
    """Returns a message in OTLP's JSON, which differs from protobuf's: ids are hexadecimal, enumerations are numbers."""
    made = MessageToDict(request, use_integers_for_enums=True)
    _hexadecimal(made)
    return json.dumps(made, separators=(",", ":"))


def _hexadecimal(part: Any) -> None:
    if isinstance(part, list):
        for each in part:
            _hexadecimal(each)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name in ("traceId", "spanId", "parentSpanId"):
                part[name] = base64.b64decode(value).hex()
            else:
                _hexadecimal(value)


class Outbox:
    """Keeps spans until they are sent, and the newest metrics.

    Attributes:
        waiting: spans that are not sent yet: at most `most`. The oldest are dropped first, a message of up to 1,000 at a time.
        dropped: spans that were given up: too many waited, or the receiver refused them.
    """

    def __init__(self, target: Target, most: int = _MOST_WAITING) -> None:
        self._target = target
        self._most = most
        self._traces: deque[ExportTraceServiceRequest] = deque()
        self._metrics: ExportMetricsServiceRequest | None = None
        self.waiting = 0
        self.dropped = 0

    def put(self, *requests: Request) -> None:
        for request in requests:
            if isinstance(request, ExportMetricsServiceRequest):
                self._metrics = request
            else:
                self._traces.append(request)
                self.waiting += _spans(request)
        while self.waiting > self._most:
            self.dropped += self._next()

    def _next(self) -> int:
        """Removes the oldest message and returns how many spans it has."""
        count = _spans(self._traces.popleft())
        self.waiting -= count
        return count

    def send(self) -> None:
        """Sends all that waits.

        Raises:
            Refused: the receiver refused messages, which are dropped. All others are sent.
            Error, OSError: the receiver or the file does not take it now; all that is left waits.
        """
        refused: Refused | None = None
        while self._traces or self._metrics is not None:
            request = self._traces[0] if self._traces else self._metrics
            assert request is not None
            try:
                self._target.send(request)
            except Refused as error:
                refused = error
                self.dropped += _spans(request)
            if self._traces:
                self._next()
            else:
                self._metrics = None
        if refused is not None:
            raise refused


def _spans(request: Request) -> int:
    if isinstance(request, ExportMetricsServiceRequest):
        return 0
    return sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
