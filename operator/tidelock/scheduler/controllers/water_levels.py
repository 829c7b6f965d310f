"""Validates WaterLevels: a valid one is measured, and the status of an invalid one says why it is not."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import ValidationError

from tidelock.kube.client import WATERLEVELS
from tidelock.kube.errors import NotLeading
from tidelock.model.api.water_level import WaterLevelSpec, WaterLevelStatus
from tidelock.model.api.wire import legible, spec_problems
from tidelock.model.conditions import Aspect, dated
from tidelock.model.meta import Key, ObjectMeta
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter

INVALID_WATER_LEVEL = "InvalidSpec"


class Measuring(Protocol):
    """Measures the nodes of WaterLevels, and writes the status of those that it measures."""

    def observe(self, body: Mapping[str, Any], spec: WaterLevelSpec) -> None:
        """Take over a valid WaterLevel as it is now."""

    def forget(self, name: str, uid: str) -> None:
        """Stop measuring for a WaterLevel that is gone or invalid, and remove its annotations."""


@dataclass(frozen=True, slots=True)
class InvalidWaterLevel:
    """One version of a WaterLevel that can't be measured."""

    meta: ObjectMeta
    status: dict[str, Any]
    problem: str


class WaterLevelController(ObjectWriter):
    """Takes WaterLevels in, and hands them to the load loop, or writes why they are invalid."""

    def __init__(self, context: WriterContext, measuring: Measuring) -> None:
        super().__init__(context, WATERLEVELS, "status")
        self._measuring = measuring
        self._invalid: dict[Key, InvalidWaterLevel] = {}

    def upsert(self, body: Mapping[str, Any]) -> None:
        """Take over a WaterLevel as it is now."""
        meta = _meta(body)
        status = legible(WaterLevelStatus, body.get("status"))
        try:
            spec = WaterLevelSpec.model_validate(body.get("spec", {}))
        except ValidationError as error:
            self._measuring.forget(meta.name, meta.uid)
            self._invalid[meta.key] = InvalidWaterLevel(meta, status, spec_problems(error))
            self.reconcile(meta.key)
        else:
            self._drop(meta.key)
            self._measuring.observe({**body, "status": status}, spec)

    def remove(self, body: Mapping[str, Any]) -> None:
        """Forget a WaterLevel that is gone or going. Another one of its name goes on."""
        meta = _meta(body)
        self._measuring.forget(meta.name, meta.uid)
        known = self._invalid.get(meta.key)
        if known is not None and known.meta.uid == meta.uid:
            self._drop(meta.key)

    def _drop(self, key: Key) -> None:
        self._invalid.pop(key, None)
        self._forget(key)

    def _stored(self, key: Key) -> InvalidWaterLevel | None:
        return self._invalid.get(key)

    def _differs(self, key: Key) -> bool:
        known = self._invalid.get(key)
        return known is not None and self._wanted(known) != known.status

    def _wanted(self, known: InvalidWaterLevel) -> dict[str, Any]:
        return render_invalid(known.meta, known.status, known.problem, self._clock.now())

    def _compare_later(self, key: Key) -> None:
        self.reconcile(key)

    async def _write_difference(self, key: Key) -> None:
        known = self._invalid[key]
        async with self.turn(known.meta):
            await self._replace_status(known.meta, self._wanted(known))
        if self._invalid.get(key) is known:
            self._drop(key)  # an event brings the version that was written

    async def _replace_status(self, meta: ObjectMeta, status: dict[str, Any]) -> None:
        """Patch the status, as the operator has no right to replace it."""
        stored = self._invalid[meta.key].status
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": status | dict.fromkeys(stored.keys() - status.keys()),
        }
        # Not written by a process that does not lead any more: the next leader has a Kopf of its own.
        with suppress(NotLeading):
            await self._client.patch(WATERLEVELS.item(meta.name, subresource="status"), patch)


def render_invalid(meta: ObjectMeta, stored: Mapping[str, Any], problem: str, now: float) -> dict[str, Any]:
    """Render the status of a WaterLevel with an invalid spec."""
    conditions = [
        Aspect("Ready", "False", INVALID_WATER_LEVEL, problem),
        Aspect("Stalled", "True", INVALID_WATER_LEVEL, problem),
    ]
    return {
        "observedGeneration": meta.generation,
        "conditions": dated(conditions, stored, meta.generation, now),
    }


def _meta(body: Mapping[str, Any]) -> ObjectMeta:
    meta = body["metadata"]
    return ObjectMeta(
        meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        resource_version=meta["resourceVersion"],
    )
