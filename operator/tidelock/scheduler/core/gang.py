"""Gang scheduling: as many members as a group needs get capacity in one step, or none does.

The members are tried one after the other, each beside those before it, and these trials are undone before
anything is decided. A member that does not fit beside others is tried before them in the next step, a few
times. So no group ever holds a part of its needs while it waits for the rest, and two groups
can't block each other. A group that must be packed may be tried in many domains over several steps. The final
decision is made in one step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tidelock.framework.api import Mask
from tidelock.framework.profile import Profile
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.queue.equivalence import placement_demand
from tidelock.ledger.queue.quotas import Charge
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group, GroupKey, is_placed_together
from tidelock.model import reasons
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.packing import Search, begin_search
from tidelock.scheduler.core.reservation_cycle import PlacementTarget, ReservationCycle

# After so many members that were tried the search for a domain goes on in a later step.
_TRIES_A_STEP = 64
# So many members are tried before those that leave them no capacity, one more in each step.
_MOST_TRIED_FIRST = 4


@dataclass(frozen=True, slots=True)
class _UnplacedMember:
    """A member that does not fit beside those `before` it, and why. Over its quota it is not tried."""

    entry: ReservationInfo
    before: int
    diagnosis: Diagnosis
    over_quota: bool = False


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which members would be where, and which nowhere."""

    found: list[tuple[ReservationInfo, PlacementTarget]]
    unplaced_members: list[_UnplacedMember]


class GangScheduler:
    """Places the waiting members of a group over the cycle's cache and ledger.

    Attributes:
        tries: how many members were tried so far.

    """

    def __init__(self, ledger: Ledger, cycle: ReservationCycle) -> None:
        self.tries = 0
        self._ledger = ledger
        self._cycle = cycle
        self._searches: dict[GroupKey, Search] = {}

    @property
    def searching(self) -> bool:
        """Whether domains are left to try for any group."""
        return bool(self._searches)

    def first_of_each(self, entries: list[ReservationInfo]) -> list[ReservationInfo]:
        """Return the reservations without all but the first of each group, so a group is tried once."""
        groups = self._ledger.groups
        if not groups:
            return entries
        is_together = cache(is_placed_together)  # looks at all members, for the first of them only
        first: dict[Group | ReservationInfo, ReservationInfo] = {}
        for entry in reversed(entries):
            group = groups.pending(entry)
            first[group if group is not None and is_together(group) else entry] = entry
        return list(reversed(first.values()))

    def place(self, profile: Profile, group: Group, now: float) -> None:
        """Reserve capacity for a group, note why there is none, or begin to search for a domain.

        Raises:
            PluginError: a plugin failed. Nothing is held.

        """
        if group.surplus < 0:
            self._mark_inadmissible(group)  # members are missing
            return
        search = self._searches.get(group.key)
        if search is not None:
            search.again = True
            self._mark_inadmissible(group)
        elif not self._refuse_for_quota(group, now):
            if group.topology is not None and group.topology.mode == "Pack":
                search = begin_search(self._cycle, profile, group, now)
                self._search(profile, group, search, now, tried=search.kinds)
            else:
                self._conclude(group, self._lay_out(profile, group, now), now)

    def go_on(self, profile: Profile, group: Group, now: float) -> None:
        """Go on with the search of a domain for a group. Raises the errors of `place`."""
        search = self._searches.pop(group.key)
        if not self._refuse_for_quota(group, now):
            self._search(profile, group, search, now)

    def next_searched(self) -> Group | None:
        """Return a group with domains left to try, each in its turn."""
        groups = self._ledger.groups
        for key in tuple(self._searches):
            search = self._searches.pop(key)
            group = groups.get(key)
            if (
                group is not None
                and group.waiting
                and groups.awaited(group.waiting[0])
                and group.surplus >= 0
            ):
                self._searches[key] = search
                return group
        return None

    def _search(self, profile: Profile, group: Group, search: Search, now: float, tried: int = 0) -> None:
        """Try some of the domains that are left, and conclude if no other can be better."""
        assert group.topology is not None  # noqa: S101
        label = self._cycle.label(group.topology.key)

        def attempt(*values: str) -> _Layout:
            among = label.among(values)
            return self._try(group, partial(self._cycle.find_node, profile, now=now, among=among))

        layout: _Layout | None = None
        enough = self.tries + _TRIES_A_STEP
        self.tries += tried
        while not search.over and self.tries < enough:
            _, value = search.left.pop()
            made = attempt(value)
            if search.note(value, len(made.found)):
                layout = made
        if not search.over:
            self._searches[group.key] = search
            self._mark_inadmissible(group)
            return
        self._conclude(group, layout or attempt(*search.best), now)
        if search.again:
            self._ledger.waiting_reservations.retry(group.waiting[:1])

    def _mark_inadmissible(self, group: Group) -> None:
        """Retry a group once capacity comes free, while domains or members are left."""
        for entry in group.waiting:
            self._ledger.waiting_reservations.mark_inadmissible(entry)

    def _lay_out(self, profile: Profile, group: Group, now: float) -> _Layout:
        """Try the members on all nodes, or each one in a domain with the fewest placed members."""
        seek = partial(self._cycle.find_node, profile, now=now)
        if group.topology is None:
            return self._try(group, seek)
        key = group.topology.key
        label = self._cycle.label(key)
        counts = np.bincount(label.codes[self._cycle.rows(group.nodes)] + 1, minlength=len(label.values) + 1)

        def narrow(fits: Mask) -> Mask:
            members = counts[label.codes + 1]
            fewest: Mask = fits & (members == members[fits].min())
            return fewest

        def spread(entry: ReservationInfo) -> PlacementTarget | Diagnosis:
            answer = seek(entry, among=label.borne, narrow=narrow)
            if isinstance(answer, PlacementTarget):
                counts[label.code_of[answer.node.meta.labels[key]] + 1] += 1
            return answer

        return self._try(group, spread)

    def _conclude(self, group: Group, layout: _Layout, now: float) -> None:
        """Reserve the found capacity if enough members fit, and note the shortfall of the others."""
        group.over_quota = any(unplaced.over_quota for unplaced in layout.unplaced_members)
        if len(layout.unplaced_members) > group.surplus:
            if not self._try_first(group, layout.unplaced_members[-1]):
                self._refuse(group, layout.unplaced_members[-1], now)
            return
        group.tried_first = ()
        for entry, site in layout.found:
            self._ledger.placement.admit(entry, site.node, now, site.devices)
        for unplaced in layout.unplaced_members:
            if not unplaced.over_quota or self._ledger.admission.within_quota(unplaced.entry, now):
                self._cycle.refuse(unplaced.entry, unplaced.diagnosis, now)

    def _try_first(self, group: Group, unplaced: _UnplacedMember) -> bool:
        """Schedule another trial with a member before those that leave it no capacity, if that may help.

        The nodes of members depend on scores. So a group of different members may fit in another order though
        no capacity came free. Source: Lecoutre and others, "Last conflict based reasoning", ECAI 2006.
        """
        entry, first = unplaced.entry, group.tried_first
        others = {placement_demand(other) for other in group.order_of_trials[: unplaced.before]}
        if (
            unplaced.over_quota
            or entry.key in first
            or len(first) == _MOST_TRIED_FIRST
            or others <= {placement_demand(entry)}
        ):
            group.tried_first = ()
            return False
        group.tried_first = (entry.key, *first)
        self._ledger.waiting_reservations.retry(group.waiting[:1])
        return True

    def _try(self, group: Group, seek: Callable[[ReservationInfo], PlacementTarget | Diagnosis]) -> _Layout:
        """Try each member beside all before it, until too many do not fit."""
        found: list[tuple[ReservationInfo, PlacementTarget]] = []
        unplaced_members: list[_UnplacedMember] = []
        beside, spare = Charge(), group.surplus
        with self._ledger.holdings.trials.place() as count:
            for entry in group.order_of_trials:
                self.tries += 1
                if problem := self._ledger.quotas.problem(entry, beside):
                    unplaced_members.append(_excess(entry, len(found), problem))
                elif isinstance(answer := seek(entry), PlacementTarget):
                    found.append((entry, answer))
                    count(entry, *answer)
                    beside += self._ledger.quotas.asked(entry)
                else:
                    unplaced_members.append(_UnplacedMember(entry, len(found), answer))
                if len(unplaced_members) > spare:
                    break
        return _Layout(found, unplaced_members)

    def _refuse_for_quota(self, group: Group, now: float) -> bool:
        """Refuse a group if a quota allows too few members. Return whether it did."""
        if group.surplus > 0:
            return False  # the rest of one's quota may suffice for another
        beside = Charge()
        for number, entry in enumerate(group.waiting):
            if problem := self._ledger.quotas.problem(entry, beside):
                group.over_quota = True
                self._refuse(group, _excess(entry, number, problem), now)
                return True
            beside += self._ledger.quotas.asked(entry)
        return False

    def _refuse(self, group: Group, unplaced: _UnplacedMember, now: float) -> None:
        """Refuse all members: the message has the number that fit, and the shortfall of the next one."""
        entry, diagnosis = unplaced.entry, unplaced.diagnosis
        reason = reasons.QUOTA_EXCEEDED if unplaced.over_quota else self._cycle.reason(entry, diagnosis)
        needed = group.least - group.served
        text = (
            f"group {group.key.name} {too_few_text(needed, unplaced.before)}; "
            f"{entry.key.name} does not: {diagnosis.message}"
        )
        self._ledger.admission.refuse_group(group, reason, text, now, diagnosis.plugins)


def _excess(entry: ReservationInfo, before: int, problem: str) -> _UnplacedMember:
    return _UnplacedMember(entry, before, Diagnosis(problem, frozenset()), over_quota=True)


def too_few_text(needed: int, fit: int) -> str:
    """Say that fewer members of a group fit than it needs."""
    return f"needs capacity for {needed} reservations at once, and {fit} fit"
