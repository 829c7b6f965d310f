"""Conditions of a status that is compared with the stored one: what holds, and since when."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidelock.model.instants import format_instant

_OF_READINESS = frozenset({"Ready", "Reconciling", "Stalled"})


class Aspect(NamedTuple):
    """A condition before it is known since when it holds."""

    type: str
    status: str
    reason: str
    message: str


def failed(
    stored: Mapping[str, Any], generation: int, reason: str, message: str, now: float
) -> dict[str, Any]:
    """Write the stored status of an object for which a step failed: what else it says stays."""
    aspects = [Aspect("Ready", "False", reason, message), Aspect("Stalled", "True", reason, message)]
    others = [each for each in stored.get("conditions", ()) if each["type"] not in _OF_READINESS]
    conditions = [*others, *dated(aspects, stored, generation, now)]
    return {**stored, "observedGeneration": generation, "conditions": conditions}


def dated(
    conditions: Iterable[Aspect], stored: Mapping[str, Any], generation: int, now: float
) -> list[dict[str, Any]]:
    """Write conditions: each holds since it was first stored with this status."""
    earlier = {
        (condition["type"], condition["status"]): condition.get("lastTransitionTime")
        for condition in stored.get("conditions", ())
    }
    return [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": earlier.get((each.type, each.status)) or format_instant(int(now)),
            "observedGeneration": generation,
        }
        for each in conditions
    ]
