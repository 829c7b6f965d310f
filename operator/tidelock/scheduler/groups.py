"""ReservationGroups' side of the API: makes their members, and tells in their status what became of them."""

from functools import partial
from typing import Any

from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.ledger.book import Book
from tidelock.ledger.groups import GroupKey
from tidelock.ledger.groupstatus import render_group
from tidelock.model.lockgroups import ReservationGroup, decode_group
from tidelock.scheduler.keeping import Demand, Keeper
from tidelock.scheduler.tools import Tools


class GroupKeeper(Keeper[ReservationGroup]):
    """Takes groups in, and makes each what it ought to be."""

    def __init__(self, tools: Tools, book: Book) -> None:
        super().__init__(tools, book, RESERVATIONGROUPS, decode_group)
        book.groups.on_change(self._note)

    def _demand(self, kept: ReservationGroup) -> Demand:
        group, now = self._book.groups.get(GroupKey(*kept.key, kept.meta.uid)), self._clock.now()
        return Demand(
            names=list(kept.members) if kept.finished_at is None else (),
            there=group.members if group is not None else (),
            status=partial(render_group, kept, group, now),
            next_look=kept.removable_at,
            removable=kept.removable_at is not None and kept.removable_at <= now,
        )

    def _manifest(self, kept: ReservationGroup, name: str) -> dict[str, Any]:
        return kept.manifest(name)
