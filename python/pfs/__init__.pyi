# Made by `python -m pfs._generate` from python/pfs/_base/public.py. Do not edit.
# fmt: off
# ruff: noqa
from pfs import dask as dask
from pfs import errors as errors
from pfs import fleet as fleet
from pfs import metrics as metrics
from pfs import otel as otel
from pfs import plot as plot
from pfs import server as server
from pfs import setup as setup
from pfs import sqlalchemy as sqlalchemy
from pfs import _core as _core
from pfs._process.reading import tables as tables
from pfs._process.reading import table as table
from pfs._process.reading import now as now
from pfs._process.reading import arrow as arrow
from pfs._process.reading import describe as describe
from pfs._process.reading import ddl as ddl
from pfs._process.reading import truncate as truncate
from pfs._process.reading import digest as digest
from pfs._process.questions import sql as sql
from pfs._process.questions import view as view
from pfs._process.findings.ask import findings as findings
from pfs.setup import variables as variables
from pfs.setup import status as status
from pfs._process.processes import processes as processes
from pfs._process.processes import gc as gc
from pfs._process.attach import attach as attach
from pfs._process.attach import Schema as Schema
from pfs._process.history.samples import record as record
from pfs._process.history.samples import samples as samples
from pfs._process.history.samples import Recording as Recording
from pfs._process.run.join import join as join
from pfs._process.run.join import leave as leave
from pfs._save.snapshot import snapshot as snapshot
from pfs._save.snapshot import read_snapshot as read_snapshot
from pfs._save.snapshot import Snapshot as Snapshot
from pfs._save.snapshot import Merged as Merged
from pfs._save.diff import Diff as Diff
from pfs._save.trace.frames import read_trace as read_trace
from pfs.setup import configure as configure
from pfs.setup import setup_actors as setup_actors
from pfs.setup import setup_consumers as setup_consumers
from pfs.setup import setup_instruments as setup_instruments
from pfs.setup import setup_loggers as setup_loggers
from pfs.setup import setup_meters as setup_meters
from pfs.setup import setup_objects as setup_objects
from pfs.setup import setup_overhead as setup_overhead
from pfs.setup import setup_threads as setup_threads
from pfs.setup import threads as threads
from pfs._record.thread import set_account as set_account
from pfs._record.thread import set_thread_name as set_thread_name
from pfs._core import Lock as Lock
from pfs._core import RLock as RLock
from pfs._core import RWLock as RWLock
from pfs._core import Condition as Condition
from pfs._core import SimpleQueue as SimpleQueue
from pfs._core import stage as stage
from pfs._core import statement as statement
from pfs._core import transaction as transaction
from pfs._record.locks import Semaphore as Semaphore
from pfs._record.locks import BoundedSemaphore as BoundedSemaphore
from pfs._record.locks import Event as Event
from pfs._record.locks import Barrier as Barrier
from pfs._record.queues import Queue as Queue
from pfs._record.queues import LifoQueue as LifoQueue
from pfs._record.queues import PriorityQueue as PriorityQueue
from pfs._record.thread import Thread as Thread
from pfs._record.sockets import socket as socket
from pfs._record.sockets import socketpair as socketpair
from pfs._record.sockets import create_connection as create_connection
from pfs._record.sockets import create_server as create_server
from pfs._record.files import open as open
from pfs._record.files import fsync as fsync
from pfs._record.instrument import wait as wait
from pfs._record.instrument import idle as idle
from pfs._record.instrument import Table as Table
from pfs._record.dbapi.wrap import dbapi as dbapi
from pfs._record.blocks import memory as memory
from pfs._record.program import register_variable as register_variable
from pfs._record.program import register_meter as register_meter
from pfs._record.program import Variable as Variable
from pfs._record.program import Meter as Meter
from pfs._record.error_log import log as log
from pfs._record.error_log import LoggingHandler as LoggingHandler
from pfs._record.counted import raised as raised
from pfs._record.counted import handled as handled
from pfs._record.counted import register_status as register_status
from pfs._record.counted import StatusVariable as StatusVariable
from pfs.errors import Error as Error
from pfs.errors import AlreadyExists as AlreadyExists
from pfs.errors import AttachError as AttachError
from pfs.errors import InvalidValue as InvalidValue
from pfs.errors import LimitReached as LimitReached
from pfs.errors import OperationNotAllowed as OperationNotAllowed
from pfs.errors import StateError as StateError
from pfs.errors import UnknownColumn as UnknownColumn
from pfs.errors import UnknownName as UnknownName
from pfs.errors import UnknownTable as UnknownTable

PUBLIC: dict[str, dict[str, tuple[str, ...]]]
MODULES: tuple[str, ...]
__version__: str

def load_ipython_extension(shell: object) -> None: ...
def unload_ipython_extension(shell: object) -> None: ...

__all__ = [
    "tables",
    "table",
    "now",
    "arrow",
    "describe",
    "ddl",
    "truncate",
    "digest",
    "sql",
    "view",
    "findings",
    "variables",
    "status",
    "processes",
    "gc",
    "attach",
    "Schema",
    "record",
    "samples",
    "Recording",
    "join",
    "leave",
    "snapshot",
    "read_snapshot",
    "Snapshot",
    "Merged",
    "Diff",
    "read_trace",
    "configure",
    "setup_actors",
    "setup_consumers",
    "setup_instruments",
    "setup_loggers",
    "setup_meters",
    "setup_objects",
    "setup_overhead",
    "setup_threads",
    "threads",
    "set_account",
    "set_thread_name",
    "Lock",
    "RLock",
    "RWLock",
    "Condition",
    "SimpleQueue",
    "stage",
    "statement",
    "transaction",
    "Semaphore",
    "BoundedSemaphore",
    "Event",
    "Barrier",
    "Queue",
    "LifoQueue",
    "PriorityQueue",
    "Thread",
    "socket",
    "socketpair",
    "create_connection",
    "create_server",
    "open",
    "fsync",
    "wait",
    "idle",
    "Table",
    "dbapi",
    "memory",
    "register_variable",
    "register_meter",
    "Variable",
    "Meter",
    "log",
    "LoggingHandler",
    "raised",
    "handled",
    "register_status",
    "StatusVariable",
    "Error",
    "AlreadyExists",
    "AttachError",
    "InvalidValue",
    "LimitReached",
    "OperationNotAllowed",
    "StateError",
    "UnknownColumn",
    "UnknownName",
    "UnknownTable",
    "__version__",
]
