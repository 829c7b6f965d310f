"""Draws objects of each kind, mostly valid ones, and changes of them that may be refused."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import yaml

Json = dict[str, Any]

_SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"
_WRONG: tuple[Any, ...] = (
    "",
    "x y",
    -1,
    0,
    2**40,
    1.5,
    True,
    None,
    [],
    {},
    ["x"],
    {"x": 1},
    "2030-01-01T00:00:00Z",
    "99999Gi",
)
_LABELS: tuple[dict[str, str], ...] = (
    {"app": "a"},
    {"app": "b"},
    {"app": "a", "x": "1"},
    {},
    {"app": "a", "tier": "t"},
)
_CPU = ("1", "500m", "0.5", "1000m", 2, "2e3m", "1.5")
_MEMORY = ("1Gi", "1024Mi", "0.5Gi", 1048576, "1e9", "1500000k")


def likely(rng: Random, chance: float) -> bool:
    """Return True with a chance between 0 and 1."""
    return rng.random() < chance


def labels(rng: Random) -> Json:
    """Return labels that some selectors select."""
    return dict(rng.choice(_LABELS))


def container(rng: Random, name: str = "c") -> Json:
    """Return a container."""
    made: Json = {
        "name": name,
        "image": rng.choice(("i", "i:1", "registry.example.com:5000/i", "i@sha256:0")),
    }
    if likely(rng, 0.6):
        resources: Json = {}
        for field in rng.sample(("requests", "limits"), rng.randint(1, 2)):
            resources[field] = {
                name: rng.choice(values)
                for name, values in (("cpu", _CPU), ("memory", _MEMORY))
                if likely(rng, 0.8)
            }
        made["resources"] = resources
    if likely(rng, 0.1):
        made["ports"] = [{"containerPort": 80, "hostPort": rng.choice((0, 8080))}]
    return made


def pod(rng: Random) -> Json:
    """Return the spec of a pod with its kind."""
    spec: Json = {"containers": [container(rng)]}
    if likely(rng, 0.15):
        spec["containers"].append(container(rng, rng.choice(("d", "c"))))
    for name, chance, values in (
        ("schedulerName", 0.3, ("tidelock-scheduler", "")),
        ("schedulingGates", 0.15, ([{"name": "a/b"}], [{"name": "a/b"}, {"name": "c"}], [])),
        ("nodeSelector", 0.2, ({"k": "v"}, {}, {"bad key": "v"})),
        ("terminationGracePeriodSeconds", 0.3, (0, 1, 5, -1)),
        ("priority", 0.1, (0, 5)),
        ("priorityClassName", 0.1, ("system-node-critical", "nope", "")),
        ("restartPolicy", 0.2, ("Never", "OnFailure", "Sometimes")),
        ("hostNetwork", 0.1, (False, True)),
        (
            "tolerations",
            0.2,
            (
                [{"operator": "Exists"}],
                [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                [{"key": "a", "operator": "Exists", "value": "b"}],
                [{"value": "b"}],
                [
                    {
                        "key": "node.kubernetes.io/not-ready",
                        "operator": "Exists",
                        "effect": "NoExecute",
                        "tolerationSeconds": 5,
                    }
                ],
            ),
        ),
        ("nodeName", 0.1, ("n1",)),
        ("preemptionPolicy", 0.05, ("Never", "PreemptLowerPriority")),
        ("enableServiceLinks", 0.1, (False, True)),
        ("serviceAccountName", 0.1, ("sa",)),
        ("unknownField", 0.05, (1,)),
        ("volumes", 0.1, ([{"name": "v"}], [{"name": "v", "configMap": {"name": "c"}}])),
        (
            "affinity",
            0.1,
            (
                {},
                {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
                            ]
                        }
                    }
                },
            ),
        ),
    ):
        if likely(rng, chance):
            spec[name] = deepcopy(rng.choice(values))
    return {"kind": "Pod", "apiVersion": "v1", "spec": spec}


def config_map(rng: Random) -> Json:
    """Return a ConfigMap."""
    return {"kind": "ConfigMap", "apiVersion": "v1", "data": {rng.choice("xyz"): rng.choice(("1", "", "2"))}}


def secret(rng: Random) -> Json:
    """Return a Secret."""
    return {"kind": "Secret", "apiVersion": "v1", "data": {"k": rng.choice(("YQ==", ""))}}


def node(rng: Random) -> Json:
    """Return a Node."""
    made: Json = {
        "kind": "Node",
        "apiVersion": "v1",
        "spec": {},
        "status": {"capacity": {"cpu": rng.choice(_CPU), "memory": rng.choice(_MEMORY), "pods": "110"}},
    }
    if likely(rng, 0.3):
        made["spec"] = {
            "unschedulable": rng.choice((True, False)),
            "taints": rng.choice(([], [{"key": "a", "effect": "NoSchedule"}])),
        }
    if likely(rng, 0.3):
        made["status"]["conditions"] = [{"type": "Ready", "status": rng.choice(("True", "False"))}]
    return made


def budget(rng: Random) -> Json:
    """Return a PodDisruptionBudget."""
    spec: Json = {
        "selector": rng.choice(
            (
                {"matchLabels": {"app": "a"}},
                {},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]},
            )
        )
    }
    spec[rng.choice(("maxUnavailable", "minAvailable"))] = rng.choice((1, 0, "50%"))
    if likely(rng, 0.2):
        spec["unhealthyPodEvictionPolicy"] = rng.choice(("AlwaysAllow", "IfHealthyBudget"))
    return {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "spec": spec}


def lease(rng: Random) -> Json:
    """Return a Lease."""
    spec = {
        "holderIdentity": rng.choice(("me", "you", "")),
        "leaseDurationSeconds": rng.choice((15, 1, 0)),
        "leaseTransitions": rng.choice((0, 1, 7, -1)),
        "renewTime": rng.choice(
            ("2026-01-01T00:00:00.000001Z", "2026-01-01T01:00:00.500000+01:00", "2026-01-01T00:00:00Z")
        ),
    }
    chosen = {name: value for name, value in spec.items() if likely(rng, 0.8)}
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": chosen}


def event(rng: Random) -> Json:
    """Return an Event of events.k8s.io."""
    made = {
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "type": rng.choice(("Normal", "Warning")),
        "reason": "Scheduled",
        "action": "Binding",
        "note": "a note",
        "regarding": {"kind": "Pod", "name": "a", "namespace": "NAMESPACE"},
        "reportingController": "tidelock-scheduler",
        "reportingInstance": "tidelock-0",
    }
    chosen = {name: value for name, value in made.items() if likely(rng, 0.95)}
    return {"kind": "Event", "apiVersion": "events.k8s.io/v1", **chosen}


def replica_set(rng: Random) -> Json:
    """Return a ReplicaSet."""
    return {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "spec": {
            "replicas": rng.choice((0, 1, 3)),
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container(rng)]}},
        },
    }


def deployment(rng: Random) -> Json:
    """Return a Deployment."""
    made = replica_set(rng) | {"kind": "Deployment"}
    if likely(rng, 0.3):
        made["spec"]["strategy"] = {"type": "Recreate"}
    return made


def claim(rng: Random) -> Json:
    """Return a PersistentVolumeClaim."""
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": rng.choice(("1Gi", "1024Mi"))}},
    }
    if likely(rng, 0.5):
        spec["storageClassName"] = rng.choice(("", "fast"))
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": spec}


def priority_class(rng: Random) -> Json:
    """Return a PriorityClass."""
    return {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "value": rng.choice((0, 10, 1000))}


def device_claim(rng: Random) -> Json:
    """Return a ResourceClaim."""
    exactly: Json = {"deviceClassName": "gpu"}
    if likely(rng, 0.3):
        exactly["count"] = rng.choice((1, 2))
    return {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def _samples() -> dict[str, list[Json]]:
    found: dict[str, list[Json]] = {}
    for path in sorted(_SAMPLES.glob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            if each and each["apiVersion"].startswith("tidelock.dev"):
                found.setdefault(each["kind"], []).append(each)
    return found


SAMPLES = _samples()
"""The samples of Tidelock's kinds."""


def own(kind: str) -> Callable[[Random], Json]:
    """Return the drawing of one of Tidelock's kinds."""

    def draw(rng: Random) -> Json:
        if kind == "Reservation" and likely(rng, 0.7):
            return reservation(rng)
        made = deepcopy(rng.choice(SAMPLES[kind]))
        made.pop("metadata", None)
        return made

    return draw


def reservation(rng: Random) -> Json:
    """Return a Reservation."""
    owner: Json = rng.choice(
        (
            {"selector": {"matchLabels": {"app": "a"}}},
            {"pod": {"name": "a"}},
            {"controller": {"kind": "ReplicaSet", "name": "a", "apiVersion": "apps/v1"}},
            {},
        )
    )
    spec: Json = {
        "owners": [deepcopy(owner)],
        "resources": {"cpu": rng.choice(("1", "500m", 2)), "memory": rng.choice(("1Gi", "1", 1048576))},
        "ttlSeconds": rng.choice((60, 600)),
    }
    for name, chance, values in (
        ("priority", 0.3, (0, 10, -5)),
        ("nodeName", 0.2, ("n1",)),
        ("pendingDeadlineSeconds", 0.2, (0, 30)),
        ("preemptionPolicy", 0.2, ("Never", "PreemptLowerPriority", "Sometimes")),
        ("retention", 0.2, ("Delete", "Keep")),
        ("commit", 0.2, ({"withinSeconds": 60}, {"withinSeconds": 60, "token": "t"})),
        ("startAt", 0.1, ("2030-01-01T00:00:00Z", "tomorrow")),
        ("expireAt", 0.1, ("2030-01-02T00:00:00Z",)),
        ("runSeconds", 0.1, (60,)),
        ("reuse", 0.1, ("Always", "Never")),
        ("borrowable", 0.1, (True, False)),
        ("anyOf", 0.1, ("g",)),
    ):
        if likely(rng, chance):
            spec[name] = deepcopy(rng.choice(values))
    return {"kind": "Reservation", "apiVersion": "tidelock.dev/v1alpha1", "spec": spec}


def broken(rng: Random, made: Json) -> Json:
    """Return an object with one value somewhere replaced or removed."""
    made = deepcopy(made)
    places = list(_places(made.get("spec", made)))
    if not places:
        return made
    parent, name = rng.choice(places)
    if likely(rng, 0.3):
        del parent[name]
    else:
        parent[name] = deepcopy(rng.choice(_WRONG))
    return made


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for name, each in value.items():
            yield value, name
            yield from _places(each)
    elif isinstance(value, list):
        for each in value:
            yield from _places(each)
