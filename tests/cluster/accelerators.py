"""Devices and claims of one test, which itself acts as the driver of the devices."""

from typing import Any

from cluster.api import Manifest
from cluster.live import Live, Node, Pod
from cluster.world import World
from tidelock.model.resource_claims import FINALIZER, FOR_EXTENDED_RESOURCES
from tidelock.scheduler.informers.informers import OTHERS

_SLICES, _CLASSES, _CLAIMS, _TEMPLATES = (
    OTHERS[name][0]
    for name in ("resource_slices", "device_classes", "resource_claims", "resource_claim_templates")
)


class Accelerators:
    """A maker of slices and claims beside a world, with a class and a driver of its own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[Live] = []
        self.driver = f"{world.namespace}.tidelock.dev"
        self.resource = f"{self.driver}/gpu"
        expression = f"device.driver == '{self.driver}'"
        self._class = self._keep(
            _CLASSES,
            {
                "metadata": {"name": world.node_name("gpu")},
                "spec": {
                    "selectors": [{"cel": {"expression": expression}}],
                    "extendedResourceName": self.resource,
                },
            },
        )

    def close(self) -> None:
        """Delete the class and the slices, which do not go with the namespace."""
        for each in self._made:
            each.delete()

    def slice(self, on: Node, *devices: str | Manifest) -> Live:
        """Publish the devices of a node."""
        spec = {
            "driver": self.driver,
            "nodeName": on.name,
            "pool": {"name": on.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": each} if isinstance(each, str) else each for each in devices],
        }
        return self._keep(_SLICES, {"metadata": {"name": f"{on.name}-slice"}, "spec": spec})

    def claim(self, name: str, *expressions: str, namespace: str = "", **request: Any) -> Live:
        """Create a claim for one device, or for those of a request."""
        manifest = {"metadata": {"name": name}, "spec": self._spec(*expressions, **request)}
        api, namespace = self._world.api, namespace or self._world.namespace
        return Live(api, _CLAIMS, api.create(_CLAIMS.collection(namespace), manifest))

    def template(self, name: str, *expressions: str, **request: Any) -> Live:
        """Create a template of claims for one device, or for those of a request."""
        manifest = {"metadata": {"name": name}, "spec": {"spec": self._spec(*expressions, **request)}}
        api = self._world.api
        return Live(api, _TEMPLATES, api.create(_TEMPLATES.collection(self._world.namespace), manifest))

    def of_pod(self, pod: Pod) -> list[str]:
        """Return the devices of a pod's claim that was created from a template."""
        found = pod.until(
            lambda each: each["status"].get("resourceClaimStatuses"), "have a claim from its template"
        )
        (claim,) = (
            each["resourceClaimName"]
            for each in found["status"]["resourceClaimStatuses"]
            if each["name"] == "gpu"
        )
        path = _CLAIMS.item(claim, self._world.namespace)
        return devices_of(Live(self._world.api, _CLAIMS, self._world.api.get(path)))

    def of_extended_resources(self, pod: Pod) -> list[str]:
        """Return the devices of the claim that was created for a pod's extended resources, sorted."""
        found = pod.until(lambda each: each["status"].get("extendedResourceClaimStatus"), "name its claim")
        return sorted(
            devices_of(self.stored(found["status"]["extendedResourceClaimStatus"]["resourceClaimName"]))
        )

    def _spec(self, *expressions: str, **request: Any) -> Manifest:
        selectors = [{"cel": {"expression": each}} for each in expressions]
        wanted = {"deviceClassName": self._class.name, "selectors": selectors, **request}
        return {"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}}

    def asking(self, count: int = 1) -> Manifest:
        """Build the part of a pod's spec that requests devices as an extended resource."""
        resources = {"limits": {self.resource: str(count)}}
        return {"containers": [{"name": "main", "image": "none", "resources": resources}]}

    def stored(self, name: str) -> Live:
        """Return a claim that exists."""
        admin = self._world.admin
        return Live(admin, _CLAIMS, admin.get(_CLAIMS.item(name, self._world.namespace)))

    def leftover(self, pod: Live) -> Live:
        """Create a claim for a pod's extended resource, as an attempt that did not end has left it."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        exactly = {"deviceClassName": self._class.name}
        manifest = {
            "metadata": {
                "name": f"{pod.name}-leftover",
                "annotations": {FOR_EXTENDED_RESOURCES: "true"},
                "ownerReferences": [owner],
                "finalizers": [FINALIZER],
            },
            "spec": {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}},
        }
        admin = self._world.admin
        return Live(admin, _CLAIMS, admin.create(_CLAIMS.collection(self._world.namespace), manifest))

    def _keep(self, resource: Any, manifest: Manifest) -> Live:
        made = Live(self._world.admin, resource, self._world.admin.create(resource.collection(), manifest))
        self._made.append(made)
        return made


def claiming(*claims: Live) -> Manifest:
    """Build the part of a pod's spec that uses claims."""
    return {"resourceClaims": [{"name": each.name, "resourceClaimName": each.name} for each in claims]}


def claiming_from(template: Live) -> Manifest:
    """Build the part of a pod's spec with a claim from a template."""
    return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template.name}]}


def devices_of(claim: Live) -> list[str]:
    """Return the names of a claim's devices, once it has some."""
    found = claim.until(lambda each: "allocation" in each["status"], "be allocated")
    return [each["device"] for each in found["status"]["allocation"]["devices"]["results"]]
