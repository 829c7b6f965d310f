"""A cluster in the scheduler's own cache, with the scheduler's decisions about it. Nothing is carried out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec
import numpy as np

from tidelock.clock import Clock
from tidelock.framework.api import Mask
from tidelock.framework.config import Configuration
from tidelock.framework.extension_point_timer import PluginError
from tidelock.framework.profile import Profile
from tidelock.model.failures import log_failure
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.scheduler.core.decider import DeciderOptions
from tidelock.scheduler.core.pipeline import Evaluation, FilterPipeline, PluginAnswers
from tidelock.scheduler.informers.informers import OTHERS
from tidelock.scheduler.scheduler_core import assemble_core

# Points by which scores may differ and still count as equal: sums of floating-point numbers are not exact.
_EQUAL = 1e-6


class Outcome(StrEnum):
    """The scheduler's choice of a node, beside the choice by the profile."""

    SAME = "same node"
    EQUAL = "other node, equal score"
    LOWER = "other node, lower score"
    RULED_OUT = "node is ruled out"
    NO_NODE = "no node fits"
    UNJUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A decision of the cluster's scheduler beside the decision by the profile.

    Attributes:
        outcome: the relation of the two.
        node: the node by the profile, or empty if none fits.
        points: how much the profile's node is better, by plugin, in weighted points.
        rejecters: the plugins that rule out the scheduler's node.

    """

    outcome: Outcome
    node: str = ""
    points: Mapping[str, float] = field(default_factory=dict)
    rejecters: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """How much the profile's node is better, in weighted points."""
        return sum(self.points.values())


class ShadowWorld:
    """Pods and nodes in a decider of their own, which is asked for choices and never makes a step.

    Reservations are left out, so the world is that of a cluster without Tidelock.
    """

    def __init__(self, configuration: Configuration, clock: Clock) -> None:
        core = assemble_core(configuration, clock, options=DeciderOptions(on_failure=log_failure))
        self._decider = decider = core.decider
        self.handlers = core.event_handlers
        core.all_listed(but={"nodes", "pods", *OTHERS})
        self.cache = decider.cache
        self.replica_sets = decider.objects.replica_sets
        self.measurements = decider.measurements

    @property
    def pipeline(self) -> FilterPipeline:
        """The pipeline that evaluates pods."""
        return self._decider.pipeline

    def profile_of(self, pod: Pod) -> Profile:
        """Return the profile of the pod's schedulerName, or the first one."""
        return self._decider.profiles.get(pod.spec.scheduler_name) or self._decider.profile

    def evaluate(self, pod: Pod, now: float) -> Evaluation:
        """Begin to evaluate a pod as if it were not bound. The result is a context manager."""
        unbound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=""))
        return self.pipeline.evaluate(self.profile_of(pod), unbound, now, own=())

    def fitting(self, pod: Pod, now: float) -> Mask | None:
        """Return the nodes that fit by their rows, or None if a plugin fails."""
        try:
            with self.evaluate(pod, now) as evaluation:
                return evaluation.filter().fits
        except PluginError as error:
            log_failure("fitting", "Pod", pod.meta, error)
            return None

    def choose(self, pod: Pod, now: float) -> str:
        """Return the best node for a pod, or an empty text if none fits or a plugin fails."""
        try:
            with self.evaluate(pod, now) as evaluation:
                best = evaluation.best()
        except PluginError as error:
            log_failure("choosing", "Pod", pod.meta, error)
            return ""
        return best.name if best is not None else ""

    def compare(self, pod: Pod, node_name: str, now: float) -> Comparison:
        """Compare the node to which a scheduler has bound a pod with the profile's choice.

        The pod must not be in the cache yet. Plugins are asked for all their answers only if the nodes
        differ.
        """
        chosen = self.choose(pod, now)
        if chosen == node_name:
            return Comparison(Outcome.SAME, chosen)
        try:
            with self.evaluate(pod, now) as evaluation:
                answers = PluginAnswers()
                evaluation.filter(answers=answers)
                best = evaluation.choose(answers=answers)
                return _compared(evaluation, answers, best, node_name)
        except PluginError as error:
            log_failure("comparing", "Pod", pod.meta, error)
            return Comparison(Outcome.UNJUDGED)


def _compared(
    evaluation: Evaluation, answers: PluginAnswers, best: Node | None, node_name: str
) -> Comparison:
    """Compare the best node with the scheduler's by all answers of the plugins."""
    row = evaluation.snapshot.row(node_name)
    if row is None:
        return Comparison(Outcome.UNJUDGED)
    if best is None:
        return Comparison(Outcome.NO_NODE, rejecters=_rejecters(evaluation, answers, row))
    if best.name == node_name:  # the scores were added up in another order
        return Comparison(Outcome.SAME, best.name)
    if not evaluation.result.fits[row]:
        return Comparison(Outcome.RULED_OUT, best.name, rejecters=_rejecters(evaluation, answers, row))
    return _scored(answers, best.name, evaluation.snapshot.row(best.name), row)


def _scored(answers: PluginAnswers, name: str, best: int | None, theirs: int) -> Comparison:
    """Compare the scores of two nodes that fit, by their rows."""
    ours, other = (int(np.flatnonzero(answers.rows == row)[0]) for row in (best, theirs))
    points = {
        plugin: float(scores[ours] - scores[other])
        for plugin, scores in answers.points.items()
        if abs(scores[ours] - scores[other]) > _EQUAL
    }
    outcome = Outcome.EQUAL if abs(sum(points.values())) <= _EQUAL else Outcome.LOWER
    return Comparison(outcome, name, points)


def _rejecters(evaluation: Evaluation, answers: PluginAnswers, row: int) -> tuple[str, ...]:
    """Return the plugins that rule out a node, or the one beside nominated pods."""
    if evaluation.rejection is not None:
        return (evaluation.rejection[0].name,)
    found = dict.fromkeys(plugin.name for plugin, mask in answers.masks if not mask[row])
    if not found:
        found = dict.fromkeys(plugin.name for plugin, mask in evaluation.result.ruled_out if mask[row])
    return tuple(found)
