"""Carries out programs of test_model_waits.py, with pfs and with the model, and compares them after each step.

A family of steps each in a module: it has what pfs does and what the model is told of it side by side, and compares the tables
of the family.
"""

from __future__ import annotations

from tests.python._programs import tables as calls
from tests.python._programs.world.files import Files
from tests.python._programs.world.locks import Locks
from tests.python._programs.world.nested import NestedSteps
from tests.python._programs.world.settings import SettingsSteps
from tests.python._programs.world.sockets import Sockets
from tests.python._programs.world.tables import Tables


class World(SettingsSteps, Locks, Files, Sockets, Tables, NestedSteps):
    """Each step is a method: numbers are taken modulo what there is; a step that makes no sense does nothing."""

    def behind_its_back(self, what: str) -> None:
        """Something that the model is not told of: the comparison must see it."""
        secrets = {
            "mutex": lambda: self.own[0].use(),
            "socket": lambda: self.sockets[0].socket.send(1),
            "rows": lambda: self.handles[0][0].io(calls.FETCH),
            "no rows": lambda: self.handles[0][0].io(calls.FETCH, rows=0),
            "table lock": lambda: self.handles[0][0].lock(0),
            "table unlock": lambda: self.handles[0][0].unlock(),
            "metadata wait": lambda: self.metadata[0][0].wait(),
            "metadata status": lambda: self.metadata[0][0].set(status=calls.GRANTED),
            "idle": calls.idle,
            "stage": lambda: self.secret("stages"),
            "statement": lambda: self.secret("statements"),
            "transaction": lambda: self.secret("transactions"),
            "rule": lambda: calls.rule("unheard_of"),
        }
        self.worker(0).do(secrets[what])
