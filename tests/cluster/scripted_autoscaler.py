"""An autoscaler that counts as Cluster Autoscaler and Karpenter do: by pods alone, and by CapacityBuffers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from cluster.api import Api, Manifest, RefusedError
from cluster.world import World
from devcluster import wait_for
from tidelock.integrations.autoscalers.capacity_buffers import CAPACITY_BUFFERS, POD_TEMPLATES
from tidelock.integrations.autoscalers.node_protection import CLUSTER_AUTOSCALER, KARPENTER
from tidelock.kube.client import NODES, PODS, ApiResource
from tidelock.model.quantities import CPU, parse_quantity

CRDS = ApiResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
CRD_NAME = "capacitybuffers.autoscaling.x-k8s.io"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PAUSE = 0.2
# Rounds for which a placeholder must fit nowhere before a node is added, as Karpenter waits for more pods.
_WAITING_ROUNDS = 5
# Rounds for which a node must be idle before it is removed, some seconds in all.
_IDLE_ROUNDS = 20


def capacity_buffer_crd() -> Manifest:
    """Return a definition of CapacityBuffer that leaves the content to its users."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "capacitybuffers", "singular": "capacitybuffer", "kind": "CapacityBuffer"}
    # The API server demands this annotation for groups of the Kubernetes project.
    protected = {"api-approved.kubernetes.io": "unapproved, for tests"}
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": CRD_NAME, "annotations": protected},
        "spec": {
            "group": CAPACITY_BUFFERS.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


@contextmanager
def capacity_buffers(api: Api) -> Iterator[None]:
    """Serve CapacityBuffers while the context lasts."""
    api.create(CRDS.collection(), capacity_buffer_crd())
    wait_for(lambda: _exists(api, CAPACITY_BUFFERS.collection()), what="CapacityBuffers to be served")
    try:
        yield
    finally:
        api.delete(CRDS.item(CRD_NAME))
        wait_for(lambda: not _exists(api, CRDS.item(CRD_NAME)), what="the CRD to go")


def _exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except RefusedError as refused:
        if refused.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


class ScriptedAutoscaler:
    """Adds nodes of a size for the placeholders of buffers, and removes idle nodes that it may remove.

    It is a context, and acts in a thread meanwhile. It only knows the nodes of the test's world.

    Attributes:
        made: names of the nodes that it adds.
        removed: names of the nodes that it has removed.

    """

    def __init__(self, world: World, cpu: str) -> None:
        self._world = world
        self._api: Api = world.admin
        self._cpu = cpu
        self._idle: dict[str, int] = {}
        self._waiting = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: Exception | None = None
        self.made: list[str] = []
        self.removed: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stop.wait(_PAUSE):
                self._act()
        except Exception as error:  # noqa: BLE001 -- raised at the context's end
            self._error = error

    def _act(self) -> None:
        nodes = self._api.get(f"{NODES.collection()}?labelSelector={self._selector()}")["items"]
        free = {node["metadata"]["name"]: self._free(node) for node in nodes}
        busy = set[str]()
        for placeholder in self._placeholders():
            wanted = _requested(placeholder)
            fitting = [each for each in nodes if _admits(each, placeholder) and free[_name(each)] >= wanted]
            if not fitting:
                self._waiting += 1
                if self._waiting < _WAITING_ROUNDS:
                    return
                self._waiting = 0
                name = f"made-{len(self.made)}"
                self.made.append(self._world.node_name(name))  # before a scheduler can use the node
                self._world.node(name, cpu=self._cpu)
                return  # the next round counts it
            free[_name(fitting[0])] -= wanted
            busy.add(_name(fitting[0]))
        self._waiting = 0
        for node in nodes:
            self._consider_removal(node, used=_name(node) in busy)

    def _consider_removal(self, node: Manifest, *, used: bool) -> None:
        """Remove a node after some rounds without pods and placeholders, unless an annotation forbids it."""
        name, annotations = _name(node), node["metadata"].get("annotations", {})
        kept = "true" in (annotations.get(CLUSTER_AUTOSCALER), annotations.get(KARPENTER))
        idle = not used and not kept and not self._pods_on(name)
        self._idle[name] = self._idle.get(name, 0) + 1 if idle else 0
        if self._idle[name] > _IDLE_ROUNDS:
            self._api.delete(NODES.item(name))
            self.removed.append(name)

    def _placeholders(self) -> Iterator[Manifest]:
        """Yield the spec of each placeholder of each buffer."""
        namespace = self._world.namespace
        templates = {
            _name(each): each["template"]["spec"]
            for each in self._api.get(POD_TEMPLATES.collection(namespace))["items"]
        }
        for buffer in self._api.get(CAPACITY_BUFFERS.collection(namespace))["items"]:
            named = buffer["spec"]["podTemplateRef"]["name"]
            if named in templates:
                yield from [templates[named]] * buffer["spec"]["replicas"]

    def _free(self, node: Manifest) -> int:
        """Return the thousandths of a CPU that no pod requests."""
        allocatable = parse_quantity(CPU, node["status"]["allocatable"]["cpu"])
        return allocatable - sum(_requested(pod["spec"]) for pod in self._pods_on(_name(node)))

    def _pods_on(self, name: str) -> list[Manifest]:
        path = f"{PODS.collection()}?fieldSelector=spec.nodeName={name}"
        pods: list[Manifest] = self._api.get(path)["items"]
        return pods

    def _selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self._world.selector.items())


def _name(manifest: Manifest) -> str:
    name: str = manifest["metadata"]["name"]
    return name


def _requested(spec: Manifest) -> int:
    return sum(parse_quantity(CPU, each["resources"]["requests"]["cpu"]) for each in spec["containers"])


def _admits(node: Manifest, spec: Manifest) -> bool:
    """Return whether a node is none of those that the node affinity excludes."""
    affinity: Any = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED)
    if affinity is None:
        return True
    hostname = node["metadata"]["labels"].get("kubernetes.io/hostname", _name(node))
    return any(
        all(hostname not in each["values"] for each in term["matchExpressions"])
        for term in affinity["nodeSelectorTerms"]
    )
