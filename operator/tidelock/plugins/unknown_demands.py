"""UnknownDemands: a pod that demands what no plugin here checks is refused rather than bound wrongly."""

from collections.abc import Iterator

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SUCCESS, Code, PreFilter, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod, PodSpec


class UnknownDemands(PreFilter):
    """Refuses required pod affinity, spreading, host ports and resource claims."""

    name = "UnknownDemands"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Refuse the pod with a list of its demands that are not known."""
        demands = tuple(_demands(pod.spec))
        if not demands:
            return SUCCESS
        text = f"this scheduler does not know {', '.join(demands)}: leave the pod to another"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _demands(spec: PodSpec) -> Iterator[str]:
    affinity = spec.affinity
    for field, neighbours in (
        ("podAffinity", affinity.pod_affinity if affinity else None),
        ("podAntiAffinity", affinity.pod_anti_affinity if affinity else None),
    ):
        if neighbours is not None and neighbours.required:
            yield f"spec.affinity.{field}"
    if any(
        constraint.when_unsatisfiable == "DoNotSchedule" for constraint in spec.topology_spread_constraints
    ):
        yield "spec.topologySpreadConstraints"
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    if any(port.host_port for container in (*spec.containers, *sidecars) for port in container.ports):
        yield "host ports"
    if spec.resource_claims:
        yield "spec.resourceClaims"
