"""Capacity of reservations on nodes: granted by a decision, lost with a node or to pods, and restored."""

from collections.abc import Callable, Collection

from tidelock.cluster.columns import Columns
from tidelock.cluster.placed import Placed
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.capacity.overcommitment import first_loser, last_in_rank, likely_intruder
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.choices import Choices
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.lifecycle.two_phase import two_phase_begun
from tidelock.ledger.messages import (
    amounts_text,
    cordoned_text,
    edited_text,
    gone_text,
    held_text,
    overcommitted_text,
    planned_text,
    taken_text,
)
from tidelock.ledger.owners import occupants
from tidelock.ledger.owners.claim import Taken
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Groups
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.api.reserved_devices import ReservedDevice, devices_text
from tidelock.model.devices import DeviceId
from tidelock.model.meta import Key
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, at_most, covers, minus


class Placement:
    """Places reservations on nodes and takes them away.

    Args:
        records: the reservations.
        columns: the nodes' amounts.
        holdings: the capacity that reservations hold.
        groups: the groups. Members share one lifetime.
        endings: ends reservations of nodes that are gone.
        choices: commits reservations that have got capacity.
        pods_on: returns the pods of a node, which may be the cause of a shortage.
        move_after: seconds after which a reservation for any node leaves a node that takes no pods.

    """

    def __init__(
        self,
        records: Records,
        columns: Columns,
        holdings: Holdings,
        groups: Groups,
        endings: Endings,
        choices: Choices,
        pods_on: Callable[[str], Collection[Placed]],
        move_after: float,
    ) -> None:
        self._records = records
        self._columns = columns
        self._holdings = holdings
        self._groups = groups
        self._endings = endings
        self._choices = choices
        self._pods_on = pods_on
        self._move_after = move_after

    # Decisions.

    def admit(
        self, entry: ReservationInfo, node: Node, now: float, devices: tuple[ReservedDevice, ...] = ()
    ) -> None:
        """Reserve capacity on a node where a waiting reservation fits: its first, more, or on another node.

        A reservation that begins later is planned there. The devices are free, or its own already.
        """
        requests, entry.granted = entry.reservation.requests, entry.reservation.parts
        if entry.ahead:
            self._place(entry, node, requests, now, devices)
            self._records.step(entry, Event.PLAN, reasons.PLANNED, planned_text(entry), now)
            return
        lifetime.apply_spec(entry)
        if entry.phase is Phase.ACTIVE:
            moved = entry.node != node.name
            self._place(entry, node, requests, now, devices)
            entry.reason = reasons.MOVED if moved else reasons.ADMITTED
            entry.resize_problem = ""
            entry.message = held_text(entry)
            self._restore(entry, now)
            self._records.commit(entry)
            return
        entry.violation = ""
        if entry.activated_at is None:
            lifetime.begin(entry, self._groups.begins(entry, now))
        entry.hold = two_phase_begun(entry.hold, entry.reservation, now)
        self._place(entry, node, requests, now, devices)
        self._records.step(entry, Event.ADMIT, reasons.ADMITTED, held_text(entry), now)
        self._choices.decide(entry, now)

    def preempt(self, entry: ReservationInfo, by: str, now: float) -> None:
        """Take the capacity of a reservation for a pod, or reservation, of higher priority."""
        self.displace(entry, reasons.PREEMPTED, f"preempted on {entry.node} by {by}", now)

    def open_window(self, entry: ReservationInfo, now: float) -> None:
        """Begin the window of a planned reservation: it holds its capacity, if the node has it by now."""
        begins, entry.ahead = lifetime.begins_at(entry), False
        if entry.phase is not Phase.PLANNED:
            self._records.commit(entry)
            return
        entry.activated_at, entry.epoch = begins, self._records.epoch
        lifetime.apply_spec(entry)
        entry.hold = two_phase_begun(entry.hold, entry.reservation, now)
        self._holdings.hold(entry, entry.reserved)
        self._records.step(entry, Event.ADMIT, reasons.ADMITTED, held_text(entry), now)
        self._holdings.announce(entry)
        self._displace_overcommitted(entry.node, now, None)
        self._choices.decide(entry, now)

    def take_back(self, taken: Taken, devices: tuple[ReservedDevice, ...], failure: str, now: float) -> None:
        """Restore the capacity of a reservation after a failed binding, if its node still has it."""
        entry = taken.entry
        node = self._records.node(entry.node)
        held, devices = entry.kept_of(taken.held), entry.kept_devices(devices)  # the spec may have shrunk
        if not held:
            self._records.step(entry, Event.RETURN, reasons.WAITING, failure, now)
            self._endings.reject_if_unreadable(entry, now)
        elif node is None or node.meta.is_other(entry.node_uid):
            self._lose(entry, now)
        elif has_other_claims(entry.reservation.pod, taken.pod):
            text = f"{failure}, and the spec was edited"
            self.displace(entry, reasons.WAITING, text, now, entry.reservation.asked_at or None)
        elif self._columns.fits(node.name, self._beside_borrowers(entry, held)):
            self._place(entry, node, held, now, devices)
            self._records.step(entry, Event.ADMIT, reasons.ADMITTED, held_text(entry), now)
            if entry.violation:  # the amounts that other pods took before the claim are still missing
                entry.reason, entry.message = reasons.VIOLATED, entry.violation
            self.resize(entry, now)
            if entry.devices:
                self._holdings.kept.add(entry)
        else:
            text = f"{failure} and {entry.node} has no capacity left"
            self.displace(entry, reasons.INSUFFICIENT_CAPACITY, text, now)

    def taken(self, entry: ReservationInfo) -> bool:
        """Return whether others have got capacity of a rebuilt reservation meanwhile."""
        contested = self._holdings.reserved_devices.contested(entry.uid)
        return contested or bool(self._columns.shortfall(entry.node))

    # Edits.

    def resize(self, entry: ReservationInfo, now: float) -> None:
        """Free the capacity at once that an edited spec no longer requests. A larger request must wait."""
        spec = entry.reservation.spec
        if spec is not None and spec.node_name not in (None, entry.node):
            self.displace(entry, reasons.WAITING, edited_text(spec.node_name), now)
            return
        self._holdings.hold(entry, entry.kept_of(entry.reserved), entry.kept_devices(entry.devices))
        if not lifetime.wants_longer(entry):
            entry.resize_problem = ""
        if not entry.violation:
            entry.message = held_text(entry)
        elif not entry.growing:
            self._restore(entry, now)

    def hold_for_new_owners(self, entry: ReservationInfo, now: float) -> None:
        """Hold capacity for the owners of an edited spec, at the cost of no other reservation.

        Former owners may go on to use capacity of the node, which is not free for the reservation then.
        """
        self._note_former_owners(entry)
        if not entry.reserved:
            return
        held = entry.held
        self._holdings.hold(entry, entry.reserved)
        if not covers(held, entry.held) and self._columns.shortfall(entry.node):
            text = f"{entry.node} has no capacity for it beside its former owners"
            self.displace(entry, reasons.WAITING, text, now)

    # Nodes.

    def settle_node(
        self, name: str, now: float, intruder: Pod | None = None, left: Collection[ReservationInfo] = ()
    ) -> None:
        """Reconcile the reservations of a node with the present state of the node.

        An intruder is a pod that is new to the node, or that used the reservations in `left` and is no longer
        their owner.
        """
        node = self._records.node(name)
        if node is None:
            self._holdings.drop_rests(name)
        for entry in list(self._holdings.held_on(name)):
            if node is None or node.meta.is_other(entry.node_uid):
                self._lose(entry, now)
            elif entry.node_problem != _node_problem(node):
                self._note_problem(entry, node, now)
                self._records.commit(entry)
        self._displace_overcommitted(name, now, intruder, left)
        for entry in left:
            self._note_former_owners(entry)
        if self._holdings.reserved_devices.any_contested:
            self._displace_contested(name, now, left)

    def settle_unseen(self, name: str, now: float) -> None:
        """Reconcile the reservations of a node after events were missed.

        The newest pod of the node counts as the cause of a shortage, if it was created after a reservation.
        Capacity that only an answer of an earlier leader shows is lost first.
        """
        if held := list(self._holdings.held_on(name)):
            unstored = [e for e in held if e.epoch < self._records.epoch and not e.reservation.decided]
            self.settle_node(name, now, likely_intruder(self._pods_on(name), held), unstored)

    def leave_node(self, entry: ReservationInfo) -> None:
        """Let a reservation wait for another node, because its own has taken no pods for a long time."""
        entry.move_at, entry.moving = None, True
        self._records.commit(entry)

    def lose_device(self, entry: ReservationInfo, device: DeviceId, claim: Key, now: float) -> None:
        """Let a reservation wait for capacity again, because a claim of others has one of its devices."""
        entry.violation = taken_text(f"claim {claim}", f"device {device}", entry.node)
        self.displace(entry, reasons.VIOLATED, entry.violation, now)

    def displace(
        self, entry: ReservationInfo, reason: str, message: str, now: float, since: float | None = None
    ) -> None:
        """Take all capacity from a reservation, which waits for capacity again.

        Its deadline counts from `since`, or from now, if its stored status says that it had capacity.
        """
        self._unplace(entry)
        occupants.count_use(entry, now, occupied=False)
        entry.bound_pod = None
        if entry.hold is not None:
            entry.hold = entry.hold.lost()
        lifetime.apply_spec(entry)
        if entry.promised:
            entry.wait(now, since)
        else:
            entry.wait_on()
        event = Event.RETURN if entry.phase is Phase.BOUND else Event.DISPLACE
        self._records.step(entry, event, reason, message, now)
        self._endings.reject_if_unreadable(entry, now)
        self._choices.look_later(entry)  # another reservation of its set may be chosen now

    def _lose(self, entry: ReservationInfo, now: float) -> None:
        """Take the capacity of a reservation on a node that is gone. One that names the node ends."""
        text = gone_text(entry.node, entry.node_uid)
        if entry.reservation.pinned:
            self._holdings.hold(entry, NOTHING)
            self._records.end(entry, Event.LOSE_NODE, reasons.NODE_LOST, text, now)
        else:
            self.displace(entry, reasons.NODE_LOST, text, now)

    def _displace_overcommitted(
        self, name: str, now: float, intruder: Pod | None, left: Collection[ReservationInfo] = ()
    ) -> None:
        """Take capacity from reservations until the node's pods and reservations fit.

        The capacity that is kept beside owners in binding is dropped first. Then come the reservations that
        an intruder has left. Of each, the lowest priority comes first, then the newest.
        """
        if self._holdings.rests and self._columns.shortfall(name):
            self._holdings.drop_rests(name)
        while (found := first_loser(self._columns, self._holdings, name, left)) is not None:
            loser, shortfall = found
            if intruder is None:
                text = overcommitted_text(name, amounts_text(shortfall))
                self.displace(loser, reasons.OVERCOMMITTED, text, now)
            else:
                self._violate(loser, intruder, shortfall, now)

    def _note_former_owners(self, entry: ReservationInfo) -> None:
        if entry.devices:
            self._holdings.former_owners.add(entry)

    def _displace_contested(self, name: str, now: float, left: Collection[ReservationInfo]) -> None:
        """Take capacity from reservations until no two hold one device.

        That is possible if only an answer of an earlier leader shows one of them, which is lost first.
        """
        devices = self._holdings.reserved_devices
        while both := [each for each in self._holdings.held_on(name) if devices.contested(each.uid)]:
            loser = last_in_rank([each for each in both if each in left] or both)
            text = f"another reservation holds {devices_text(loser.devices)}"
            self.displace(loser, reasons.OVERCOMMITTED, text, now)

    def _violate(self, entry: ReservationInfo, intruder: Pod, shortfall: Resources, now: float) -> None:
        """Take capacity that a pod uses from a reservation, which keeps the rest or moves to another node."""
        taken = at_most(entry.held, shortfall) or at_most(entry.reserved, shortfall)  # all of it may be lent
        left = minus(entry.reserved, taken)
        text = taken_text(f"pod {intruder.key}", amounts_text(taken), entry.node)
        entry.violation = text
        if left and not entry.moves_when_violated:
            self._holdings.hold(entry, left)
            self._records.step(entry, Event.VIOLATE, reasons.VIOLATED, text, now)
        else:
            self.displace(entry, reasons.VIOLATED, text, now)

    def _restore(self, entry: ReservationInfo, now: float) -> None:
        """End the violation of a reservation that has all its capacity again."""
        if entry.violation:
            entry.violation = ""
            self._records.step(entry, Event.RESTORE, reasons.RESTORED, held_text(entry), now)

    def _beside_borrowers(self, entry: ReservationInfo, amounts: Resources) -> Resources:
        """Return the part of these amounts that must be free on a reservation's node beside borrowers."""
        return (
            minus(amounts, self._holdings.sharing.credit(entry, entry.node, amounts))
            if entry.reservation.borrowable
            else amounts
        )

    def _place(
        self,
        entry: ReservationInfo,
        node: Node,
        requests: Resources,
        now: float,
        devices: tuple[ReservedDevice, ...] = (),
    ) -> None:
        self._unplace(entry)
        entry.node, entry.node_uid, entry.epoch = node.name, node.meta.uid, self._records.epoch
        entry.node_problem = entry.move_at = None
        entry.moving = False
        self._note_problem(entry, node, now)
        self._holdings.hold(entry, requests, devices)

    def _unplace(self, entry: ReservationInfo) -> None:
        self._holdings.hold(entry, NOTHING)
        entry.node = entry.node_uid = ""

    def _note_problem(self, entry: ReservationInfo, node: Node, now: float) -> None:
        """Note why a node takes no pods. A reservation for any node leaves it if the problem lasts long."""
        problem = _node_problem(node)
        if problem is None:
            entry.move_at, entry.moving = None, False
        elif entry.node_problem is None and not entry.reservation.pinned:
            entry.move_at = now + self._move_after
        entry.node_problem = problem


def _node_problem(node: Node) -> tuple[str, str] | None:
    if node.unschedulable:
        return reasons.NODE_CORDONED, cordoned_text(node.name)
    if not node.ready:
        return reasons.NODE_NOT_READY, f"node {node.name} is not ready"
    return None


def has_other_claims(pod: Pod | None, before: Pod | None) -> bool:
    """Return whether an edit has changed the claims to devices of a reserve pod. Specs may be unreadable."""
    if pod is None or before is None:
        return False
    return pod.spec.resource_claims != before.spec.resource_claims
