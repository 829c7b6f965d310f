"""SchedulingGates: a pod with gates waits until they are taken away."""

from collections.abc import Sequence

from tidelock.framework.api import SUCCESS, Code, EnqueueExtensions, PreEnqueue, Status
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.pods import Pod


class SchedulingGates(PreEnqueue, EnqueueExtensions):
    """Keeps pods with spec.schedulingGates out of the active queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status:
        """Gate a pod that has gates, by their names."""
        if not pod.spec.scheduling_gates:
            return SUCCESS
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        reason = f"waiting for scheduling gates: [{gates}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))

    def events_to_register(self) -> Sequence[Registration]:
        """Return the events: the end of the pod's own gates."""
        eliminated = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (Registration(ClusterEvent(Resource.TARGET_POD, eliminated)),)
