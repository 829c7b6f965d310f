"""Nodes, pods and locks of one test, apart from those of all others by their names and a label."""

import secrets
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from cluster.api import Api, Manifest, RefusedError
from devcluster import wait_for
from tidelock.kube.client import EVENTS, NODES, PODS, RESERVATIONS, Resource
from tidelock.model.instants import parse_instant

SCHEDULER = "tidelock-scheduler"

_LABEL = "test.tidelock.dev/world"
_INTERVAL = 0.03  # seconds between two looks
_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
_NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


class Stored:
    """An object on the API server."""

    def __init__(self, api: Api, resource: Resource, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        self.api = api
        self.name: str = metadata["name"]
        self.namespace: str | None = metadata.get("namespace")
        self.uid: str = metadata["uid"]
        self.path = resource.item(self.name, self.namespace)
        self._collection = resource.collection(self.namespace)
        self._version: str = metadata["resourceVersion"]

    def read(self) -> Manifest | None:
        """Read the object; None if it is gone or another has its name."""
        try:
            found = self.api.get(self.path)
        except RefusedError as refusal:
            if refusal.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return found if found["metadata"]["uid"] == self.uid else None

    def until(self, accept: Callable[[Manifest], object], what: str, timeout: float = 20.0) -> Manifest:
        """Wait until the object, which must not go, is as described; returns it."""
        seen = wait_for(
            self.read,
            until=lambda found: found is None or accept(found),
            what=f"{self.name} to {what}",
            timeout=timeout,
            interval=_INTERVAL,
        )
        assert seen is not None, f"{self.name} is gone before it could {what}"
        return seen

    def until_gone(self) -> None:
        """Wait until the object is deleted."""
        wait_for(
            self.read, until=lambda found: found is None, what=f"{self.name} to go", interval=_INTERVAL
        )

    def history(self) -> list[tuple[str, Manifest]]:
        """All that became of the object since it was created, as (event type, object), up to now or its end."""
        past = []
        for event in self.api.watch(
            self._collection, 1, fieldSelector=f"metadata.name={self.name}", resourceVersion=self._version
        ):
            past.append(event)
            if event[0] == "DELETED":
                break
        return past

    def merge(self, patch: Manifest, subresource: str = "") -> Manifest:
        """Merge a patch into the object, or into one of its subresources."""
        return self.api.merge(f"{self.path}/{subresource}" if subresource else self.path, patch)

    def delete(self) -> None:
        """Delete the object at once."""
        self.api.delete(self.path)


class Node(Stored):
    """A node without a machine."""

    def cordon(self, *, on: bool = True) -> None:
        """Keep new pods off, or let them in again."""
        self.merge({"spec": {"unschedulable": on}})

    def set_ready(self, status: str) -> None:
        """Report what a kubelet would; only where nothing else plays the kubelet."""
        self.merge({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Test"}]}}, "status")

    def resize(self, **allocatable: str) -> None:
        """Change how much the node has to give."""
        self.merge({"status": {"allocatable": allocatable}}, "status")


class Pod(Stored):
    """A pod for the operator's scheduler."""

    def until_bound(self, timeout: float = 20.0) -> str:
        """Wait until the pod is bound; returns the node's name."""
        bound = self.until(lambda pod: pod["spec"].get("nodeName"), "be bound", timeout)
        return str(bound["spec"]["nodeName"])

    def until_refused(self, *words: str) -> str:
        """Wait until the scheduler says, in these words among others, that the pod fits nowhere; returns all."""
        refused = self.until(
            lambda pod: all(word in _refusal(pod) for word in ("0/", *words)), f"be refused with {words}"
        )
        assert "nodeName" not in refused["spec"]
        return _refusal(refused)


class Lock(Stored):
    """A Reservation."""

    def until_phase(self, phase: str, timeout: float = 20.0) -> Manifest:
        """Wait for a phase; returns the status."""
        found = self.until(lambda lock: lock.get("status", {}).get("phase") == phase, f"be {phase}", timeout)
        status: Manifest = found["status"]
        return status

    def until_condition(self, kind: str, status: str, reason: str) -> Manifest:
        """Wait for a condition; returns it."""
        found = self.until(
            lambda lock: _matches(condition(lock["status"], kind), status, reason),
            f"have {kind}={status} with reason {reason}",
        )
        return condition(found["status"], kind)

    def status(self) -> Manifest:
        """Read the status as it is now."""
        status: Manifest = self.api.get(self.path)["status"]
        return status

    def edit(self, **spec: Any) -> None:
        """Merge changes into the spec; None removes a field."""
        self.merge({"spec": spec})

    def phases(self) -> list[str]:
        """Phases that the object has had, in order, each change once; without a phase it was not told yet."""
        seen: list[str] = []
        for _, lock in self.history():
            phase = lock["status"].get("phase", "")
            if phase and phase not in seen[-1:]:
                seen.append(phase)
        return seen


class World:
    """Makes the nodes, pods and locks of one test, and clears them away."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.namespace = f"test-{secrets.token_hex(4)}"
        self.selector = {_LABEL: self.namespace}
        api.create(_NAMESPACES.collection(), {"metadata": {"name": self.namespace}})

    def close(self) -> None:
        """Take away all that was made."""
        for resource in (RESERVATIONS, PODS):
            self.api.delete(resource.collection(self.namespace))
        self.api.delete(f"{NODES.collection()}?labelSelector={_LABEL}={self.namespace}")
        self.api.delete(_NAMESPACES.item(self.namespace))

    def node_name(self, name: str) -> str:
        """Give the name that the node called `name` has, or will have, among those of all tests."""
        return f"{self.namespace}-{name}"

    def node(
        self,
        name: str = "a",
        *,
        cpu: str = "4",
        labels: Mapping[str, str] | None = None,
        extended: Mapping[str, str] | None = None,
    ) -> Node:
        """Create a node that is Ready and takes pods."""
        size = {"cpu": cpu, "memory": "16Gi", "pods": "110", **(extended or {})}
        created = self.api.create(
            NODES.collection(),
            {
                "metadata": {
                    "name": self.node_name(name),
                    "labels": {**self.selector, **(labels or {})},
                },
                "status": {
                    "capacity": size,
                    "allocatable": size,
                    "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
                },
            },
        )
        node = Node(self.api, NODES, created)
        node.merge({"spec": {"taints": None}})  # what admission puts on every new node
        return node

    def pod(self, name: str = "web-0", cpu: str = "1", *, metadata: Manifest | None = None, **spec: Any) -> Pod:
        """Create a pod that may run on the nodes of this test."""
        manifest = {
            "metadata": {"name": name, "namespace": self.namespace} | (metadata or {}),
            "spec": self._pod_spec(cpu) | spec,
        }
        return Pod(self.api, PODS, self.api.create(PODS.collection(self.namespace), manifest))

    def bound_pod(self, node: Node, name: str = "resident", cpu: str = "1", **spec: Any) -> Pod:
        """Create a pod that is bound from the start, as another scheduler or a kubelet would."""
        return self.pod(name, cpu, nodeName=node.name, **spec)

    def deployment(self, name: str, cpu: str) -> None:
        """Create a Deployment of one such pod."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": self._pod_spec(cpu)}
        self.api.create(
            _DEPLOYMENTS.collection(self.namespace),
            {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
        )

    def reservation(self, name: str = "web-0", cpu: str = "1", node: Node | str | None = None, **spec: Any) -> Manifest:
        """Write the manifest of a lock for the pod of its name, on a node or on any node of this test."""
        node_name = node.name if isinstance(node, Node) else node
        where = {"nodeName": node_name} if node_name else {"nodeSelector": self.selector}
        if "template" not in spec:
            spec = {"resources": {"cpu": cpu}} | spec
        if "expireAt" not in spec:
            spec = {"ttlSeconds": 600} | spec
        return {
            "apiVersion": "tidelock.dev/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"owners": [{"pod": {"name": name}}], **where, **spec},
        }

    def lock(self, name: str = "web-0", cpu: str = "1", node: Node | str | None = None, **spec: Any) -> Lock:
        """Create a lock for the pod of its name, on a node or on any node of this test."""
        return self.store(self.reservation(name, cpu, node, **spec))

    def active_lock(self, name: str = "web-0", cpu: str = "1", node: Node | str | None = None, **spec: Any) -> Lock:
        """Create a lock and wait until it holds."""
        lock = self.lock(name, cpu, node, **spec)
        lock.until_phase("Active")
        return lock

    def store(self, manifest: Manifest) -> Lock:
        """Create a lock from its manifest."""
        return Lock(self.api, RESERVATIONS, self.api.create(RESERVATIONS.collection(self.namespace), manifest))

    def apply(self, manifest: Manifest) -> Lock:
        """Apply a lock's manifest, as GitOps tools do again and again."""
        path = RESERVATIONS.item(manifest["metadata"]["name"], self.namespace)
        return Lock(self.api, RESERVATIONS, self.api.apply(path, manifest))

    def event_reasons(self, about: Stored) -> set[str]:
        """Reasons of the events about an object."""
        path = f"{EVENTS.collection(self.namespace)}?fieldSelector=regarding.name={about.name}"
        events = self.api.get(path)["items"]
        return {event["reason"] for event in events if event["regarding"]["uid"] == about.uid}

    def taken_cpu(self, node: Node) -> Decimal:
        """Cores of a node that bound pods request and active locks hold."""
        pods = self.api.get(PODS.collection(self.namespace))["items"]
        locks = self.api.get(RESERVATIONS.collection(self.namespace))["items"]
        requested = (
            container["resources"]["requests"]["cpu"]
            for pod in pods
            if pod["spec"].get("nodeName") == node.name
            for container in pod["spec"]["containers"]
        )
        held = (
            lock["status"]["resources"]["cpu"]
            for lock in locks
            if lock["status"].get("phase") == "Active" and lock["status"]["nodeName"] == node.name
        )
        return sum(map(parse_quantity, (*requested, *held)), Decimal(0))

    def _pod_spec(self, cpu: str) -> Manifest:
        container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": cpu}}}
        return {
            "schedulerName": SCHEDULER,
            "nodeSelector": self.selector,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }


def condition(status: Manifest, kind: str) -> Manifest:
    """Give a condition of a status; empty if it is not there."""
    conditions: list[Manifest] = status.get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def until_past(instant: str) -> None:
    """Wait until an instant of a status has passed."""
    time.sleep(max(parse_instant(instant) - time.time(), 0.0) + 0.1)


def _matches(found: Manifest, status: str, reason: str) -> bool:
    return (found.get("status"), found.get("reason")) == (status, reason)


def _refusal(pod: Manifest) -> str:
    return str(condition(pod["status"], "PodScheduled").get("message", ""))
