"""The rules for pods: defaults by admission, validation, and the changes that updates may make."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from world.api.amounts import amount
from world.api.causes import Cause
from world.api.defaults import containers_of
from world.api.names import name_problems, qualified_problems, value_problems

Json = dict[str, Any]

_GRACE = 300
_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_FORBIDDEN_UPDATE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_ENUMS: Mapping[str, Sequence[str]] = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_QOS_RESOURCES = ("cpu", "memory")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_GATED = {
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def tolerate_for_some_time(spec: Json) -> None:
    """Add the tolerations of DefaultTolerationSeconds in place."""
    tolerations = spec.get("tolerations") or []
    for key in (_NOT_READY, _UNREACHABLE):
        known = any(
            each.get("key", "") in {"", key} and each.get("effect", "") in {"", "NoExecute"}
            for each in tolerations
        )
        if not known:
            added = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _GRACE}
            tolerations = [*tolerations, added]
    spec["tolerations"] = tolerations


def prepare_new(pod: Json, now: str) -> None:
    """Set the status of a new pod in place."""
    pod["status"] = {"phase": "Pending", "qosClass": quality(pod["spec"])}
    if pod["spec"]["terminationGracePeriodSeconds"] < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
    if pod["spec"].get("schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        pod["status"]["conditions"] = [condition | _GATED]


def quality(spec: Json) -> str:
    """Return the QoS class of a pod."""
    guaranteed, any_amount = True, False
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _QOS_RESOURCES:
            requested, limit = requests.get(name, "0"), limits.get(name, "0")
            any_amount |= bool(amount(requested)) or bool(amount(limit))
            if not amount(limit) or amount(requested) != amount(limit):
                guaranteed = False
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def pod_errors(pod: Json) -> Iterator[Cause]:
    """Yield the errors of a pod's spec that creations and updates have in common."""
    spec = pod["spec"]
    containers = spec.get("containers")
    if not containers:
        yield Cause.required("spec.containers")
    names: set[str] = set()
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield from _container_errors(container, f"spec.{field}[{index}]", names)
            if spec.get("hostNetwork"):
                yield from _host_port_errors(container, f"spec.{field}[{index}]")
    for name, allowed in _ENUMS.items():
        if spec.get(name, allowed[0]) not in allowed:
            yield Cause.unsupported(f"spec.{name}", spec[name], allowed)
    for key, value in (spec.get("nodeSelector") or {}).items():
        yield from (Cause.invalid("spec.nodeSelector", key, each) for each in qualified_problems(key))
        yield from (Cause.invalid("spec.nodeSelector", value, each) for each in value_problems(value))
    yield from _toleration_errors(spec.get("tolerations") or ())
    yield from _gate_errors(spec)


def new_pod_errors(pod: Json) -> Iterator[Cause]:
    """Yield the errors of a new pod."""
    yield from pod_errors(pod)
    if pod["spec"].get("schedulingGates") and pod["spec"].get("nodeName"):
        yield Cause.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _container_errors(container: Json, path: str, names: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield Cause.required(f"{path}.name")
    else:
        yield from (Cause.invalid(f"{path}.name", name, each) for each in name_problems(name, label=True))
    if name in names:
        yield Cause.duplicate(f"{path}.name", name)
    names.add(name)
    if not container.get("image"):
        yield Cause.required(f"{path}.image")
    policy = container["imagePullPolicy"]
    if policy not in {"Always", "IfNotPresent", "Never"}:
        yield Cause.unsupported(f"{path}.imagePullPolicy", policy, ("Always", "IfNotPresent", "Never"))
    yield from resource_errors(container.get("resources") or {}, f"{path}.resources")


def _host_port_errors(container: Json, path: str) -> Iterator[Cause]:
    for index, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort", 0) != port.get("containerPort"):
            detail = "must match `containerPort` when `hostNetwork` is true"
            yield Cause.invalid(f"{path}.ports[{index}].hostPort", port.get("hostPort", 0), detail)


def resource_errors(resources: Json, path: str) -> Iterator[Cause]:
    """Yield the errors of a container's requests and limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            yield from _resource_name_errors(name, f"{path}.{field}")
            if amount(text) < 0:
                yield Cause.invalid(f"{path}.{field}[{name}]", text, "must be greater than or equal to 0")
            if "/" in name and amount(text) % 1:
                yield Cause.invalid(f"{path}.{field}[{name}]", text, "must be an integer")
    for name, text in requests.items():
        if name in limits and amount(text) > amount(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            yield Cause.invalid(f"{path}.requests", text, detail)
        elif "/" in name and name not in limits:
            yield Cause.required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _resource_name_errors(name: str, path: str) -> Iterator[Cause]:
    yield from (Cause.invalid(path, name, each) for each in qualified_problems(name))
    if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
        yield Cause.invalid(path, name, "must be a standard resource type or fully qualified")
        yield Cause.invalid(path, name, "must be a standard resource for containers")


def _toleration_errors(tolerations: Sequence[Json]) -> Iterator[Cause]:
    for index, each in enumerate(tolerations):
        path = f"spec.tolerations[{index}]"
        key, operator, value = each.get("key", ""), each.get("operator", ""), each.get("value", "")
        if key:
            yield from (Cause.invalid(f"{path}.key", key, problem) for problem in qualified_problems(key))
        elif operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            )
            yield Cause.invalid(f"{path}.operator", operator, detail)
        if each.get("tolerationSeconds") is not None and each.get("effect") != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield Cause.invalid(f"{path}.effect", each.get("effect", ""), detail)
        if operator == "Exists" and value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield Cause.invalid(f"{path}.operator", value, detail)
        if operator not in {"", "Equal", "Exists"}:
            yield Cause.unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
        if (effect := each.get("effect", "")) and effect not in _EFFECTS:
            yield Cause.unsupported(f"{path}.effect", effect, _EFFECTS)


def _gate_errors(spec: Json) -> Iterator[Cause]:
    gates = spec.get("schedulingGates") or ()
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        path = f"spec.schedulingGates[{index}]"
        yield from (Cause.invalid(path, gate["name"], each) for each in qualified_problems(gate["name"]))
        if gate["name"] in seen:
            yield Cause.duplicate(path, gate["name"])
        seen.add(gate["name"])


def pod_update_errors(new: Json, old: Json) -> Iterator[Cause]:
    """Yield the errors of an update of a pod's spec: only few fields may change."""
    spec, before = deepcopy(new["spec"]), old["spec"]
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            yield Cause.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    new_gates = [each["name"] for each in spec.get("schedulingGates") or ()]
    old_gates = [each["name"] for each in before.get("schedulingGates") or ()]
    for index, gate in enumerate(new_gates):
        if gate not in old_gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate}'"
            yield Cause.forbidden(f"spec.schedulingGates[{index}].name", detail)
    yield from _toleration_update_errors(spec, before)
    known, chosen = before.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    if old_gates and not _only_added(chosen, known):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield Cause.invalid("spec.nodeSelector", chosen, detail)
    munged = _munged(spec, before, gated=bool(old_gates))
    if munged != before:
        yield Cause.forbidden("spec", _FORBIDDEN_UPDATE)


def _toleration_update_errors(spec: Json, before: Json) -> Iterator[Cause]:
    known = spec.get("tolerations") or []
    stripped = [
        {name: value for name, value in each.items() if name != "tolerationSeconds"} for each in known
    ]
    for each in before.get("tolerations") or ():
        plain = {name: value for name, value in each.items() if name != "tolerationSeconds"}
        if each not in known and not (each.get("effect") == "NoExecute" and plain in stripped):
            yield Cause.forbidden(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
            return


def _munged(spec: Json, before: Json, *, gated: bool) -> Json:
    """Return a new spec with the fields that may change as they were."""
    for field in ("containers", "initContainers"):
        known, found = before.get(field) or [], spec.get(field) or []
        if len(known) == len(found):
            for old, new in zip(known, found, strict=True):
                if new.get("image"):
                    new["image"] = old.get("image")
    free = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if gated:
        free.append("nodeSelector")
    if gated and "affinity" not in before:
        free.append("affinity")
    for name in free:
        spec.pop(name, None)
        if name in before:
            spec[name] = before[name]
    return spec


def _only_added(new: Json, old: Json) -> bool:
    return all(new.get(key) == value for key, value in old.items())


def bound(pod: Json, node: str, annotations: Json, labels: Json, now: str) -> Json:
    """Return a pod that is bound to a node, with the condition PodScheduled."""
    meta, spec, status = dict(pod["metadata"]), dict(pod["spec"]), dict(pod.get("status") or {})
    for name, added in (("annotations", annotations), ("labels", labels)):
        if added:
            meta[name] = (meta.get(name) or {}) | added
    spec["nodeName"] = node
    status.pop("nominatedNodeName", None)
    status["conditions"] = with_condition(
        status.get("conditions") or [], "PodScheduled", {"status": "True"}, now
    )
    return pod | {"metadata": meta, "spec": spec, "status": status}


def with_condition(conditions: Sequence[Json], kind: str, fields: Json, now: str) -> list[Json]:
    """Return conditions with one replaced or added. The time changes with the status."""
    made = {"type": kind, "lastProbeTime": None, "lastTransitionTime": now, **fields}
    found = []
    for each in conditions:
        if each["type"] == kind:
            if each["status"] == fields["status"]:
                made["lastTransitionTime"] = each.get("lastTransitionTime")
            found.append(made)
        else:
            found.append(each)
    return found if any(each is made for each in found) else [*found, made]


def is_ready(pod: Json) -> bool:
    """Return whether a pod has the condition Ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
