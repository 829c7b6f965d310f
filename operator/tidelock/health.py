"""The state of a process, for probes and the web view."""

import asyncio
from typing import Literal

from tidelock.assembly import Assembly
from tidelock.web.replica_status import ReplicaStatus

STUCK = 30.0
"""Seconds that a turn of the decision loop may take."""

# Seconds after which the web view says that the API server is silent: each watch has a bookmark a minute.
_SILENT = 60


class Health:
    """The state of a process.

    Args:
        assembly: its parts.
        ending: set when they begin to end.

    """

    def __init__(self, assembly: Assembly, ending: asyncio.Event) -> None:
        self._assembly, self._ending = assembly, ending
        self._leadership, self._clock = assembly.context.leadership, assembly.context.clock

    @property
    def alive(self) -> bool:
        """Whether decisions are made, or need not be, as another process leads."""
        last_turn = self._assembly.scheduler.loop.last_turn
        return self._leadership.waiting or self._clock.monotonic() - last_turn < STUCK

    @property
    def ready(self) -> bool:
        """Whether the cluster is read, or need not be, as another process leads."""
        return not self._ending.is_set() and (self._leadership.waiting or self._all_known)

    @property
    def details(self) -> dict[str, str]:
        """The watches and Kopf operators while it leads, and the Lease while it stands by.

        Each comes with the reason if it does not work.
        """
        if self._leadership.waiting:
            return {"lease": self._leadership.silence}
        watches = {
            f"watch/{each.name}": type(each.lost).__name__ if each.lost is not None else ""
            for each in self._assembly.reflectors
        }
        kopf = self._assembly.kopf
        return watches | {f"kopf/{kopf.resource.plural}": kopf.problem}

    @property
    def replica(self) -> ReplicaStatus:
        """The role of this process in the cluster."""
        instance, holder = self._assembly.context.settings.instance, self._leadership.holder
        if self._leadership.waiting:
            return ReplicaStatus("standby", instance, holder)
        state: Literal["leading", "starting"] = "leading" if self._all_known else "starting"
        heard = max(each.last_activity for each in self._assembly.reflectors)
        silence = int(self._clock.monotonic() - heard)
        silence = silence if silence > _SILENT else 0
        return ReplicaStatus(state, instance, holder, self._leadership.epoch, silence)

    @property
    def _all_known(self) -> bool:
        return self._assembly.context.core.event_handlers.ready
