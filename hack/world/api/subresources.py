"""The subresources of pods that are only created: binding and eviction."""

from typing import Any

from world.api.causes import Cause
from world.api.deletion import DeleteOptions, check_preconditions
from world.api.errors import (
    bad_request,
    conflict,
    forbidden,
    internal,
    not_found,
    other_uid,
    too_many_disruptions,
)
from world.api.kinds import Kind
from world.api.operations import Operation, Steps
from world.api.pods import bound, is_ready, with_condition
from world.api.selectors import matches
from world.api.storage import Stored
from world.api.writes import Client, Place, Writes

Json = dict[str, Any]

_BUDGETS = "poddisruptionbudgets.policy"
_UNPROTECTED = frozenset({"Succeeded", "Failed", "Pending"})
_RETRY_SECONDS = 10
_MOST_DISRUPTED = 2000
_EVICTED = {
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def bind(writes: Writes, place: Place, body: Json, client: Client) -> Steps[Json]:
    """Bind a pod to a node. Raises RefusedRequestError."""
    target, meta = body.get("target") or {}, body.get("metadata") or {}
    causes = []
    if (kind := target.get("kind", "")) not in {"", "Node"}:
        causes.append(Cause.unsupported("target.kind", kind, ("Node", "<empty>")))
    if not (node := target.get("name", "")):
        causes.append(Cause.required("target.name"))
    stored_first = writes.storage.get(place.resource, place.key)
    if meta.get("name", place.name) != place.name:
        raise bad_request("name in URL does not match name in Binding object")
    operation = _operation(
        place, body | {"metadata": meta | {"namespace": place.namespace}}, client, "v1", "Binding"
    )
    yield from writes.review(operation)
    if causes:
        texts = [cause.text for cause in causes]
        raise internal(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    stored = writes.storage.get(place.resource, place.key)
    if stored is None:
        raise not_found(place.kind, place.name)
    del stored_first
    _check_bindable(place, stored, meta)
    if not client.dry_run:
        pod = bound(
            stored.data,
            node,
            meta.get("annotations") or {},
            meta.get("labels") or {},
            writes.stamps.now,
        )
        writes.overwrite(place, pod)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _check_bindable(place: Place, stored: Stored, meta: Json) -> None:
    uid, version = meta.get("uid", ""), meta.get("resourceVersion", "")
    if uid and uid != stored.meta["uid"]:
        raise other_uid(place.kind, place.namespace, place.name, uid, stored.meta["uid"])
    if version and version != stored.meta["resourceVersion"]:
        prefix = f"/registry/pods/{place.key}"
        detail = (
            f"StorageError: invalid object, Code: 4, Key: {prefix}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object "
            f"meta: {stored.meta['resourceVersion']}"
        )
        raise conflict(place.kind, place.name, detail)
    detail = ""
    if "deletionTimestamp" in stored.meta:
        detail = f"pod {place.name} is being deleted, cannot be assigned to a host"
    elif node := stored.data["spec"].get("nodeName"):
        detail = f'pod {place.name} is already assigned to node "{node}"'
    elif stored.data["spec"].get("schedulingGates"):
        detail = f"pod {place.name} has non-empty .spec.schedulingGates"
    if detail:
        raise conflict(place.kind, place.name, detail, subresource="/binding")


def _operation(place: Place, body: Json, client: Client, api_version: str, kind: str) -> Operation:
    return Operation(
        *("CREATE", place.kind, place.namespace, place.name, place.subresource, body, None),
        client.user,
        client.options,
        api_version,
        kind,
    )


def evict(writes: Writes, budgets: Kind, place: Place, body: Json, client: Client) -> Steps[Json]:
    """Evict a pod, if the budget that selects it allows a disruption. Raises RefusedRequestError."""
    options = DeleteOptions.read(body.get("deleteOptions") or {}, {})
    if (body.get("metadata") or {}).get("name", "") != place.name:
        raise bad_request("name in URL does not match name in Eviction object")
    if writes.storage.get(place.resource, place.key) is None:
        raise not_found(place.kind, place.name)
    yield from writes.review(_operation(place, body, client, "policy/v1", "Eviction"))
    stored = writes.storage.get(place.resource, place.key)
    if stored is None:
        raise not_found(place.kind, place.name)
    pod = stored.data
    if _is_protected(pod):
        _use_budget(writes, budgets, pod, place, dry_run=client.dry_run or options.dry_run)
    check_preconditions(place.kind, stored, options)
    whole = Place(place.kind, place.namespace, place.name)
    if not (client.dry_run or options.dry_run):
        conditions = with_condition(
            pod["status"].get("conditions") or [], "DisruptionTarget", _EVICTED, writes.stamps.now
        )
        writes.overwrite(whole, pod | {"status": pod["status"] | {"conditions": conditions}})
        options = DeleteOptions(options.uid, "", options.grace, options.policy, options.dry_run)
    yield from writes.delete(whole, options, client)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _is_protected(pod: Json) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase not in _UNPROTECTED and "deletionTimestamp" not in pod["metadata"]


def _use_budget(writes: Writes, budgets: Kind, pod: Json, place: Place, *, dry_run: bool) -> None:
    """Take a disruption from the budget of a pod. Raises RefusedRequestError."""
    table = writes.storage.table(_BUDGETS)
    labels = pod["metadata"].get("labels") or {}
    asked = [
        key
        for key in sorted(table)
        if key.startswith(f"{place.namespace}/") and matches(table[key].data["spec"].get("selector"), labels)
    ]
    if len(asked) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not asked:
        return
    budget = table[asked[0]].data
    status, name = budget["status"], budget["metadata"]["name"]
    if not is_ready(pod) and _may_evict_unready(budget):
        return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        detail = f"The disruption budget {name} is still being processed by the server."
        raise too_many_disruptions(detail, _RETRY_SECONDS)
    allowed = status["disruptionsAllowed"]
    if allowed < 0:
        raise forbidden(budgets, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        raise forbidden(
            budgets, name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        )
    if not allowed:
        detail = (
            f"The disruption budget {name} needs {status['desiredHealthy']} healthy pods and has "
            f"{status['currentHealthy']} currently"
        )
        raise too_many_disruptions(detail, 0)
    if dry_run:
        return
    disrupted = (status.get("disruptedPods") or {}) | {place.name: writes.stamps.now}
    changed = status | {"disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    writes.overwrite(Place(budgets, place.namespace, name), budget | {"status": changed})


def _may_evict_unready(budget: Json) -> bool:
    """Return whether a pod that is not ready may be evicted beside its budget."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] and status["desiredHealthy"] > 0)
