"""UnknownDemands: a pod that demands what no plugin here checks is refused rather than bound wrongly."""

from collections.abc import Iterator

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SUCCESS, Code, PreFilter, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod, PodSpec


class UnknownDemands(PreFilter):
    """Refuses claimed volumes and resource claims."""

    name = "UnknownDemands"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Refuse the pod with a list of its demands that are not known."""
        demands = tuple(_demands(pod.spec))
        if not demands:
            return SUCCESS
        text = f"this scheduler does not know {', '.join(demands)}: leave the pod to another"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _demands(spec: PodSpec) -> Iterator[str]:
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral:
            yield f"the claim of volume {volume.name}"
    if spec.resource_claims:
        yield "spec.resourceClaims"
