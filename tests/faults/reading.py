"""Readers of objects' JSON for the checker, which share only the parser of instants with the operator."""

import json
from collections.abc import Iterable
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from faults.history import Json
from tidelock.model.answer import ANSWER, SIGNATURE
from tidelock.model.instants import parse_instant

Amounts = dict[str, Decimal]

SETTLED = frozenset({"Consumed", "Expired", "Lost", "Rejected"})
_DONE = {"Succeeded", "Failed"}


def owns(reservation: Json, pod: Json) -> bool:
    """Return whether a pod is an owner of a reservation, by name or labels."""
    labels = pod["metadata"].get("labels", {})
    for term in reservation["spec"]["owners"]:
        named = "pod" not in term or term["pod"]["name"] == pod["metadata"]["name"]
        wanted = term.get("selector", {}).get("matchLabels", {})
        if named and wanted.items() <= labels.items():
            return True
    return False


def may_be_owned_by(reservation: Json, name: str) -> bool:
    """Return whether a pod of this name, which may be gone by now, may have been an owner."""
    return any(term.get("pod", {"name": name})["name"] == name for term in reservation["spec"]["owners"])


def is_for_any(reservation: Json, pod: Json) -> bool:
    """Return whether a reservation is for any pod of the workload, and not for this owner in particular."""
    named = (
        {**reservation, "spec": {"owners": [term]}} for term in reservation["spec"]["owners"] if "pod" in term
    )
    special = reservation["spec"].get("reuse") == "Always" or "group" in reservation["spec"]
    return not special and not any(owns(each, pod) for each in named)


def claims(pod: Json) -> frozenset[str] | None:
    """Return the uids of the reservations that a bound pod declares as taken, or None if it declares none."""
    said = pod["metadata"].get("annotations", {}).get("tidelock.dev/claimed-locks")
    return None if said is None or not pod["spec"].get("nodeName") else frozenset(said.split(","))


def has_taken(reservation: Json, pod: Json) -> bool:
    """Return whether a bound owner ends a reservation. For one of a workload, the pod must declare it."""
    return not is_for_any(reservation, pod) or reservation["metadata"]["uid"] in (claims(pod) or ())


def condition(state: Json, kind: str) -> Json:
    """Return a condition of an object, or an empty one."""
    conditions: list[Json] = state.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def says(state: Json, kind: str) -> bool:
    """Return whether a condition of an object is true."""
    return condition(state, kind).get("status") == "True"


def reason_of(state: Json) -> str:
    """Return the reason why a reservation is active, or why it is not."""
    return str(condition(state, "Active").get("reason", ""))


def phase_of(reservation: Json) -> str:
    """Return the phase of a reservation, or an empty text if it has no status yet."""
    return str(reservation.get("status", {}).get("phase", ""))


def answer_of(reservation: Json) -> Json | None:
    """Return the status in the answer to a reservation's creation, forged or not, or None."""
    text = reservation["metadata"].get("annotations", {}).get(ANSWER)
    return None if text is None else dict(json.loads(text)["status"])


def answers_of(reservation: Json) -> dict[str, str]:
    """Return the annotations of an answer to a reservation's creation."""
    annotations = reservation["metadata"].get("annotations", {})
    return {name: annotations[name] for name in (ANSWER, SIGNATURE) if name in annotations}


def holds(reservation: Json) -> bool:
    """Return whether a reservation reports that it holds capacity."""
    return says(reservation, "Active") and "deletionTimestamp" not in reservation["metadata"]


def is_on(reservation: Json, node: Json) -> bool:
    """Return whether a reservation reports that it is on exactly this node."""
    status, meta = reservation["status"], node["metadata"]
    return (status.get("nodeName"), status.get("nodeUID")) == (meta["name"], meta["uid"])


def room_of(reservation: Json) -> Amounts:
    """Return the least capacity that a reservation has, as an edit that makes it smaller counts at once."""
    has = amounts(reservation["status"].get("resources", {}))
    asks = amounts(asked_of(reservation["spec"]))
    return {name: min(units, asks.get(name, Decimal(0))) for name, units in has.items()}


def asked_of(spec: Json) -> Json:
    """Return the amounts that a spec asks for, by itself or for the container of its template."""
    return requested_of(spec["template"]["spec"]) if "template" in spec else dict(spec.get("resources", {}))


def claims_to_devices(spec: Json) -> Amounts:
    """Return the number of claims to devices in the spec of a pod, or of a reservation, as an amount."""
    spec = spec.get("template", {"spec": spec})["spec"]
    return {"claims": Decimal(len(spec.get("resourceClaims", [])))}


def devices_asked_of(spec: Json) -> list[str]:
    """Return what a pod or a reservation asks devices for: its claims, and units of extended resources."""
    own = spec.get("template", {"spec": spec})["spec"]
    asked = amounts(requested_of(own) if "containers" in own else asked_of(own))
    units = [name for name, number in asked.items() for _ in range(int(number)) if "/" in name]
    return [each["name"] for each in own.get("resourceClaims", [])] + units


def expiry(reservation: Json) -> float:
    """Return when a reservation ends at the latest, by its status or a later edit."""
    spec, status = reservation["spec"], reservation.get("status", {})
    ends = [parse_instant(text) for text in (status.get("expiresAt"), spec.get("expireAt")) if text]
    if "activatedAt" in status and "ttlSeconds" in spec:
        ends.append(parse_instant(status["activatedAt"]) + spec["ttlSeconds"])
    return min(ends, default=float("inf"))


def due(reservation: Json) -> float:
    """Return when a reservation ends by itself: at its expiry, or without a renewal or commit in time."""
    status, ends = reservation.get("status", {}), [expiry(reservation)]
    if "lease" in status and "lease" in reservation["spec"]:
        ends.append(parse_instant(status["lease"]["renewBy"]) + reservation["spec"]["lease"]["graceSeconds"])
    if (
        "commit" in reservation["spec"]
        and "dueAt" in status.get("commit", {})
        and not says(reservation, "Committed")
    ):
        ends.append(parse_instant(status["commit"]["dueAt"]))
    return min(ends)


def is_leaving(pod: Json) -> bool:
    """Return whether a pod has been asked to end, or has ended."""
    return "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in _DONE


def is_bound(pod: Json) -> bool:
    """Return whether a pod is on a node and neither done nor leaving."""
    return bool(pod["spec"].get("nodeName")) and not is_leaving(pod)


def borrows(pod: Json) -> bool:
    """Return whether a pod may borrow from borrowable reservations."""
    return bool(pod["metadata"].get("annotations", {}).get("tidelock.dev/borrows") == "true")


def controller_of(pod: Json) -> Json:
    """Return the owner of a pod that replaces it when it is gone, or an empty one."""
    owners: list[Json] = pod["metadata"].get("ownerReferences", [])
    return next((each for each in owners if each.get("controller")), {})


def is_evicted(pod: Json) -> bool:
    """Return whether a pod is leaving because of an eviction."""
    reason = str(condition(pod, "DisruptionTarget").get("reason"))
    return reason == "EvictionByEvictionAPI" and "deletionTimestamp" in pod["metadata"]


def selects(budget: Json, pod: Json) -> bool:
    """Return whether an eviction of a pod counts as a disruption of a budget."""
    wanted: Json = budget["spec"]["selector"]["matchLabels"]
    return bool(wanted.items() <= pod["metadata"].get("labels", {}).items())


def uses_room_of(pod: Json, node_name: str) -> bool:
    """Return whether a pod uses capacity of a node, leaving or not."""
    return pod["spec"].get("nodeName") == node_name and pod["status"].get("phase") not in _DONE


def requests(pod: Json) -> Amounts:
    """Return the requests of a pod."""
    return amounts(requested_of(pod["spec"]))


def requested_of(spec: Json) -> Json:
    """Return the requests of the only container in the spec of a pod."""
    (container,) = spec["containers"]
    return dict(container["resources"].get("requests", {}))


def is_sound(node: Json) -> bool:
    """Return whether a node is ready and schedulable."""
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
    return ready and not node["spec"].get("unschedulable")


def shrank(before: Json, after: Json) -> bool:
    """Return whether a node has less capacity than before."""
    old, new = amounts(before["status"]["allocatable"]), amounts(after["status"]["allocatable"])
    return any(new.get(name, Decimal(0)) < units for name, units in old.items())


def amounts(resources: Json) -> Amounts:
    """Parse quantities."""
    return dict(zip(resources, map(parse_quantity, resources.values()), strict=True))


def total(many: Iterable[Amounts]) -> Amounts:
    """Add amounts."""
    summed: Amounts = {}
    for each in many:
        for name, units in each.items():
            summed[name] = summed.get(name, Decimal(0)) + units
    return summed
