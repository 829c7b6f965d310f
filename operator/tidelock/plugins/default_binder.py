"""DefaultBinder: binds a pod by posting its binding to the API server.

The binding annotates the pod with its own locks, and their groups, so that whoever leads after a crash knows
which it has used up, even if the pod has been deleted meanwhile and is leaving.
"""

from tidelock.framework.api import SUCCESS, Bind, Code, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.ownlocks import OwnLocks
from tidelock.model.pods import CLAIMED_LOCKS, Pod

# The API server takes annotations of up to 256 KiB, and thousands of locks may select one pod.
_MOST_LOCKS = 1000


class DefaultBinder(Bind):
    """Binds any pod."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Post the binding, with the pod's uid as its condition; raises the API server's errors."""
        if self.handle.api is None:
            return Status(Code.ERROR, ("there is no API server to write to",))
        meta, own = pod.meta, state.read(OwnLocks)
        claims = ",".join(own.uids[:_MOST_LOCKS]) if own else ""
        annotated = {"annotations": {CLAIMED_LOCKS: claims}} if claims else {}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, **annotated},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        await self.handle.api.create(f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/binding", body)
        return SUCCESS
