"""Conditions of a status that is compared with the stored one: what holds, and since when."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidelock.model.instants import format_instant


class Aspect(NamedTuple):
    """A condition before it is known since when it holds."""

    type: str
    status: str
    reason: str
    message: str


def dated(
    conditions: Iterable[Aspect], stored: Mapping[str, Any], generation: int, now: float
) -> list[dict[str, Any]]:
    """Write conditions: each holds since it was first stored with this status."""
    earlier = {
        (condition["type"], condition["status"]): condition["lastTransitionTime"]
        for condition in stored.get("conditions", ())
    }
    return [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            "lastTransitionTime": earlier.get((each.type, each.status), format_instant(int(now))),
            "observedGeneration": generation,
        }
        for each in conditions
    ]
