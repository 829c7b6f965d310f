"""Writes the condition PodGroupInitiallyScheduled of PodGroups."""

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from tidelock.cluster.pod_groups import PodGroups
from tidelock.kube.client import PODGROUPS
from tidelock.kube.errors import ApiError, Conflict, NotFound, TransientError
from tidelock.model.conditions import Aspect, dated
from tidelock.model.meta import Key
from tidelock.model.pod_group import INITIALLY_SCHEDULED, PodGroup, decode_pod_group
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.tasks import FaultSubject
from tidelock.scheduler.core.pod_group_scheduler import PodGroupResult

logger = logging.getLogger(__name__)

_LONGEST_MESSAGE = 32768  # characters that the API server accepts


class PodGroupWriter:
    """Writes the newest result of each group, unless the group has it already. A group stays scheduled."""

    def __init__(self, context: WriterContext, groups: PodGroups) -> None:
        self._client = context.client
        self._telemetry = context.telemetry
        self._tasks = context.tasks
        self._clock = context.clock
        self._groups = groups
        self._newest: dict[Key, PodGroupResult] = {}
        self._written: dict[Key, PodGroup] = {}  # until the watch shows them
        groups.on_change(self._seen)

    def record(self, results: Iterable[PodGroupResult]) -> None:
        """Write the conditions of groups in the background."""
        for result in results:
            key = result.group.key
            earlier = self._newest.get(key)
            if earlier is not None and earlier.scheduled and earlier.group.meta.uid == result.group.meta.uid:
                continue
            self._newest[key] = result
            if earlier is None:
                self._tasks.spawn(self._write(key), FaultSubject("pod group", PODGROUPS, result.group.meta))

    async def _write(self, key: Key) -> None:
        """Write the newest result of a group, and the next one if another has come meanwhile.

        No later attempt writes the result of a scheduled group. So a failure that may pass has no last try.
        """
        pause = self._tasks.retry_pauses()
        try:
            while (condition := self._condition(result := self._newest[key])) is not None:
                try:
                    async with self._tasks.turn.of(key.namespace):
                        await self._patch(result, condition)
                except (Conflict, NotFound):
                    pass  # the group is gone
                except ApiError as error:
                    self._telemetry.api_errors.labels("podgroup", type(error).__name__).inc()
                    fields = {"group": str(key), "error": str(error)}
                    logger.warning("a condition was not written", extra=fields)
                    if isinstance(error, TransientError):
                        await pause(error)
                        continue
                if self._newest[key] is result:
                    return
        finally:
            del self._newest[key]

    async def _patch(self, result: PodGroupResult, condition: dict[str, Any]) -> None:
        meta = result.group.meta
        path = PODGROUPS.item(meta.name, meta.namespace, "status")
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        written = decode_pod_group(await self._client.patch(path, body, kind="strategic"))
        known = self._groups.get(meta.name, meta.namespace)
        if known is not None and known.meta.version < written.meta.version:
            self._written[written.key] = written

    def _seen(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """Forget a written version, if the watch shows it or a newer one, or that the group is gone."""
        if (shown := new or old) is None or (written := self._written.get(shown.key)) is None:
            return
        if new is None or new.meta.version >= written.meta.version:
            del self._written[shown.key]

    def _condition(self, result: PodGroupResult) -> dict[str, Any] | None:
        """Return the condition to write, or None if the stored group needs none."""
        meta = result.group.meta
        known = self._groups.get(meta.name, meta.namespace)
        if known is None or known.meta.uid != meta.uid:
            return None
        before = self._written.get(meta.key, known).condition
        if before is not None and before.status == "True" and not result.scheduled:
            return None
        status = "True" if result.scheduled else "False"
        aspect = Aspect(INITIALLY_SCHEDULED, status, result.reason, result.message[:_LONGEST_MESSAGE])
        conditions = [msgspec.to_builtins(before)] if before is not None else []
        (after,) = dated([aspect], {"conditions": conditions}, meta.generation, self._clock.now())
        return after if [after] != conditions else None
