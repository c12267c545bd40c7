# Made by `python -m pfs._generate` from the declarations in cpp/src/tables. Do not edit.
from typing import Literal, TypeAlias

TableName: TypeAlias = Literal[
    "events_waits_current",
    "events_waits_history",
    "events_waits_history_long",
    "events_waits_summary_by_instance",
    "events_waits_summary_by_thread_by_event_name",
    "events_waits_summary_global_by_event_name",
    "file_instances",
    "file_summary_by_event_name",
    "file_summary_by_instance",
    "global_status",
    "global_variables",
    "mutex_instances",
    "performance_timers",
    "setup_consumers",
    "setup_instruments",
    "setup_timers",
    "threads",
]
