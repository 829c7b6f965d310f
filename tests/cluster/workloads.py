"""Workloads of every kind that gets usage annotations, on a cluster without controllers."""

from cluster.api import Manifest
from cluster.live import Live, Node
from cluster.world import World
from devcluster import Cluster
from tidelock.kube.client import ApiResource

DEPLOYMENTS = ApiResource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = ApiResource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = ApiResource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = ApiResource("apps", "v1", "daemonsets", "DaemonSet")
JOBS = ApiResource("batch", "v1", "jobs", "Job")
CLONE_SETS = ApiResource("apps.kruise.io", "v1alpha1", "clonesets", "CloneSet")

# The smallest CRD of a CloneSet that can be annotated.
_CLONE_SET_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clonesets.apps.kruise.io}
spec:
  group: apps.kruise.io
  scope: Namespaced
  names: {kind: CloneSet, plural: clonesets, singular: cloneset}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def install_clone_sets(cluster: Cluster) -> None:
    """Install the CRD. A second call does no harm."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=_CLONE_SET_CRD)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/clonesets.apps.kruise.io")


def make_workloads(world: World, node: Node) -> dict[str, Live]:
    """Create a workload of each kind, with a pod on the node. Both are named for the kind."""
    made = {
        resource.kind: _create(world, resource)
        for resource in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CLONE_SETS)
    }
    replica_set = _create(world, REPLICA_SETS, owner=(DEPLOYMENTS, made[DEPLOYMENTS.kind]))
    owners = {resource.kind: resource for resource in (STATEFUL_SETS, DAEMON_SETS, JOBS, CLONE_SETS)}
    for kind, live in made.items():
        owner = (REPLICA_SETS, replica_set) if kind == DEPLOYMENTS.kind else (owners[kind], live)
        metadata = {"ownerReferences": [_reference(*owner)]}
        world.pod(live.name, "10m", metadata=metadata, nodeName=node.name)
    return made


def _create(world: World, resource: ApiResource, owner: tuple[ApiResource, Live] | None = None) -> Live:
    name = resource.kind.lower()
    manifest: Manifest = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "ownerReferences": [_reference(*owner)] if owner else []},
        "spec": _spec(world, resource, name),
    }
    return Live(world.api, resource, world.api.create(resource.collection(world.namespace), manifest))


def _spec(world: World, resource: ApiResource, name: str) -> Manifest:
    pod = world.pod_spec("10m")
    if resource is JOBS:
        return {"template": {"spec": pod | {"restartPolicy": "Never"}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec: Manifest = {"selector": {"matchLabels": labels}, "template": template}
    return spec | ({"serviceName": name} if resource is STATEFUL_SETS else {})


def _reference(resource: ApiResource, live: Live) -> Manifest:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": live.name,
        "uid": live.uid,
        "controller": True,
    }
