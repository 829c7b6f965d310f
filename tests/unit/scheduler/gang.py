"""A reservation group and its members, as the API server would store them."""

from typing import Any

from builders import NAMESPACE, Json, encode, node, pod, reservation_json
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.reservation import decode_reservation
from unit.scheduler.machinery import Core

PENDING, ACTIVE, BOUND = Phase.PENDING, Phase.ACTIVE, Phase.BOUND
CONSUMED, EXPIRED, LOST, REJECTED = Phase.CONSUMED, Phase.EXPIRED, Phase.LOST, Phase.REJECTED
OWNERS = [{"selector": {"matchLabels": {"job": "train"}}}]


class Gang:
    """Members of a group with 1 CPU each for any pod of the job. Their names are train-0 and so on."""

    def __init__(
        self, core: Core, size: int = 2, least: int = 0, name: str = "train", topology: Json | None = None
    ) -> None:
        self.core = core
        self.name = name
        self.uid = f"uid-{name}"
        self.size = size
        self.membership: Json = {"name": name, "uid": self.uid, "members": size, "minMembers": least or size}
        if topology:
            self.membership["topology"] = topology
        self.objects: dict[str, Json] = {}

    def come(self, count: int = 0, **fields: Any) -> "Gang":
        """Deliver the first members by the watch, all by default."""
        for number in range(count or self.size):
            self.member(number, **fields)
        return self

    def member(self, number: int, **fields: Any) -> ReservationInfo:
        """Deliver a member by the watch, new or in another version."""
        name = f"{self.name}-{number}"
        spec = {"owners": OWNERS, "retention": "Retain", "group": self.membership}
        known = self.objects.get(name)
        if known is not None:
            version = int(known["metadata"]["resourceVersion"]) + 1
            fields = {"version": version, "generation": known["metadata"]["generation"] + 1} | fields
        self.objects[name] = reservation_json(name, **spec | fields)
        return self._see(name)

    def store(self, *numbers: int) -> None:
        """Store the statuses that the ledger renders for members, all by default."""
        for number in numbers or range(self.size):
            name = f"{self.name}-{number}"
            status = render_reservation(self[number], self.core.clock.now())
            self.objects[name] = self.objects[name] | {"status": status}
            metadata = self.objects[name]["metadata"]
            metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
            self._see(name)

    def give(self) -> None:
        """Place the group, activate it, and store its members as active."""
        self.settle()
        self.store()
        self.settle()
        self.store()

    def settle(self) -> None:
        """Run decisions until none is due."""
        self.core.decide()

    def drop(self, number: int) -> None:
        """Delete a member."""
        entry = self[number]
        del self.objects[entry.key.name]
        self.core.event_handlers.reservations.remove(entry.reservation)

    def succeed(self, core: Core) -> "Gang":
        """Deliver the stored objects to another process."""
        successor = Gang(core, self.size, name=self.name)
        successor.membership, successor.objects = self.membership, self.objects
        for name in self.objects:
            successor._see(name)
        return successor

    def __getitem__(self, number: int) -> ReservationInfo:
        return self.core.ledger.entries[Key(NAMESPACE, f"{self.name}-{number}")]

    @property
    def phases(self) -> list[Phase]:
        """Phases of the members in the ledger."""
        return [self[number].phase for number in range(self.size)]

    @property
    def reported_phases(self) -> list[str]:
        """Phases in the statuses that the ledger renders for the members."""
        now = self.core.clock.now()
        return [render_reservation(self[number], now)["phase"] for number in range(self.size)]

    def _see(self, name: str) -> ReservationInfo:
        new = decode_reservation(encode(self.objects[name]))
        known = self.core.ledger.entries.get(new.key)
        self.core.event_handlers.reservations.upsert(known.reservation if known else None, new)
        return self.core.ledger.entries[new.key]


def worker(number: int = 0, **fields: Any) -> Pod:
    """Build a pod that can take any member."""
    return pod(f"worker-{number}", labels={"job": "train"}, **fields)


def cluster(*cpus: str) -> Core:
    return Core(*(node(f"node-{name}", cpu=cpu) for name, cpu in zip("abcd", cpus, strict=False)))
