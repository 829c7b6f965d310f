"""Plugins of the binding cycle that only exist in tests, and a scheduler with a pod that meets them."""

import asyncio
from dataclasses import replace
from typing import Any

from builders import SCHEDULER, node
from tidelock.framework.api import (
    SKIP,
    SUCCESS,
    Bind,
    Code,
    EnqueueExtensions,
    Handle,
    Permit,
    PostBind,
    PreBind,
    Reserve,
    Status,
)
from tidelock.framework.config import Configuration
from tidelock.framework.events import ASSIGNED_POD_ADD, Registration
from tidelock.framework.profile import Enabled, ProfileSettings
from tidelock.framework.waiting_pods import WaitingPod
from tidelock.plugins.registry import DEFAULT_PLUGINS, REGISTRY
from tidelock.scheduler.core.queued_pod import QueueName
from unit.scheduler.machinery import CONFIGURATION, Shell, pod_path, turns

WAIT = Status(Code.WAIT)
UID = "uid-web-0"


class Gang(Permit, EnqueueExtensions):
    """A Permit plugin with a fixed answer. A pod that is added may help the pods that it refused."""

    name = "Gang"
    answer: tuple[Status, float] = (WAIT, 30.0)

    def permit(self, *_: object) -> tuple[Status, float]:
        return self.answer

    def events_to_register(self) -> tuple[Registration, ...]:
        return (Registration(ASSIGNED_POD_ADD),)


class Noting(Reserve, PreBind, Bind, PostBind):
    """A plugin that notes its calls and gives fixed answers. An exception as an answer is raised."""

    name = "Noting"

    def __init__(self, shell: "PermitShell", name: str = "Noting", **answers: Status | Exception) -> None:
        super().__init__(shell.handle, {})
        self.notes = shell.notes
        self.label = name
        self.answers = answers

    def _answer(self, point: str, default: Status = SUCCESS) -> Status:
        self.notes.append(f"{point} {self.label}")
        answer = self.answers.get(point, default)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self, *_: object, **__: object) -> Status:
        return self._answer("reserve")

    def unreserve(self, *_: object, **__: object) -> None:
        self._answer("unreserve")

    def pre_bind_pre_flight(self, *_: object) -> Status:
        answer = self.answers.get("pre_flight", SUCCESS)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def pre_bind(self, *_: object) -> Status:
        return self._answer("pre_bind")

    async def bind(self, *_: object) -> Status:
        return self._answer("bind", SKIP)

    def post_bind(self, *_: object) -> None:
        self._answer("post_bind")


class Lasting(Noting):
    """A plugin with a PreBind that never ends."""

    async def pre_bind(self, *_: object) -> Status:
        self._answer("pre_bind")
        await asyncio.Event().wait()
        raise AssertionError


class PermitShell(Shell):
    """A scheduler with one node, one pod and its reservation. Tests can extend its profile."""

    def __init__(self, configuration: Configuration = CONFIGURATION) -> None:
        super().__init__(node("node-a", cpu="1"), configuration=configuration)
        self.notes: list[str] = []
        self.handle = Handle(self.ledger.plugin_view, self.cache, waiting_pods=self.decider.waiting_pods)
        self.store_reservation()
        self.step()
        self.store_pod()

    def extend(self, **points: tuple[Any, ...]) -> None:
        """Add plugins to the profile of the waiting pod."""
        waiting = self.queue.get(UID)
        assert waiting is not None
        waiting.profile = replace(
            waiting.profile,
            **{point: getattr(waiting.profile, point) + more for point, more in points.items()},
        )

    async def start(self) -> None:
        self.binder.bind(self.place(), self.clock.monotonic())
        await turns()

    @property
    def bound(self) -> bool:
        """Return whether a binding was sent to the API server."""
        return "POST" in self.api.verbs

    @property
    def nominations(self) -> list[str | None]:
        """Return the nominated nodes that were written, in their order. None removes one."""
        written = (asked.body["status"] for asked in self.api.asked if asked.path == f"{pod_path()}/status")
        return [status["nominatedNodeName"] for status in written if "nominatedNodeName" in status]

    @property
    def waiting_pod(self) -> WaitingPod:
        (waiting,) = self.decider.waiting_pods
        return waiting

    @property
    def where(self) -> QueueName | None:
        waiting = self.queue.get(UID)
        return waiting.queue if waiting is not None else None


async def holding_shell() -> PermitShell:
    """Build a scheduler with a pod that waits for the permit of Gang."""
    profile = ProfileSettings(SCHEDULER, (*DEFAULT_PLUGINS, Enabled(Gang.name)))
    shell = PermitShell(Configuration(profiles=(profile,), registry={**REGISTRY, Gang.name: Gang}))
    await shell.start()
    assert (shell.where, shell.waiting_pod.pending) == (QueueName.IN_FLIGHT, ("Gang",))
    return shell
