"""The pods of nodes as victims: one by one, or all pods of a PodGroup together.

A PodGroup with the disruption mode All is one victim, with its pods on all nodes. On each node it takes what
its pods there request. A pod of a PodGroup has the priority of the group, and is more important than a single
pod of that priority. Of two groups, the one with more pods is more important, then the older one. Without
PodGroups, pods are as they are. Source: kube-scheduler 1.37, framework/preemption (types.go, util.go).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Amounts
from tidelock.cluster.index.pods_by_importance import PodsOfNodes, rank, started
from tidelock.cluster.placed import Placed
from tidelock.cluster.pod_groups import PodGroups, group_of
from tidelock.model.meta import Key
from tidelock.model.pods import Pod


@dataclass(frozen=True, slots=True)
class DisruptedGroup:
    """The pods of a PodGroup that are evicted together, on all nodes, the most important first."""

    pods: tuple[Placed, ...]


PodVictim = Placed | DisruptedGroup


@dataclass(frozen=True, slots=True)
class PodVictims:
    """The victims on T nodes by importance: T x M arrays as in `PodsOfNodes`.

    Attributes:
        pods: the victims of each node.
        there: whether there is a victim.
        priority: their priorities.
        started: when the first pod of each started, in seconds since the epoch, or infinity.
        amounts: T x M x R + 2, the requests on that node.
        sizes: how many pods each has on all nodes.
        grouped: the indexes of nodes with pods of groups.

    """

    pods: Sequence[Sequence[PodVictim]]
    there: npt.NDArray[np.bool_]
    priority: npt.NDArray[np.int64]
    started: npt.NDArray[np.float64]
    amounts: Amounts
    sizes: npt.NDArray[np.int64]
    grouped: frozenset[int] = frozenset()


class VictimGrouping:
    """Finds the pods that must be evicted together."""

    def __init__(self, cache: Cache, groups: PodGroups) -> None:
        self._cache = cache
        self._groups = groups

    def priority(self, pod: Pod) -> int:
        """Return the priority of a pod as a victim, which is that of its PodGroup."""
        group = self._groups.of_pod(pod)
        return pod.spec.priority if group is None else group.spec.priority

    def reaches_below(self, priority: int) -> bool:
        """Return whether the pods of any PodGroup have a lower priority as victims."""
        groups = self._groups
        return any(each.spec.priority < priority and groups.placed(each.key) for each in groups.all())

    def completed(self, pods: Iterable[Placed]) -> tuple[Placed, ...]:
        """Return pods with all others that must be evicted with them."""
        found: dict[str, Placed] = {}
        for placed in pods:
            key = self._disrupted_with(placed.pod)
            found |= {each.pod.uid: each for each in ((placed,) if key is None else self._placed(key))}
        return tuple(found.values())

    def victims(self, on_nodes: PodsOfNodes) -> PodVictims:
        """Return the pods of nodes as victims."""
        made = PodVictims(
            on_nodes.pods,
            on_nodes.there,
            on_nodes.priority,
            on_nodes.started,
            on_nodes.amounts,
            np.ones(on_nodes.there.shape, np.int64),
        )
        return self._grouped(made, on_nodes.pods) if len(self._groups) else made

    def _grouped(self, made: PodVictims, pods: Sequence[Sequence[Placed]]) -> PodVictims:
        """Return the victims in new arrays, with the pods of groups as the groups have it."""
        grouped = frozenset(
            index
            for index, here in enumerate(pods)
            if any(placed.pod.spec.scheduling_group is not None for placed in here)
        )
        if not grouped:
            return made
        victims: list[Sequence[PodVictim]] = list(made.pods)
        there, priority, began = made.there.copy(), made.priority.copy(), made.started.copy()
        amounts, sizes = made.amounts.copy(), made.sizes.copy()
        whole = cache(lambda key: DisruptedGroup(self._placed(key)))
        for index in grouped:
            found: dict[str, tuple[PodVictim, list[int]]] = {}  # by the first pod of each, with its columns
            for column, placed in enumerate(pods[index]):
                key = self._disrupted_with(placed.pod)
                victim = placed if key is None else whole(key)
                found.setdefault(next(pods_of(victim)).pod.uid, (victim, []))[1].append(column)
            ordered = sorted(found.values(), key=lambda each: self._importance(each[0]))
            here = slice(len(ordered))
            victims[index] = [victim for victim, _ in ordered]
            there[index, len(ordered) :] = False
            priority[index, here] = [self.priority(next(pods_of(each)).pod) for each, _ in ordered]
            began[index, here] = [min(map(started, pods_of(each))) for each, _ in ordered]
            amounts[index, here] = [made.amounts[index, columns].sum(axis=0) for _, columns in ordered]
            sizes[index, here] = [sum(1 for _ in pods_of(each)) for each, _ in ordered]
        return PodVictims(victims, there, priority, began, amounts, sizes, grouped)

    def _disrupted_with(self, pod: Pod) -> Key | None:
        """Return the PodGroup with which a pod is evicted, or None if it is evicted alone."""
        group = self._groups.of_pod(pod)
        return group.key if group is not None and group.disrupts_all else None

    def _placed(self, key: Key) -> tuple[Placed, ...]:
        """Return the pods of a PodGroup that are on nodes, the most important first."""
        placed = map(self._cache.get, self._groups.placed(key))
        return tuple(sorted((each for each in placed if each is not None), key=rank))

    def _importance(self, victim: PodVictim) -> tuple[object, ...]:
        """Sort the more important victims first."""
        pods = tuple(pods_of(victim))
        first = pods[0].pod
        alone = group_of(first) is None
        return -self.priority(first), alone, -len(pods), min(map(started, pods)), first.key


def pods_of(victim: PodVictim) -> Iterator[Placed]:
    """Yield the pods of a victim."""
    yield from (victim,) if isinstance(victim, Placed) else victim.pods
