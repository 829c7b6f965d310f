"""Storage classes, volumes and claims of one test, which itself acts as the driver of volumes."""

from typing import Any

from cluster.api import Manifest
from cluster.live import Live, Node
from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import ApiResource
from tidelock.model.storage import NO_PROVISIONER, SELECTED_NODE

HOSTNAME = "kubernetes.io/hostname"

_CLASSES = ApiResource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
_VOLUMES = ApiResource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
_CLAIMS = ApiResource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_DRIVER = "csi.test.tidelock.dev"


class Disks:
    """A maker of storage beside a world, with names that contain the name of the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[Live] = []

    def close(self) -> None:
        """Delete the storage classes and volumes, which do not go with the namespace."""
        for each in self._made:
            each.delete()

    def node(self, name: str) -> Node:
        """Create a node with the label by which volumes name a node."""
        return self._world.node(name, labels={HOSTNAME: self._world.node_name(name)})

    def storage_class(self, name: str = "local", *, ready: bool = True, **fields: Any) -> None:
        """Create a class with claims that wait for a pod.

        Its volumes exist already if it is `ready`. Otherwise the driver creates them on demand.
        """
        manifest = {
            "metadata": {"name": self._world.node_name(name)},
            "provisioner": NO_PROVISIONER if ready else _DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
            **fields,
        }
        self._keep(_CLASSES, manifest)

    def volume(self, name: str, on: Node, *, size: str = "1Gi", kind: str = "local") -> Live:
        """Create a volume that only one node can reach."""
        return self._keep(_VOLUMES, self._volume(name, on.name, size, kind))

    def claim(self, name: str = "data", *, size: str = "1Gi", kind: str = "local") -> Live:
        """Create a claim."""
        manifest = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self._world.node_name(kind),
                "resources": {"requests": {"storage": size}},
            },
        }
        api = self._world.api
        return Live(api, _CLAIMS, api.create(_CLAIMS.collection(self._world.namespace), manifest))

    def make(self, claim: Live) -> str:
        """Create the volume that a claim waits for, as its driver would, and return the chosen node."""
        node_name = selected_node(claim)
        manifest = self._volume(f"made-for-{claim.name}", node_name, "1Gi", "fast")
        manifest["spec"].pop("local")
        manifest["spec"] |= {
            "csi": {"driver": _DRIVER, "volumeHandle": claim.uid},
            "claimRef": {"namespace": claim.namespace, "name": claim.name, "uid": claim.uid},
        }
        self._keep(_VOLUMES, manifest)
        return node_name

    def _volume(self, name: str, node_name: str, size: str, kind: str) -> Manifest:
        reached = {"key": HOSTNAME, "operator": "In", "values": [node_name]}
        return {
            "metadata": {"name": self._world.node_name(name)},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": size},
                "storageClassName": self._world.node_name(kind),
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": f"/mnt/{name}"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [reached]}]}},
            },
        }

    def _keep(self, resource: ApiResource, manifest: Manifest) -> Live:
        api = self._world.api
        live = Live(api, resource, api.create(resource.collection(), manifest))
        self._made.append(live)
        return live


def selected_node(claim: Live) -> str:
    """Wait until a volume is requested for a claim, and return the node that must reach it."""

    def annotation() -> str:
        found = claim.read()
        assert found is not None
        return str(found["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))

    return str(wait_for(annotation, what=f"a node to be chosen for {claim.name}", interval=0.03))


def refuse(claim: Live) -> None:
    """Reject the chosen node of a claim, as a driver does that cannot create the volume there."""
    claim.merge({"metadata": {"annotations": {SELECTED_NODE: None}}})


def using(*claims: Live) -> Manifest:
    """Return the fields of a pod's spec that use these claims."""
    return {
        "volumes": [{"name": each.name, "persistentVolumeClaim": {"claimName": each.name}} for each in claims]
    }


def bound_volume(claim: Live) -> str:
    """Wait until a claim is bound, and return the name of its volume."""
    found = claim.until(lambda each: each["status"].get("phase") == "Bound", "be bound")
    return str(found["spec"]["volumeName"])
