"""Kopf's part in the life of a WaterLevel: its spec is validated, and measured from then on."""

from typing import Any

import kopf
from pydantic import ValidationError

from tidelock.clock import Clock
from tidelock.kube.client import WATERLEVELS, KubeClient
from tidelock.kube.errors import ApiError, NotFound
from tidelock.load.loop import LoadLoop
from tidelock.model.conditions import Aspect, dated
from tidelock.model.waterlevels import WaterLevelSpec
from tidelock.model.wire import spec_problems

INVALID_SPEC = "InvalidSpec"


def register(registry: kopf.OperatorRegistry, client: KubeClient, load: LoadLoop, clock: Clock) -> None:
    """Add the handlers to the registry."""

    @kopf.on.event(WATERLEVELS.group, WATERLEVELS.version, WATERLEVELS.plural, registry=registry)
    async def reconcile(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 -- Kopf's name
        if type == "DELETED" or "deletionTimestamp" in body.metadata:
            load.forget(body.metadata["name"])
            return
        try:
            spec = WaterLevelSpec.model_validate(body.get("spec", {}))
        except ValidationError as error:
            load.forget(body.metadata["name"])
            await _refuse(dict(body), spec_problems(error), client, clock)
        else:
            load.observe(dict(body), spec)


async def _refuse(body: dict[str, Any], problem: str, client: KubeClient, clock: Clock) -> None:
    """Write the status of a WaterLevel whose spec says nothing that can be done."""
    stored = body.get("status", {})
    wanted = refusal(body, problem, clock.now())
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


def refusal(body: dict[str, Any], problem: str, now: float) -> dict[str, Any]:
    """Write the status that a WaterLevel with an invalid spec ought to have."""
    generation = body["metadata"].get("generation", 0)
    conditions = [
        Aspect("Ready", "False", INVALID_SPEC, problem),
        Aspect("Stalled", "True", INVALID_SPEC, problem),
    ]
    return {
        "observedGeneration": generation,
        "conditions": dated(conditions, body.get("status", {}), generation, now),
    }
