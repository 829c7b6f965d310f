"""Tidelock's decisions over the same objects: the feed and the decider that serve a cluster."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from tidelock.cluster.objects import Lister
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code, PreScore
from tidelock.framework.config import read_configuration
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.moment import Moment
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.cycle import Assumed
from tidelock.scheduler.decider import Decider, Unschedulable
from tidelock.scheduler.feed import Feed
from tidelock.scheduler.watches import OTHERS

_NOW = 1_800_000_000.0


class _Clock:
    def now(self) -> float:
        return _NOW

    def monotonic(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Judgement:
    """What the plugins say of a pod, by node; `scores` are weighted, by plugin.

    `beyond_help` counts the nodes where no eviction would make room.
    """

    node_name: str
    message: str
    feasible: set[str]
    scores: dict[str, dict[str, int]]
    beyond_help: int


class TidelockSide:
    """A scheduler that knows what the API server has."""

    def __init__(
        self,
        configuration: str,
        others: Mapping[str, Iterable[bytes]],
        nodes: Iterable[bytes],
        pods: Iterable[bytes],
    ) -> None:
        """Take over a KubeSchedulerConfiguration and all objects; `others` by the names of OTHERS."""
        self._decider = Decider(read_configuration(configuration, BUILTINS, lambda _: {}))
        listers: dict[str, Lister[Any]] = {name: getattr(self._decider.objects, name) for name in others}
        self._feed = feed = Feed(
            self._decider.cache,
            self._decider.book,
            self._decider.queue,
            self._decider.waiting_pods,
            _Clock(),
            lambda: None,
            listers,
        )
        for name, objects in others.items():
            decode: Callable[[bytes], Any] = msgspec.json.Decoder(OTHERS[name][1]).decode
            for raw in objects:
                feed.others[name].upsert(None, decode(raw))
        for raw in nodes:
            feed.nodes.upsert(None, decode_node(raw))
        for raw in pods:
            feed.pods.upsert(None, decode_pod(raw))
        for name in ("nodes", "pods", "reservations", *others):
            feed.listed(name)

    def decide(self, raw: bytes, bound_to: str) -> Judgement:
        """Decide a pod, and then go along with what kube-scheduler made of it."""
        seen = decode_pod(raw)
        unbound = msgspec.structs.replace(seen, spec=msgspec.structs.replace(seen.spec, node_name=""))
        judgement = self._judge(unbound)
        self._feed.pods.upsert(None, unbound)
        outcome = self._decider.step(_NOW)
        while outcome is None:
            outcome = self._decider.step(_NOW)
        if isinstance(outcome, Assumed):
            node_name, message, decided = outcome.node_name, "", outcome.pod
        else:
            assert isinstance(outcome, Unschedulable), outcome
            node_name, message, decided = "", outcome.refusal.message, outcome.waiting.pod
        assert decided.uid == seen.uid, "another pod was decided"
        if bound_to:
            self._feed.pods.upsert(unbound, seen)
        else:
            self._feed.pods.remove(unbound)
        return replace(judgement, node_name=node_name, message=message)

    def _judge(self, pod: Pod) -> Judgement:
        """Ask each plugin of the profile, in the order of the extension points."""
        profile, state = self._decider.profiles[pod.spec.scheduler_name], CycleState()
        state.write(Moment(_NOW))
        self._decider.columns.vector(pod.requests)
        snapshot = Snapshot.of(self._decider.columns)
        fits, skipped, stuck = np.ones(len(snapshot), np.bool_), set[str](), 0
        for pre_filter in profile.pre_filter:
            status = pre_filter.pre_filter(state, pod, snapshot)
            if not status.ok:
                unresolvable = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
                return Judgement("", "", set(), {}, len(snapshot) if unresolvable else 0)
            if status.code is Code.SKIP:
                skipped.add(pre_filter.name)
        for plugin in profile.filter:
            if plugin.name not in skipped:
                mask = plugin.filter(state, pod, snapshot)
                ruled_out = np.flatnonzero(fits & ~mask)
                stuck += sum(not plugin.resolvable(state, pod, snapshot, int(row)) for row in ruled_out)
                fits &= mask
        rows = np.flatnonzero(fits)
        names = [snapshot.nodes[int(row)].name for row in rows]
        scores: dict[str, dict[str, int]] = {}
        for scorer, weight in profile.score if len(rows) else ():
            if isinstance(scorer, PreScore):
                status = scorer.pre_score(state, pod, snapshot, rows)
                if status.code is Code.SKIP:
                    continue
            points = scorer.normalize(state, pod, scorer.score(state, pod, snapshot, rows))
            scores[scorer.name] = dict(zip(names, (points * weight).astype(int).tolist(), strict=True))
        return Judgement("", "", set(names), scores, stuck)
