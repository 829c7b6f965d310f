"""The locks that wait, for room or for their namespace's quota, and which of them are to be tried when.

A lock that is new, or that something happened to, is untried. When it is refused it is set aside, until room
comes free, or parked, until its quota allows more. Of those that are alike the first is tried for all. When
it is refused again, all are. Whatever else becomes of it answers nothing for the others, and the next one
follows: at once, or at the latest when no other is left to be tried.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.ledger.queue.equivalence import EquivalenceClasses, capacity_demand, question, quota_demand
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Groups
from tidelock.model.meta import Key

# A lock that waits for long has its numbers renewed at most this often (seconds), or each event in a
# busy cluster would rewrite the status of every waiting lock; and of many that wait, so many a second.
REFUSAL_RENEWAL = 10.0
RENEWALS_A_SECOND = 50
# Of locks that are alike the first is tried for all; so many others at a time have their numbers renewed.
_RENEWED = 16


class WaitingReservations:
    """All locks that want something.

    Args:
        groups: whose members are tried together.

    Attributes:
        waiting: locks that want room: their first, more, or some elsewhere.
        untried: those of them that are to be tried now.
        outlasting: locks with room for which it is to be asked now whether they may live longer.
        refusers: plugins that have refused locks since all that wait were last tried.
        moved: whether a lock that was tried has begun or ceased to wait, or what it waits for was found anew.
        steady: the time by which it counts for how long locks wait, and what they are told.
        since: when those that wait began to, as this process saw it, by that time.

    """

    def __init__(self, groups: Groups) -> None:
        self.waiting: dict[Key, ReservationInfo] = {}
        self.untried: dict[Key, ReservationInfo] = {}
        self.outlasting: dict[Key, ReservationInfo] = {}
        self.refusers: set[str] = set()
        self.moved = False
        self.steady = SteadyClock()
        self.since: dict[Key, float] = {}
        self._groups = groups
        self._over_quota = EquivalenceClasses(quota_demand)
        self._roomless = EquivalenceClasses(capacity_demand)
        self._asked: dict[Key, Hashable] = {}  # what those asked for that wait, as they were tried last

    @property
    def renewal(self) -> float:
        """Seconds after which what a lock that waits was told may be told anew."""
        return max(REFUSAL_RENEWAL, len(self.waiting) / RENEWALS_A_SECOND)

    def update(self, entry: ReservationInfo) -> None:
        """Take over what a reservation wants now; one that begins to want capacity is untried."""
        key = entry.key
        if not (entry.wanting or lifetime.wants_longer(entry)):
            self._over_quota.discard(key)
        if not entry.wanting:
            self.untried.pop(key, None)
            self.since.pop(key, None)
            self.moved |= self.waiting.pop(key, None) is not None and entry.tried
            self._asked.pop(key, None)
            self._roomless.discard(key)
            self._go_on_after(key)
        elif key not in self.waiting:
            self.waiting[key] = self.untried[key] = entry
            self.since[key] = self.steady.last
        elif key in self._asked and self._asked[key] != question(entry):
            self.renew(entry)  # what was refused to it says nothing of what it asks for now

    def contents(self) -> Mapping[Any, object]:
        """Return which reservations wait; which are tried next depends on what has happened."""
        return dict.fromkeys(self.waiting)

    def remove(self, entry: ReservationInfo) -> None:
        """Forget a reservation that is gone."""
        self.since.pop(entry.key, None)
        self.moved |= self.waiting.pop(entry.key, None) is not None and entry.tried
        self.untried.pop(entry.key, None)
        self.outlasting.pop(entry.key, None)
        self._unpark(entry)

    def over_quota(self, entry: ReservationInfo) -> bool:
        """Whether a lock is parked until its namespace's quota allows more."""
        return entry.key in self._over_quota

    def park(self, entry: ReservationInfo) -> None:
        """Have a lock wait until its namespace's quota allows more: room for it, or a longer life."""
        self._over_quota.put(entry)
        if entry.wanting:
            self._asked[entry.key] = question(entry)
            self._roomless.discard(entry.key)
            self._go_on_after(entry.key)

    def set_aside(self, entry: ReservationInfo) -> None:
        """Have a lock wait until room comes free."""
        if entry.key in self.waiting and not self.over_quota(entry):
            self._asked[entry.key] = question(entry)
            self._roomless.put(entry)
            self._go_on_after(entry.key)

    def leave_out(self, entry: ReservationInfo) -> None:
        """Have a lock that waits not be tried, for itself or for others, until it is renewed."""
        self.untried.pop(entry.key, None)
        self._roomless.discard(entry.key)
        self._go_on_after(entry.key)

    def renew(self, entry: ReservationInfo) -> None:
        """Have a lock that waits be tried again as if it were new: it asks for something else than before."""
        if entry.key in self.waiting:
            self._unpark(entry)
            self.untried[entry.key] = entry

    def retry(self, entries: Iterable[ReservationInfo]) -> None:
        """Have those of these locks that wait be tried again."""
        for entry in entries:
            if entry.key in self.waiting:
                self._roomless.discard(entry.key)
                self.untried[entry.key] = entry

    def forget(self) -> None:
        """Forget who was refused, so that all that wait are tried again; no answer changes by it."""
        for entry in self.waiting.values():
            self.renew(entry)

    def try_parked(self, namespace: str) -> None:
        """Have locks tried again that wait for their namespace's quota."""
        self._retry_parked(self._over_quota.take_first(namespace))
        self.retry(self._groups.over_quota(namespace))

    def note_within_quota(self, entry: ReservationInfo) -> None:
        """Note that a lock is within its quota: the next of those for which it was tried follows."""
        self._retry_parked(self._over_quota.take_after(entry.key))

    @property
    def unanswered(self) -> bool:
        """Whether any lock was tried for others and gave no answer that holds for them."""
        return self._roomless.open or self._over_quota.open

    def try_unanswered(self) -> None:
        """Have the next lock tried of all kinds for which the last one gave no answer."""
        self.retry(self._roomless.take_open())
        self._retry_parked(self._over_quota.take_open())

    def take(self, *, untried_only: bool) -> list[ReservationInfo]:
        """Take out the locks that are to be tried, in their order: those that came or changed meanwhile.

        As room came free, also the first of those that are alike, and a few others for their numbers.
        """
        if not untried_only:
            self.retry(self._roomless.take_first_of_all())
            self.retry(self._roomless.take_longest(_RENEWED))
            self.refusers.clear()
        untried, self.untried = self.untried, {}
        return sorted(
            (entry for entry in untried.values() if not self.over_quota(entry)),
            key=lambda entry: entry.order,
        )

    def _retry_parked(self, entries: list[ReservationInfo]) -> None:
        self.outlasting.update({entry.key: entry for entry in entries if lifetime.wants_longer(entry)})
        self.retry(entries)

    def _go_on_after(self, key: Key) -> None:
        """Have the next lock be tried after one that was tried for others, and gave no answer for them."""
        self.retry(self._roomless.take_after(key))
        self._retry_parked(self._over_quota.take_after(key))

    def _unpark(self, entry: ReservationInfo) -> None:
        """Have a lock wait for nothing any more."""
        self._asked.pop(entry.key, None)
        self._over_quota.discard(entry.key)
        self._roomless.discard(entry.key)
        self._go_on_after(entry.key)
