"""What objects say, read from their JSON by the checker, which shares no code with the operator."""

from collections.abc import Iterable
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

from faults.history import Json
from tidelock.model.instants import parse_instant

Amounts = dict[str, Decimal]

SETTLED = frozenset({"Consumed", "Expired", "Lost", "Rejected"})
_DONE = {"Succeeded", "Failed"}


def owns(reservation: Json, pod: Json) -> bool:
    """Tell whether a pod is an owner of a lock, by name or labels."""
    labels = pod["metadata"].get("labels", {})
    for term in reservation["spec"]["owners"]:
        named = "pod" not in term or term["pod"]["name"] == pod["metadata"]["name"]
        wanted = term.get("selector", {}).get("matchLabels", {})
        if named and wanted.items() <= labels.items():
            return True
    return False


def may_be_owned_by(reservation: Json, name: str) -> bool:
    """Whether a pod of a name, which may be gone by now, may have been an owner."""
    return any(term.get("pod", {"name": name})["name"] == name for term in reservation["spec"]["owners"])


def is_for_any(reservation: Json, pod: Json) -> bool:
    """Whether a lock that a pod is an owner of is as much for others of its workload."""
    named = (
        {**reservation, "spec": {"owners": [term]}} for term in reservation["spec"]["owners"] if "pod" in term
    )
    special = reservation["spec"].get("reuse") == "Always" or "group" in reservation["spec"]
    return not special and not any(owns(each, pod) for each in named)


def claims(pod: Json) -> frozenset[str] | None:
    """Give the uids of the locks that a bound pod says it took; None if it says nothing."""
    said = pod["metadata"].get("annotations", {}).get("tidelock.dev/claimed-locks")
    return None if said is None or not pod["spec"].get("nodeName") else frozenset(said.split(","))


def has_taken(reservation: Json, pod: Json) -> bool:
    """Whether an owner that is bound ends a lock: of those for any pod of a workload what it says it took."""
    return not is_for_any(reservation, pod) or reservation["metadata"]["uid"] in (claims(pod) or ())


def condition(state: Json, kind: str) -> Json:
    """Give a condition of an object; an empty one if it has none."""
    conditions: list[Json] = state.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def says(state: Json, kind: str) -> bool:
    """Whether a condition of an object is true."""
    return condition(state, kind).get("status") == "True"


def reason_of(state: Json) -> str:
    """Give the reason why a lock is active, or why it is not."""
    return str(condition(state, "Active").get("reason", ""))


def phase_of(reservation: Json) -> str:
    """Give the phase of a lock; empty if nobody has looked at it."""
    return str(reservation.get("status", {}).get("phase", ""))


def holds(reservation: Json) -> bool:
    """Whether a lock says that it holds room."""
    return says(reservation, "Active") and "deletionTimestamp" not in reservation["metadata"]


def is_on(reservation: Json, node: Json) -> bool:
    """Whether a lock says that it is on this very node."""
    status, meta = reservation["status"], node["metadata"]
    return (status.get("nodeName"), status.get("nodeUID")) == (meta["name"], meta["uid"])


def room_of(reservation: Json) -> Amounts:
    """Give what a lock has at least, as an edit that makes it smaller counts at once."""
    has = amounts(reservation["status"].get("resources", {}))
    asks = amounts(reservation["spec"].get("resources", {}))
    return {name: min(units, asks.get(name, Decimal(0))) for name, units in has.items()}


def expiry(reservation: Json) -> float:
    """Tell when a lock ends at the latest, by its status or an edit that came after it."""
    spec, status = reservation["spec"], reservation.get("status", {})
    ends = [parse_instant(text) for text in (status.get("expiresAt"), spec.get("expireAt")) if text]
    if "activatedAt" in status and "ttlSeconds" in spec:
        ends.append(parse_instant(status["activatedAt"]) + spec["ttlSeconds"])
    return min(ends, default=float("inf"))


def due(reservation: Json) -> float:
    """Tell when a lock ends unless its holder does something: its expiry, or a renewal or commit missed."""
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
    """Whether a pod has been asked to end, or has ended."""
    return "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in _DONE


def is_bound(pod: Json) -> bool:
    """Whether a pod is on a node and neither done nor leaving."""
    return bool(pod["spec"].get("nodeName")) and not is_leaving(pod)


def borrows(pod: Json) -> bool:
    """Whether a pod may use room of borrowable locks."""
    return bool(pod["metadata"].get("annotations", {}).get("tidelock.dev/borrows") == "true")


def controller_of(pod: Json) -> Json:
    """Give the owner of a pod that makes another one when it is gone; an empty one if it has none."""
    owners: list[Json] = pod["metadata"].get("ownerReferences", [])
    return next((each for each in owners if each.get("controller")), {})


def is_evicted(pod: Json) -> bool:
    """Whether a pod is leaving by an eviction."""
    reason = str(condition(pod, "DisruptionTarget").get("reason"))
    return reason == "EvictionByEvictionAPI" and "deletionTimestamp" in pod["metadata"]


def selects(budget: Json, pod: Json) -> bool:
    """Whether evicting a pod takes a disruption of a budget."""
    wanted: Json = budget["spec"]["selector"]["matchLabels"]
    return bool(wanted.items() <= pod["metadata"].get("labels", {}).items())


def uses_room_of(pod: Json, node_name: str) -> bool:
    """Whether a pod takes room of a node, leaving or not."""
    return pod["spec"].get("nodeName") == node_name and pod["status"].get("phase") not in _DONE


def requests(pod: Json) -> Amounts:
    """Give what a pod asks for."""
    return amounts(pod["spec"]["containers"][0]["resources"].get("requests", {}))


def is_sound(node: Json) -> bool:
    """Whether a node is ready and takes pods."""
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
    return ready and not node["spec"].get("unschedulable")


def shrank(before: Json, after: Json) -> bool:
    """Whether a node has less to give than before."""
    old, new = amounts(before["status"]["allocatable"]), amounts(after["status"]["allocatable"])
    return any(new.get(name, Decimal(0)) < units for name, units in old.items())


def amounts(resources: Json) -> Amounts:
    """Read quantities."""
    return dict(zip(resources, map(parse_quantity, resources.values()), strict=True))


def total(many: Iterable[Amounts]) -> Amounts:
    """Add amounts up."""
    summed: Amounts = {}
    for each in many:
        for name, units in each.items():
            summed[name] = summed.get(name, Decimal(0)) + units
    return summed
