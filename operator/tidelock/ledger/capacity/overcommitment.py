"""Chooses the reservation that loses capacity on an overcommitted node, and the pod that is the cause."""

from collections.abc import Collection, Iterable
from math import inf

from tidelock.cluster.columns import Columns
from tidelock.cluster.placed import Placed
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.model.quantities import NOTHING, Resources, at_most, beyond


def first_loser(
    columns: Columns, holdings: Holdings, name: str, preferred: Collection[ReservationInfo] = ()
) -> tuple[ReservationInfo, Resources] | None:
    """Return the reservation that loses capacity first, and the shortfall of the node.

    The lowest priority comes first, then the newest. It is one of the preferred reservations if any of them
    holds a missing resource. A reservation without devices of the class that provides a resource by now loses
    before any other.

    Returns:
        None if no reservation of the node holds a missing resource.

    """
    held = list(holdings.held_on(name))
    if not held:
        return None
    for entry in held if columns.backed else ():
        if missing := _without_devices(columns, entry):
            return entry, missing
    shortfall = columns.shortfall(name)
    losers = [entry for entry in held if any(entry.held.get(resource) for resource in shortfall)]
    if any(lifetime.span(entry) is not None for entry in losers):
        causes = holdings.timeline.spans_at_shortfall(name, shortfall)
        losers = [entry for entry in losers if lifetime.span(entry) is None or entry.key in causes]
    if not losers:
        shortfall = beyond(shortfall, holdings.sharing.evictable(name))
        losers = [
            entry for entry in held if entry.reservation.borrowable and at_most(entry.reserved, shortfall)
        ]
    if not losers:
        return None
    losers = [entry for entry in losers if entry in preferred] or losers
    return last_in_rank(losers), shortfall


def _without_devices(columns: Columns, entry: ReservationInfo) -> Resources:
    """Return the held amounts of resources that devices provide on the node, if it holds none of their class.

    What an unreadable node has is unknown.
    """
    row, backed = columns.row_of.get(entry.node), columns.backed.keys() & entry.reserved.keys()
    if not backed or row is None or columns.nodes[row].meta.unreadable:
        return NOTHING
    classes = {each.resource_name: each.device_class_name for each in entry.devices}
    return {
        name: entry.reserved[name]
        for name in sorted(backed)
        if entry.reserved[name]
        and classes.get(name) != columns.backed[name]
        and columns.provided(name, columns.nodes[row])
    }


def last_in_rank(entries: Iterable[ReservationInfo]) -> ReservationInfo:
    """Return the reservation of the lowest priority, and of these the newest."""
    return max(entries, key=lambda entry: (-entry.priority, _since(entry), entry.key))


def likely_intruder(placed: Iterable[Placed], held: Iterable[ReservationInfo]) -> Pod | None:
    """Return the newest pod of a node if it was created after one of the reservations there."""
    since = min(map(_since, held))
    pods = (each.pod for each in placed)
    later = [pod for pod in pods if pod.meta.created > since - 1]  # creation times are whole seconds
    return max(later, key=lambda pod: (pod.meta.created, pod.key), default=None)


def _since(entry: ReservationInfo) -> float:
    """Return when a reservation became active. A planned one is newer than all others."""
    return inf if entry.activated_at is None else entry.activated_at
