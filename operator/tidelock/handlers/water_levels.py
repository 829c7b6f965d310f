"""The life of a WaterLevel: each event has it compared again, and its end removes all traces of it.

A plain event handler leaves no finalizer on the object.
"""

from typing import Any

import kopf

from tidelock.kube.client import WATERLEVELS
from tidelock.scheduler.controllers.water_levels import WaterLevelController


def register(registry: kopf.OperatorRegistry, controller: WaterLevelController) -> None:
    """Add the handler to a registry."""

    @kopf.on.event(WATERLEVELS.group, WATERLEVELS.version, WATERLEVELS.plural, registry=registry)
    async def reconcile(body: kopf.Body, type: str | None, **_: Any) -> None:  # noqa: A002 -- Kopf's name
        if type == "DELETED" or "deletionTimestamp" in body.metadata:
            controller.remove(dict(body))
        else:
            controller.upsert(dict(body))
