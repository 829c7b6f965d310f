"""SchedulingGates: a pod with gates waits until they are taken away."""

from tidelock.framework.api import SUCCESS, Code, PreEnqueue, Status
from tidelock.model.pods import Pod


class SchedulingGates(PreEnqueue):
    """Keeps pods with spec.schedulingGates out of the active queue."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status:
        """Gate a pod that has gates, by their names."""
        if not pod.spec.scheduling_gates:
            return SUCCESS
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        reason = f"waiting for scheduling gates: [{gates}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
