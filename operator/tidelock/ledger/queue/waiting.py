"""The reservations that wait for capacity or quota, and which of them must be tried.

A reservation that is new or has changed is untried. A refused one is inadmissible until capacity comes free,
or over quota until its quota allows more. Of equal reservations the first is tried for all. If it is refused
again, the refusal holds for all. Any other result says nothing about the others, so the next one is tried: at
once, or when no untried reservation is left.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.ledger.queue.equivalence import EquivalenceClasses, capacity_demand, question, quota_demand
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Groups
from tidelock.model.meta import Key
from tidelock.model.work_queue import WorkQueue

# The numbers of a waiting reservation are renewed at most this often (seconds): each event of a busy cluster
# would otherwise rewrite the status of every waiting one. At most so many of them are renewed in a second.
REFUSAL_RENEWAL = 10.0
RENEWALS_A_SECOND = 50
# Refused reservations of a plugin that events are compared with one by one. More are not even kept.
MOST_COMPARED = 64
# Of equal reservations the first is tried for all. So many others are tried as well, to renew their numbers.
_RENEWED = 16


class WaitingReservations:
    """All reservations that wait for capacity or quota.

    Args:
        groups: the groups. Members of a group are tried together.
        shortest_renewal: seconds after which the text of one of few waiting reservations may be renewed.

    Attributes:
        waiting: reservations that want capacity: their first, more, or on another node.
        untried: the waiting reservations that must be tried now.
        extendable: reservations with capacity that may live longer if their quota allows it.
        refused_by: by plugin, reservations that it has refused since all classes were tried last.
        positions_changed: whether positions must be computed again.
        steady: the clock of waiting times and published texts.
        since: when each reservation began to wait, as this process saw it, by that clock.

    """

    def __init__(self, groups: Groups, shortest_renewal: float) -> None:
        self.waiting: dict[Key, ReservationInfo] = {}
        self.untried: dict[Key, ReservationInfo] = {}
        self.refused_by: defaultdict[str, dict[Key, ReservationInfo]] = defaultdict(dict)
        self.positions_changed = False
        self.steady = SteadyClock()
        self.since: dict[Key, float] = {}
        self.extendable = WorkQueue[ReservationInfo]()
        self._groups = groups
        self._shortest_renewal = shortest_renewal
        self._over_quota = EquivalenceClasses(quota_demand)
        self._inadmissible = EquivalenceClasses(capacity_demand)
        self._asked: dict[Key, Hashable] = {}  # the request when it was tried last

    def note_refusal(self, entry: ReservationInfo, plugins: Iterable[str]) -> None:
        """Note which plugins have refused a reservation, unless they have refused too many to compare."""
        for plugin in plugins:
            if len(self.refused_by[plugin]) <= MOST_COMPARED:
                self.refused_by[plugin][entry.key] = entry

    def note_extendable(self, entry: ReservationInfo) -> None:
        """Schedule the check whether a reservation with capacity may live longer, if it asks for that."""
        if lifetime.wants_longer(entry):
            self.extendable.add(entry)

    @property
    def renewal(self) -> float:
        """Seconds after which the text of a waiting reservation may be renewed."""
        return max(self._shortest_renewal, len(self.waiting) / RENEWALS_A_SECOND)

    def update(self, entry: ReservationInfo) -> None:
        """Note whether a reservation wants capacity now. One that has just begun to is untried."""
        key = entry.key
        if not (entry.wanting or lifetime.wants_longer(entry)):
            self._over_quota.discard(key)
        if not entry.wanting:
            self.untried.pop(key, None)
            self.since.pop(key, None)
            self.positions_changed |= self.waiting.pop(key, None) is not None and entry.tried
            self._asked.pop(key, None)
            self._inadmissible.discard(key)
            self._go_on_after(key)
        elif key not in self.waiting:
            self.waiting[key] = self.untried[key] = entry
            self.since[key] = self.steady.last
        elif key in self._asked and self._asked[key] != question(entry):
            self.renew(entry)  # the last refusal says nothing about the new request

    def contents(self) -> Mapping[Any, object]:
        """Return the names of waiting reservations. Everything else depends on the history."""
        return dict.fromkeys(self.waiting)

    def remove(self, entry: ReservationInfo) -> None:
        """Forget a reservation that is gone."""
        self.since.pop(entry.key, None)
        self.positions_changed |= self.waiting.pop(entry.key, None) is not None and entry.tried
        self.untried.pop(entry.key, None)
        self.extendable.discard(entry)
        self._forget_refusal(entry)

    def over_quota(self, entry: ReservationInfo) -> bool:
        """Return whether a reservation waits until its quota allows more."""
        return entry.key in self._over_quota

    def alike(self, entry: ReservationInfo) -> list[ReservationInfo]:
        """Return a reservation, and the inadmissible ones that fit alike."""
        return [entry, *self._inadmissible.alike(entry.key)]

    def mark_over_quota(self, entry: ReservationInfo) -> None:
        """Mark a reservation as over quota until its quota allows more capacity, or a longer life."""
        self._over_quota.put(entry)
        if entry.wanting:
            self._asked[entry.key] = question(entry)
            self._inadmissible.discard(entry.key)
            self._go_on_after(entry.key)

    def mark_inadmissible(self, entry: ReservationInfo) -> None:
        """Mark a waiting reservation as inadmissible until capacity comes free."""
        if entry.key in self.waiting and not self.over_quota(entry):
            self._asked[entry.key] = question(entry)
            self._inadmissible.put(entry)
            self._go_on_after(entry.key)

    def leave_out(self, entry: ReservationInfo) -> None:
        """Leave a waiting reservation out of all trials until it is renewed."""
        self.untried.pop(entry.key, None)
        self._inadmissible.discard(entry.key)
        self._go_on_after(entry.key)

    def renew(self, entry: ReservationInfo) -> None:
        """Try a waiting reservation again as if it were new, because its request has changed."""
        if entry.key in self.waiting:
            self._forget_refusal(entry)
            self.untried[entry.key] = entry

    def retry(self, entries: Iterable[ReservationInfo]) -> None:
        """Try the given reservations again, except for those that do not wait."""
        for entry in entries:
            if entry.key in self.waiting:
                self._inadmissible.discard(entry.key)
                self.untried[entry.key] = entry

    def forget(self) -> None:
        """Forget all refusals, so everything that waits is tried again. This changes no answer."""
        for entry in self.waiting.values():
            self.renew(entry)

    def retry_over_quota(self, namespace: str) -> None:
        """Try reservations of a namespace that wait for quota: the first of each class, and of each group."""
        self._retry_all(self._over_quota.take_first(namespace))
        self.retry(self._groups.over_quota(namespace))

    def note_within_quota(self, entry: ReservationInfo) -> None:
        """Note that a reservation is within its quota, so the next of its class follows."""
        self._retry_all(self._over_quota.take_after(entry.key))

    @property
    def unanswered(self) -> bool:
        """Whether the answer for any class is unknown."""
        return self._inadmissible.open or self._over_quota.open

    def try_unanswered(self) -> None:
        """Try the next reservation of each class without an answer."""
        self.retry(self._inadmissible.take_open())
        self._retry_all(self._over_quota.take_open())

    def take(self, *, untried_only: bool) -> list[ReservationInfo]:
        """Take out the reservations that must be tried, in their order: those that are new or have changed.

        If capacity came free, also the first of each class, and a few others to renew their numbers.
        """
        if not untried_only:
            self.retry(self._inadmissible.take_first_of_all())
            self.retry(self._inadmissible.take_longest(_RENEWED))
            self.refused_by.clear()
        untried, self.untried = self.untried, {}
        return sorted(
            (entry for entry in untried.values() if not self.over_quota(entry)),
            key=lambda entry: entry.order,
        )

    def _retry_all(self, entries: list[ReservationInfo]) -> None:
        for entry in entries:
            self.note_extendable(entry)
        self.retry(entries)

    def _go_on_after(self, key: Key) -> None:
        """Try the next reservation of a class after one without an answer for the others."""
        self.retry(self._inadmissible.take_after(key))
        self._retry_all(self._over_quota.take_after(key))

    def _forget_refusal(self, entry: ReservationInfo) -> None:
        """Remove a reservation from its classes. It is neither over quota nor inadmissible any more."""
        self._asked.pop(entry.key, None)
        self._over_quota.discard(entry.key)
        self._inadmissible.discard(entry.key)
        self._go_on_after(entry.key)
