"""Capacity that is kept for reservations that wait: on the node of a migration plan, and by backfill.

The nominator keeps it, as it does for pods that preempt. The amounts follow from the records.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from tidelock.cluster.nominator import Earmark, Nominator
from tidelock.ledger.lifecycle.migration import MigrationPlan
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.records import Records
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.work_queue import WorkQueue

_MOVE_REASONS = {
    Event.PLAN_MOVES: reasons.MOVE_PLANNED,
    Event.MOVE: reasons.MOVING,
    Event.DROP_MOVES: reasons.NO_MOVES,
}


class Nominations:
    """Migration plans and the backfill reservation, an index of the ledger.

    Attributes:
        planned: reservations with a plan that were written, for the defragmentation controller.

    """

    def __init__(self, records: Records, nominator: Nominator) -> None:
        self.planned = WorkQueue[ReservationInfo]()
        self._records = records
        self._nominator = nominator

    def restore(self, entry: ReservationInfo) -> None:
        """Keep the capacity that the status of a new reservation says is kept."""
        self._nominate_planned(entry)
        if entry.earmark:
            self._keep(entry, entry.earmark, -inf)

    # Migration plans.

    def plan_moves(
        self, entry: ReservationInfo, plan: MigrationPlan | None, event: Event | None, text: str, now: float
    ) -> None:
        """Set or replace the migration plan of a waiting reservation, or end it for the reason in `text`."""
        if plan is None:
            entry.end_plan()
            entry.move_problem = text
        else:
            entry.plan = plan
        self._nominate_planned(entry)
        if event is not None:
            self._records.note(entry, event, _MOVE_REASONS[event], text, now, now)
        self._records.commit(entry)

    def note_progress(self, entry: ReservationInfo, plan: MigrationPlan) -> None:
        """Note which evictions of a plan under way have been requested, or did not happen."""
        entry.plan = plan

    def note_plan(self, entry: ReservationInfo) -> None:
        """Note for the defragmentation controller that a reservation with a plan was written."""
        if entry.plan is not None:
            self.planned.add(entry)

    # The backfill reservation.

    def set_earmark(self, entry: ReservationInfo, node_name: str, at: float, now: float) -> None:
        """Keep capacity that becomes free on a node for a waiting reservation.

        Pods that are gone by `at` may use it until then.
        """
        self._keep(entry, node_name, at)
        if entry.earmark != node_name:
            entry.earmark = node_name
            text = f"capacity that comes free on {node_name} is kept for it"
            self._records.note(entry, Event.EARMARK, reasons.EARMARKED, text, now, now)
            self._records.commit(entry)

    def renew_earmark(self, entry: ReservationInfo) -> None:
        """Keep the same capacity for a reservation with another priority."""
        kept = self._nominator.earmark
        if entry.earmark and kept is not None and kept.pod.uid == entry.uid:
            self._keep(entry, kept.node_name, kept.at)

    def end_earmark(self, entry: ReservationInfo) -> None:
        """Keep no capacity for a reservation any more."""
        if entry.earmark:
            entry.earmark = ""
            self._nominator.end_earmark(entry.uid)
            self._records.publish(entry.key)

    # The index.

    def update(self, entry: ReservationInfo) -> None:
        """Keep nothing for a reservation that doesn't wait for it any more."""
        if entry.phase is not Phase.PENDING:
            self._nominator.end_earmark(entry.uid)
        if not entry.wanting:
            self._nominator.remove(entry.uid)  # not as placed, because held capacity is no pod on the node

    def remove(self, entry: ReservationInfo) -> None:
        """Keep nothing for a reservation that is gone."""
        self.planned.discard(entry)
        self._nominator.end_earmark(entry.uid)
        self._nominator.remove(entry.uid)

    def contents(self) -> Mapping[Any, object]:
        """Return nothing: preemption nominates reservations too, so not all follows from the records."""
        return {}

    def _nominate_planned(self, entry: ReservationInfo) -> None:
        """Keep the capacity that evictions of a plan under way free on its node."""
        pod = entry.reservation.pod
        if pod is not None and entry.plan is not None and entry.plan.under_way:
            self._nominator.nominate(pod, entry.plan.node)
        else:
            self._nominator.remove(entry.uid)

    def _keep(self, entry: ReservationInfo, node_name: str, at: float) -> None:
        pod = entry.reservation.pod
        if pod is not None:
            self._nominator.set_earmark(Earmark(pod, node_name, at))
