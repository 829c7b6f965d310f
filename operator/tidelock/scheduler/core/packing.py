"""Packing: the search for the domain of nodes that takes the most members of a group.

An upper bound for each domain follows from how often a member's request is free on its nodes. So the first
domain under trial is usually the best, and too small ones are not tried at all. Trials find everything that
the bound ignores, such as members that avoid each other. With thousands of domains they take several steps.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from tidelock.cluster.index.labels import Label
from tidelock.framework.api import Counts
from tidelock.framework.profile import Profile
from tidelock.ledger.queue.equivalence import placement_demand
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group
from tidelock.scheduler.core.reservation_cycle import ReservationCycle

_MOST, _VALUE = itemgetter(0), itemgetter(1)


@dataclass(slots=True)
class Search:
    """A search, which may be done in part.

    Attributes:
        left: untried domains: the upper bound of members of each, and its value of the label. The last one is
            next.
        kinds: number of different requests among the members.
        most: number of members that fit in the best domain so far.
        best: the value of that domain, or None.
        again: whether something has happened meanwhile, so the group must be tried again.

    """

    left: list[tuple[int, str]]
    kinds: int
    most: int = -1
    best: tuple[str, ...] = ()
    again: bool = False

    @property
    def over(self) -> bool:
        """Whether no untried domain takes more members than the best."""
        return not self.left or self.left[-1][0] <= self.most

    def note(self, value: str, found: int) -> bool:
        """Note how many members fit in a domain. Return whether it is the best so far."""
        if found <= self.most:
            return False
        self.most, self.best = found, (value,)
        return True


def begin_search(cycle: ReservationCycle, profile: Profile, group: Group, now: float) -> Search:
    """Return a search of the domains that may take enough members: the largest first, then by name.

    If there is none, the largest shows why. A domain with placed members is the only one.
    """
    assert group.topology is not None  # noqa: S101
    waiting, label = group.waiting, cycle.label(group.topology.key)
    kinds: defaultdict[Hashable, list[ReservationInfo]] = defaultdict(list)
    for entry in waiting:
        kinds[placement_demand(entry)].append(entry)
    most = _most(cycle, profile, tuple(kinds.values()), label, now)
    theirs = label.found_at(cycle.rows(group.nodes))[:-1]
    domains = np.flatnonzero(theirs if theirs.any() else label.in_use[:-1]).tolist()
    by_name = sorted(((int(most[code]), label.values[code]) for code in domains), key=_VALUE, reverse=True)
    left = sorted(by_name, key=_MOST)
    needed = len(waiting) - group.surplus
    enough = [(takes, value) for takes, value in left if takes >= needed]
    return Search(enough or left[-1:], len(kinds))


def _most(
    cycle: ReservationCycle,
    profile: Profile,
    kinds: Sequence[list[ReservationInfo]],
    label: Label,
    now: float,
) -> Counts:
    """Return the upper bound of members for each value of a label. Members of one kind are equal."""
    most = np.zeros(len(label.values) + 1, np.int64)
    for members in kinds:
        if len(kinds) > 1 and _follows(members[0]):
            most += len(members)  # where others will be is not known
        else:
            counts = np.minimum(cycle.capacities(profile, members[0], now), len(members))
            most += np.minimum(label.totals(counts), len(members))
    return most


def _follows(entry: ReservationInfo) -> bool:
    """Return whether a reservation's pod must be near others."""
    pod = entry.reservation.pod
    affinity = pod.spec.affinity if pod is not None else None
    return affinity is not None and affinity.pod_affinity is not None
