"""Makes spans of the events of a process. The same event always gets the same ids."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from pfs import _core
from pfs._export.otel import attributes, traceparent
from pfs._export.otel.events import Event, History, Id, Parent
from pfs._process import processes
from pfs._process.segment import SegmentSource
from pfs._read.show import storable

__all__ = ["Spans"]

_MOST_SPANS = 1000  # of a message
_FLAGS = 0xFF
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200


class Spans:
    """Makes the spans of one process, each once. It stays readable when its file has gone."""

    def __init__(self, found: processes.Found, min_wait: int, sql_text: bool, service: str | None) -> None:
        self._identity = found.identity
        self._source = SegmentSource(_core.Segment(found.path), write=False)
        self._resource, self._key = attributes.of_process(found, service)
        self._sql_text = sql_text
        self._contexts: dict[Id, tuple[bytes, int]] = {}  # the traces and flags of events in the tables
        self._is_final = False
        self.history = History(min_wait)
        self.made: list[Span] = []  # by the last reading
        self.parents_missing = 0

    def read(self, found: processes.Found | None) -> None:
        """Reads the tables and makes the spans of new events. A dead process is read once."""
        self.made = []
        if self._is_final:
            return
        is_over = found is None or found.state == "dead"
        names = dict(self._source.rows("threads", ["THREAD_ID", "NAME"]))
        new = self.history.new(self._source, names, is_over)
        self._trace()
        end = self._source.now() if is_over else 0
        self.made = [self._span(event, parent, names.get(event.id[0]), end) for event, parent in new]
        self._is_final = is_over

    def close(self) -> None:
        self._source.close()

    def messages(self) -> Iterable[ResourceSpans]:
        """Returns the spans of the last reading, some in each message."""
        scope = InstrumentationScope(name="pfs", version=self._identity.library_version)
        for at in range(0, len(self.made), _MOST_SPANS):
            spans = ScopeSpans(scope=scope, spans=self.made[at : at + _MOST_SPANS])
            yield ResourceSpans(resource=self._resource, scope_spans=[spans])

    @property
    def resource(self) -> Resource:
        return self._resource

    def _hash(self, size: int, id: Id) -> bytes:
        return blake2b(b"%s %d %d" % (self._key, *id), digest_size=size).digest()

    def _trace(self) -> None:
        """Finds the trace of each event: that of a traceparent, of the event around it, or its own."""
        before, self._contexts = self._contexts, {}
        for id, event in self.history.events.items():  # sorted: the event around it comes first
            joined = _joined(event)
            if joined is not None:
                self._contexts[id] = joined.trace_id, joined.flags
            elif id in before:
                self._contexts[id] = before[id]
            elif event.parent is None:
                self._contexts[id] = self._hash(16, id), 1
            else:
                known = self._contexts.get(event.parent) or before.get(event.parent)
                self._contexts[id] = known or (self._hash(16, event.parent), 1)

    def _span(self, event: Event, parent: Parent, thread_name: str | None, end: int) -> Span:
        values = event.values
        trace_id, flags = self._contexts[event.id]
        start = self._identity.started * 1000 + values["TIMER_START"] // 1000
        wait = values["TIMER_WAIT"] if event.has_ended else max(end - values["TIMER_START"], 0)
        span = Span(
            name=storable(attributes.name_of(event)),
            trace_id=trace_id,
            span_id=self._hash(8, event.id),
            flags=flags & _FLAGS | _HAS_IS_REMOTE,
            kind=Span.SPAN_KIND_CLIENT if event.kind == "statement" and attributes.is_sql(event) else Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=start,
            end_time_unix_nano=start + wait // 1000,
        )
        made = attributes.of_event(event, thread_name, self._sql_text)
        joined = _joined(event)
        if joined is not None:
            span.parent_span_id = joined.span_id
            span.flags |= _IS_REMOTE
            around = None if parent.id is None else self._contexts.get(parent.id)
            if parent.id is not None and around is not None:
                span.links.add(trace_id=around[0], span_id=self._hash(8, parent.id))
        elif parent.id is not None:
            span.parent_span_id = self._hash(8, parent.id)
        if parent.why:
            made["pfs.parent"] = parent.why
            self.parents_missing += parent.why == "missing"
        if not event.has_ended:
            made["pfs.unfinished"] = True
            span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="the process ended before this event"))
        elif attributes.error_of(event):
            message = (values["MESSAGE_TEXT"] or "") if self._sql_text else attributes.error_of(event)
            span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=storable(message)))
        span.attributes.extend(attributes.key_values(made))
        return span


def _joined(event: Event) -> traceparent.Context | None:
    if event.kind != "statement":
        return None
    return traceparent.of_statement(event.values["TRACEPARENT"], event.values["SQL_TEXT"])
