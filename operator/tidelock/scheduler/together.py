"""Groups of locks: as many members as a group needs are given room in one step, or none is.

The members are tried one after the other, each beside the room of those before it, and that is taken back
before anything is decided. So no group ever holds a part of what it needs while it waits for the rest, and
two groups that need the same room cannot keep it from each other.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from tidelock.framework.api import Mask
from tidelock.framework.profile import Profile
from tidelock.ledger import reasons
from tidelock.ledger.book import Book
from tidelock.ledger.entry import Entry
from tidelock.ledger.groups import Group
from tidelock.ledger.quotas import Charge
from tidelock.model.nodes import Node
from tidelock.model.reservations import Phase
from tidelock.scheduler.cycle import Cycle
from tidelock.scheduler.refusal import Refusal


@dataclass(frozen=True, slots=True)
class _Lack:
    """A member that finds no room beside those `before` it, and why; over its quota, none is even sought."""

    entry: Entry
    before: int
    refusal: Refusal
    over_quota: bool = False


_Layout = tuple[list[tuple[Entry, Node]], list[_Lack]]
"""Which members would be where, and which nowhere."""

_Seek = Callable[[Entry, Mask | None], Node | Refusal]
"""Looks for room for a lock on some nodes or on any."""


class Together:
    """Places the waiting members of a group over the cycle's cache and ledger."""

    def __init__(self, book: Book, cycle: Cycle) -> None:
        self._book = book
        self._cycle = cycle

    def awaited(self, entry: Entry) -> Group | None:
        """Give the group with which a lock has to be placed, if it can't be placed by itself."""
        group = self._book.groups.of(entry.reservation)
        if group is None or entry.phase is not Phase.PENDING:
            return None
        return group if group.topology is not None or not group.complete else None

    def first_of_each(self, entries: list[Entry]) -> list[Entry]:
        """Leave one of the locks that have to be placed together, so that each group is tried once."""
        if not self._book.groups:
            return entries
        first = {(self.awaited(entry) or entry): entry for entry in reversed(entries)}
        return list(reversed(first.values()))

    def place(self, profile: Profile, group: Group, now: float) -> None:
        """Find room for a group and hold it, or note why there is none.

        Raises:
            PluginError: a plugin failed; nothing is held.

        """
        waiting, spare = group.waiting, group.spare
        if spare < 0:
            return  # there are members yet to come
        if spare == 0 and (lack := self._quota_lack(waiting)):  # else what one leaves may be another's
            group.over_quota = True
            self._refuse(group, lack, now)
            return
        found, lacks = self._lay_out(profile, group, spare, now)
        group.over_quota = any(lack.over_quota for lack in lacks)
        if len(lacks) > spare:
            self._refuse(group, lacks[-1], now)
            return
        for entry, node in found:
            self._book.admit(entry, node, now)
        for lack in lacks:
            if not lack.over_quota or self._book.within_quota(lack.entry, now):
                self._cycle.refuse_lock(lack.entry, lack.refusal, now)

    def _lay_out(self, profile: Profile, group: Group, spare: int, now: float) -> _Layout:
        """Look for room for all that wait: anywhere, or as the group is to be laid over domains of nodes."""

        def seek(entry: Entry, among: Mask | None = None) -> Node | Refusal:
            return self._cycle.find_room(profile, entry, now, among)

        topology = group.topology
        if topology is None:
            return self._try(group.waiting, spare, seek)
        domains = self._cycle.domains(topology.key)
        nodes = (self._cycle.node(name) for name in group.nodes)
        counts = Counter(node.meta.labels.get(topology.key, "") for node in nodes if node is not None)
        if topology.mode == "Spread":
            spread = partial(_in_the_emptiest, seek=seek, domains=domains, counts=counts, key=topology.key)
            return self._try(group.waiting, spare, spread)
        layouts = []
        for among in [domains[name] for name in domains if name in counts] or domains.values():
            layouts.append(self._try(group.waiting, spare, partial(seek, among=among)))
            if not layouts[-1][1]:
                break
        return max(layouts, key=lambda layout: len(layout[0]))

    def _try(self, waiting: list[Entry], spare: int, seek: Callable[[Entry], Node | Refusal]) -> _Layout:
        """Look for room for each beside all before it, until more than can be spared have none."""
        found: list[tuple[Entry, Node]] = []
        lacks: list[_Lack] = []
        beside = Charge()
        with self._book.rooms.trial() as count:
            for entry in waiting:
                if problem := self._book.quotas.problem(entry, beside):
                    lacks.append(_excess(entry, len(found), problem))
                elif isinstance(room := seek(entry), Node):
                    found.append((entry, room))
                    count(entry, room)
                    beside += Charge.asked_for(entry)
                else:
                    lacks.append(_Lack(entry, len(found), room))
                if len(lacks) > spare:
                    break
        return found, lacks

    def _quota_lack(self, waiting: list[Entry]) -> _Lack | None:
        """Find the first that a quota does not allow beside those before it, wherever they may find room."""
        beside = Charge()
        for number, entry in enumerate(waiting):
            if problem := self._book.quotas.problem(entry, beside):
                return _excess(entry, number, problem)
            beside += Charge.asked_for(entry)
        return None

    def _refuse(self, group: Group, lack: _Lack, now: float) -> None:
        """Say of all members how many would have found room, and what the next one lacks."""
        entry, refusal = lack.entry, lack.refusal
        reason = reasons.QUOTA_EXCEEDED if lack.over_quota else self._cycle.reason(entry, refusal)
        needed = group.least - group.served
        text = (
            f"group {group.key.name} needs room for {needed} locks at once, and {lack.before} would have some"
            f"; {entry.key.name} beside them: {refusal.message}"
        )
        self._book.refuse_together(group, reason, text, now, refusal.plugins)


def _in_the_emptiest(
    entry: Entry, *, seek: _Seek, domains: Mapping[str, Mask], counts: Counter[str], key: str
) -> Node | Refusal:
    """Look for room in the domains with the fewest members, then in those with one more, and so on."""
    for least in sorted({counts[name] for name in domains}):
        among = np.logical_or.reduce([domains[name] for name in domains if counts[name] == least])
        room = seek(entry, among)
        if isinstance(room, Node):
            counts[room.meta.labels[key]] += 1
            return room
    return seek(entry, np.logical_or.reduce(list(domains.values())))


def _excess(entry: Entry, before: int, problem: str) -> _Lack:
    return _Lack(entry, before, Refusal(problem, frozenset()), over_quota=True)
