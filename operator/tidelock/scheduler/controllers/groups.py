"""Creates the members of ReservationGroups, and writes the statuses of the groups."""

from functools import partial
from typing import Any

from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.output.group_status import has_begun, missed_deadline, render_group, render_leaving_group
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group, GroupKey
from tidelock.model.api.reservation import Phase
from tidelock.model.reservation_group import ReservationGroup, decode_group
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.controllers.base import DesiredState, Reconciler


class GroupController(Reconciler[ReservationGroup]):
    """Takes groups in, and reconciles each."""

    def __init__(self, context: WriterContext, ledger: Ledger) -> None:
        super().__init__(context, ledger, RESERVATIONGROUPS, decode_group)
        ledger.groups.on_change(self._compare_later)

    def _desired_state(self, kept: ReservationGroup) -> DesiredState:
        group, now = self._group(kept), self._clock.now()
        over = kept.finished_at is not None or missed_deadline(kept, group, now)
        return DesiredState(
            names=() if over else list(kept.members),
            there=group.members if group is not None else (),
            status=partial(render_group, kept, group, now),
            next_look=kept.removable_at,
            surplus=_unwanted_members(kept, group),
            removable=kept.removable_at is not None and kept.removable_at <= now,
        )

    def _final_status(self, kept: ReservationGroup) -> dict[str, Any]:
        return render_leaving_group(kept, self._clock.now())

    def _group(self, kept: ReservationGroup) -> Group | None:
        return self._ledger.groups.get(GroupKey(*kept.key, kept.meta.uid))

    def _manifest(self, kept: ReservationGroup, name: str) -> dict[str, Any]:
        group = self._group(kept)
        if has_begun(kept, group):
            return kept.manifest(name)  # it replaces a member that is gone, and waits as long as a new one
        return kept.manifest(name, kept.waited(self._clock.now()))


def _unwanted_members(kept: ReservationGroup, group: Group | None) -> list[ReservationInfo]:
    """List the members that hold capacity though their group was rejected: a late request created one.

    The manager has read that it gets nothing, and has gone elsewhere.
    """
    rejected = kept.status.get("phase") == Phase.REJECTED and "activatedAt" not in kept.status
    if group is None or not rejected:
        return []
    return [entry for entry in group.members.values() if entry.phase is Phase.ACTIVE]
