"""Which writes the rules of webhooks and policies select."""

from collections.abc import Iterable
from typing import Any

from world.api.kinds import Kind
from world.api.operations import Operation
from world.api.selectors import matches
from world.api.storage import Storage

Json = dict[str, Any]


def selected(storage: Storage, constraints: Json, rules: Iterable[Json], operation: Operation) -> bool:
    """Return whether rules and the selectors beside them select a write."""
    if not any(rule_selects(rule, operation) for rule in rules):
        return False
    return _namespace_selected(storage, constraints, operation) and _object_selected(constraints, operation)


def rule_selects(rule: Json, operation: Operation) -> bool:
    """Return whether one rule selects the operation, the resource and the scope of a write."""
    kind = operation.resource
    if not _listed(rule.get("operations"), operation.verb):
        return False
    if not _listed(rule.get("apiGroups"), kind.group) or not _listed(rule.get("apiVersions"), kind.version):
        return False
    if (names := rule.get("resourceNames")) and operation.name not in names:
        return False
    scope = "Namespaced" if operation.namespace and kind.namespaced else "Cluster"
    if rule.get("scope", "*") not in {"*", scope}:
        return False
    return any(_resource_selected(each, kind, operation.subresource) for each in rule.get("resources") or ())


def _listed(allowed: Iterable[str] | None, value: str) -> bool:
    names = set(allowed or ())
    return "*" in names or value in names


def _resource_selected(pattern: str, kind: Kind, subresource: str) -> bool:
    resource, _, below = pattern.partition("/")
    if pattern == "*/*":
        return True
    return resource in {"*", kind.plural} and (below == subresource or (bool(subresource) and below == "*"))


def _namespace_selected(storage: Storage, constraints: Json, operation: Operation) -> bool:
    selector = constraints.get("namespaceSelector")
    if not selector:
        return True
    if operation.resource.kind == "Namespace":
        found = operation.new or operation.old or {}
    elif not operation.namespace:
        return True
    else:
        stored = storage.get("namespaces", operation.namespace)
        found = stored.data if stored is not None else {}
    return matches(selector, (found.get("metadata") or {}).get("labels") or {})


def _object_selected(constraints: Json, operation: Operation) -> bool:
    selector = constraints.get("objectSelector")
    if not selector:
        return True
    return any(
        matches(selector, (each.get("metadata") or {}).get("labels") or {})
        for each in (operation.new, operation.old)
        if each is not None
    )
