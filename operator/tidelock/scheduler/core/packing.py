"""Packing: the search for the domain of nodes that takes the most members of a group.

How many a domain takes at most is known before it is tried, from how often what a member asks for is free on
its nodes. So the first that is tried is usually the one, and what can't take enough is not tried at all. What
this does not tell, as of members that keep away from each other, trying does: domain by domain, and as there
may be thousands of them, in more than one step.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from tidelock.cluster.index.labels import Label
from tidelock.framework.api import Counts
from tidelock.framework.profile import Profile
from tidelock.ledger.queue.equivalence import scheduling_hash
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.ledger.sets.groups import Group
from tidelock.scheduler.core.reservation_cycle import ReservationCycle

_MOST, _VALUE = itemgetter(0), itemgetter(1)


@dataclass(slots=True)
class Search:
    """A search, of which a part may be done.

    Attributes:
        left: domains that have not been tried: how many members each takes at most, and its value of the
            label; the last one is the next.
        kinds: how many members differ in what they ask for.
        most: how many members found room in the best of those that were tried.
        best: the value of that one; none if there is none.
        again: whether anything has happened meanwhile for which the group is to be tried anew.

    """

    left: list[tuple[int, str]]
    kinds: int
    most: int = -1
    best: tuple[str, ...] = ()
    again: bool = False

    @property
    def over(self) -> bool:
        """Whether no domain that is left takes more members than the best."""
        return not self.left or self.left[-1][0] <= self.most

    def note(self, value: str, found: int) -> bool:
        """Note how many members found room in a domain; whether it is the best so far."""
        if found <= self.most:
            return False
        self.most, self.best = found, (value,)
        return True


def begin_search(cycle: ReservationCycle, profile: Profile, group: Group, now: float) -> Search:
    """Line up the domains that may take as many members as a group needs: the largest first, then by name.

    If there is none the largest tells why. Where members are already, the others go as well.
    """
    assert group.topology is not None  # noqa: S101
    waiting, label = group.waiting, cycle.label(group.topology.key)
    kinds: defaultdict[Hashable, list[ReservationInfo]] = defaultdict(list)
    for entry in waiting:
        kinds[scheduling_hash(entry) or entry.key].append(entry)
    most = _most(cycle, profile, tuple(kinds.values()), label, now)
    theirs = label.found_at(cycle.rows(group.nodes))[:-1]
    domains = np.flatnonzero(theirs if theirs.any() else label.in_use[:-1]).tolist()
    by_name = sorted(((int(most[code]), label.values[code]) for code in domains), key=_VALUE, reverse=True)
    left = sorted(by_name, key=_MOST)
    needed = len(waiting) - group.spare
    enough = [(takes, value) for takes, value in left if takes >= needed]
    return Search(enough or left[-1:], len(kinds))


def _most(
    cycle: ReservationCycle,
    profile: Profile,
    kinds: Sequence[list[ReservationInfo]],
    label: Label,
    now: float,
) -> Counts:
    """Tell for each value of a label how many members its nodes take at most; those of a kind are alike."""
    most = np.zeros(len(label.values) + 1, np.int64)
    for members in kinds:
        if len(kinds) > 1 and _follows(members[0]):
            most += len(members)  # where others will be is not known
        else:
            counts = np.minimum(cycle.capacities(profile, members[0], now), len(members))
            most += np.minimum(label.totals(counts), len(members))
    return most


def _follows(entry: ReservationInfo) -> bool:
    """Whether a lock's pod has to be near others."""
    pod = entry.reservation.pod
    affinity = pod.spec.affinity if pod is not None else None
    return affinity is not None and affinity.pod_affinity is not None
