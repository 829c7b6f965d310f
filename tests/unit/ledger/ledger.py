"""A ledger over a few nodes, driven by direct calls. Amounts are cpu in millicores."""

from typing import Any

from builders import NAMESPACE, NOW, Json, node, quota, reservation
from tidelock.cluster.columns import Columns
from tidelock.cluster.lister import Lister
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU
from tidelock.model.quotas import ReservationQuota
from tidelock.model.reservation import Reservation

EPOCH = 7
MOVE_AFTER = 300.0


def unlimited() -> Quotas:
    """Return quotas that allow any priority, and preemption."""
    quotas: Lister[ReservationQuota] = Lister()
    quotas.upsert(None, quota())
    return Quotas(quotas, Lister())


class LedgerScene:
    """Nodes of 4 cpu, a ledger, and the Reservations as the API server would store them."""

    def __init__(self, *names: str, quotas: Quotas | None = None) -> None:
        self.columns = Columns()
        self.ledger = Ledger(self.columns, quotas=quotas or unlimited(), move_after=MOVE_AFTER)
        self.ledger.lead(EPOCH)
        self._fields: dict[str, Json] = {}
        for name in names or ("node-a", "node-b"):
            self.put_node(name)

    def put_node(self, name: str = "node-a", *, at: float = NOW, **fields: Any) -> Node:
        """Add or change a node, and update the ledger."""
        put = node(name, **fields)
        self.columns.put(put)
        self.ledger.placement.settle_node(name, at)
        return put

    def drop_node(self, name: str = "node-a", *, at: float = NOW) -> None:
        self.columns.drop(name)
        self.ledger.placement.settle_node(name, at)

    def node(self, name: str = "node-a") -> Node:
        return self.columns.nodes[self.columns.row_of[name]]

    def next_version(self, name: str = "lock", **fields: Any) -> Reservation:
        """Build the next version of a Reservation. Fields that are not passed stay as they were."""
        before = self._fields.get(name, {"version": 0})
        self._fields[name] = before | {"version": before["version"] + 1} | fields
        return reservation(name, **self._fields[name])

    def reservation(self, name: str = "lock", *, at: float = NOW, **fields: Any) -> ReservationInfo:
        """Add or update a reservation, which waits for capacity at first."""
        self.ledger.upsert(self.next_version(name, **fields), at)
        return self.entry(name)

    def active(
        self, name: str = "lock", on: str = "node-a", *, at: float = NOW, **fields: Any
    ) -> ReservationInfo:
        """Add a reservation that holds capacity on a node."""
        entry = self.reservation(name, at=at, **fields)
        self.admit(entry, on, at=at)
        return entry

    def store(self, name: str = "lock", *, at: float = NOW) -> None:
        """Store the status of a reservation as the ledger renders it."""
        self.ledger.acknowledge(self.next_version(name, status=render_reservation(self.entry(name), at)))

    def admit(self, entry: ReservationInfo, on: str = "node-a", *, at: float = NOW) -> None:
        self.ledger.placement.admit(entry, self.node(on), at)

    def consume(self, owner: Pod, on: str = "node-a", *, at: float = NOW) -> None:
        """Let a pod claim its reservations, and confirm its binding."""
        self.ledger.claims.claim(owner, on, at)
        self.ledger.claims.owner_bound(owner, on, at)

    def edit(self, name: str = "lock", *, at: float = NOW, **spec: Any) -> None:
        """Change the spec of a reservation, and increase its generation."""
        generation = self._fields[name].get("generation", 1) + 1
        self.ledger.upsert(self.next_version(name, generation=generation, **spec), at)

    def entry(self, name: str = "lock") -> ReservationInfo:
        found = self.ledger.records.find(Key(NAMESPACE, name))
        assert found is not None, name
        return found

    def reserved(self, name: str = "node-a") -> int:
        """Return the cpu that reservations hold on a node."""
        return int(self.columns.reserved[self.columns.row_of[name], self.columns.column_of[CPU]])

    def use(self, name: str = "node-a", cpu: int = 0) -> None:
        """Count cpu of a node as requested by pods."""
        self.columns.request(name, {CPU: cpu}, (cpu, 0), 1)

    def succeeded(
        self, name: str = "lock", *, at: float = NOW, **changed: Any
    ) -> tuple["LedgerScene", ReservationInfo]:
        """Start another operator from the stored state of a reservation, with later changes applied."""
        successor = LedgerScene(*self.columns.row_of)
        return successor, successor.reservation(name, at=at, **self.stored(name, at=at) | changed)

    def stored(self, name: str = "lock", *, at: float = NOW) -> Json:
        """Return the fields of a reservation as another operator finds them."""
        return self._fields[name] | {"status": render_reservation(self.entry(name), at)}

    def readopted(self, name: str = "lock", *, at: float = NOW, **changed: Any) -> ReservationInfo:
        """Return a reservation as another operator restores it."""
        _, entry = self.succeeded(name, at=at, **changed)
        return entry
