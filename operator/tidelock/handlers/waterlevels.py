"""Kopf's part in the life of a WaterLevel: its spec is validated, its status says what it lacks."""

import logging
from typing import Any

import kopf
from pydantic import ValidationError

from tidelock.clock import Clock
from tidelock.kube.client import WATERLEVELS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.model.instants import format_instant
from tidelock.model.waterlevels import WaterLevelSpec
from tidelock.model.wire import spec_problems

logger = logging.getLogger(__name__)

NO_SOURCE = "NoSource"
INVALID_SPEC = "InvalidSpec"
_NO_SOURCE_TEXT = "this version reads no metrics yet: pods are placed by their requests"


def register(registry: kopf.OperatorRegistry, client: KubeClient, clock: Clock) -> None:
    """Add the handlers to the registry."""

    @kopf.on.event(WATERLEVELS.group, WATERLEVELS.version, WATERLEVELS.plural, registry=registry)
    async def reconcile(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 -- Kopf's name
        if type != "DELETED" and "deletionTimestamp" not in body.metadata:
            await _reconcile(dict(body), client, clock)


async def _reconcile(body: dict[str, Any], client: KubeClient, clock: Clock) -> None:
    stored = body.get("status", {})
    wanted = desired_status(body, clock.now())
    if stored == wanted:
        return
    name = body["metadata"]["name"]
    patch = {
        "metadata": {"resourceVersion": body["metadata"]["resourceVersion"]},
        "status": wanted | dict.fromkeys(stored.keys() - wanted.keys()),
    }
    try:
        await client.patch(WATERLEVELS.item(name, subresource="status"), patch)
    except NotFound:
        return
    except ApiError as error:
        raise kopf.TemporaryError(f"status of {name} was not written: {error}") from error


def desired_status(body: dict[str, Any], now: float) -> dict[str, Any]:
    """Write the status that a WaterLevel ought to have: no source is read yet, or its spec is invalid."""
    aspects = [("Ready", "False", NO_SOURCE, _NO_SOURCE_TEXT)]
    try:
        WaterLevelSpec.model_validate(body.get("spec", {}))
    except ValidationError as error:
        problem = spec_problems(error)
        aspects = [("Ready", "False", INVALID_SPEC, problem), ("Stalled", "True", INVALID_SPEC, problem)]
    generation = body["metadata"].get("generation", 0)
    earlier = {
        (condition["type"], condition["status"]): condition["lastTransitionTime"]
        for condition in body.get("status", {}).get("conditions", [])
    }
    conditions = [
        {
            "type": name,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": earlier.get((name, status), format_instant(int(now))),
            "observedGeneration": generation,
        }
        for name, status, reason, message in aspects
    ]
    return {"observedGeneration": generation, "conditions": conditions}
