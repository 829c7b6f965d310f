"""The objects of the fuzzer by number, and their changes, each drawn from a seed alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fuzz.hostile import QUANTITIES, TEXTS, deep, mutated, plain
from fuzz.schema import Json, Schema, of_crds, of_wire
from tidelock.kube.client import (
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
from tidelock.model.lenient import Reader
from tidelock.model.nodes import Node
from tidelock.model.pods import BORROWS, CLAIMED_RESERVATIONS, REQUIRE_RESERVATION, RUN_SECONDS, Pod
from tidelock.model.usage_annotations import NODE_LEVEL, POD_USAGE
from tidelock.scheduler.informers.informers import OTHERS

SCHEDULER = "tidelock-scheduler"
NODE_LABEL = "fuzz.tidelock.dev/node"
"""Label of the nodes that most objects select."""

_SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"
_OURS = {
    each.kind: each
    for each in (
        RESERVATIONS,
        RESERVATIONGROUPS,
        RESERVATIONSCHEDULES,
        RESERVATIONQUOTES,
        RESERVATIONQUOTAS,
        WATERLEVELS,
    )
}
_WORKLOADS = [
    ApiResource("apps", "v1", "deployments", "Deployment"),
    ApiResource("apps", "v1", "daemonsets", "DaemonSet"),
    ApiResource("batch", "v1", "jobs", "Job"),
]
_FOREIGN = {
    each.kind: each for each in (PODS, NODES, *(resource for resource, _ in OTHERS.values()), *_WORKLOADS)
}
RESOURCES: Mapping[str, ApiResource] = _OURS | _FOREIGN
"""Every kind that is fuzzed: Tidelock's, those that decisions depend on, and workloads with annotations."""

_WIRE = {PODS.kind: Pod, NODES.kind: Node} | {
    resource.kind: decode.kind for resource, decode in OTHERS.values() if isinstance(decode, Reader)
}
_BY_ADMIN = {RESERVATIONQUOTAS.kind, "CSIStorageCapacity"}
_WEIGHTS = {
    "Reservation": 30,
    "Pod": 30,
    "ReservationGroup": 8,
    "ReservationSchedule": 8,
    "ReservationQuote": 8,
}
_WEIGHTS |= {"Node": 5, "ReservationQuota": 4, "WaterLevel": 2, "Namespace": 0}
_ANNOTATIONS = (
    *(REQUIRE_RESERVATION, RUN_SECONDS, BORROWS, CLAIMED_RESERVATIONS, NODE_LEVEL, POD_USAGE),
    *("tidelock.dev/movable", "tidelock.dev/schedule-template", "tidelock.dev/faults", "example.com/a"),
)
_ORDINARY = 0.95
_SHARE_OF_PATCHES = 0.7
_LIMITED = 0.1
_READ = 0.85  # share of objects with only those fields that the operator reads
_BEYOND = 0.2  # share of objects that break their schema, so that the API server should refuse them


@dataclass(frozen=True)
class Case:
    """An object, and its later changes.

    Attributes:
        name: the seed and the number, from which the case can be drawn again.
        kind: kind of the object.
        manifest: the object. msgspec.Raw in it is JSON that no encoder writes.
        strict: whether the API server refuses unknown fields, as for kubectl, or prunes them.
        limited: whether the object is in the namespace that has quotas.
        patches: merge patches of the object.
        forged: merge patches of its status, which no tenant may write.

    """

    name: str
    kind: str
    manifest: Json
    strict: bool
    limited: bool
    patches: tuple[Json, ...]
    forged: tuple[Json, ...]

    @property
    def resource(self) -> ApiResource:
        """The API resource of the object."""
        return RESOURCES[self.kind]

    @property
    def ours(self) -> bool:
        """Whether Tidelock defines the kind."""
        return self.kind in _OURS

    @property
    def by_admin(self) -> bool:
        """Whether no tenant may write the object."""
        return not self.resource.namespaced or self.kind in _BY_ADMIN


class Source:
    """A source of cases, from a seed and the schemas of the API."""

    def __init__(self, seed: str, schemas: Mapping[str, Schema]) -> None:
        """Prepare with the schemas of Kubernetes' own kinds."""
        self._seed = seed
        self._schemas = {**schemas, **of_crds()}
        self._read = {
            kind: Schema(of_wire(self._schemas[kind], hint))
            for kind, hint in _WIRE.items()
            if kind in self._schemas
        }
        self._kinds = [kind for kind in RESOURCES if kind in self._schemas]
        self._weights = [_WEIGHTS.get(kind, 1) for kind in self._kinds]
        self._samples: dict[str, list[Json]] = {}
        for file in sorted(_SAMPLES.glob("*.yaml")):
            for sample in yaml.safe_load_all(file.read_text()):
                self._samples.setdefault(sample["kind"], []).append(sample)

    def draw(self, number: int) -> Case:
        """Draw the case of a number, which is the same each time."""
        name = f"{self._seed}-{number}"
        rng = Random(name)  # noqa: S311 -- chance, no secret
        [kind] = rng.choices(self._kinds, self._weights)
        schema, resource = self._schemas[kind], RESOURCES[kind]
        if kind in self._read and rng.random() < _READ:
            schema = self._read[kind]
        manifest = self._base(rng, kind, schema)
        beyond = rng.random() < _BEYOND
        for _ in range(rng.choice((1, 1, 1, 2))):
            manifest = mutated(rng, schema, manifest, beyond=beyond)
        status = schema.properties.get("status")
        manifest |= {"apiVersion": resource.api_version, "kind": kind}
        metadata = {"name": f"fuzz-{name}", "labels": {NODE_LABEL: "fuzz"}}
        manifest["metadata"] = _metadata(rng, metadata, beyond=beyond)
        count = rng.choice((1, 1, 2)) if rng.random() < _SHARE_OF_PATCHES else 0
        patches, forged = [], []
        for _ in range(count):
            if status is not None and rng.random() < 1 / 3:
                forged.append(
                    {"status": mutated(rng, status, plain(rng, status), 1, beyond=rng.random() < _BEYOND)}
                )
            else:
                patches.append(self._patch(rng, schema, manifest))
        limited = kind == RESERVATIONQUOTAS.kind or rng.random() < _LIMITED
        strict = rng.random() < 1 / 2
        return Case(name, kind, manifest, strict, limited, tuple(patches), tuple(forged))

    def _base(self, rng: Random, kind: str, schema: Schema) -> Json:
        """Draw an ordinary object: a sample, one made for its kind, or one from its schema."""
        samples = self._samples.get(kind, [])
        if kind in _BASES and rng.random() < _ORDINARY:
            return _BASES[kind](rng)
        if samples and rng.random() < _ORDINARY:
            return dict(rng.choice(samples))
        value: Json = plain(rng, schema)
        return value

    def _patch(self, rng: Random, schema: Schema, manifest: Json) -> Json:
        """Draw a change of one part of the spec or another field, or of the metadata."""
        fields = [
            name for name in schema.properties if name not in {"apiVersion", "kind", "metadata", "status"}
        ]
        if not fields or rng.random() < 1 / 4:
            return {"metadata": _metadata(rng, {}, beyond=True)}
        field = rng.choice(fields)
        beyond = rng.random() < _BEYOND
        changed = mutated(rng, schema.properties[field], manifest.get(field, {}), 1, beyond=beyond)
        if isinstance(changed, dict) and isinstance(manifest.get(field), dict):
            before = manifest[field]
            changed = {key: value for key, value in changed.items() if before.get(key) is not value}
        return {field: changed}


def _metadata(rng: Random, metadata: Json, *, beyond: bool) -> Json:
    """Add some metadata that tenants write.

    Metadata that the API server may refuse is added only if `beyond`.
    """
    if beyond and rng.random() < 1 / 2:
        field, value = rng.choice(list(_METADATA.items()))
        metadata = metadata | {field: value(rng)}
    if rng.random() < 1 / 5:
        metadata = metadata | {"annotations": {rng.choice(_ANNOTATIONS): _annotation(rng)}}
    return metadata


def _annotation(rng: Random) -> Any:
    number = rng.choice(
        (*TEXTS, *map(str, QUANTITIES), "true", "9" * 300, "1," * 2000, "0.5,2035-01-01T00:00:00Z")
    )
    return rng.choice((number, number, "x" * 250_000, '{"cpu":' + "[" * 5000, "[1e400,-1]", '{"cpu": "NaN"}'))


_METADATA: Mapping[str, Callable[[Random], Any]] = {
    "name": lambda rng: rng.choice((*TEXTS, "fuzz-" + "x" * 240, "fuzz." + ".".join("ab" * 30))),
    "generateName": lambda rng: rng.choice(TEXTS),
    "labels": lambda rng: {NODE_LABEL: "fuzz", rng.choice(("a", "job", "app", *TEXTS)): rng.choice(TEXTS)},
    "annotations": lambda rng: {rng.choice((*_ANNOTATIONS, *TEXTS)): _annotation(rng)},
    "finalizers": lambda rng: [rng.choice(("example.com/never", "orphan", *TEXTS))],
    "ownerReferences": lambda rng: (
        [
            {
                "apiVersion": rng.choice(("v1", "apps/v1", "a/b/c", "tidelock.dev/v1alpha1")),
                "kind": rng.choice(("ReplicaSet", "Job", "ReservationGroup", "ReservationSchedule", *TEXTS)),
                "name": rng.choice(("web", *TEXTS)),
                "uid": rng.choice(("1", *TEXTS)),
                "controller": rng.random() < 3 / 4,
            }
        ]
        * rng.choice((1, 1, 50))
    ),
    "creationTimestamp": lambda rng: rng.choice(("9999-12-31T23:59:59Z", None, "x", 1)),
    "deletionTimestamp": lambda rng: rng.choice(("0001-01-01T00:00:00Z", None)),
    "managedFields": lambda rng: [
        {
            "manager": "a",
            "operation": "Update",
            "fieldsType": "FieldsV1",
            "fieldsV1": deep(rng.choice((9, 900))),
        }
    ],
}


def _pod(rng: Random) -> Json:
    """Draw a pod with some of the fields that schedulers read."""
    requests = rng.choice(({"cpu": "100m"}, {"cpu": "1", "memory": "1Gi"}, {}))
    container: Json = {"name": "main", "image": "example.org/none", "resources": {"requests": requests}}
    spec: Json = {"schedulerName": SCHEDULER, "containers": [container], "terminationGracePeriodSeconds": 0}
    selector = {"matchLabels": {NODE_LABEL: "fuzz"}}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    expressions = {"matchExpressions": [{"key": NODE_LABEL, "operator": "Exists"}]}
    spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **term}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "fuzz"}}
    weighted = {"weight": 1, "podAffinityTerm": term}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    required = {"nodeSelectorTerms": [expressions]}
    for field, value in {
        "affinity": {"podAntiAffinity": {preferred: [weighted]}, "podAffinity": {preferred: [weighted]}}
        | {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "topologySpreadConstraints": [spread],
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {NODE_LABEL: "fuzz"},
        "volumes": [claim],
        "initContainers": [container | {"name": "init", "restartPolicy": rng.choice(("Always", None))}],
        "activeDeadlineSeconds": rng.choice((1, 100, 2**31 - 1)),
        "schedulingGates": [{"name": "example.com/gate"}],
        "overhead": None,
        "resourceClaims": None,
    }.items():
        if rng.random() < 1 / 5:
            spec[field] = value
    if rng.random() < 1 / 10:
        container["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 65535))}]
    return {"spec": {name: value for name, value in spec.items() if value is not None}}


def _held(rng: Random) -> Json:
    """Draw the amounts and the owners of a Reservation, a member of a group or a window of a schedule."""
    requests = {"cpu": rng.choice(("100m", "1", "63")), "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": requests}}
    labels = {"app": "fuzz"}
    owners: list[Json] = [{"pod": {"name": "fuzz"}}, {"selector": {"matchLabels": labels}}]
    owners.append({"controller": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "fuzz"}})
    spec: Json = {"owners": [rng.choice(owners)]}
    if rng.random() < 1 / 4:
        template = _pod(rng)["spec"] | {"containers": [container]}
        spec["template"] = {"metadata": {"labels": labels}, "spec": template}
    else:
        spec["resources"] = requests
        spec["nodeSelector"] = {NODE_LABEL: "fuzz"}
        if rng.random() < 1 / 8:
            spec["tolerations"] = [{"operator": "Exists"}]
    return spec


def _reservation(rng: Random) -> Json:
    """Draw a Reservation with some optional fields that do not exclude each other."""
    spec = _held(rng) | {"ttlSeconds": rng.choice((1, 60, 31_536_000))}
    excluding: list[Json] = [
        {},
        {"reuse": "Always"},
        {"borrowable": True, "borrowerNamespaces": ["fuzz"]},
        {"commit": {"withinSeconds": rng.choice((1, 600))}},
        {"startAt": rng.choice(("2035-01-01T00:00:00Z", "2026-01-01T00:00:00Z"))},
        {"lease": {"durationSeconds": rng.choice((1, 60)), "renewTime": "2026-01-01T00:00:00.5Z"}},
        {"runSeconds": rng.choice((1, 3600))},
    ]
    spec |= rng.choice(excluding)
    for field, value in {
        "pendingDeadlineSeconds": rng.choice((0, 60, 31_536_000)),
        "retention": "Retain",
        "ttlSecondsAfterFinished": rng.choice((0, 60)),
        "priority": rng.choice((-1, 100)),
    }.items():
        if rng.random() < 1 / 8:
            spec[field] = value
    return {"spec": spec}


def _group(rng: Random) -> Json:
    kinds = rng.choice((("worker",), ("driver", "worker")))
    members = [{"name": name, "count": rng.choice((1, 2, 8))} | _held(rng) for name in kinds]
    spec: Json = {"members": members, "ttlSeconds": rng.choice((1, 60, 31_536_000))}
    for field, value in {
        "minMembers": 1,
        "topology": {"mode": rng.choice(("Pack", "Spread")), "key": "kubernetes.io/hostname"},
        "pendingDeadlineSeconds": rng.choice((0, 60, 31_536_000)),
        "retention": "Retain",
        "priority": rng.choice((-1, 100)),
    }.items():
        if rng.random() < 1 / 5:
            spec[field] = value
    return {"spec": spec}


def _schedule(rng: Random) -> Json:
    spec: Json = {
        "schedule": rng.choice(("0 2 * * *", "*/1 * * * *", "@yearly", "0 0 29 2 *", "0 0 31 2 *")),
        "durationSeconds": rng.choice((1, 1800, 31_536_000)),
        "template": {"spec": _held(rng)},
    }
    for field, value in {
        "timeZone": rng.choice(("Europe/Berlin", "Pacific/Apia")),
        "ahead": rng.choice((2, 16)),
        "startingDeadlineSeconds": rng.choice((0, 60)),
        "suspend": True,
    }.items():
        if rng.random() < 1 / 4:
            spec[field] = value
    return {"spec": spec}


def _quote(rng: Random) -> Json:
    asked = _reservation(rng)["spec"]
    kept = ("resources", "template", "nodeSelector", "tolerations", "priority")
    return {"spec": {name: asked[name] for name in kept if name in asked} | {"ttlSeconds": 60}}


def _quota(rng: Random) -> Json:
    amounts = {"cpu": rng.choice(("40", "0", "1m")), "memory": "160Gi"}
    fields: list[Json] = [{"hard": amounts}, {"hardSeconds": amounts}, {"maxAmounts": amounts}]
    fields += [{"maxLifeSeconds": rng.choice((1, 3600))}, {"maxPriority": rng.choice((0, 1_000_000_000))}]
    return {"spec": rng.choice(fields) | rng.choice(fields)}


def _level(rng: Random) -> Json:
    source: Json = rng.choice(({"metricsServer": {}}, {"prometheus": {"address": "http://127.0.0.1:9"}}))
    selector = {"matchLabels": {NODE_LABEL: "fuzz"}}
    return {"spec": {"source": source, "nodeSelector": selector, "refreshSeconds": 30}}


def _node(rng: Random) -> Json:
    size = {"cpu": rng.choice(("4", "0", "1E")), "memory": "16Gi", "pods": rng.choice(("110", "0", "9E"))}
    ready = {"type": "Ready", "status": "True", "reason": "Fuzz"}
    return {"spec": {}, "status": {"capacity": size, "allocatable": size, "conditions": [ready]}}


def _workload(rng: Random) -> Json:
    labels = {"app": "fuzz"}
    pod = _pod(rng)["spec"]
    pod.pop("activeDeadlineSeconds", None)
    pod["schedulerName"] = "nobody"
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"spec": {"selector": {"matchLabels": labels}, "template": template}}


def _job(rng: Random) -> Json:
    pod = _pod(rng)["spec"] | {"schedulerName": "nobody", "restartPolicy": "Never"}
    return {"spec": {"template": {"spec": pod}, "completions": 2, "backoffLimit": rng.choice((0, 6))}}


def _controller(rng: Random) -> Json:
    """Draw a ReplicationController, which has a map as its selector."""
    spec = _workload(rng)["spec"]
    return {"spec": spec | {"selector": spec["selector"]["matchLabels"]}}


def _volume(rng: Random) -> Json:
    modes = [rng.choice(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"))]
    expressions = [{"key": NODE_LABEL, "operator": "In", "values": ["fuzz"]}]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    spec = {"accessModes": modes, "capacity": {"storage": "1Gi"}, "local": {"path": "/a"}}
    return {"spec": spec | {"nodeAffinity": affinity, "storageClassName": "a"}}


def _service(rng: Random) -> Json:
    port = {"port": rng.choice((1, 80, 65535))}
    return {"spec": {"selector": rng.choice(({"app": "fuzz"}, {NODE_LABEL: "fuzz"})), "ports": [port]}}


def _driver_of_node(rng: Random) -> Json:
    driver = {"name": "example.org", "nodeID": "a", "topologyKeys": [NODE_LABEL]}
    return {"spec": {"drivers": [driver | {"allocatable": {"count": rng.choice((0, 1, 2**31 - 1))}}]}}


def _attachment(rng: Random) -> Json:
    source = {"persistentVolumeName": rng.choice(("a", "fuzz"))}
    return {"spec": {"attacher": "example.org", "nodeName": "fuzz-node-0", "source": source}}


def _class(rng: Random) -> Json:
    modes = ("Immediate", "WaitForFirstConsumer")
    return {"provisioner": "example.org", "volumeBindingMode": rng.choice(modes), "parameters": {"a": "b"}}


def _storage(rng: Random) -> Json:
    size = rng.choice(("0", "1Gi", "9E"))
    return {"storageClassName": "a", "capacity": size, "nodeTopology": {"matchLabels": {NODE_LABEL: "fuzz"}}}


def _budget(rng: Random) -> Json:
    return {
        "spec": {"selector": {"matchLabels": {NODE_LABEL: "fuzz"}}, "minAvailable": rng.choice((0, 1, "50%"))}
    }


def _claim(rng: Random) -> Json:
    modes = [rng.choice(("ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"))]
    return {"spec": {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}}}


def _device_claim(rng: Random) -> Json:
    wanted = {"deviceClassName": "a", "count": rng.choice((1, 2, 2**31))}
    return {"spec": {"devices": {"requests": [{"name": "a", "exactly": wanted}]}}}


def _devices(rng: Random) -> Json:
    pool = {"name": "a", "generation": rng.choice((1, 2**62)), "resourceSliceCount": rng.choice((1, 2))}
    device = {"name": "a", "capacity": {"a": {"value": rng.choice(("1", "1n", "9E"))}}}
    return {"spec": {"driver": "a", "pool": pool, "nodeName": "a", "devices": [device]}}


def _device_class(rng: Random) -> Json:
    expression = rng.choice(("true", "device.driver == 'a'", "device.attributes['a'].a", "1 / 0 == 1"))
    return {"spec": {"selectors": [{"cel": {"expression": expression}}]}}


def _device_taint(rng: Random) -> Json:
    taint = {"key": "a", "effect": rng.choice(("NoSchedule", "NoExecute"))}
    return {"spec": {"deviceSelector": {"driver": "a"}, "taint": taint}}


_BASES: Mapping[str, Callable[[Random], Json]] = {
    "Reservation": _reservation,
    "ReservationGroup": _group,
    "ReservationSchedule": _schedule,
    "ReservationQuote": _quote,
    "ReservationQuota": _quota,
    "WaterLevel": _level,
    "Pod": _pod,
    "Node": _node,
    "PodDisruptionBudget": _budget,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "Service": _service,
    "CSINode": _driver_of_node,
    "VolumeAttachment": _attachment,
    "StorageClass": _class,
    "CSIStorageCapacity": _storage,
    "ResourceClaim": _device_claim,
    "ResourceSlice": _devices,
    "DeviceClass": _device_class,
    "DeviceTaintRule": _device_taint,
    "Job": _job,
    "ReplicationController": _controller,
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"), _workload),
}
