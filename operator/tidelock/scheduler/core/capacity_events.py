"""Events of the pod queue for capacity that reservations and nominations have taken or given back."""

from collections import defaultdict
from collections.abc import Iterable

from tidelock.cluster.cache import Cache
from tidelock.cluster.reserve_pods import counts_as
from tidelock.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    RESERVATION_ACTIVE,
    RESERVATION_FREED,
    RESERVATION_LENT,
)
from tidelock.ledger.capacity.holdings import HoldingChange
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.owners.matching import owner_names
from tidelock.model.meta import Key
from tidelock.model.pods import assigned_to
from tidelock.model.quantities import NOTHING, covers, minus, plus
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.pod_queue import SchedulingQueue


class CapacityEvents:
    """Notifies the queue, so that pods are retried for which the change may help."""

    def __init__(self, ledger: Ledger, cache: Cache, queue: SchedulingQueue) -> None:
        self._ledger = ledger
        self._cache = cache
        self._queue = queue

    @property
    def pending(self) -> bool:
        """Return whether there are changes that the queue does not know."""
        return bool(self._ledger.holdings.changes or self._cache.nominator.ended)

    def notify(self, now: float, claimed_by: AssumedPod | None = None) -> None:
        """Notify the queue of all changes since the last call.

        Args:
            now: the current time.
            claimed_by: the pod that was decided. Capacity that it takes over from its reservations is not
                free for other pods.

        """
        taken_over = NOTHING
        for change in _lasting(self._ledger.holdings.changes.take()):
            entry = change.entry
            if change.after and not covers(change.before, change.after):
                event = (
                    RESERVATION_LENT
                    if entry.reservation.borrowable and entry.occupants
                    else RESERVATION_ACTIVE
                )
                only = owner_names(entry.key, entry.reservation.spec)
                self._queue.notify(event, None, entry, now, only=only)
            if claimed_by is not None and claimed_by.node_name == change.node:
                given = minus(change.before, change.after)
                taken_over = plus(taken_over, given)  # a pod may have several reservations there
                freed = not covers(claimed_by.pod.requests, taken_over)
            else:
                freed = not covers(change.after, change.before)
            if freed or change.devices_freed:
                self._queue.notify(RESERVATION_FREED, entry, entry, now)
            self._notify_of_reserve_pod(change, now, claimed_by)
        for pod in self._cache.nominator.ended.take():
            self._queue.notify(ASSIGNED_POD_DELETE, pod, None, now)

    def notify_undone(self, assumed: AssumedPod, now: float) -> None:
        """Notify the queue after the placement of a pod was undone."""
        pod = assigned_to(assumed.pod, assumed.node_name)
        self._queue.notify(ASSIGNED_POD_DELETE, pod, None, now)

    def _notify_of_reserve_pod(
        self, change: HoldingChange, now: float, claimed_by: AssumedPod | None
    ) -> None:
        """Notify pods, and reservations that wait, of a reserve pod that has come or gone as a pod would."""
        if change.left is not None:
            self._queue.notify(ASSIGNED_POD_DELETE, assigned_to(change.left, change.node), None, now)
        pod = change.entry.reservation.pod
        if pod is None or not pod.neighbourly or change.entry.ahead:
            return
        if change.after and not change.before:
            self._queue.notify(ASSIGNED_POD_ADD, None, pod, now)
            refused_by = self._ledger.waiting_reservations.refused_by
            if self._queue.hints.help_reservations(refused_by, ASSIGNED_POD_ADD, None, pod):
                self._cache.columns.freed += 1  # one that goes frees its capacity anyway
        elif change.before and not change.after:
            heir = claimed_by.pod if claimed_by is not None and claimed_by.node_name == change.node else None
            if heir is None or counts_as(heir) != counts_as(pod):
                self._queue.notify(ASSIGNED_POD_DELETE, assigned_to(pod, change.node), None, now)


def _lasting(changes: Iterable[HoldingChange]) -> list[HoldingChange]:
    """Return changes without those that were undone, as by an attempt that failed after its pod was assumed.

    They would wake the pod of the attempt, which fails again, without end.
    """
    found: defaultdict[Key, list[HoldingChange]] = defaultdict(list)
    for change in changes:
        earlier = found[change.entry.key]
        if earlier and change.undoes(earlier[-1]):
            earlier.pop()
        else:
            earlier.append(change)
    return [change for each in found.values() for change in each]
