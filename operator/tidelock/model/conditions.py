"""Conditions of a status that keep the time of their last transition from the stored status."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidelock.model.instants import format_instant

_OF_READINESS = frozenset({"Ready", "Reconciling", "Stalled"})


class Aspect(NamedTuple):
    """A condition without its transition time."""

    type: str
    status: str
    reason: str
    message: str


def failed(
    stored: Mapping[str, Any], generation: int, reason: str, message: str, now: float
) -> dict[str, Any]:
    """Return the stored status of an object for which a step failed, with all its other fields."""
    aspects = [Aspect("Ready", "False", reason, message), Aspect("Stalled", "True", reason, message)]
    others = [each for each in stored.get("conditions", ()) if each["type"] not in _OF_READINESS]
    conditions = [*others, *dated(aspects, stored, generation, now)]
    return {**stored, "observedGeneration": generation, "conditions": conditions}


def dated(
    conditions: Iterable[Aspect], stored: Mapping[str, Any], generation: int, now: float
) -> list[dict[str, Any]]:
    """Return conditions, each with the time since which it was stored with this status."""
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
