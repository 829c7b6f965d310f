"""Estimates: how many more pods, or sets of different pods, the cluster takes now. Nothing is held.

A pod alone is counted as a quote counts it. Pods of several kinds are packed greedily in a trial: those with
the fewest places first, and each kind on the nodes that are left with the least capacity for it. So an
estimate is never more than fits, and it may be less, as the best packing of different pods takes too long to
find.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.framework.profile import Profile
from tidelock.model.api.reservation_quote import MOST_COUNTED
from tidelock.model.pods import Pod
from tidelock.scheduler.core.equal_pods import EqualPods
from tidelock.scheduler.core.pipeline import FilterPipeline

_PRECISION = 100


@dataclass(frozen=True, slots=True)
class PodSet:
    """Some equal pods.

    Attributes:
        pod: a reserve pod that stands for each of them.
        count: how many there are.

    """

    pod: Pod
    count: int


class CapacityEstimator:
    """Estimates over the cache, which stays as it is. `assumed` pods are taken off before each estimate.

    Of assumed pods that do not fit, as many are taken off as do.
    """

    def __init__(self, cache: Cache, pipeline: FilterPipeline) -> None:
        """Take the cluster, and the filters of a decision."""
        self._cache = cache
        self._pipeline = pipeline

    def replicas(self, profile: Profile, pod: Pod, assumed: Sequence[PodSet], now: float) -> int:
        """Return how many pods equal to this one fit, up to MOST_COUNTED.

        Raises:
            PluginError: a plugin failed.

        """
        packing = self._packing(profile, assumed, now) if assumed else None
        with self._pipeline.evaluate(profile, pod, now, own=()) as evaluation:
            first = evaluation.best()
            if first is None:
                return 0
            nodes = evaluation.snapshot if packing is None else packing.nodes
            return EqualPods(evaluation).total(nodes, first)

    def sets(self, profile: Profile, members: Sequence[PodSet], assumed: Sequence[PodSet], now: float) -> int:
        """Return how many times all members fit together, up to MOST_COUNTED, to within a hundredth.

        The pods are packed by their amounts, without affinity between them and without spread constraints.

        Raises:
            PluginError: a plugin failed.

        """
        packing = self._packing(profile, assumed, now)
        asked = [(self._equal(profile, each.pod, now), each.count) for each in members if each.count > 0]
        places = {pods: int(pods.counts(packing.nodes).sum()) for pods, _ in asked}
        asked.sort(key=lambda each: places[each[0]])
        most = min((places[pods] // count for pods, count in asked), default=MOST_COUNTED)
        return _largest(partial(packing.takes, asked), min(most, MOST_COUNTED))

    def _packing(self, profile: Profile, assumed: Sequence[PodSet], now: float) -> "_Packing":
        """Begin a trial with the assumed pods in their places."""
        packing = _Packing(self._cache)
        for each in assumed:
            packing.place(self._equal(profile, each.pod, now), each.count)
        packing.keep()
        return packing

    def _equal(self, profile: Profile, pod: Pod, now: float) -> EqualPods:
        with self._pipeline.evaluate(profile, pod, now, own=()) as evaluation:
            evaluation.filter()
            return EqualPods(evaluation)


class _Packing:
    """A copy of what all nodes have to give, on which pods are placed in a trial.

    Attributes:
        nodes: the nodes with the amounts of the placed pods.

    """

    def __init__(self, cache: Cache) -> None:
        snapshot = cache.snapshot()
        self.nodes = replace(snapshot, requested=snapshot.requested.copy())
        self._kept = self.nodes.requested.copy()

    def keep(self) -> None:
        """Keep the pods that are placed now in all trials that follow."""
        np.copyto(self._kept, self.nodes.requested)

    def place(self, pods: EqualPods, number: int) -> int:
        """Place so many equal pods, on the tightest nodes first. Return how many would fit."""
        counts = pods.counts(self.nodes)
        rows = counts.nonzero()[0]
        if not len(rows):
            return 0
        rows = rows[np.argsort(counts[rows], kind="stable")]
        ends = counts[rows].cumsum()
        taken = np.clip(number - (ends - counts[rows]), 0, counts[rows])
        used = taken > 0
        self.nodes.requested[rows[used]] += np.multiply.outer(
            taken[used], self.nodes.vector(pods.pod.requests)
        )
        return int(ends[-1])

    def takes(self, members: Sequence[tuple[EqualPods, int]], size: int) -> int:
        """Place so many sets of the members beside the kept pods.

        Return at least the size if all fit, otherwise how many sets fit of the first member that does not.
        """
        np.copyto(self.nodes.requested, self._kept)
        least = MOST_COUNTED
        for pods, count in members:
            least = min(least, self.place(pods, size * count) // count)
            if least < size:
                break
        return least


def _largest(takes: Callable[[int], int], most: int) -> int:
    """Return the largest size that fits, or less than that by at most a hundredth.

    `takes` returns at least the size if that fits. Otherwise it returns how many fit of the part that does
    not, which guides the search: regula falsi in the Illinois variant, as a size takes capacity from other
    parts nearly in proportion. The result has been tried, so it fits even if packing succeeds with a larger
    size and fails with a smaller one.
    """
    fitting, failing, size = 0, most + 1, most
    spare, short = float(most), 0.0  # how far both ends are from the sizes that they take
    fitted = None
    while failing - fitting > 1 + fitting // _PRECISION:
        found = takes(size)
        if found >= size:
            short = short / 2 if fitted is True else short
            fitting, spare, fitted = size, float(found - size), True
        else:
            spare = spare / 2 if fitted is False else spare
            failing, short, fitted = size, float(size - found), False
        step = 1 + fitting // _PRECISION
        guess = fitting + int((failing - fitting) * spare / (spare + short)) if short else failing
        size = max(fitting + step, min(guess, failing - step))
    return fitting
