"""DefaultBinder: binds a pod by posting its binding to the API server.

The binding annotates the pod with the reservations that it took, and their groups. So the next leader after a
crash knows which are used up, even if the pod is being deleted by then.
"""

from tidelock.framework.api import SUCCESS, Bind, Code, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.framework.own_reservations import ClaimedReservations
from tidelock.model.pods import Pod, claims_annotation


class DefaultBinder(Bind):
    """Binds any pod."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Post the binding, with the pod's UID as its condition. Raises the API server's errors."""
        if self.handle.api is None:
            return Status(Code.ERROR, ("there is no API server to write to",))
        meta, claims = pod.meta, state.read(ClaimedReservations)
        annotated = {"annotations": claims_annotation(claims.uids)} if claims is not None else {}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, **annotated},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        if claims is not None:
            claims.unwritten = False
        await self.handle.api.create(f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/binding", body)
        return SUCCESS
