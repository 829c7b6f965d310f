"""ValidatingAdmissionPolicies: the rules in CEL that refuse writes."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tidelock.cel.errors import EvaluationError
from world.api import forms
from world.api.errors import RefusedRequestError, forbidden
from world.api.expressions import compiled
from world.api.kinds import Kind
from world.api.matching import selected
from world.api.operations import Operation
from world.api.storage import Storage

Json = dict[str, Any]

_POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
_BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
_NAMES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
_AUTHORIZER = "authorizer"


class _Denial(NamedTuple):
    message: str
    reason: str


def check_policies(
    storage: Storage, kinds: Mapping[tuple[str, str, str], Kind], operation: Operation, uid: str
) -> None:
    """Refuse a write that a policy denies. Raises RefusedRequestError."""
    bindings = storage.table(_BINDINGS)
    for name in sorted(bindings):
        binding = bindings[name].data
        policy = storage.get(_POLICIES, binding["spec"].get("policyName", ""))
        if policy is None or "Deny" not in binding["spec"].get("validationActions", ()):
            continue
        constraints = policy.data["spec"].get("matchConstraints", {})
        if not selected(storage, constraints, constraints.get("resourceRules") or (), operation):
            continue
        narrower = binding["spec"].get("matchResources")
        if narrower and not selected(
            storage,
            narrower,
            narrower.get("resourceRules")
            or ({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]},),
            operation,
        ):
            continue
        for denial in _denials(storage, kinds, policy.data, binding, operation, uid):
            raise _refusal(policy.data, binding, operation, denial)


def _refusal(policy: Json, binding: Json, operation: Operation, denial: _Denial) -> RefusedRequestError:
    message = (
        f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding "
        f"'{binding['metadata']['name']}' denied request: {denial.message}"
    )
    refused = forbidden(operation.resource, operation.name, message)
    refused.reason = denial.reason
    refused.code = _CODES.get(denial.reason, 422)
    refused.details = (refused.details or {}) | {"causes": [{"message": message}]}
    return refused


def _denials(
    storage: Storage,
    kinds: Mapping[tuple[str, str, str], Kind],
    policy: Json,
    binding: Json,
    operation: Operation,
    uid: str,
) -> Iterator[_Denial]:
    spec = policy["spec"]
    fails = spec.get("failurePolicy", "Fail") == "Fail"
    values: Json = {
        "object": operation.new,
        "oldObject": operation.old,
        "request": operation.request(uid),
        "params": None,
        "variables": {},
    }
    try:
        if not all(_value(each["expression"], values) is True for each in spec.get("matchConditions") or ()):
            return
    except EvaluationError as error:
        if fails:
            yield _Denial(str(error), "Invalid")
        return
    if (reference := binding["spec"].get("paramRef")) is not None:
        values["params"] = _parameter(storage, kinds, spec["paramKind"], reference, operation)
        if values["params"] is None:
            if reference.get("parameterNotFoundAction") == "Deny" and fails:
                detail = "no params found for policy binding with `Deny` parameterNotFoundAction"
                yield _Denial(f"failed to configure binding: {detail}", "Invalid")
            return
    values["variables"] = _variables(spec, values)
    for validation in spec.get("validations") or ():
        if (denial := _broken(validation, values, fails=fails)) is not None:
            yield denial


def _value(expression: str, values: Json) -> Any:
    return compiled(expression.strip(), _NAMES).evaluate(values)


def _variables(spec: Json, values: Json) -> Json:
    """Return the values of variables. One that has none is absent, as its use is an error, too."""
    found: Json = {}
    for each in spec.get("variables") or ():
        try:
            found[each["name"]] = _value(each["expression"], values | {"variables": found})
        except EvaluationError:
            continue
    return found


def _broken(validation: Json, values: Json, *, fails: bool) -> _Denial | None:
    expression = validation["expression"]
    if _AUTHORIZER in expression:
        return None  # every client has every right here
    try:
        if _value(expression, values) is True:
            return None
    except EvaluationError as error:
        return _Denial(f"expression '{expression}' resulted in error: {error}", "Invalid") if fails else None
    message = validation.get("message") or f"failed expression: {expression.strip()}"
    if worded := validation.get("messageExpression"):
        try:
            text = _value(worded, values)
            message = text if isinstance(text, str) and text.strip() else message
        except EvaluationError:
            pass
    return _Denial(message, validation.get("reason", "Invalid"))


def _parameter(
    storage: Storage,
    kinds: Mapping[tuple[str, str, str], Kind],
    wanted: Json,
    reference: Json,
    operation: Operation,
) -> Json | None:
    kind = next(
        (
            each
            for each in kinds.values()
            if (each.api_version, each.kind) == (wanted["apiVersion"], wanted["kind"])
        ),
        None,
    )
    if kind is None:
        return None
    namespace = reference.get("namespace") or operation.namespace
    stored = storage.get(forms.resource_of(kind), kind.key(namespace, reference.get("name", "")))
    return stored.data if stored is not None else None
