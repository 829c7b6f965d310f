"""Events that repeat why an object waits, or stopped to wait, for people who describe it.

An event costs about as much as the status that it repeats. So a namespace gets some at once, and then one
every few seconds: ten thousand reservations that wait do not double the work of the API server.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidelock.kube.client import ApiResource
from tidelock.kube.correlation import Correlator
from tidelock.kube.events import ObjectReference
from tidelock.model import reasons
from tidelock.model.meta import ObjectMeta
from tidelock.scheduler.actions.context import WriterContext

_AT_ONCE = 25
# Reasons of an object that was not tried yet, or holds capacity as soon as some statuses are written.
_PASSING = frozenset({reasons.WAITING, reasons.GROUP_INCOMPLETE})
_PAUSE = 5.0  # seconds between two events of a namespace that has had those


class StatusEvents:
    """Records events about the statuses of one kind that were written."""

    def __init__(self, context: WriterContext, resource: ApiResource) -> None:
        self._recorder = context.recorder
        self._clock = context.clock
        self._resource = resource
        self._correlator = Correlator(burst=_AT_ONCE, refill_seconds=_PAUSE)

    def record(self, meta: ObjectMeta, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Record an event if the status that was written has another reason than the one before.

        The first condition has the reason.
        """
        cause = _cause(after)
        reason, message = str(cause.get("reason", "")), str(cause.get("message", ""))
        if not reason or reason in _PASSING or reason == _cause(before).get("reason"):
            return
        if not self._correlator.admits(meta.namespace, (meta.name, reason), self._clock.monotonic()):
            return
        ready = {each["type"]: each["status"] for each in after["conditions"]}.get("Ready")
        resource = self._resource
        self._recorder.record(
            ObjectReference(resource.api_version, resource.kind, meta.name, meta.namespace, meta.uid),
            "Warning" if ready == "False" else "Normal",
            reason,
            str(after.get("phase", cause["type"])),
            message,
        )


def _cause(status: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ({},)
    return conditions[0]
