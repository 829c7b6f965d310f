"""Storage classes, volumes and claims of one test; the test itself plays the driver that makes volumes."""

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
    """Makes storage beside a world, under names of the world's own."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._made: list[Live] = []

    def close(self) -> None:
        """Take away what the end of the namespace leaves."""
        for each in self._made:
            each.delete()

    def node(self, name: str) -> Node:
        """Create a node that volumes can be tied to."""
        return self._world.node(name, labels={HOSTNAME: self._world.node_name(name)})

    def storage_class(self, name: str = "local", *, ready: bool = True, **fields: Any) -> None:
        """Create a class whose claims wait for a pod: of `ready` volumes, or of such as are made then."""
        manifest = {
            "metadata": {"name": self._world.node_name(name)},
            "provisioner": NO_PROVISIONER if ready else _DRIVER,
            "volumeBindingMode": "WaitForFirstConsumer",
            **fields,
        }
        self._keep(_CLASSES, manifest)

    def volume(self, name: str, on: Node, *, size: str = "1Gi", kind: str = "local") -> Live:
        """Create a volume that can be reached from one node."""
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

    def make(self, claim: Live, *, size: str = "1Gi", kind: str = "fast") -> str:
        """Make the volume that a claim is waiting for, as its driver would; returns the chosen node."""
        node_name = selected_node(claim)
        manifest = self._volume(f"made-for-{claim.name}", node_name, size, kind)
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
    """Wait until a volume is asked for; returns the node for which it is to be made."""

    def annotation() -> str:
        found = claim.read()
        assert found is not None
        return str(found["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))

    return str(wait_for(annotation, what=f"a node to be chosen for {claim.name}", interval=0.03))


def refuse(claim: Live) -> None:
    """Give up making a claim's volume, as its driver says that it cannot."""
    claim.merge({"metadata": {"annotations": {SELECTED_NODE: None}}})


def using(*claims: Live) -> Manifest:
    """Give the part of a pod's spec that uses claims."""
    return {
        "volumes": [{"name": each.name, "persistentVolumeClaim": {"claimName": each.name}} for each in claims]
    }


def bound_volume(claim: Live) -> str:
    """Wait until a claim is bound; returns the volume's name."""
    found = claim.until(lambda each: each["status"].get("phase") == "Bound", "be bound")
    return str(found["spec"]["volumeName"])
