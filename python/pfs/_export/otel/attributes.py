"""Says which attributes a span and a process have: those of OpenTelemetry's semantic conventions, and `pfs.` for the others."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any
from urllib.parse import unquote

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from pfs._export.otel.events import Event
from pfs._process import by_name, processes
from pfs._read.kinds import literals_of
from pfs._read.show import storable
from pfs.errors import InvalidValue

__all__ = ["key_values", "of_environment", "of_event", "of_process"]

_MOST = 2**63 - 1
_SQL = "statement/sql/"
_ADDRESSES = ("OBJECT_INSTANCE_BEGIN",)
# Columns that a span has elsewhere: as its name, its times, its ids.
_ELSEWHERE = frozenset(
    (
        "THREAD_ID",
        "EVENT_ID",
        "EVENT_NAME",
        "SOURCE",
        "TIMER_START",
        "TIMER_END",
        "SQL_TEXT",
        "DIGEST_TEXT",
        "CURRENT_SCHEMA",
        "EXECUTION_ENGINE",
        "TRACEPARENT",
    )
)
_NO_ERROR = (None, "", "00000")


def key_values(attributes: Mapping[str, object]) -> Iterable[KeyValue]:
    for name, value in attributes.items():
        yield KeyValue(key=name, value=_any(value))


def _any(value: object) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=min(value, _MOST))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=storable(str(value)))


def name_of(event: Event) -> str:
    """Returns the name of a span: the operation and the schema for SQL, else EVENT_NAME."""
    name: str = event.values["EVENT_NAME"]
    if not name.startswith(_SQL):
        return name
    schema = event.values["CURRENT_SCHEMA"]
    operation = _operation(name)
    return f"{operation} {schema}" if schema else operation


def _operation(name: str) -> str:
    return name.removeprefix(_SQL).replace("_", " ").upper()


def is_sql(event: Event) -> bool:
    return str(event.values["EVENT_NAME"]).startswith(_SQL)


def of_event(event: Event, thread_name: str | None, sql_text: bool) -> dict[str, object]:
    """Returns the attributes of a span. With `sql_text` it also has the texts that can hold literals: SQL_TEXT, MESSAGE_TEXT."""
    values = event.values
    made: dict[str, object] = {"pfs.event_name": values["EVENT_NAME"], "pfs.event_id": values["EVENT_ID"]}
    made["thread.id"] = values["THREAD_ID"]
    if thread_name:
        made["thread.name"] = thread_name
    made |= _source(values["SOURCE"])
    if event.kind == "statement":
        made |= _statement(event, sql_text)
    left_out = _ELSEWHERE if sql_text else _ELSEWHERE | literals_of(f"events_{event.kind}s_history_long")
    for name, value in values.items():
        if name not in left_out and value not in (None, 0, "", "00000"):
            made["pfs." + name.lower()] = f"{value:#x}" if name in _ADDRESSES else value
    return made


def _source(source: str | None) -> dict[str, object]:
    file, colon, line = (source or "").rpartition(":")
    return {"code.file.path": file, "code.line.number": int(line)} if colon and line.isdecimal() else {}


def _statement(event: Event, sql_text: bool) -> dict[str, object]:
    values = event.values
    made: dict[str, object] = {}
    text = values["SQL_TEXT"] if sql_text else values["DIGEST_TEXT"]
    if is_sql(event):
        made["db.system.name"] = "other_sql"  # the tables do not say which
        made["db.operation.name"] = _operation(values["EVENT_NAME"])
        if values["CURRENT_SCHEMA"]:
            made["db.namespace"] = values["CURRENT_SCHEMA"]
        if text:
            made["db.query.text"] = text
        made["db.response.returned_rows"] = values["ROWS_SENT"]
        if error := error_of(event):
            made["db.response.status_code"] = error
    elif text:
        made["pfs.text"] = text
    if error := error_of(event):
        made["error.type"] = error
    return made


def error_of(event: Event) -> str:
    """Returns the SQLSTATE or the number of a statement's error, or "" if it had none."""
    if event.kind != "statement" or not (event.values["ERRORS"] or event.values["MYSQL_ERRNO"]):
        return ""
    state = event.values["RETURNED_SQLSTATE"]
    return str(event.values["MYSQL_ERRNO"]) if state in (*_NO_ERROR, "HY000") else str(state)


def of_environment(variable: str = "OTEL_RESOURCE_ATTRIBUTES") -> dict[str, str]:
    """Returns the pairs name=value,... of a variable that all exporters of OpenTelemetry read.

    Raises:
        InvalidValue: it has others.
    """
    made = {}
    for part in filter(None, (part.strip() for part in os.environ.get(variable, "").split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InvalidValue(f"bad value of {variable}: legal is name=value,...")  # it may hold a password
        made[unquote(name.strip())] = unquote(value.strip())
    return made


def of_process(found: processes.Found, service: str | None) -> tuple[Resource, bytes]:
    """Returns the resource of a process, and bytes that no other process has."""
    identity = found.identity
    key = f"{identity.boot_id} {identity.pid_namespace} {identity.pid} {identity.process_start_ticks} {identity.started}"
    command = found.command
    program = os.path.basename(command.split()[0].removesuffix(":")) if command.split() else ""
    # The longest name is the script of an interpreter; without .py it names the service.
    names = sorted(name.removesuffix(".py") for name in by_name.names_of(command) if name != program)
    given = of_environment()
    service = service or given.get("service.name")
    made: dict[str, Any] = {
        "service.name": service or (names[0] if names else program) or "unknown_service:pfs",
        "service.instance.id": str(uuid.uuid5(uuid.NAMESPACE_OID, key)),
        "process.pid": identity.pid,
    }
    if program:
        made["process.executable.name"] = program
    began = processes.started(identity)
    if began is not None:
        made["process.creation.time"] = began.replace(tzinfo=UTC).isoformat(timespec="milliseconds")
    if processes.is_of_this_boot(identity):
        made["host.name"] = os.uname().nodename
    return Resource(attributes=key_values(given | made)), key.encode()
