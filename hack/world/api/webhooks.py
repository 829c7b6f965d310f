"""Mutating and validating webhooks, called as the API server calls them."""

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from tidelock.cel.errors import EvaluationError
from world.api.errors import RefusedRequestError, internal
from world.api.expressions import compiled
from world.api.matching import selected
from world.api.operations import Operation, Steps, WebhookCall, WebhookFailedError
from world.api.patches import PatchError, edited
from world.api.storage import Storage

Json = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_NAMES = ("object", "oldObject", "request")
_LOWEST_FAILURE = 400


def _hooks(storage: Storage, plural: str, operation: Operation, uid: str) -> Iterator[Json]:
    """Yield the webhooks of all configurations that select a write, in the order of their calls."""
    table = storage.table(f"{plural}.{_GROUP}")
    for name in sorted(table):
        for hook in table[name].data.get("webhooks") or ():
            if selected(storage, hook, hook.get("rules") or (), operation) and _conditions_hold(
                hook, operation, uid
            ):
                yield hook


def _conditions_hold(hook: Json, operation: Operation, uid: str) -> bool:
    conditions = hook.get("matchConditions") or ()
    if not conditions:
        return True
    values = {"object": operation.new, "oldObject": operation.old, "request": operation.request(uid)}
    for each in conditions:
        try:
            if compiled(each["expression"], _NAMES).evaluate(values) is not True:
                return False
        except EvaluationError as error:
            if hook.get("failurePolicy", "Fail") == "Ignore":
                return False
            raise RefusedRequestError(403, "Forbidden", str(error)) from None
    return True


def mutate(storage: Storage, operation: Operation, uid: str) -> Steps[None]:
    """Ask the mutating webhooks of a write, and apply their patches to its object."""
    for hook in list(_hooks(storage, "mutatingwebhookconfigurations", operation, uid)):
        response = yield from _ask(hook, operation, uid)
        if response is not None and operation.new is not None and (patch := response.get("patch")):
            try:
                operation.new = edited(operation.new, msgspec.json.decode(base64.b64decode(patch)))
            except (PatchError, msgspec.DecodeError, binascii.Error) as error:
                raise _failed(hook["name"], str(error)) from None


def validate(storage: Storage, operation: Operation, uid: str) -> Steps[None]:
    """Ask the validating webhooks of a write."""
    for hook in list(_hooks(storage, "validatingwebhookconfigurations", operation, uid)):
        yield from _ask(hook, operation, uid)


def _ask(hook: Json, operation: Operation, uid: str) -> Steps[Json | None]:
    """Return the response of a webhook, or None for a failure that is ignored. Raises RefusedRequestError."""
    request = operation.request(uid) | {"object": operation.new, "oldObject": operation.old}
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    answer = yield WebhookCall(
        hook["name"], hook.get("clientConfig", {}), review, hook.get("timeoutSeconds", 10)
    )
    problem = ""
    if isinstance(answer, WebhookFailedError):
        problem = str(answer)
    elif not isinstance(answer.get("response"), dict):
        problem = "webhook response is missing"
    elif answer["response"].get("uid") != uid:
        problem = f"expected response.uid={uid!r}, got {answer['response'].get('uid')!r}"
    if problem:
        if hook.get("failurePolicy", "Fail") == "Ignore":
            return None
        raise _failed(hook["name"], f"failed to call webhook: {problem}")
    response: Json = answer["response"] if isinstance(answer, dict) else {}
    if not response.get("allowed"):
        raise _denied(hook["name"], response.get("status") or {})
    return response


def _failed(webhook: str, problem: str) -> RefusedRequestError:
    message = f'failed calling webhook "{webhook}": {problem}'
    refused = internal(f"Internal error occurred: {message}")
    refused.reason = "InternalError"
    refused.details = {"causes": [{"message": message}]}
    return refused


def _denied(webhook: str, status: Json) -> RefusedRequestError:
    denied = f'admission webhook "{webhook}" denied the request'
    detail = status.get("message") or status.get("reason")
    message = f"{denied}: {detail}" if detail else f"{denied} without explanation"
    code = status.get("code", 0)
    code = max(code, _LOWEST_FAILURE)
    return RefusedRequestError(code, status.get("reason", ""), message, status.get("details"))
