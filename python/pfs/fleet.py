"""Reads what ``pfs collect`` has written: the processes of many hosts, in SQL.

import pfs.fleet
fleet = pfs.fleet.read("/shared/pfs")
fleet.sql("select NODE, EVENT_NAME, SUM_TIMER_WAIT from events_waits_summary_global_by_event_name")
fleet.sql("select NODE, PID, sum(COUNT_STAR) from rates.events_waits_summary_global_by_event_name group by all")
fleet.view("statement_analysis")
"""

from pfs._many.fleet.fleet import Fleet, read

__all__ = ["Fleet", "read"]
