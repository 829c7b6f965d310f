"""Nodes, pods and reservations of one test, separated from those of other tests by names and a label."""

import secrets
from collections.abc import Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from cluster.api import Api, Manifest, RefusedError
from cluster.live import Live, Lock, Node, Pod
from devcluster import wait_for
from tidelock.kube.client import (
    EVENTS,
    NODES,
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    ApiResource,
)

SCHEDULER = "tidelock-scheduler"

_CLASSES = ApiResource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
_LABEL = "test.tidelock.dev/world"
_DEPLOYMENTS = ApiResource("apps", "v1", "deployments", "Deployment")
NAMESPACES = ApiResource("", "v1", "namespaces", "Namespace", namespaced=False)


class World:
    """A maker of the nodes, pods and reservations of one test, which also deletes them."""

    def __init__(self, api: Api, namespace: str = "") -> None:
        """Create the test's namespace, with a given name if a test needs the same name in two clusters.

        `api` creates the objects of the namespace. `admin`, here the same client, creates quotas and the
        objects outside of the namespace.
        """
        self.admin = self.api = api
        self.namespace = namespace or f"test-{secrets.token_hex(4)}"
        self.selector = {_LABEL: self.namespace}
        api.create(NAMESPACES.collection(), {"metadata": {"name": self.namespace}})

    def close(self) -> None:
        """Delete all objects of the test. A test's WaterLevel has the name of its namespace.

        The namespace goes first: a ReplicaSet would create the deleted pods again, and another test's nodes
        would get them.
        """
        self.admin.delete(NAMESPACES.item(self.namespace))
        self.admin.delete_all(f"{WATERLEVELS.collection()}?fieldSelector=metadata.name={self.namespace}")
        for resource in (RESERVATIONSCHEDULES, RESERVATIONGROUPS, RESERVATIONS, PODS):
            self.admin.delete_all(resource.collection(self.namespace))
        self.admin.delete_all(f"{NODES.collection()}?labelSelector={_LABEL}={self.namespace}")

    def node_name(self, name: str) -> str:
        """Return the full name of the test's node `name`, which no other test uses."""
        return f"{self.namespace}-{name}"

    def node(
        self,
        name: str = "a",
        *,
        cpu: str = "4",
        labels: Mapping[str, str] | None = None,
        extended: Mapping[str, str] | None = None,
    ) -> Node:
        """Create a node that is Ready and schedulable."""
        size = {"cpu": cpu, "memory": "16Gi", "pods": "110", **(extended or {})}
        created = self.admin.create(
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
        node = Node(self.admin, NODES, created)
        node.merge({"spec": {"taints": None}})  # which admission puts on every new node
        return node

    def known_node(self, name: str = "a", **fields: Any) -> Node:
        """Create a node, and wait until the operator knows it. Its watches have no common order.

        So a reservation that may not wait could be refused before its node has come.
        """
        node = self.node(name, **fields)
        self.active_reservation(f"{node.name}-is-known", "1m", node=node).delete()
        return node

    def pod(
        self, name: str = "web-0", cpu: str = "1", *, metadata: Manifest | None = None, **spec: Any
    ) -> Pod:
        """Create a pod that can run only on the nodes of this test."""
        manifest = {
            "metadata": {"name": name, "namespace": self.namespace} | (metadata or {}),
            "spec": self.pod_spec(cpu) | spec,
        }
        return Pod(self.api, PODS, self.api.create(PODS.collection(self.namespace), manifest))

    def bound_pod(self, node: Node, name: str = "resident", cpu: str = "1", **spec: Any) -> Pod:
        """Create a bound pod, as if another scheduler had bound it, and wait until the operator knows it."""
        pod = self.pod(name, cpu, nodeName=node.name, **spec)
        self.until_known(pod)
        return pod

    def until_known(self, pod: Pod) -> None:
        """Wait until the operator knows that a pod is bound. Then a reservation for the pod is consumed.

        The operator's watches of pods and of reservations have no common order. So a reservation could get
        capacity that an earlier pod already uses, and lose it again.
        """
        witness = self.reservation(
            f"{pod.name}-is-known", "1m", owners=[{"pod": {"name": pod.name}}], retention="Retain"
        )
        witness.until_phase("Consumed")
        witness.delete()

    def priority_class(self, name: str, value: int, policy: str = "PreemptLowerPriority") -> Live:
        """Create or update a PriorityClass, and wait until the API server admits pods of it."""
        manifest = {
            "apiVersion": _CLASSES.api_version,
            "kind": _CLASSES.kind,
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": policy,
        }
        made = Live(self.admin, _CLASSES, self.admin.apply(_CLASSES.item(name), manifest))
        wait_for(lambda: self._admits(name), what=f"pods of class {name} to be admitted")
        return made

    def deployment(self, name: str, cpu: str) -> None:
        """Create a Deployment of one pod that can run on the nodes of this test."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": self.pod_spec(cpu)}
        self.api.create(
            _DEPLOYMENTS.collection(self.namespace),
            {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}},
        )

    def manifest(
        self, name: str = "web-0", cpu: str = "1", node: Node | str | None = None, **spec: Any
    ) -> Manifest:
        """Build the manifest of a reservation for the pod of its name, on a node or any node of this test."""
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

    def reservation(
        self, name: str = "web-0", cpu: str = "1", node: Node | str | None = None, **spec: Any
    ) -> Lock:
        """Create a reservation for the pod of its name, on a node or on any node of this test."""
        return self.store(self.manifest(name, cpu, node, **spec))

    def active_reservation(
        self, name: str = "web-0", cpu: str = "1", node: Node | str | None = None, **spec: Any
    ) -> Lock:
        """Create a reservation and wait until it is active."""
        reservation = self.reservation(name, cpu, node, **spec)
        reservation.until_phase("Active")
        return reservation

    def store(self, manifest: Manifest) -> Lock:
        """Create a reservation from its manifest."""
        return Lock(
            self.api, RESERVATIONS, self.api.create(RESERVATIONS.collection(self.namespace), manifest)
        )

    def apply(self, manifest: Manifest) -> Lock:
        """Apply a reservation's manifest, as GitOps tools do repeatedly."""
        path = RESERVATIONS.item(manifest["metadata"]["name"], self.namespace)
        return Lock(self.api, RESERVATIONS, self.api.apply(path, manifest))

    def group(self, name: str = "train", *, members: int | list[Manifest] = 2, **spec: Any) -> Live:
        """Create a group of one-core reservations for pods labelled with its name, or of given members."""
        worker = {"name": "worker", "count": members, "resources": {"cpu": "1"}}
        kinds = [worker] if isinstance(members, int) else members
        where = {"nodeSelector": self.selector, "owners": [{"selector": {"matchLabels": {"job": name[:63]}}}]}
        if "expireAt" not in spec:
            spec = {"ttlSeconds": 600} | spec
        manifest = {
            "apiVersion": RESERVATIONGROUPS.api_version,
            "kind": RESERVATIONGROUPS.kind,
            "metadata": {"name": name},
            "spec": {"members": [where | kind for kind in kinds], **spec},
        }
        made = self.api.create(RESERVATIONGROUPS.collection(self.namespace), manifest)
        return Live(self.api, RESERVATIONGROUPS, made)

    def schedule(self, name: str = "nightly", **spec: Any) -> Live:
        """Create a schedule of one-core reservations for pods labelled with its name, by default yearly."""
        template = {
            "resources": {"cpu": "1"},
            "nodeSelector": self.selector,
            "owners": [{"selector": {"matchLabels": {"job": name[:63]}}}],
            "pendingDeadlineSeconds": 31_536_000,
        }
        manifest = {
            "apiVersion": RESERVATIONSCHEDULES.api_version,
            "kind": RESERVATIONSCHEDULES.kind,
            "metadata": {"name": name},
            "spec": {"schedule": "@yearly", "durationSeconds": 600, "template": {"spec": template}, **spec},
        }
        made = self.api.create(RESERVATIONSCHEDULES.collection(self.namespace), manifest)
        return Live(self.api, RESERVATIONSCHEDULES, made)

    def member(self, name: str) -> Lock:
        """Wait for a reservation that the operator creates for a group or a schedule, and return it."""
        path = RESERVATIONS.item(name, self.namespace)
        found = wait_for(lambda: self._found(path), what=f"{name} to be made")
        assert found is not None
        return Lock(self.api, RESERVATIONS, found)

    def quota(self, name: str = "team", **spec: Any) -> Live:
        """Create a quota for the reservations of this test, and wait until the operator knows it.

        Without fields it allows any priority, and preemption.
        """
        manifest = {
            "apiVersion": RESERVATIONQUOTAS.api_version,
            "kind": RESERVATIONQUOTAS.kind,
            "metadata": {"name": name},
            "spec": spec or {"maxPriority": 1_000_000_000, "preemptionPolicy": "PreemptLowerPriority"},
        }
        made = self.admin.create(RESERVATIONQUOTAS.collection(self.namespace), manifest)
        quota = Live(self.admin, RESERVATIONQUOTAS, made)
        quota.until(lambda found: found["status"]["observedGeneration"] == 1, "be known to the operator")
        return quota

    def quote(self, name: str = "ask", **spec: Any) -> Live:
        """Create a quote for a reservation on the nodes of this test."""
        manifest = {
            "apiVersion": RESERVATIONQUOTES.api_version,
            "kind": RESERVATIONQUOTES.kind,
            "metadata": {"name": name},
            "spec": {"nodeSelector": self.selector} | spec,
        }
        made = self.api.create(RESERVATIONQUOTES.collection(self.namespace), manifest)
        return Live(self.api, RESERVATIONQUOTES, made)

    def event_reasons(self, about: Live) -> set[str]:
        """Return the reasons of the events about an object."""
        path = f"{EVENTS.collection(self.namespace)}?fieldSelector=regarding.name={about.name}"
        events = self.admin.get(path)["items"]
        return {event["reason"] for event in events if event["regarding"]["uid"] == about.uid}

    def taken_cpu(self, node: Node) -> Decimal:
        """Return the cores of a node that bound pods request or active reservations hold for unbound pods."""
        pods = self.api.get(PODS.collection(self.namespace))["items"]
        reservations = self.api.get(RESERVATIONS.collection(self.namespace))["items"]
        bound = {pod["metadata"]["name"]: pod["spec"] for pod in pods if pod["spec"].get("nodeName")}
        requested = (
            container["resources"]["requests"]["cpu"]
            for spec in bound.values()
            if spec["nodeName"] == node.name
            for container in spec["containers"]
        )
        held = (
            reservation["status"]["resources"]["cpu"]
            for reservation in reservations
            if reservation["status"].get("phase") == "Active"
            and reservation["status"]["nodeName"] == node.name
            and not any(owner.get("pod", {}).get("name") in bound for owner in reservation["spec"]["owners"])
        )
        return sum(map(parse_quantity, (*requested, *held)), Decimal(0))

    def _found(self, path: str) -> Manifest | None:
        try:
            return self.api.get(path)
        except RefusedError as refusal:
            if refusal.status != HTTPStatus.NOT_FOUND:
                raise
            return None

    def _admits(self, class_name: str) -> bool:
        """Return whether the API server, which caches classes, already admits a pod of this class."""
        spec = self.pod_spec("1") | {"priorityClassName": class_name}
        path = f"{PODS.collection(self.namespace)}?dryRun=All"
        try:
            self.api.create(path, {"metadata": {"name": "dry-run"}, "spec": spec})
        except RefusedError as refusal:
            if refusal.status != HTTPStatus.FORBIDDEN:
                raise
            return False
        return True

    def pod_spec(self, cpu: str) -> Manifest:
        """Build the spec of a pod that can run only on the nodes of this test."""
        container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": cpu}}}
        return {
            "schedulerName": SCHEDULER,
            "nodeSelector": self.selector,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        }
