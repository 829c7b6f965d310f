"""The production operator as a process of a world, by the same wiring as in a cluster."""

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tidelock.binders.errors import ClientsError
from tidelock.framework.config_file import ConfigurationError
from tidelock.kube.config import ConfigError
from tidelock.kube.lease import LeaseLostError
from tidelock.kube.second_loop import SecondLoop
from tidelock.machine import Machine
from tidelock.pace import PACE, Pace
from tidelock.process import operate
from tidelock.settings import Settings
from tidelock.tcp_server import ServingError
from world.host import Host

_T = TypeVar("_T")

# Seconds for the tasks of a thread to end, as in `tidelock.kube.second_loop`.
_LAST_TURNS = 1.0

# The errors that `tidelock.process.run` reports in a sentence before it ends with the status 1.
_REPORTED = (ConfigurationError, ConfigError, ServingError, ClientsError, LeaseLostError)

# The modules that the operator imports while it runs. The world has them before it begins, as an import takes
# chance and time of the whole Python process, once.
_IMPORTED_LATE = (
    "kopf",
    "kopf._core.engines.peering",
    "tidelock.handlers.login",
    "tidelock.handlers.water_levels",
    "tidelock.serving",
    "tidelock.web.site",
    "tidelock.web.sources",
    "tidelock.web.view",
)


def import_all() -> None:
    """Import all modules of the operator. Call it before a fork, and before a world begins."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _IMPORTED_LATE:
            import_module(name)


class HostLoop(SecondLoop):
    """A further thread of a simulated process, with its event loop: a lane beside the main one."""

    def __init__(self, host: Host, name: str) -> None:
        self._host, self._lane = host, host.lane(name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it while the context lasts: it has nothing to begin."""
        try:
            yield
        finally:
            left = self._host.tasks(self._lane)
            if left:
                await asyncio.wait(left, timeout=_LAST_TURNS)

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine in the lane."""
        loop = asyncio.get_running_loop()
        return self._lane.context().run(asyncio.run_coroutine_threadsafe, work, loop)


def write_kubeconfig(path: Path, server: str, token: str = "") -> Path:
    """Write a kubeconfig that names a server of the world, and the user with a token. Return its path."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "world",
        "clusters": [{"name": "world", "cluster": {"server": server}}],
        "users": [{"name": "operator", "user": {"token": token} if token else {}}],
        "contexts": [{"name": "world", "context": {"cluster": "world", "user": "operator"}}],
    }
    path.write_text(json.dumps(content))  # which is YAML, too
    return path


def machine_of(host: Host) -> Machine:
    """Return the machine of a host, as production sees it."""
    return Machine(
        clock=host,
        rng=Random(host.rng.random()),  # noqa: S311 -- for pauses
        second_loop=lambda name: HostLoop(host, name),
        end_within=host.end_within,
    )


def launch_operator(host: Host, settings: Settings, pace: Pace = PACE) -> asyncio.Task[int | None]:
    """Start an operator on a host. The task ends with its exit status, or None if it was killed."""
    import_all()
    operator = operate(settings, asyncio.Event(), pace, machine_of(host))
    return host.launch(operator, expected=_REPORTED)
