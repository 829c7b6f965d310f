"""The rules of each kind for creations and updates: the parts that the server sets, and the errors."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from world.api.causes import Cause
from world.api.forms import EVENTS_GROUP
from world.api.kinds import Kind
from world.api.metadata import update_errors as meta_update_errors
from world.api.names import metadata_errors, qualified_problems
from world.api.pods import new_pod_errors, pod_errors, pod_update_errors, prepare_new
from world.api.selectors import matches

Json = dict[str, Any]

_NOTE_LENGTH = 1024
_META = frozenset({"apiVersion", "kind", "metadata"})


def prepare_create(kind: Kind, data: Json, now: str) -> bool:
    """Set a new object's parts that clients can't set. Return whether a default is not stored."""
    if kind.custom is not None:
        if kind.custom.status:
            data.pop("status", None)
            bare = "status" not in data
            data |= kind.custom.decode(data, [])
            return bare and "status" in data
        return False
    if (prepare := _PREPARE.get(kind.kind)) is not None:
        prepare(data, now)
    return kind.kind == "PersistentVolumeClaim"  # its first update always writes


def _namespace(data: Json, _now: str) -> None:
    data["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = data["metadata"]["name"]
    data["spec"]["finalizers"] = ["kubernetes"]
    data["status"] = {"phase": "Active"}


def _node(data: Json, _now: str) -> None:
    taints = data["spec"].setdefault("taints", [])
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    if not any(each.get("key") == taint["key"] and each.get("effect") == taint["effect"] for each in taints):
        taints.append(taint)


def _status(**fields: Any) -> Callable[[Json, str], None]:
    def prepare(data: Json, _now: str) -> None:
        data["status"] = dict(fields)

    return prepare


def _finalized(finalizer: str, **status: Any) -> Callable[[Json, str], None]:
    def prepare(data: Json, _now: str) -> None:
        finalizers = data["metadata"].setdefault("finalizers", [])
        if finalizer not in finalizers:
            finalizers.append(finalizer)
        data["status"] = dict(status)

    return prepare


def _job(data: Json, _now: str) -> None:
    data["status"] = {}
    if not data["spec"].get("manualSelector"):
        uid, name = data["metadata"]["uid"], data["metadata"]["name"]
        labels = data["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
        labels |= {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        data["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


_PREPARE: dict[str, Callable[[Json, str], None]] = {
    "Pod": prepare_new,
    "Namespace": _namespace,
    "Node": _node,
    "PodDisruptionBudget": _status(disruptionsAllowed=0, currentHealthy=0, desiredHealthy=0, expectedPods=0),
    "ReplicaSet": _status(replicas=0),
    "ReplicationController": _status(replicas=0),
    "StatefulSet": _status(replicas=0, availableReplicas=0),
    "Deployment": _status(),
    "DaemonSet": _status(
        currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0, numberReady=0
    ),
    "Job": _job,
    "ResourceQuota": _status(),
    "ResourceClaim": _status(),
    "Service": _status(loadBalancer={}),
    "PersistentVolumeClaim": _finalized("kubernetes.io/pvc-protection", phase="Pending"),
    "PersistentVolume": _finalized("kubernetes.io/pv-protection", phase="Pending"),
    "ValidatingAdmissionPolicy": _status(),
}


def prepare_update(kind: Kind, new: Json, old: Json, subresource: str) -> None:
    """Take from the stored object all that an update of a (sub)resource can't change, in place."""
    if subresource in {"status", "resize"}:
        _prepare_status(kind, new, old)
    elif "status" in kind.subresources or kind.kind == "Pod":
        _keep(new, old, "status")
    if kind.custom is not None and not subresource and kind.custom.status:
        _keep(new, old, "status")
    counted = kind.generation or kind.custom is not None
    changed = _content(new) != _content(old) or (
        kind.kind == "Deployment" and new["metadata"].get("annotations") != old["metadata"].get("annotations")
    )
    if counted and not subresource and changed:
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def without_reset(kind: Kind, new: Json, old: Json | None, subresource: str) -> Json:
    """Return an object with those parts as stored that a client does not write by this (sub)resource."""
    tracked = new | {"metadata": dict(new["metadata"])}
    before = old or {}
    has_status = kind.custom.status if kind.custom is not None else "status" in kind.subresources
    if subresource in {"status", "resize"}:
        _keep(tracked, before, "spec" if subresource == "status" else "status")
        if kind.kind == "Pod":
            _keep(tracked["metadata"], before.get("metadata", {}), "ownerReferences")
        if kind.custom is not None:
            tracked["metadata"] = dict(before.get("metadata", {}))
    elif has_status:
        _keep(tracked, before, "status")
    return tracked


def _prepare_status(kind: Kind, new: Json, old: Json) -> None:
    if kind.custom is not None:
        status = new.get("status")
        managed = new["metadata"].get("managedFields")
        new.clear()
        new |= {name: value for name, value in old.items() if name != "status"}
        new["metadata"] = dict(old["metadata"])
        if managed is not None:
            new["metadata"]["managedFields"] = managed
        if status is not None:
            new["status"] = status
        return
    _keep(new, old, "spec")
    if kind.kind == "Pod":
        new["status"]["qosClass"] = old["status"].get("qosClass", "")
        new["metadata"].pop("ownerReferences", None)
        if "ownerReferences" in old["metadata"]:
            new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]


def _keep(new: Json, old: Json, name: str) -> None:
    new.pop(name, None)
    if name in old:
        new[name] = old[name]


def _content(data: Json) -> Json:
    return {name: value for name, value in data.items() if name not in _META and name != "status"}


def create_errors(kind: Kind, data: Json) -> list[Cause]:
    """Return the errors of a new object."""
    if kind.custom is not None and data.get("kind") != kind.kind:
        wrong = [Cause.invalid("kind", data.get("kind"), f"must be {kind.kind}")]
        return kind.custom.errors(data, None, wrong, values=False)
    causes = list(metadata_errors(kind, data["metadata"]))
    if kind.custom is not None:
        return kind.custom.errors(data, None, causes)
    if kind.group == EVENTS_GROUP:
        causes += new_event_errors(data)
    checker = _CHECKS.get(kind.kind)
    return causes if checker is None else [*causes, *checker(data)]


def update_errors(kind: Kind, new: Json, old: Json, subresource: str) -> list[Cause]:
    """Return the errors of an update."""
    causes = meta_update_errors(new["metadata"], old["metadata"])
    if kind.custom is not None:
        causes += _repeated(causes)
        if new.get("kind") != kind.kind:
            causes.append(Cause.invalid("kind", new.get("kind"), f"must be {kind.kind}"))
            return kind.custom.errors(new, old, causes, values=False)
        found = kind.custom.errors(new, old, causes)
        return [_below_status(each) for each in found] if subresource == "status" else found
    if kind.kind == "Pod" and not subresource:
        return [*causes, *pod_errors(new), *pod_update_errors(new, old)]
    if kind.kind == "Pod" and subresource == "status":
        nominated = new["status"].get("nominatedNodeName")
        if nominated and nominated != old["status"].get("nominatedNodeName") and old["spec"].get("nodeName"):
            detail = "may not be set on pods that are already bound to a node"
            causes.append(Cause.forbidden("status.nominatedNodeName", detail))
    if kind.kind == "PersistentVolumeClaim" and _fixed_claim(new, old) != old["spec"]:
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName "
            "for bound claims"
        )
        causes.append(Cause.forbidden("spec", detail))
    if kind.kind == "ResourceClaim" and new["spec"] != old["spec"]:
        causes.append(Cause.invalid("spec", None, "field is immutable"))
    if kind.kind == "PriorityClass":
        causes += [
            Cause.forbidden(name, "may not be changed in an update.")
            for name in ("value", "preemptionPolicy")
            if new.get(name) != old.get(name)
        ]
    checker = _CHECKS.get(kind.kind)
    if checker is None or kind.kind == "Pod" or subresource:
        return causes
    return [*causes, *checker(new)]


def _repeated(causes: list[Cause]) -> list[Cause]:
    """Return the errors of metadata that the API server finds more than once in custom objects."""
    twice = [each for each in causes if "immutable" in each.message]
    again = [each for each in causes if each.field in {"metadata.labels", "metadata.annotations"}]
    added = [each for each in causes if "no new finalizers" in each.message]
    return [*twice, *added, *again, *again]


def _fixed_claim(new: Json, old: Json) -> Json:
    """Return the spec of a claim with a storage class as it was, if it had none."""
    spec: Json = new["spec"]
    return {name: value for name, value in spec.items() if name != "storageClassName" or name in old["spec"]}


def _below_status(cause: Cause) -> Cause:
    """Return an error in the words of a write of the status: its fields have no prefix in messages."""
    words = cause.message.replace(" status.", " ")
    return Cause(cause.reason, cause.field, words) if cause.field.startswith("status.") else cause


def _workload_errors(data: Json) -> Iterator[Cause]:
    spec = data.get("spec", {})
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if "selector" not in spec:
        yield Cause.required("spec.selector")
    if not matches(spec.get("selector"), labels):
        shown = msgspec.json.encode(labels or None, order="sorted").decode()
        detail = f"Invalid value: {shown}: `selector` does not match template `labels`"
        yield Cause("FieldValueInvalid", "spec.template.metadata.labels", detail)
    for each in pod_errors({"spec": template.get("spec") or {}}):
        yield Cause(each.reason, f"spec.template.{each.field}", each.message)


def _claim_errors(data: Json) -> Iterator[Cause]:
    spec = data.get("spec", {})
    if not spec.get("accessModes"):
        yield Cause.required("spec.accessModes", "at least 1 access mode is required")
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        yield Cause.required("spec.resources[storage]")


def _lease_errors(data: Json) -> Iterator[Cause]:
    spec = data.get("spec", {})
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        yield Cause.invalid(
            "spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"
        )
    if "leaseTransitions" in spec and spec["leaseTransitions"] < 0:
        detail = "must be greater than or equal to 0"
        yield Cause.invalid("spec.leaseTransitions", spec["leaseTransitions"], detail)


def _budget_errors(data: Json) -> Iterator[Cause]:
    spec = data.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = "minAvailable and maxUnavailable cannot be both set"
        yield Cause.invalid("spec", None, shown)


def _event_errors(data: Json) -> Iterator[Cause]:
    own, about = data["metadata"].get("namespace", ""), data["involvedObject"].get("namespace", "")
    if data.get("eventTime") is None:
        if about != own and not (not about and own == "default"):
            yield Cause.invalid("involvedObject.namespace", about, "does not match event.namespace")
        return
    if not about and own not in {"default", "kube-system"}:
        yield Cause.invalid("involvedObject.namespace", about, "does not match event.namespace")
    controller = data.get("reportingComponent", "")
    if not controller:
        yield Cause.required("reportingController")
    yield from (
        Cause.invalid("reportingController", controller, each) for each in qualified_problems(controller)
    )
    for name in ("reportingInstance", "action", "reason"):
        if not data.get(name):
            yield Cause.required(name)
    if len(data.get("message", "")) > _NOTE_LENGTH:
        yield Cause.invalid("message", "", f"can have at most {_NOTE_LENGTH} characters")


def new_event_errors(data: Json) -> Iterator[Cause]:
    """Yield the errors of an Event that only the group events.k8s.io has."""
    if data.get("eventTime") is None:
        yield Cause.required("eventTime")
    if (kind := data.get("type", "")) not in {"Normal", "Warning"}:
        yield Cause.invalid("type", "", f"has invalid value: {kind}")


_CHECKS: dict[str, Callable[[Json], Iterator[Cause]]] = {
    "Pod": new_pod_errors,
    "ReplicaSet": _workload_errors,
    "Deployment": _workload_errors,
    "StatefulSet": _workload_errors,
    "PersistentVolumeClaim": _claim_errors,
    "Lease": _lease_errors,
    "PodDisruptionBudget": _budget_errors,
    "Event": _event_errors,
}
