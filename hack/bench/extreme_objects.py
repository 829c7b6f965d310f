"""Parts of the objects of `bench.extremes`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.decisions import NAMESPACE, SCHEDULER
from bench.nodes import Json
from bench.scenarios import pod_object

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Thing:
    """An object and its kind: the name of a lister of the decider, or pod, reservation, schedule or quote."""

    kind: str
    body: Json


def make_pod(name: str, *, labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Thing:
    """Return a pod with one small container, unless the spec has others."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
    body = pod_object(name, SCHEDULER, {"labels": labels or {}, "spec": {"containers": [container], **spec}})
    body["metadata"] |= {"namespace": NAMESPACE, "uid": name, "resourceVersion": "1"}
    body["metadata"]["annotations"] = annotations or {}
    return Thing("pod", body)


def make_reservation(name: str, spec: Json) -> Thing:
    """Return a reservation for a day, unless the spec has another time."""
    metadata = {"name": name, "namespace": NAMESPACE, "generation": 1, "uid": name, "resourceVersion": "1"}
    return Thing("reservation", {"metadata": metadata, "spec": {"ttlSeconds": 86_400, **spec}})


def requesting(names: Sequence[str]) -> Json:
    """Return a container that requests 1 of each resource."""
    return {
        "name": "main",
        "image": "pause",
        "resources": {"requests": dict.fromkeys(names, "1")},
    }


def resource_names(prefix: str, count: int) -> list[str]:
    """Return names of extended resources."""
    return [f"{prefix}.example.com/r-{number}" for number in range(count)]


def anti_affinity_term(number: int) -> Json:
    """Return a term of anti-affinity that differs for each number, and that selects nearly all pods."""
    expression = {"key": "app", "operator": "NotIn", "values": [f"none-{number}"]}
    return {
        "topologyKey": ZONE if number % 2 else HOSTNAME,
        "labelSelector": {"matchExpressions": [expression]},
        "namespaceSelector": {},
    }


def anti_affinity_of(terms: int) -> Json:
    """Return an affinity with so many terms of anti-affinity."""
    required = [anti_affinity_term(number) for number in range(terms)]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def make_template(constraints: int, terms: int, number: int = 0) -> Json:
    """Return a template with many constraints and anti-affinity terms about all pods like itself."""
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["worst", f"w-{number}"]}]}
    term = {"labelSelector": selector, "namespaceSelector": {}, "topologyKey": HOSTNAME}
    required = [{**term, "namespaces": [f"other-{each}"]} for each in range(terms)]
    constraint = {"maxSkew": 100, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {
        "metadata": {"labels": {"app": "worst"}},
        "spec": {
            "containers": [requesting(["cpu"]) | {"resources": {"requests": {"cpu": "1m"}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "topologySpreadConstraints": [
                {**constraint, "topologyKey": HOSTNAME if each % 2 else ZONE, "minDomains": 1 + each}
                for each in range(constraints)
            ],
        },
    }
