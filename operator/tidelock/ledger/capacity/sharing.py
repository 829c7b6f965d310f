"""Capacity of shared reservations that pods use: owners in reusable ones, borrowers in borrowable ones.

It follows from the pods and the reservations of a node alone. Borrowers use as much of the reservations
as possible, even if other capacity is free. So free capacity stays free for pods that can't borrow, and
for reservations.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce

from tidelock.cluster.placed import Placed
from tidelock.ledger.capacity.usage import Claimant, Occupant, left_of, shared_out
from tidelock.ledger.owners.matching import is_owner
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, beyond, minus, plus

ByNode = defaultdict[str, dict[Key, ReservationInfo]]
"""Reservations by node and name."""


class Sharing:
    """Shared reservations by node.

    Args:
        pods_on: returns the pods of a node.
        held_on: returns all reservations that hold capacity on a node.
        claimed: returns the amounts of a pod, by UID, that come from reservations which get them back if the
            pod is not bound. The pod uses no shared reservation for them.

    Attributes:
        lenders: borrowable reservations with capacity.

    """

    def __init__(
        self,
        pods_on: Callable[[str], Collection[Placed]],
        held_on: Callable[[str], Iterable[ReservationInfo]],
        claimed: Callable[[str], Resources],
    ) -> None:
        self.lenders: dict[Key, ReservationInfo] = {}
        self.claimed = claimed
        self._pods_on = pods_on
        self._held_on = held_on
        self._by_node: ByNode = defaultdict(dict)

    def __bool__(self) -> bool:
        """Return whether any reservation is shared."""
        return bool(self._by_node)

    def update(self, entry: ReservationInfo) -> bool:
        """Add or remove a reservation after a change of its capacity. Return whether it is shared, or was."""
        was_shared = entry.node in self._by_node and entry.key in self._by_node[entry.node]
        shares = bool(entry.reserved) and entry.shared
        list_on_node(self._by_node, entry, there=shares)
        if shares and entry.reservation.borrowable:
            self.lenders[entry.key] = entry
        else:
            self.lenders.pop(entry.key, None)
        return was_shared or entry.shared

    def on(self, node_name: str) -> list[ReservationInfo]:
        """Return the shared reservations of a node, by name."""
        there = self._by_node[node_name].values() if node_name in self._by_node else ()
        return sorted(there, key=lambda entry: entry.key)

    def occupied_on(self, node_name: str) -> list[ReservationInfo]:
        """Return the reservations of a node with occupants, by name. They get back freed amounts."""
        return [entry for entry in self.on(node_name) if entry.occupants]

    def amounts_of(self, pod_uid: str, node_name: str) -> Resources:
        """Return the amounts of a pod on a node that come from shared reservations."""
        occupants = (entry.occupants.get(pod_uid) for entry in self.on(node_name))
        return reduce(plus, (each.uses for each in occupants if each is not None), NOTHING)

    def credit(self, entry: ReservationInfo, node_name: str, amounts: Resources) -> Resources:
        """Return the part of amounts that need not be free on a node, because owners or borrowers use it.

        The rest must be free, and includes the reservation's own `held`.
        """
        others = [each for each in self.on(node_name) if each is not entry]
        _, left = self.divide([*others, entry], [*(each.reserved for each in others), amounts], node_name)
        use = {
            name: units
            + sum(each.held.get(name, 0) for each in others)
            - sum(rest.get(name, 0) for rest in left)
            for name, units in amounts.items()
        }
        return {name: units for name, units in use.items() if units}

    def would_hold(
        self, node_name: str, *, without: Collection[ReservationInfo] = (), gone: Collection[str] = ()
    ) -> dict[str, int]:
        """Return the sum that reservations would hold without some of them and without the pods in `gone`."""
        held = (entry.held for entry in self._held_on(node_name) if not entry.shared and entry not in without)
        entries = [entry for entry in self.on(node_name) if entry not in without]
        _, left = self.divide(entries, [entry.reserved for entry in entries], node_name, gone)
        return reduce(plus, (*held, *left), {})

    def due_to_owners(self, entry: ReservationInfo) -> Resources:
        """Return the amounts of a reservation for its next owner: those held, and those of borrowers."""
        borrowers = {placed.pod.uid for placed in self.borrowers_on(entry.node)}
        lent = (each.uses for each in entry.occupants.values() if each.uid in borrowers)
        return reduce(plus, lent, entry.held)

    def released(self, entries: Collection[ReservationInfo], node_name: str) -> Resources:
        """Return how much less a node's reservations would hold without some of them.

        The borrowers of those reservations then use the other reservations.
        """
        if not any(entry.reservation.borrowable for entry in entries):
            return reduce(plus, (entry.held for entry in entries), NOTHING)
        now = reduce(plus, (entry.held for entry in self._held_on(node_name)), NOTHING)
        return minus(now, self.would_hold(node_name, without=entries))

    def borrowers_on(self, node_name: str) -> list[Placed]:
        """Return the pods of a node that use, or could use, capacity of borrowable reservations there."""
        lenders = [entry for entry in self.on(node_name) if entry.reservation.borrowable]
        if not lenders:
            return []
        pods = self._pods_on(node_name)
        return [placed for placed in pods if any(entry.lends_to(placed.pod) for entry in lenders)]

    def evictable(self, node_name: str) -> Resources:
        """Return the amounts of borrowers outside the reservations. A pod can only be evicted as a whole."""
        borrowers = {placed.pod.uid: placed.pod.requests for placed in self.borrowers_on(node_name)}
        occupants = (each for entry in self.on(node_name) for each in entry.occupants.values())
        uses = (each.uses for each in occupants if each.uid in borrowers)
        return minus(reduce(plus, borrowers.values(), NOTHING), reduce(plus, uses, NOTHING))

    def divide(
        self,
        entries: Sequence[ReservationInfo],
        amounts: Sequence[Resources],
        node_name: str,
        gone: Collection[str] = (),
    ) -> tuple[list[dict[str, Occupant]], list[Resources]]:
        """Divide the capacity of reservations on a node among its pods.

        Args:
            entries: the reservations.
            amounts: the capacity of each.
            node_name: the node.
            gone: UIDs of pods that do not count.

        Returns:
            the occupants of each reservation by UID, and the amounts of each that no pod uses.

        """
        claimants, inside = [], []
        for placed in sorted(self._pods_on(node_name), key=lambda each: (each.pod.key, each.pod.uid)):
            # A pod that is being deleted uses capacity until it is gone.
            own = [index for index, entry in enumerate(entries) if _may_use(placed.pod, entry)]
            if own and placed.pod.uid not in gone:
                takes = beyond(placed.pod.requests, self.claimed(placed.pod.uid))
                claimants.append(Claimant(takes, own))
                inside.append(placed)
        uses = shared_out(amounts, claimants)
        occupants = [
            {inside[index].pod.uid: _occupant(inside[index], use[index]) for index in use} for use in uses
        ]
        return occupants, [left_of(amount, use) for amount, use in zip(amounts, uses, strict=True)]


def list_on_node(by_node: ByNode, entry: ReservationInfo, *, there: bool) -> None:
    """Add a reservation to the mapping of its node, or remove it."""
    if there:
        by_node[entry.node][entry.key] = entry
    elif entry.node in by_node:
        by_node[entry.node].pop(entry.key, None)
        if not by_node[entry.node]:
            del by_node[entry.node]


def _may_use(pod: Pod, entry: ReservationInfo) -> bool:
    """Return whether a pod on the node of a shared reservation uses its capacity."""
    return entry.lends_to(pod) or (
        entry.reservation.reusable and is_owner(pod, entry.key, entry.reservation.spec)
    )


def _occupant(placed: Placed, uses: Resources) -> Occupant:
    return Occupant(placed.pod.key, placed.pod.uid, placed.assumed, uses, placed.pod.ends_at)
