"""ReservationGroups' side of the API: makes their members, and tells in their status what became of them."""

from collections.abc import Collection, Sequence
from typing import Any

from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.ledger.book import Book
from tidelock.ledger.groups import Group, GroupKey
from tidelock.ledger.groupstatus import render_group
from tidelock.model.lockgroups import ReservationGroup, decode_group
from tidelock.model.meta import Key
from tidelock.scheduler.keeping import Keeper
from tidelock.scheduler.tools import Tools


class GroupKeeper(Keeper[ReservationGroup]):
    """Takes groups in, and makes each what it ought to be."""

    def __init__(self, tools: Tools, book: Book) -> None:
        super().__init__(tools, book, RESERVATIONGROUPS, decode_group)
        book.groups.on_change(self._note)

    def _asked_for(self, kept: ReservationGroup) -> Sequence[str]:
        return list(kept.members) if kept.finished_at is None else ()

    def _there(self, kept: ReservationGroup) -> Collection[Key]:
        group = self._members_of(kept)
        return group.members if group is not None else ()

    def _manifest(self, kept: ReservationGroup, name: str) -> dict[str, Any]:
        return kept.manifest(name)

    def _wanted(self, kept: ReservationGroup, problem: str) -> object:
        return render_group(kept, self._members_of(kept), self._clock.now(), problem)

    def _removable(self, kept: ReservationGroup) -> bool:
        return kept.removable_at is not None and kept.removable_at <= self._clock.now()

    def _next_look(self, kept: ReservationGroup) -> float | None:
        return kept.removable_at

    def _members_of(self, kept: ReservationGroup) -> Group | None:
        return self._book.groups.get(GroupKey(*kept.key, kept.meta.uid))
