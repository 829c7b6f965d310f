"""Admission: the plugins of the API server that change or refuse writes, in their order."""

from collections.abc import Mapping
from typing import Any

from world.api import policies, quota, webhooks
from world.api.errors import forbidden, not_found
from world.api.kinds import Kind
from world.api.metadata import Stamps
from world.api.operations import Operation, Steps
from world.api.pods import tolerate_for_some_time
from world.api.storage import Storage

Json = dict[str, Any]

_CLASSES = "priorityclasses.scheduling.k8s.io"
_UNTOUCHED = frozenset({"validatingwebhookconfigurations", "mutatingwebhookconfigurations"})
_POLICY_KINDS = frozenset({"validatingadmissionpolicies", "validatingadmissionpolicybindings"})


class Admission:
    """The admission plugins over one storage."""

    def __init__(self, storage: Storage, kinds: Mapping[tuple[str, str, str], Kind], stamps: Stamps) -> None:
        self._storage = storage
        self._kinds = kinds
        self._stamps = stamps

    def mutate(self, operation: Operation) -> Steps[None]:
        """Apply the plugins and webhooks that may change the object. Raises RefusedRequestError."""
        self._check_namespace(operation)
        if operation.resource.kind == "Pod" and not operation.subresource and operation.new is not None:
            if operation.verb == "CREATE":
                self._set_priority(operation)
            elif operation.old is not None:
                for name in ("priority", "preemptionPolicy"):
                    if name in operation.old["spec"]:
                        operation.new["spec"].setdefault(name, operation.old["spec"][name])
            tolerate_for_some_time(operation.new["spec"])
        if operation.resource.plural not in _UNTOUCHED:
            yield from webhooks.mutate(self._storage, operation, self._stamps.uids())

    def validate(self, operation: Operation) -> Steps[None]:
        """Ask the policies, webhooks and quotas that may refuse the object. Raises RefusedRequestError."""
        if operation.resource.plural not in _UNTOUCHED | _POLICY_KINDS:
            policies.check_policies(self._storage, self._kinds, operation, self._stamps.uids())
        if operation.resource.plural not in _UNTOUCHED:
            yield from webhooks.validate(self._storage, operation, self._stamps.uids())
        quota.charge(self._storage, self._kinds["", "v1", "resourcequotas"], operation, self._stamps.now)

    def _check_namespace(self, operation: Operation) -> None:
        """Refuse creations in namespaces that do not exist or end, as NamespaceLifecycle does."""
        if operation.verb != "CREATE" or not operation.resource.namespaced:
            return
        stored = self._storage.get("namespaces", operation.namespace)
        if stored is None:
            raise not_found(self._kinds["", "v1", "namespaces"], operation.namespace)
        if "deletionTimestamp" in stored.meta and not operation.subresource:
            detail = (
                f"unable to create new content in namespace {operation.namespace} "
                "because it is being terminated"
            )
            refused = forbidden(operation.resource, operation.name, detail)
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {operation.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            refused.details = (refused.details or {}) | {"causes": [cause]}
            raise refused

    def _set_priority(self, operation: Operation) -> None:
        """Compute a pod's priority from its PriorityClass, as the plugin Priority does."""
        spec = (operation.new or {})["spec"]
        name = spec.get("priorityClassName", "")
        value, policy = 0, "PreemptLowerPriority"
        if name:
            stored = self._storage.get(_CLASSES, name)
            if stored is None:
                detail = f"no PriorityClass with name {name} was found"
                raise forbidden(operation.resource, operation.name, detail)
            value, policy = stored.data["value"], stored.data["preemptionPolicy"]
        else:
            defaults = [
                each for each in self._storage.table(_CLASSES).values() if each.data.get("globalDefault")
            ]
            for each in sorted(defaults, key=lambda one: int(one.data["value"]))[:1]:
                spec["priorityClassName"] = each.meta["name"]
                value, policy = each.data["value"], each.data["preemptionPolicy"]
        if spec.get("priority", value) != value:
            detail = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise forbidden(operation.resource, operation.name, detail)
        if spec.get("preemptionPolicy", policy) != policy:
            detail = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in "
                f"pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise forbidden(operation.resource, operation.name, detail)
        spec["priority"] = value
        spec["preemptionPolicy"] = policy
