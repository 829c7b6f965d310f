"""The records of all reservations, the transitions between phases, and the commit of each change.

Every change of a record ends with `commit`, which updates all that is derived from it. A change that an
exception has cut short is still in `in_change`, so `Recovery` finds it.
"""

from tidelock.cluster.columns import Columns
from tidelock.ledger.effects import Effects, Transition
from tidelock.ledger.indexes import LedgerIndex
from tidelock.ledger.lifecycle.due import DueTimes
from tidelock.ledger.lifecycle.transitions import SETTLED, Event, after
from tidelock.ledger.owners import occupants
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.quantities import NOTHING, Resources


class Records:
    """All reservations by name.

    Args:
        columns: the nodes.
        epoch: number of this leadership, written with every reservation that gets capacity.

    Attributes:
        entries: reservations that exist.
        leaving: reservations that are being deleted and that a finalizer keeps. They hold nothing.
        in_change: reservations with a change that has begun and is not complete.
        effects: work for the driver.
        due: when each reservation is due.
        indexes: everything that is derived from the records, in the order of updates.

    """

    def __init__(self, columns: Columns) -> None:
        self.entries: dict[Key, ReservationInfo] = {}
        self.leaving: dict[Key, ReservationInfo] = {}
        self.in_change: dict[Key, ReservationInfo] = {}
        self.effects = Effects()
        self.epoch = 0
        self.due = DueTimes()
        self.indexes: tuple[LedgerIndex, ...] = (self.due,)
        self._columns = columns

    def find(self, key: Key) -> ReservationInfo | None:
        """Return the reservation of a name, even if it is being deleted."""
        return self.entries.get(key) or self.leaving.get(key)

    def node(self, name: str) -> Node | None:
        """Return a node, if it is known."""
        row = self._columns.row_of.get(name)
        return None if row is None else self._columns.nodes[row]

    def capacity(self, node_name: str) -> Resources:
        """Return the allocatable amounts of a node. An unknown node has none."""
        node = self.node(node_name)
        return NOTHING if node is None else node.allocatable

    def note(
        self, entry: ReservationInfo, event: Event, reason: str, message: str, now: float, due: float
    ) -> None:
        """Enter the phase that an event leads to, and record the transition."""
        self.in_change[entry.key] = entry
        entry.phase = after(entry.phase, event)
        if not entry.unseen:
            transition = Transition(entry.reservation.meta, event, entry.phase, reason, message, now, due)
            self.effects.transitions.append(transition)

    def step(
        self,
        entry: ReservationInfo,
        event: Event,
        reason: str,
        message: str,
        now: float,
        due: float | None = None,
    ) -> None:
        """Carry out a transition. The status has its reason and message from now on."""
        self.note(entry, event, reason, message, now, now if due is None else due)
        entry.reason, entry.message = reason, message
        if entry.phase not in (Phase.ACTIVE, Phase.PLANNED):
            entry.node_problem = entry.move_at = None
            entry.moving = False
        self.commit(entry)

    def end(
        self,
        entry: ReservationInfo,
        event: Event,
        reason: str,
        message: str,
        now: float,
        due: float | None = None,
    ) -> None:
        """Carry out the transition that ends a reservation. The caller has freed its capacity."""
        self.in_change[entry.key] = entry
        occupants.count_use(entry, now, occupied=False)
        entry.finished_at = now
        entry.ahead = False
        if not entry.unseen:
            self.effects.ended.append(entry)
        entry.violation = ""
        self.step(entry, event, reason, message, now, due)

    def commit(self, entry: ReservationInfo) -> None:
        """Complete a change: update every index, and publish the status."""
        key = entry.key
        self.in_change[key] = entry
        if entry.phase is not Phase.PENDING:
            entry.end_plan()
            entry.queue_position, entry.earmark = None, ""
        if entry.unseen:
            self.effects.answers[key] = None
        else:
            self.publish(key)
        self.effects.namespaces.add(key.namespace)
        for index in self.indexes:
            index.update(entry)
        self.in_change.pop(key, None)

    def publish(self, key: Key) -> None:
        """Schedule the comparison of a stored status with its record."""
        self.effects.statuses[key] = None

    def note_seen(self, entry: ReservationInfo) -> None:
        """Record the activation or the end of a reservation from before a watch has shown its object."""
        if entry.phase in SETTLED:
            self.effects.ended.append(entry)
        elif entry.activated_at is not None:
            at = entry.activated_at
            transition = Transition(
                entry.reservation.meta, Event.ADMIT, entry.phase, entry.reason, entry.message, at, at
            )
            self.effects.transitions.append(transition)

    def drop(self, entry: ReservationInfo) -> None:
        """Forget a reservation that is gone."""
        self.in_change[entry.key] = entry
        if entry.phase not in SETTLED and not entry.unseen:
            self.effects.ended.append(entry)
        self.effects.statuses.pop(entry.key, None)
        self.effects.namespaces.add(entry.key.namespace)
        del self.entries[entry.key]
        for index in self.indexes:
            index.remove(entry)
        self.in_change.pop(entry.key, None)
