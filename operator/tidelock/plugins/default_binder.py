"""DefaultBinder: binds a pod by posting its binding to the API server."""

from tidelock.framework.api import SUCCESS, Bind, Code, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.model.pods import Pod


class DefaultBinder(Bind):
    """Binds any pod."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Post the binding, with the pod's uid as its condition; raises the API server's errors."""
        if self.handle.api is None:
            return Status(Code.ERROR, ("there is no API server to write to",))
        meta = pod.meta
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        await self.handle.api.create(f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/binding", body)
        return SUCCESS
