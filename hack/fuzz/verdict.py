"""The required answer to an object: a status, or a refusal that names a field."""

import re
from typing import Any

import msgspec

from fuzz.objects import SCHEDULER, Case
from tidelock.kube.client import PODS
from tidelock.kube.errors import ApiError

_FIELD = re.compile(r"\b(spec|metadata|status|template|name|kind|uid|resourceVersion)\b")
_OF_THE_API_SERVER = {0, 404, 413, 504}  # no answer, gone, too large, too slow
_SERVER_ERRORS = range(500, 600)
# The API server's messages for JSON that it can't read at all, before it looks at fields.
_UNREADABLE = (
    *("exceeded max depth", "error decoding", "unable to decode", "invalid character"),
    *("cannot unmarshal number", "parsing time"),
)
# Messages about sizes, as the webhook and etcd have their own limits.
_SIZES = ("too large", "larger than", "Request entity", "exceeds", "limit", "Too long", "must be no more")


class _Meta(msgspec.Struct, rename="camel"):
    generation: int = 0
    deletion_timestamp: str = ""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: Any = ""
    scheduler_name: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    observed_generation: Any = None
    conditions: tuple[_Condition, ...] | None = None


class Seen(msgspec.Struct):
    """The fields of an object with its answer."""

    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


decode = msgspec.json.Decoder(Seen).decode


def of_refusal(case: Case, refusal: ApiError) -> str:
    """Return the fault of a refusal by the API server, or an empty text if it names a field."""
    if not case.ours or refusal.status in _OF_THE_API_SERVER:
        return ""
    if refusal.status in _SERVER_ERRORS:
        return f"the API server failed: {refusal}"[:500]
    known = (*_UNREADABLE, *_SIZES)
    if _FIELD.search(refusal.message) or any(each in refusal.message for each in known):
        return ""
    return f"a refusal that names no field: {refusal}"[:500]


def answered(case: Case, seen: Seen) -> bool:
    """Return whether the operator has answered this version of an object."""
    if seen.metadata.deletion_timestamp:
        return True
    status = seen.status or _Status()
    if case.ours:
        return status.observed_generation == seen.metadata.generation and bool(
            status.conditions or status.phase
        )
    if case.resource is PODS and seen.spec is not None and seen.spec.scheduler_name == SCHEDULER:
        judged = any(each.type == "PodScheduled" for each in status.conditions or ())
        return bool(seen.spec.node_name) or judged or status.phase in {"Succeeded", "Failed"}
    return True


def of_answer(seen: Seen) -> str:
    """Return the fault of an answer, or an empty text if it names the field of an invalid spec."""
    conditions = (seen.status.conditions if seen.status is not None else None) or ()
    for each in conditions:
        if each.reason == "InvalidSpec" and not _FIELD.search(each.message):
            return f"{each.type} {each.reason} names no field: {each.message}"
    return ""
