"""Manifests of plain Reservations, of which a test changes some fields."""

from typing import Any

from cluster.api import Manifest


def reservation(**changes: Any) -> Manifest:
    """Build a good Reservation with some fields of its spec replaced, or removed by None."""
    spec = {
        "nodeName": "worker-1",
        "resources": {"cpu": "1", "memory": "1Gi"},
        "owners": [{"pod": {"name": "web-0"}}],
        "ttlSeconds": 600,
    } | changes
    return {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "malformed", "namespace": "default"},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def named(name: str) -> Manifest:
    """Build a good Reservation of this name."""
    return reservation() | {"metadata": {"name": name, "namespace": "default"}}


def amount(resource: str, value: Any) -> Manifest:
    """Build a Reservation that asks for this amount of a resource."""
    return reservation(resources={resource: value})


def owned(*owners: Any) -> Manifest:
    """Build a Reservation with these owners."""
    return reservation(owners=list(owners))


def templated(**changes: Any) -> Manifest:
    """Build a Reservation from a pod template with some fields of the pod's spec replaced."""
    pod = {"containers": [{"name": "web", "resources": {"requests": {"cpu": "1"}}}]} | changes
    return reservation(resources=None, template={"spec": pod})


def requesting(resource: str, value: Any) -> Manifest:
    """Build a Reservation from a pod template with a container that requests this amount."""
    return templated(containers=[{"name": "web", "resources": {"requests": {resource: value}}}])


def required(**expression: Any) -> Manifest:
    """Build a Reservation with a node affinity of this one expression."""
    selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return reservation(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    )
