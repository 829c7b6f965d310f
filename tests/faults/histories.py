"""Small histories for the tests of the checker."""

from collections.abc import Mapping
from typing import Any

from faults.checker import Checker
from faults.history import Change, Json
from faults.world import Circumstances
from tidelock.model.instants import format_instant

START = 1_800_000_000.0


class HistoryBuilder:
    """Writes a history. Each event is one version and one second later than the last."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.clock = START

    def node(self, cpu: str = "4", uid: str = "n") -> None:
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": cpu}, "conditions": ready}
        self.tell("nodes", {"metadata": {"name": "a", "uid": uid}, "spec": {}, "status": status})

    def pod(self, name: str, node: str = "a", cpu: str = "3", uid: str = "") -> None:
        container = {"resources": {"requests": {"cpu": cpu}}}
        meta = {"name": name, "uid": uid or name, "labels": {"app": name}}
        spec = {"nodeName": node, "containers": [container]}
        self.tell("pods", {"metadata": meta, "spec": spec, "status": {}})

    def bound(self, name: str, cpu: str = "3", uid: str = "") -> None:
        self.pod(name, "", cpu, uid)
        self.pod(name, "a", cpu, uid)

    def reservation(
        self,
        name: str = "lock",
        reason: str = "Admitted",
        *,
        owner: str = "web",
        uid: str = "",
        also: Mapping[str, Any] | None = None,
        **status: Any,
    ) -> None:
        """Add a reservation with the phase of its reason. `also` has further fields of its spec.

        Fields of its status that are None are left out.
        """
        active = {"type": "Active", "status": str(reason == "Admitted"), "reason": reason}
        told = {
            "phase": {"Admitted": "Active"}.get(reason, reason),
            "nodeName": "a",
            "nodeUID": "n",
            "resources": {"cpu": "3"},
            "activatedAt": format_instant(START),
            "expiresAt": format_instant(START + 600),
            "conditions": [active],
        }
        spec = {"resources": {"cpu": "3"}, "owners": [{"pod": {"name": owner}}], "nodeName": "a"}
        spec |= also or {}
        self.tell(
            "reservations",
            {
                "metadata": {"name": name, "uid": uid or name, "generation": 1},
                "spec": spec,
                "status": {field: value for field, value in (told | status).items() if value is not None},
            },
        )

    def gone(self) -> None:
        """Remove the object of the last event."""
        last = self.changes[-1]
        self.tell(last.kind, last.state, gone=True)

    def tell(self, kind: str, state: Json, *, gone: bool = False) -> None:
        self.clock += 1
        version = len(self.changes) + 1
        self.changes.append(Change(version, kind, gone, state, self.clock, self.clock))

    def check(self, **circumstances: Any) -> list[str]:
        return Checker(Circumstances(**circumstances)).replay(self.changes)

    def check_at_rest(self) -> list[str]:
        return Checker(Circumstances()).check_rest(self.changes, self.clock)


def at(seconds: float) -> str:
    return format_instant(START + seconds)


def broken(found: list[str], *words: str) -> bool:
    """Return whether there are violations, and each of them contains one of the words."""
    return bool(found) and all(any(word in each for word in words) for each in found)


def condition_of(kind: str, holds: bool, reason: str = "Admitted") -> Json:
    return {"type": kind, "status": str(holds), "reason": reason}
