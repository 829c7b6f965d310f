"""The results that a decision about a pod can have."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidelock.framework.api import Victims
from tidelock.framework.extender import ExtenderAdviceData
from tidelock.framework.extension_point_timer import PluginError
from tidelock.model.nodes import Node
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.diagnosis import Diagnosis
from tidelock.scheduler.core.queued_pod import QueuedPodInfo


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """A pod that fits on no node now, or a decision that failed with an error."""

    waiting: QueuedPodInfo
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True, eq=False)
class ExtenderCall:
    """A pod about which extenders must be asked.

    Until their answer comes, no other pod is decided. Reservations and everything that is due go on. The pod
    is then decided over the state of that time, so the answer can narrow the choice and never widen it.

    Attributes:
        waiting: the pod.
        nodes: the nodes that have passed all filters.
        victims: possible victims by node, if the question is about preemption.
        advice: the extenders' answer about nodes, which precedes a question about victims.

    """

    waiting: QueuedPodInfo
    nodes: tuple[Node, ...]
    victims: Mapping[str, Victims] | None = None
    advice: ExtenderAdviceData | None = None


Outcome = AssumedPod | Unschedulable | ExtenderCall
"""The result for one pod."""


def failure(error: Exception | None) -> Diagnosis:
    """Return the diagnosis of a decision that failed with an error. No plugin has rejected anything."""
    text = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
    return Diagnosis(text, frozenset(), error=True)
