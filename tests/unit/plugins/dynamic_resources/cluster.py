"""One DynamicResources over a small cluster, with an API server that keeps claims."""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from builders import NAMESPACE, NOW, Json, encode, node
from devices import claim_json, device_class, put
from tidelock.framework.api import Code, Handle, PatchKind
from tidelock.framework.device_reports import DeviceReports
from tidelock.kube.errors import ApiError, Conflict, NotFound
from tidelock.model.pods import Pod
from tidelock.model.resource_claims import ResourceClaim, decode_resource_claim
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from unit.plugins.scene import Judgement, Scene

CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims/"


class Api:
    """Claims by name. Strategic patches merge the lists of finalizers and of users."""

    def __init__(self) -> None:
        self.claims: dict[str, Json] = {}
        self.pod_statuses: list[Json] = []
        self.asked: list[str] = []
        self.faults: deque[tuple[ApiError, bool]] = deque()

    def fails(self, error: ApiError, *, carried_out: bool = False) -> None:
        """Refuse the next request, or lose its answer."""
        self.faults.append((error, carried_out))

    async def get(self, path: str) -> bytes:
        self.asked.append(f"GET {path.removeprefix(CLAIMS)}")
        self._fault(carried_out=False)
        return encode(self._stored(path))

    async def patch(self, path: str, body: Any, *, kind: PatchKind = "merge") -> bytes:
        assert kind == "strategic"
        if "/pods/" in path:
            self.asked.append("PATCH the pod's status")
            self._fault(carried_out=False)
            self.pod_statuses.append(body["status"])
            return b"{}"
        self.asked.append(f"PATCH {path.removeprefix(CLAIMS)}")
        self._fault(carried_out=False)
        stored, body = self._stored(path), json.loads(json.dumps(body))
        meta = stored["metadata"]
        if any(meta[each] != body["metadata"].get(each, meta[each]) for each in ("uid", "resourceVersion")):
            raise Conflict("the object has been modified", status=409)
        gone = body["metadata"].get("$deleteFromPrimitiveList/finalizers", [])
        meta["finalizers"] = [each for each in meta.get("finalizers", []) if each not in gone]
        finalizers = body["metadata"].get("finalizers", [])
        meta["finalizers"] = sorted({*meta.get("finalizers", []), *finalizers})
        for field, value in body.get("status", {}).items():
            if value is None:
                stored["status"].pop(field, None)
            elif isinstance(value, list):
                stored["status"][field] = [*stored["status"].get(field, []), *value]
            else:
                stored["status"][field] = stored["status"].get(field, {}) | value
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)
        self._fault(carried_out=True)
        return encode(stored)

    async def create(self, path: str, body: Any) -> bytes:
        assert f"{path}/" == CLAIMS
        self.asked.append("POST")
        self._fault(carried_out=False)
        name = body["metadata"]["generateName"] + str(len(self.claims))
        given = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": "1"}
        self.claims[name] = {"status": {}, **body, "metadata": body["metadata"] | given}
        return encode(self.claims[name])

    async def replace(self, path: str, body: object) -> bytes:
        raise AssertionError(path, body)

    async def delete(self, path: str, *, uid: str | None = None) -> bytes:
        stored = self._stored(path)
        assert stored["metadata"]["uid"] == uid
        assert not stored["metadata"]["finalizers"]
        self.asked.append(f"DELETE {path.removeprefix(CLAIMS)}")
        del self.claims[path.removeprefix(CLAIMS)]
        return b"{}"

    def _stored(self, path: str) -> Json:
        name = path.removeprefix(CLAIMS).removesuffix("/status")
        if name not in self.claims:
            raise NotFound("no such claim", status=404)
        return self.claims[name]

    def _fault(self, *, carried_out: bool) -> None:
        if self.faults and self.faults[0][1] is carried_out:
            raise self.faults.popleft()[0]


class Reports(DeviceReports):
    """The reports of the plugin, as texts."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def created(self, *, succeeded: bool) -> None:
        self.texts.append(f"created: {succeeded}")

    def waits(self, pod: Pod, node_name: str) -> None:
        self.texts.append(f"{pod.meta.name} waits on {node_name}")

    def waited(self, pod: Pod, claims: Iterable[ResourceClaim], status: str, seconds: float) -> None:
        assert seconds >= 0
        self.texts.append(f"{pod.meta.name} waited for {[each.meta.name for each in claims]}: {status}")


class Cluster:
    """Two nodes, and the plugin."""

    def __init__(self, **args: Any) -> None:
        self.scene = Scene(*(node(name, labels={"zone": name}) for name in ("node-a", "node-b")))
        self.objects = self.scene.objects
        self.api = Api()
        self.reports = Reports()
        view, cache = self.scene.ledger.plugin_view, self.scene.cache
        handle = Handle(view, cache, self.objects, self.api, device_reports=self.reports)
        self.plugin = DynamicResources(handle, args)
        put(self.objects, device_class())

    def claim(self, name: str = "gpu", *requests: Json, **fields: Any) -> None:
        """Store a claim, which the informer shows at once."""
        self.api.claims[name] = claim_json(name, *requests, **fields)
        self.show(name)

    def change(self, name: str = "gpu", **status: Any) -> None:
        """Change the status of a claim as another client would, without showing it."""
        stored = self.api.claims[name]
        stored["status"] |= status
        stored["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)

    def show(self, name: str = "gpu") -> None:
        """Let the informer show a claim as it is stored."""
        put(self.objects, decode_resource_claim(encode(self.api.claims[name])))

    def judge(self, wanting: Pod) -> Judgement:
        return self.scene.judging(self.plugin, wanting)

    def reserve(self, wanting: Pod, node_name: str = "node-a") -> Judgement:
        judged = self.judge(wanting)
        assert judged.status.code is Code.SUCCESS, judged.status
        assert node_name in judged.fitting
        assert self.plugin.reserve(judged.state, wanting, node_name, NOW).ok
        judged.state.drop_temporary()
        return judged

    def unreserve(self, judged: Judgement, node_name: str = "node-a") -> None:
        self.plugin.unreserve(judged.state, judged.pod, node_name, NOW)

    def device_of(self, name: str = "gpu") -> str:
        """Return the device that is in flight for a claim, or written to it."""
        stored = self.objects.resource_claims.get(name, NAMESPACE)
        assert stored is not None
        allocation = stored.allocation or self.objects.resource_claims.in_flight.get(stored.key)
        assert allocation is not None
        (result,) = allocation.devices.results
        return result.device
