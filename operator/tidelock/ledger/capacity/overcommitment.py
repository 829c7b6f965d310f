"""Who loses room on a node that can't hold all its pods and locks, and which pod is taken to be why."""

from collections.abc import Collection, Iterable
from math import inf

from tidelock.cluster.columns import Columns
from tidelock.cluster.placed import Placed
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources, at_most, beyond


def first_loser(
    columns: Columns, holdings: Holdings, name: str, preferred: Collection[ReservationInfo] = ()
) -> tuple[ReservationInfo, Resources] | None:
    """Return the lock that loses room first, and what the node lacks: the lowest priority, then the newest.

    It is one of the preferred ones if any of them has such room. None if the locks of the node are not what
    it has too much of.
    """
    held = list(holdings.held_on(name))
    if not held:
        return None
    shortfall = columns.shortfall(name)
    losers = [entry for entry in held if any(entry.held.get(resource) for resource in shortfall)]
    if any(lifetime.span(entry) is not None for entry in losers):
        crowd = holdings.timeline.crowd(name, shortfall)
        losers = [entry for entry in losers if lifetime.span(entry) is None or entry.key in crowd]
    if not losers:
        shortfall = beyond(shortfall, holdings.sharing.evictable(name))
        losers = [
            entry for entry in held if entry.reservation.borrowable and at_most(entry.reserved, shortfall)
        ]
    if not losers:
        return None
    losers = [entry for entry in losers if entry in preferred] or losers
    return max(losers, key=lambda entry: (-entry.priority, _since(entry), entry.key)), shortfall


def likely_intruder(placed: Iterable[Placed], held: Iterable[ReservationInfo]) -> Pod | None:
    """Give the newest pod of a node if it was made after one of the locks that are held there."""
    since = min(map(_since, held))
    pods = (each.pod for each in placed)
    later = [pod for pod in pods if pod.meta.created > since - 1]  # it is told in whole seconds
    return max(later, key=lambda pod: (pod.meta.created, pod.key), default=None)


def _since(entry: ReservationInfo) -> float:
    """When a lock became active; what is planned is newer than all that is."""
    return inf if entry.activated_at is None else entry.activated_at
