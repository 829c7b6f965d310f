"""DynamicResources: pods with resource claims are refused rather than bound wrongly.

In kube-scheduler 1.36 the scheduler allocates claims (plugins/dynamicresources). Tidelock does not do that.
"""

from collections.abc import Sequence

from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SKIP_ALIKE, Code, EnqueueExtensions, PreFilter, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.events import Registration
from tidelock.model.pods import Pod

_REASON = "spec.resourceClaims: this scheduler does not allocate devices, leave the pod to another"


class DynamicResources(PreFilter, EnqueueExtensions):
    """Refuses pods with resource claims."""

    name = "DynamicResources"

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Status:
        """Skip pods without resource claims."""
        if not pod.spec.resource_claims:
            return SKIP_ALIKE
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (_REASON,))

    def events_to_register(self) -> Sequence[Registration]:
        """Return no events: claims stay with a pod."""
        return ()
