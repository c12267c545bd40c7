"""Sockets of the tests, and what the tables show of them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import pandas as pd
import pytest

import pfs
from tests.python.objects.seen import events

Pair = tuple[pfs.socket, pfs.socket]


def full(name: str) -> str:
    return f"wait/io/socket/{name}"


@pytest.fixture(autouse=True)
def nothing_seen_yet() -> None:
    """There are few socket instruments by default: tests share them."""
    gc.collect()
    for table in ("events_waits_history_long", "events_waits_summary_global_by_event_name", "socket_summary_by_event_name"):
        pfs.truncate(table)


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = pfs.socketpair("test/SOCKET")
    with one, other:
        yield one, other


@pytest.fixture
def tcp() -> Iterator[tuple[pfs.socket, pfs.socket, pfs.socket]]:
    """A listening socket, one that it has accepted, and the client."""
    with (
        pfs.create_server("test/SERVER", ("127.0.0.1", 0)) as server,
        pfs.create_connection("test/CLIENT", server.getsockname()) as client,
        contextlib.closing(server.accept()[0]) as accepted,
    ):
        yield server, accepted, client


def instances(name: str) -> pd.DataFrame:
    frame = pfs.table("socket_instances")
    return frame[frame["EVENT_NAME"] == name]


def summary(name: str) -> dict[str, int]:
    frame = pfs.table("socket_summary_by_event_name").set_index("EVENT_NAME")
    return {column: int(frame[column][name]) for column in frame.columns}


def last(name: str) -> tuple[str, int | None]:
    """Operation and bytes of the youngest event."""
    event = events(name).iloc[-1]
    moved = event["NUMBER_OF_BYTES"]
    return event["OPERATION"], None if pd.isna(moved) else int(moved)
