"""PodGroups of the Workload API: how many pods of a group must be placed at once."""

import msgspec

from tidelock.model.lenient import Reader
from tidelock.model.meta import ForeignObject

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"
"""Type of the condition that says whether the group was scheduled. Once it is True, it stays."""


class SchedulingGroup(msgspec.Struct, frozen=True, rename="camel"):
    """The PodGroup with which a pod is scheduled, by its name in the pod's namespace."""

    pod_group_name: str = ""


class _Gang(msgspec.Struct, frozen=True, rename="camel"):
    min_count: int = 1


class _Policy(msgspec.Struct, frozen=True):
    gang: _Gang | None = None


class _Together(msgspec.Struct, frozen=True):
    """Empty, as in the API: that it is set is the whole information."""


class _DisruptionMode(msgspec.Struct, frozen=True):
    all: _Together | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_policy: _Policy = _Policy()
    priority: int = 0
    disruption_mode: _DisruptionMode = _DisruptionMode()


class PodGroupCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of a PodGroup."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[PodGroupCondition, ...] = ()


class PodGroup(ForeignObject, frozen=True):
    """A group of pods. With the policy `gang`, it is all or nothing. With `basic`, each pod is for itself."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def min_count(self) -> int:
        """The number of pods that must be placed before any of them is bound."""
        gang = self.spec.scheduling_policy.gang
        return gang.min_count if gang is not None else 1

    @property
    def disrupts_all(self) -> bool:
        """Whether its pods can be evicted only together. By default each can be evicted alone."""
        return self.spec.disruption_mode.all is not None

    @property
    def condition(self) -> PodGroupCondition | None:
        """The stored condition that says whether the group was scheduled, or None."""
        return next((each for each in self.status.conditions if each.type == INITIALLY_SCHEDULED), None)


decode_pod_group = Reader(PodGroup, spare=r"status.*|spec\.disruptionMode.*")
