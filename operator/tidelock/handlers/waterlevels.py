"""The life of a WaterLevel, which Kopf owns: its spec is validated, and it is measured from then on.

A plain event handler leaves no finalizer on the object.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import kopf
from pydantic import ValidationError

from tidelock.clock import Clock
from tidelock.kube.client import WATERLEVELS, KubeClient
from tidelock.kube.errors import ApiError, Conflict, NotFound, NotLeading
from tidelock.load.loop import LoadLoop
from tidelock.model.api.water_level import WaterLevelSpec, WaterLevelStatus
from tidelock.model.api.wire import legible, spec_problems
from tidelock.model.conditions import Aspect, dated

logger = logging.getLogger(__name__)

INVALID_WATER_LEVEL = "InvalidSpec"


def register(
    registry: kopf.OperatorRegistry,
    client: KubeClient,
    load: LoadLoop,
    clock: Clock,
    retry_pauses: Callable[[], Callable[[ApiError], Awaitable[None]]],
) -> None:
    """Add the handler to the registry; `retry_pauses` makes what one write awaits after each failure."""

    @kopf.on.event(WATERLEVELS.group, WATERLEVELS.version, WATERLEVELS.plural, registry=registry)
    async def reconcile(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 -- Kopf's name
        if type == "DELETED" or "deletionTimestamp" in body.metadata:
            load.forget(body.metadata["name"], body.metadata["uid"])
            return
        readable = dict(body) | {"status": legible(WaterLevelStatus, body.get("status"))}
        try:
            spec = WaterLevelSpec.model_validate(body.get("spec", {}))
        except ValidationError as error:
            load.forget(body.metadata["name"], body.metadata["uid"])
            await _refuse(readable, spec_problems(error), client, clock, retry_pauses())
        else:
            load.observe(readable, spec)


async def _refuse(
    body: dict[str, Any],
    problem: str,
    client: KubeClient,
    clock: Clock,
    pause: Callable[[ApiError], Awaitable[None]],
) -> None:
    """Write the status of a WaterLevel with an invalid spec until it is stored, or the object has changed.

    Kopf does not repeat a handler of plain events that fails.
    """
    stored = body.get("status", {})
    wanted = refusal(body, problem, clock.now())
    if stored == wanted:
        return
    name = body["metadata"]["name"]
    patch = {
        "metadata": {"resourceVersion": body["metadata"]["resourceVersion"]},
        "status": wanted | dict.fromkeys(stored.keys() - wanted.keys()),
    }
    while True:
        try:
            await client.patch(WATERLEVELS.item(name, subresource="status"), patch)
        except (Conflict, NotFound, NotLeading):
            return  # the watch tells of the change, or another process leads
        except ApiError as error:
            logger.warning(
                "a WaterLevel's status was not written", extra={"waterlevel": name, "error": str(error)}
            )
            await pause(error)
        else:
            return


def refusal(body: dict[str, Any], problem: str, now: float) -> dict[str, Any]:
    """Write the status that a WaterLevel with an invalid spec ought to have."""
    generation = body["metadata"].get("generation", 0)
    conditions = [
        Aspect("Ready", "False", INVALID_WATER_LEVEL, problem),
        Aspect("Stalled", "True", INVALID_WATER_LEVEL, problem),
    ]
    return {
        "observedGeneration": generation,
        "conditions": dated(conditions, body.get("status", {}), generation, now),
    }
