"""A reflector under test, with a journal of its event handler and the delays between its tries."""

import asyncio
from random import Random
from typing import Any

import msgspec

from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.watch import Reflector, WatchSettings
from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta
from unit.kube.scripted import ScriptedServer


class Thing(msgspec.Struct, frozen=True):
    """An object of any kind. Tests give its size an invalid value."""

    metadata: ObjectMeta
    size: int = 0

    @property
    def meta(self) -> ObjectMeta:
        return self.metadata

    def __str__(self) -> str:
        return f"{self.metadata.name}@{self.metadata.resource_version}"


class Journal:
    """An event handler that records its calls, such as `+a@5`, `a@5>a@7`, `-a@7` and `synced`."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def upsert(self, old: Thing | None, new: Thing) -> None:
        self.lines.append(f"+{new}" if old is None else f"{old}>{new}")

    def remove(self, last: Thing) -> None:
        self.lines.append(f"-{last}")

    def synced(self) -> None:
        self.lines.append("synced")


class Follower:
    """Runs a reflector over a scripted server with a sleep that takes no time."""

    def __init__(self, client: KubeClient, server: ScriptedServer, sink: Any = None, **options: Any) -> None:
        self.delays: list[float] = []
        self.journal = Journal()
        self._server = server
        defaults: dict[str, Any] = {
            "rng": Random(1),  # noqa: S311 -- it spreads retries
            "sleep": self._sleep,
            "settings": WatchSettings(silence=5.0),
        }
        self.reflector: Reflector[Thing] = Reflector(
            client,
            PODS,
            options.pop("decode", Reader(Thing)),
            sink or self.journal,
            **defaults | options,
        )

    async def until_script_ends(self) -> list[str]:
        """Run until the server has replayed its script and gets one more request, and return the journal."""
        run = asyncio.create_task(self.reflector.run())
        end = asyncio.create_task(self._server.finished.wait())
        async with asyncio.timeout(60):
            await asyncio.wait((run, end), return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        if run.done():
            await run
        run.cancel()
        await asyncio.wait((run,))
        return self.journal.lines

    async def _sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        await asyncio.sleep(0)
