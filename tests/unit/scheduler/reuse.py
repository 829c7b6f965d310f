"""A reservation with `reuse: Always`, and its owners."""

from typing import Any

from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from unit.scheduler.machinery import Core

TWO = {"cpu": "2"}


def reservation(core: Core, name: str = "lock", **fields: Any) -> ReservationInfo:
    """Create a reusable reservation, and decide on it."""
    entry = core.reservation(name, **{"reuse": "Always", "resources": TWO, "ttlSeconds": 600} | fields)
    core.step()
    return entry


def entry_of(core: Core, name: str = "lock") -> ReservationInfo:
    return core.ledger.entries[Key("shop", name)]


def occupied(core: Core) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Occupied."""
    conditions = render_reservation(entry_of(core), core.clock.now())["conditions"]
    (found,) = (each for each in conditions if each["type"] == "Occupied")
    return found["status"], found["reason"], found["message"]
