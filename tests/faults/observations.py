"""The requests and events that have passed the proxy, and the times at which objects were made."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelock.model.instants import format_instant


@dataclass(slots=True)
class Passed:
    """A request that came to the proxy. Times are the loop's."""

    point: str
    name: str
    start: float
    end: float = float("inf")


class Delivery(NamedTuple):
    """An event of this version that the operator received, or all events until it if `listed`.

    `at` is the loop's time.
    """

    kind: str
    version: int
    listed: bool
    at: float


# Kinds with deadlines that count from their creation.
_DATED = frozenset({"Reservation", "ReservationGroup"})


class Stamps:
    """Times of bindings, and of the creation of reservations and groups, by the operator's clock.

    The API server's clock differs from the loop's time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._bound: dict[str, float] = {}
        self._made: dict[str, float] = {}

    def note(self, uid: str) -> None:
        """Note that a pod is being bound now."""
        self._bound.setdefault(uid, self._clock())

    def note_made(self, uid: str) -> None:
        """Note that a reservation or a group was created now, unless it is known already."""
        self._made.setdefault(uid, self._clock())

    def corrected(self, told: Any) -> Any:
        """Correct the time of a pod's binding, or of the creation of a reservation or a group."""
        uid = told["metadata"].get("uid", "")
        if told.get("kind") in _DATED:
            self.note_made(uid)
            told["metadata"]["creationTimestamp"] = format_instant(int(self._made[uid]))
            told["metadata"].pop("managedFields", None)  # these have the times of all writes
            return told
        bound_at = self._bound.get(uid)
        for condition in told.get("status", {}).get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["status"] == "True" and bound_at is not None:
                condition["lastTransitionTime"] = format_instant(int(bound_at))
        return told

    def rewritten(self, text: bytes) -> bytes:
        """Return the JSON of such an object, of a list of them, or of an event, with corrected times."""
        if b"PodScheduled" not in text and b'"kind":"Reservation' not in text:
            return text
        told = json.loads(text)
        for each in told["items"] if "items" in told else [told.get("object", told)]:
            if "metadata" in each:  # discovery has kinds without metadata
                self.corrected(each)
        return json.dumps(told, separators=(",", ":")).encode() + (b"\n" if text.endswith(b"\n") else b"")
