"""Tidelock's decisions about the same objects, by the event handlers and the decider of a cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from tidelock.framework.config import read_configuration
from tidelock.model.pods import Pod, decode_pod
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.explain import explain_pod
from tidelock.scheduler.core.outcomes import Unschedulable
from tidelock.scheduler.informers.offline import OfflineScheduler

_NOW = 1_800_000_000.0


@dataclass(frozen=True)
class Judgement:
    """The answers of the plugins about a pod, by node. `scores` are weighted, by plugin.

    `beyond_help` counts the nodes where no eviction would help.
    """

    node_name: str
    message: str
    feasible: set[str]
    scores: dict[str, dict[str, int]]
    beyond_help: int


class TidelockSide:
    """A scheduler that knows all objects of the API server."""

    def __init__(
        self,
        configuration: str,
        others: Mapping[str, Iterable[bytes]],
        nodes: Iterable[bytes],
        pods: Iterable[bytes],
    ) -> None:
        """Load a KubeSchedulerConfiguration and all objects, with `others` by the names of OTHERS."""
        objects = {**others, "nodes": nodes, "pods": pods}
        picture = OfflineScheduler.of(
            read_configuration(configuration, BUILTINS, lambda _: {}), objects, _NOW
        )
        assert not picture.unreadable, picture.unreadable
        self._decider, self._event_handlers = picture.decider, picture.event_handlers

    def decide(self, raw: bytes, bound_to: str) -> Judgement:
        """Decide a pod, and then apply the decision of kube-scheduler."""
        seen = decode_pod(raw)
        unbound = msgspec.structs.replace(seen, spec=msgspec.structs.replace(seen.spec, node_name=""))
        judgement = self._judge(unbound)
        self._event_handlers.pods.upsert(None, unbound)
        outcome = self._decider.step(_NOW).outcome
        while outcome is None:
            outcome = self._decider.step(_NOW).outcome
        if isinstance(outcome, AssumedPod):
            node_name, message, decided = outcome.node_name, "", outcome.pod
        else:
            assert isinstance(outcome, Unschedulable), outcome
            node_name, message, decided = "", outcome.diagnosis.message, outcome.waiting.pod
        assert decided.uid == seen.uid, "another pod was decided"
        if bound_to:
            self._event_handlers.pods.upsert(unbound, seen)
        else:
            self._event_handlers.pods.remove(unbound)
        return replace(judgement, node_name=node_name, message=message)

    def _judge(self, pod: Pod) -> Judgement:
        """Ask each plugin of the profile about all nodes."""
        decider = self._decider
        reports = explain_pod(decider.pipeline, decider.profiles[pod.spec.scheduler_name], pod, _NOW)
        fitting = [each for each in reports if not each.rejections]
        scores: dict[str, dict[str, int]] = {}
        for each in fitting:
            for plugin, points in each.points.items():
                scores.setdefault(plugin, {})[each.node.name] = int(points)
        stuck = sum(not each.rejections[0].preemption_may_help for each in reports if each.rejections)
        return Judgement("", "", {each.node.name for each in fitting}, scores, stuck)
