"""Settles groups after changes of members: each is committed, or loses its capacity, as a whole."""

from functools import partial

from tidelock.ledger.capacity.placement import Placement
from tidelock.ledger.lifecycle import deadlines, lifetime
from tidelock.ledger.lifecycle.endings import Endings
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.queue.waiting import WaitingReservations
from tidelock.ledger.records import Records
from tidelock.ledger.recovery import Recovery
from tidelock.ledger.sets.groups import Group, GroupKey, Groups
from tidelock.model import reasons
from tidelock.model.failures import Attempt, failure_note
from tidelock.model.meta import ObjectMeta


class GroupSettlement:
    """Settles the groups that have changed."""

    def __init__(
        self,
        records: Records,
        groups: Groups,
        placement: Placement,
        endings: Endings,
        waiting: WaitingReservations,
        recovery: Recovery,
    ) -> None:
        self._records = records
        self._groups = groups
        self._placement = placement
        self._endings = endings
        self._waiting = waiting
        self._recovery = recovery
        self._retries: Timers[GroupKey] = Timers()

    def next_due(self) -> float | None:
        """Return when to try again to settle a group for which that failed."""
        return self._retries.next()

    def settle_all(self, now: float) -> None:
        """Settle the groups that have changed, and those that this changes. Each fails at most once."""
        for key in self._retries.pop_due(now):
            self._groups.unsettled.add(key)
        failed: set[GroupKey] = set()
        while groups := self._groups.take_unsettled():
            for group in groups:
                if group.key not in failed and not self._attempt(group, now):
                    failed.add(group.key)

    def _attempt(self, group: Group, now: float) -> bool:
        """Settle a group, or schedule another attempt. Return whether it succeeded."""
        meta = ObjectMeta(group.key.name, group.key.namespace, group.key.uid)
        self._recovery.checkpoint()
        with Attempt(partial(self._recovery.on_failure, "due", "ReservationGroup", meta)) as attempt:
            self.settle(group, now)
        if attempt.error is not None:
            self._recovery.recover(now)
            self._retries.set(group.key, now + attempt.pause)
        self._groups.note_fault(group.key, "" if attempt.error is None else failure_note(attempt.error))
        return attempt.error is None

    def settle(self, group: Group, now: float) -> None:
        """Commit a group that is complete and stored, and break one up that is short."""
        for entry in group.late:  # it ends with the others, even if it never gets capacity
            lifetime.begin(entry, self._groups.begins(entry, now))
            self._records.commit(entry)
            self._endings.expire_if_over(entry, now)
        if not group.complete:
            self._break_up(group, now)
        elif not group.group_committed and any(deadlines.missed(entry) for entry in group.holding):
            self._give_up_together(group, now)
        elif not group.group_committed and group.stored:
            group.set_committed(committed=True)
            for entry in group.holding:
                self._records.commit(entry)

    def _break_up(self, group: Group, now: float) -> None:
        """Let all members of a group that is short wait together, or end if it can't be complete again."""
        group.set_committed(committed=False)
        text = f"{group.served} of the {group.least} reservations that group {group.key.name} needs are left"
        for entry in group.holding:
            self._placement.displace(entry, reasons.GROUP_INCOMPLETE, text, now)
        if group.has_failed:
            for entry in group.waiting:
                text = (
                    f"too many reservations of group {group.key.name} have ended for it to be complete again"
                )
                self._records.end(entry, Event.GIVE_UP, reasons.GROUP_FAILED, text, now)
        elif group.surplus < 0:
            for entry in group.waiting:  # they wait for members now, whatever they were refused for before
                self._waiting.positions_changed |= entry.tried
                entry.tried = False
                self._records.due.update(entry)
        elif group.placement_key != group.tried_with:  # it may have waited for the member that came or went
            group.tried_with = group.placement_key
            self._waiting.retry(group.waiting)

    def _give_up_together(self, group: Group, now: float) -> None:
        """Reject the members of a group that an earlier process stored, and did not commit in time."""
        for entry in group.holding:
            text = "not all reservations of its group were stored in time"
            self._placement.displace(entry, reasons.WAITING, text, now)
        for entry in group.waiting:
            self._endings.give_up(entry, now)
