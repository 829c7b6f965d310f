"""Races for capacity: bindings that took capacity of a node from pods that waited at that moment.

A pod loses a race on a node if the node fitted it right before another pod was bound there, and does not fit
it right afterwards. It loses its last chance if no other node fits it either.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidelock.framework.api import Mask
from tidelock.model.pods import Pod
from tidelock.shadow.open_pods import OpenPod, OpenPods
from tidelock.shadow.results import RaceExample, RaceResults
from tidelock.shadow.statistics import FrequentKeys, Sample, quantile
from tidelock.shadow.world import ShadowWorld

# Kinds of waiting pods that are looked at for each binding: half of the cached ones. Others are counted, and
# not looked at.
_MOST_KINDS = 32
_EXAMPLES = 20
_PAIRS = 256
_SHOWN_PAIRS = 10
_WAITS = 1000


@dataclass(frozen=True, slots=True)
class Contenders:
    """Waiting pods of one kind for which a node fits, right before another pod is bound to it."""

    pods: Sequence[OpenPod]


class Races:
    """Counts the races of bindings that are reported before and after the cache counts them."""

    def __init__(self, world: ShadowWorld, open_pods: OpenPods, seed: int) -> None:
        self._world = world
        self._open = open_pods
        self._bindings = self._contested = self._between = 0
        self._losses = self._last = self._last_between = self._overfilled = self._unexamined = 0
        self._pairs = FrequentKeys[tuple[str, str]](_PAIRS)
        self._waits = Sample[float](_WAITS, seed)
        self._examples = Sample[RaceExample](_EXAMPLES, seed)

    def contenders(self, winner: Pod, node_name: str, now: float) -> list[Contenders]:
        """Return the waiting pods for which the node fits, apart from the pod that gets it."""
        self._unexamined += max(self._open.kind_count - _MOST_KINDS, 0)
        found = []
        for pods in self._open.kinds(_MOST_KINDS):
            others = [each for each in pods if each.pod.uid != winner.uid]
            if others and self._fits(self._world.fitting(others[0].pod, now), node_name):
                found.append(Contenders(others))
        return found

    def bound(
        self, winner: OpenPod, node_name: str, contenders: Sequence[Contenders], now: float
    ) -> tuple[int, bool]:
        """Count a binding that the cache counts by now.

        Return how many pods lost the node by it, and whether one of them belongs to another manager.
        """
        self._bindings += 1
        self._overfilled += self._is_overfilled(node_name)
        if winner.lost_at is not None:
            self._waits.add(now - winner.lost_at)
        losers: list[OpenPod] = []
        last: list[OpenPod] = []
        for each in contenders:
            fits = self._world.fitting(each.pods[0].pod, now)
            if fits is None or self._fits(fits, node_name):
                continue
            losers += each.pods
            if not fits.any():
                last += each.pods
        self._count(winner, node_name, losers, last, now)
        return len(losers), any(each.manager != winner.manager for each in losers)

    def _count(
        self,
        winner: OpenPod,
        node_name: str,
        losers: Sequence[OpenPod],
        last: Sequence[OpenPod],
        now: float,
    ) -> None:
        if not losers:
            return
        others = [each for each in losers if each.manager != winner.manager]
        self._contested += 1
        self._between += bool(others)
        self._losses += len(losers)
        for each in last:
            if each.lost_at is None:
                each.lost_at = now
                self._last += 1
                self._last_between += each.manager != winner.manager
        for manager in dict.fromkeys(each.manager for each in others):
            self._pairs.add((winner.manager, manager))
        loser = (others or losers)[0]
        self._examples.add(
            RaceExample(
                at=now,
                node=node_name,
                winner=str(winner.pod.key),
                winner_manager=winner.manager,
                loser=str(loser.pod.key),
                loser_manager=loser.manager,
                losers=len(losers),
                last_capacity=bool(last),
            )
        )

    def results(self) -> RaceResults:
        """Return the counts so far."""
        waits = self._waits.values
        return RaceResults(
            bindings=self._bindings,
            contested=self._contested,
            between_managers=self._between,
            lost_nodes=self._losses,
            lost_last=self._last,
            lost_last_between_managers=self._last_between,
            bound_after_loss=self._waits.count,
            wait_after_loss_p50=quantile(waits, 0.5),
            wait_after_loss_p99=quantile(waits, 0.99),
            overfilled=self._overfilled,
            unexamined=self._unexamined,
            pairs=[(one, other, count) for (one, other), count in self._pairs.most(_SHOWN_PAIRS)],
            examples=sorted(self._examples.values, key=lambda each: each.at),
        )

    def _fits(self, fits: Mask | None, node_name: str) -> bool:
        row = self._world.cache.columns.row_of.get(node_name)
        return fits is not None and row is not None and bool(fits[row])

    def _is_overfilled(self, node_name: str) -> bool:
        """Return whether the pods of a node request more than it has."""
        return bool(self._world.cache.columns.shortfall(node_name))
