"""A pod in the scheduling queue."""

from dataclasses import dataclass
from enum import StrEnum

from tidelock.framework.profile import Profile
from tidelock.model.pods import Pod

PluginKey = tuple[str, str]
"""The names of a profile and of one of its plugins."""

SortKey = tuple[float, ...]
Position = tuple[SortKey, int]
"""The sort key of a pod in a heap, and a number that no other position has."""


class QueueName(StrEnum):
    """The part of the queue in which a pod is. The names are those of the metric's label."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """A pod in the queue, with its attempts. Instants are seconds of the queue's steady clock.

    Attributes:
        pod: the newest version.
        profile: the profile of the pod's schedulerName.
        added_at: when the pod was added.
        queue: the part of the queue.
        since: when the pod was added, or when its last attempt ended.
        flush_at: when a rejected or gated pod is tried again without any event.
        attempts: number of attempts.
        diagnoses: number of attempts that found the pod unschedulable.
        errors_in_a_row: number of attempts since then that failed with an error.
        due: end of the backoff.
        position: the place in the heap of the active or the backoff queue, or None in other parts.
        plugins: the plugins that rejected the pod in its last attempt.
        pending: the plugins that will say themselves when the pod can go on.
        gated_by: the plugin that gates the pod.
        message: the last message that was written to the pod.
        next_message_at: the monotonic time from which a gated pod can get another message.
        ask_again: when a failed gate is asked again, or 0.
        indexed: the plugins under which the queue has indexed the pod.

    """

    pod: Pod
    profile: Profile
    added_at: float
    queue: QueueName
    since: float = 0.0
    flush_at: float = 0.0
    attempts: int = 0
    diagnoses: int = 0
    errors_in_a_row: int = 0
    due: float = 0.0
    position: Position | None = None
    plugins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    gated_by: str = ""
    message: str = ""
    next_message_at: float = 0.0
    ask_again: float = 0.0
    indexed: tuple[PluginKey, ...] = ()
