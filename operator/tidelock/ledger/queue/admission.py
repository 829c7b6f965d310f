"""Refusals of reservations in the queue: by capacity, by a quota, or by a deadline."""

from collections.abc import Collection

from tidelock.cluster.nominator import Nominator
from tidelock.ledger.capacity.holdings import Holdings
from tidelock.ledger.lifecycle import deadlines, lifetime
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.queue.waiting import WaitingReservations
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase

# Reasons for which a reservation has lost its capacity. A later refusal doesn't overwrite them.
_CAPACITY_LOST = frozenset({reasons.OVERCOMMITTED, reasons.PREEMPTED, reasons.VIOLATED})


class Admission:
    """Checks waiting reservations against their quotas, and records why they get no capacity."""

    def __init__(
        self,
        records: Records,
        waiting: WaitingReservations,
        quotas: Quotas,
        holdings: Holdings,
        endings: Endings,
        nominator: Nominator,
    ) -> None:
        self._records = records
        self._waiting = waiting
        self._quotas = quotas
        self._holdings = holdings
        self._endings = endings
        self._nominator = nominator

    def refuse(
        self, entry: ReservationInfo, reason: str, message: str, now: float, plugins: Collection[str] = ()
    ) -> None:
        """Record why a waiting reservation gets no capacity. It is tried again when capacity is freed."""
        self._refuse(entry, reason, message, now, plugins)
        self._waiting.mark_inadmissible(entry)

    def refuse_group(
        self, group: Group, reason: str, message: str, now: float, plugins: Collection[str] = ()
    ) -> None:
        """Record why the members of a group get no capacity."""
        for entry in group.waiting:
            self.refuse(entry, reason, message, now, plugins)

    def within_quota(self, entry: ReservationInfo, now: float) -> bool:
        """Return whether a reservation is within its quotas. Otherwise it waits until they change."""
        problem = self._quotas.problem(entry)
        if not problem:
            self._waiting.note_within_quota(entry)
            return True
        self._nominator.remove(entry.uid)
        self._refuse(entry, reasons.QUOTA_EXCEEDED, problem, now)
        if entry.wanting:
            self._waiting.mark_over_quota(entry)
        return False

    def renew_expiry(self, entry: ReservationInfo) -> None:
        """Apply the end in the spec of a reservation that has begun. A later end must be within its quota."""
        entry.resize_problem = ""
        if lifetime.wants_longer(entry) and (problem := self._quotas.problem(entry)):
            entry.resize_problem = problem
            self._waiting.mark_over_quota(entry)
        else:
            lifetime.apply_spec(entry)

    def renew_ceilings(self, namespace: str) -> None:
        """Apply the highest priority that the quotas of a namespace allow now to its reservations."""
        ceiling = self._quotas.ceiling(namespace)
        self._holdings.reprioritise()
        for entry in self._records.entries.values():
            if entry.key.namespace == namespace:
                before, entry.ceiling = entry.priority, ceiling
                self._waiting.positions_changed = True
                self.offer_if_lowered(entry, before)

    def offer_if_lowered(self, entry: ReservationInfo, before: int) -> None:
        """Offer the capacity of a reservation with a lower priority to pods that may preempt it now."""
        if entry.priority < before and entry.held:
            self._holdings.offer(entry)

    def _refuse(
        self, entry: ReservationInfo, reason: str, message: str, now: float, plugins: Collection[str] = ()
    ) -> None:
        """Record a refusal, at most as often as statuses are renewed, or give up at the deadline."""
        first, entry.tried = not entry.tried, True
        self._waiting.note_refusal(entry, plugins)
        at = self._waiting.steady.at(now)
        changed = entry.reason != reason or at >= entry.refused_at + self._waiting.renewal
        self._waiting.positions_changed |= first or changed
        if entry.phase is Phase.ACTIVE:
            entry.resize_problem = message if entry.growing else ""
            self._records.commit(entry)
        elif changed and entry.reason not in _CAPACITY_LOST:
            entry.reason, entry.message, entry.refused_at = reason, message, at
            self._records.commit(entry)
        elif first:
            self._records.due.update(entry)
        if (
            first
            and entry.phase is Phase.PENDING
            and (due := deadlines.next_due(entry)) is not None
            and due <= now
        ):
            self._endings.give_up(entry, now)
