"""The devices of a run, and the claims of its pods, without the driver and the controllers of a cluster."""

from contextlib import suppress

from faults.history import CLAIM_TEMPLATES, CLAIMS, CLASSES, SLICES, WORLD_LABEL, Json
from tidelock.kube.client import PODS, ApiResource, KubeClient
from tidelock.kube.errors import AlreadyExists

_TEMPLATE = "gpu"
# Numbers of devices. They are few, so that pods and reservations compete for them.
_DEVICES = {"a": 2, "b": 1}
_DELETED_EARLY = {"web-0", "web-2"}
_CLAIMING: Json = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": _TEMPLATE}]}


def resource_of(world: str) -> str:
    """Return the extended resource that the class of a run provides."""
    return f"{world}.example.org/gpu"


def pod_spec(world: str, cpu: str, gpu: str = "") -> Json:
    """Return what a pod's spec asks for. `gpu` is `claim`, an amount of the extended resource, or empty."""
    devices = {resource_of(world): gpu} if gpu not in {"", "claim"} else {}
    limits = {"limits": devices} if devices else {}
    container = {
        "name": "main",
        "image": "example.org/none",
        "resources": {"requests": {"cpu": cpu, **devices}, **limits},
    }
    return {"containers": [container], **(_CLAIMING if gpu == "claim" else {})}


def gpu_of(world: str, spec: Json) -> str:
    """Return the `gpu` that a pod's spec was made with."""
    requests = spec["containers"][0]["resources"]["requests"]
    return "claim" if "resourceClaims" in spec else str(requests.get(resource_of(world), ""))


def reservation_spec(world: str, cpu: str, gpu: str = "") -> Json:
    """Return what a reservation's spec asks for. One with a claim has a template."""
    if gpu == "claim":
        return {"template": {"spec": pod_spec(world, cpu, gpu)}}
    return {"resources": {"cpu": cpu, **({resource_of(world): gpu} if gpu else {})}}


class Devices:
    """Publishes devices, and makes and frees claims. A run's driver and class have the name of its world."""

    def __init__(self, admin: KubeClient, world: str) -> None:
        self._admin = admin
        self._world = world
        self._labels = {WORLD_LABEL: world}
        request = {"name": "gpu", "exactly": {"deviceClassName": world}}
        self._claim_spec: Json = {"devices": {"requests": [request]}}

    async def create_class(self) -> None:
        """Create a class for all devices of the run, and a template of claims to one of them."""
        selector = {"cel": {"expression": f"device.driver == '{self._world}'"}}
        spec = {"selectors": [selector], "extendedResourceName": resource_of(self._world)}
        await self._create(CLASSES, self._world, spec, labels=self._labels)
        await self._create(CLAIM_TEMPLATES, _TEMPLATE, {"spec": self._claim_spec})

    async def publish(self, node: str, node_name: str) -> None:
        """Publish the devices of a node, by its name in plans and in the cluster.

        Those of a node that was replaced stay.
        """
        pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(_DEVICES[node])]
        spec = {"driver": self._world, "nodeName": node_name, "pool": pool, "devices": devices}
        with suppress(AlreadyExists):
            await self._create(SLICES, node_name, spec, labels=self._labels)

    async def create_claim(self, pod: Json) -> None:
        """Create the claim of a pod from the template, as its controller does."""
        meta = pod["metadata"]
        name = f"{meta['name']}-gpu-{meta['uid'][:5]}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        with suppress(AlreadyExists):
            await self._create(CLAIMS, name, self._claim_spec, ownerReferences=[owner | {"controller": True}])
        status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}
        path = PODS.item(meta["name"], self._world, "status")
        await self._admin.patch(path, {"metadata": {"uid": meta["uid"]}, "status": status})

    async def end_claim(self, claim: Json) -> None:
        """Take the next step in freeing the devices of a claim without a pod, and in deleting the claim.

        In a cluster the garbage collector may delete the claim before or after its controller frees the
        devices. Here the name of the pod decides.
        """
        meta = claim["metadata"]
        early = meta["ownerReferences"][0]["name"] in _DELETED_EARLY and "deletionTimestamp" not in meta
        unchanged = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        path = CLAIMS.item(meta["name"], self._world)
        if claim.get("status") and not early:
            body = {"metadata": unchanged, "status": {"allocation": None, "reservedFor": None}}
            await self._admin.patch(CLAIMS.item(meta["name"], self._world, "status"), body)
        elif meta.get("finalizers") and not early:
            await self._admin.patch(path, {"metadata": unchanged | {"finalizers": None}})
        else:
            await self._admin.delete(path, uid=meta["uid"])

    async def _create(self, resource: ApiResource, name: str, spec: Json, **metadata: object) -> None:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, **metadata},
            "spec": spec,
        }
        await self._admin.create(resource.collection(self._world), body)
