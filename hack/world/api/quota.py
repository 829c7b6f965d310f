"""ResourceQuotas at the creation of objects.

A quota counts by its status, which a controller computes first. Admission adds the use of each new object.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from world.api import managed_fields
from world.api.amounts import amount, canonical_quantity
from world.api.defaults import containers_of
from world.api.errors import forbidden
from world.api.kinds import Kind
from world.api.managed_fields import Writer
from world.api.operations import Operation
from world.api.storage import Storage

Json = dict[str, Any]

_QUOTAS = "resourcequotas"
_WRITER = Writer("kube-apiserver", "Update", "status")
_COUNTED = frozenset(
    {
        "pods",
        "services",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
    }
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def charge(storage: Storage, quotas: Kind, operation: Operation, now: str) -> None:
    """Count a creation in the quotas of its namespace. Raises RefusedRequestError if it exceeds one."""
    new = operation.new
    if operation.verb != "CREATE" or operation.subresource or not operation.namespace or new is None:
        return
    used = usage(operation.resource, new)
    changes: list[tuple[str, Json]] = []
    table = storage.table(_QUOTAS)
    for key in sorted(table):
        quota = table[key].data
        if not key.startswith(f"{operation.namespace}/") or not _in_scope(
            quota["spec"], operation.resource, new
        ):
            continue
        if (change := _charged(quota, used, operation)) is not None:
            changes.append((key, change))
    if operation.options.get("dryRun"):
        return
    for key, change in changes:
        before = table[key].data
        change["metadata"] = dict(before["metadata"])
        managed_fields.note_update(quotas, change, before, _WRITER, now)
        storage.put(_QUOTAS, key, change)


def usage(kind: Kind, data: Json) -> Mapping[str, Decimal]:
    """Return the use of an object by the names of quotas."""
    one = Decimal(1)
    found = {f"count/{kind.resource}": one}
    if not kind.group and kind.plural in _COUNTED:
        found[kind.plural] = one
    if kind.kind == "Pod":
        for field in ("requests", "limits"):
            for container in containers_of(data["spec"]):
                for name, text in ((container.get("resources") or {}).get(field) or {}).items():
                    found[f"{field}.{name}"] = found.get(f"{field}.{name}", Decimal()) + amount(text)
        for name in _COMPUTE:
            if f"requests.{name}" in found:
                found[name] = found[f"requests.{name}"]
    if kind.kind == "PersistentVolumeClaim":
        requests = ((data["spec"].get("resources") or {}).get("requests")) or {}
        found["requests.storage"] = amount(requests.get("storage", "0"))
    return found


def _in_scope(spec: Json, kind: Kind, data: Json) -> bool:
    expressions = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    scopes = [*({"scopeName": each, "operator": "Exists"} for each in spec.get("scopes") or ()), *expressions]
    return all(kind.kind == "Pod" and _scope_holds(each, data["spec"]) for each in scopes)


def _scope_holds(scope: Json, spec: Json) -> bool:
    match scope["scopeName"]:
        case "PriorityClass":
            name, values = spec.get("priorityClassName", ""), scope.get("values") or ()
            return {
                "In": name in values,
                "NotIn": name not in values,
                "Exists": bool(name),
                "DoesNotExist": not name,
            }[scope["operator"]]
        case "Terminating":
            return "activeDeadlineSeconds" in spec
        case "NotTerminating":
            return "activeDeadlineSeconds" not in spec
    return False


def _charged(quota: Json, used: Mapping[str, Decimal], operation: Operation) -> Json | None:
    """Return a quota with an object counted, or None if it does not limit it. Raises RefusedRequestError."""
    status, name = quota.get("status") or {}, quota["metadata"]["name"]
    hard = quota["spec"].get("hard") or {}
    limited = sorted(set(hard) & used.keys())
    if operation.resource.kind == "Pod":
        _require_amounts(hard, operation, name)
    if not limited:
        return None
    known = status.get("used") or {}
    if unknown := [each for each in limited if each not in known or each not in (status.get("hard") or {})]:
        detail = f"status unknown for quota: {name}, resources: {','.join(unknown)}"
        raise forbidden(operation.resource, operation.name, detail)
    limits = status["hard"]
    after = {each: amount(known[each]) + used[each] for each in limited}
    if over := [each for each in limited if after[each] > amount(limits[each])]:
        rows = [
            ",".join(f"{each}={_text(amounts[each])}" for each in over)
            for amounts in ({each: used[each] for each in over}, known, limits)
        ]
        detail = f"exceeded quota: {name}, requested: {rows[0]}, used: {rows[1]}, limited: {rows[2]}"
        raise forbidden(operation.resource, operation.name, detail)
    counted = known | {each: _text(value) for each, value in after.items()}
    return quota | {"status": status | {"used": counted}}


def _text(value: Decimal | str) -> str:
    return canonical_quantity(format(value, "f") if isinstance(value, Decimal) else value)


def _require_amounts(hard: Json, operation: Operation, name: str) -> None:
    """Refuse a pod with a container that leaves out an amount which the quota limits."""
    wanted = [each for each in sorted(hard) if each.startswith(("requests.", "limits.")) or each in _COMPUTE]
    missing = list(_missing(wanted, operation.new or {}))
    if missing:
        detail = f"failed quota: {name}: must specify {'; '.join(missing)}"
        raise forbidden(operation.resource, operation.name, detail)


def _missing(wanted: list[str], pod: Json) -> Iterator[str]:
    for each in wanted:
        field, _, resource = each.partition(".") if "." in each else ("requests", "", each)
        if resource.partition("/")[0] not in _COMPUTE:
            continue
        lacking = [
            container["name"]
            for container in containers_of(pod["spec"])
            if resource not in ((container.get("resources") or {}).get(field) or {})
        ]
        if lacking:
            yield f"{each} for: {','.join(lacking)}"
