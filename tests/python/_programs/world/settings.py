"""Steps that change what is recorded: instruments, consumers, threads, accounts, TRUNCATE."""

from __future__ import annotations

import pfs
from tests.python._programs import driver
from tests.python._programs.world.base import VIEWS, Base
from tests.python.facts.model import OBJECTS_OF
from tests.python.facts.model_nested import DIGESTS, GLOBAL, HISTOGRAM, HISTOGRAMS, KINDS, VIEWS_OF, summary

VIEWS_OF_ALL = (*VIEWS, *(view for views in VIEWS_OF.values() for view in views))
CONSUMERS = ("global_instrumentation", "thread_instrumentation", "statements_digest", *VIEWS_OF_ALL)
ACCOUNTS = ((None, None), ("anna", "desk"), ("anna", "phone"), ("bert", "desk"), ("bert", None), (None, "phone"))
TRUNCATED = (
    *VIEWS_OF_ALL,
    *OBJECTS_OF,
    *(f"events_waits_summary_by_{level}_by_event_name" for level in ("thread", "account", "user", "host")),
    "accounts",
    "users",
    "hosts",
    "setup_objects",
    *(summary(kind, level) for kind in KINDS for level in ("thread", "account", "user", "host", GLOBAL)),
    DIGESTS,
    HISTOGRAM,
    HISTOGRAMS,
)


class SettingsSteps(Base):
    def instrument(self, n: int, enabled: int, timed: int) -> None:
        name = sorted(self.model.instruments)[n % len(self.model.instruments)]
        driver.instrument(name, enabled > 0, timed > 0)
        self.model.instruments[name].enabled, self.model.instruments[name].timed = enabled > 0, timed > 0

    def consumer(self, n: int, on: int) -> None:
        name = CONSUMERS[n % len(CONSUMERS)]
        driver.consumer(name, on > 0)
        self.model.consumers[name] = on > 0

    def thread(self, t: int, instrumented: int, history: int) -> None:
        worker = self.worker(t)
        pfs.threads.update(worker.id, instrumented=instrumented > 0, history=history > 0)
        settings = self.model.threads[worker.id]
        settings.enabled, settings.timed = instrumented > 0, history > 0

    def end_thread(self, t: int) -> None:
        worker = self.worker(t)
        if self.is_free(worker):
            worker.end()
            self.workers[t % len(self.workers)] = None
            self.model.end_thread(worker.id)

    def account(self, t: int, n: int) -> None:
        worker, (user, host) = self.worker(t), ACCOUNTS[n % len(ACCOUNTS)]
        worker.do(pfs.set_account, user or "", host or "")
        self.model.set_account(worker.id, user, host)

    def truncate(self, n: int) -> None:
        pfs.truncate(TRUNCATED[n % len(TRUNCATED)])
        self.model.truncate(TRUNCATED[n % len(TRUNCATED)])
