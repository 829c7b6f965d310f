"""The production operator, from its launch to its end, in a world."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from tidelock.settings import Settings
from world import World
from world.operator import launch_operator
from world.storm import METRICS, Stage

ONE, TWO = "operator-0.world", "operator-1.world"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.of(World(11), tmp_path)


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition, in virtual seconds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- no event is set
            await asyncio.sleep(0.01)


async def ask(path: str) -> tuple[int, str]:
    """Read from the HTTP server of the first operator."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{ONE}:{METRICS}{path}") as answer:
        return answer.status, await answer.text()


def test_an_operator_leads_watches_and_serves(stage: Stage) -> None:
    """It is `process.operate` as a whole: the Lease in its thread, all watches, Kopf, probes and metrics."""

    async def main() -> tuple[float, str]:
        stage.operator(ONE)
        await until(lambda: "/apis/tidelock.dev/v1alpha1/waterlevels" in stage.api.watches)
        started = stage.world.loop.now
        prober = stage.world.host("prober")
        await asyncio.sleep(10)
        assert await prober.spawn(ask("/healthz")) == (200, "ok")
        assert (await prober.spawn(ask("/readyz")))[0] == 200
        _, metrics = await prober.spawn(ask("/metrics"))
        await asyncio.sleep(180)
        assert len(stage.api.watches) > 20
        return started, metrics

    started, metrics = stage.world.run(main())
    assert started < 5
    assert stage.holder().startswith(ONE)
    assert 'tidelock_kopf_up{resource="waterlevels"} 1.0' in metrics
    renewals = [path for method, path in stage.api.requests if method == "PUT" and "/leases/" in path]
    assert 80 < len(renewals) < 100
    assert stage.world.unhandled() == []


def test_a_signal_releases_the_lease_and_a_standby_takes_it_at_once(stage: Stage) -> None:
    async def main() -> tuple[int | None, float]:
        first = stage.operator(ONE)
        await until(lambda: stage.holder().startswith(ONE))
        stage.operator(TWO)
        await asyncio.sleep(30)
        first.signal(signal.SIGTERM)
        asked = stage.world.loop.now
        await until(lambda: stage.holder().startswith(TWO))
        taken = stage.world.loop.now
        await until(lambda: not first.alive)
        return first.status, taken - asked

    status, seconds = stage.world.run(main())
    assert status == 0
    assert seconds < 2
    assert stage.world.unhandled() == []


def test_a_killed_leader_is_followed_after_the_duration_of_its_lease(stage: Stage) -> None:
    async def main() -> float:
        first = stage.operator(ONE)
        await until(lambda: stage.holder().startswith(ONE))
        stage.operator(TWO, skew=3600)
        await asyncio.sleep(30)
        first.kill()
        killed = stage.world.loop.now
        await until(lambda: stage.holder().startswith(TWO))
        return stage.world.loop.now - killed

    assert 12 < stage.world.run(main()) < 16


def test_a_leader_that_stood_still_for_too_long_ends(stage: Stage) -> None:
    """A stopped virtual machine goes on as if nothing had happened, with a clock that has."""

    async def main() -> int | None:
        host = stage.operator(ONE)
        await until(lambda: stage.holder().startswith(ONE))
        await asyncio.sleep(5)
        host.stall(20)
        await until(lambda: not host.alive)
        return host.status

    assert stage.world.run(main()) == 1


def test_a_wrong_setting_ends_an_operator_with_its_message(stage: Stage) -> None:
    async def main() -> tuple[int | None, str]:
        host = stage.world.host(ONE)
        settings = Settings(kubeconfig="/nowhere", instance=ONE)
        return await launch_operator(host, settings), str(host.error)

    status, error = stage.world.run(main())
    assert status == 1
    assert "/nowhere" in error
    assert stage.world.unhandled() == []


def test_a_standby_with_a_silent_watch_follows_a_killed_leader_in_time(stage: Stage) -> None:
    """A connection may fall silent without an end, for example when a NAT forgets it.

    The standby then knew an old version of the Lease. It tried to replace it five times a second, in vain,
    and followed the leader only when the watch counted as dead, after 75 s. It reads the Lease now after the
    first refusal. So it is late by one duration of the Lease at most.
    """

    async def main() -> tuple[float, float]:
        first = stage.operator(ONE)
        await until(lambda: stage.holder().startswith(ONE))
        stage.operator(TWO)
        await asyncio.sleep(10)
        for connection in stage.world.network.connections(TWO):
            connection.held = True
        await asyncio.sleep(20)
        before = len(stage.api.requests)
        await asyncio.sleep(12)
        rate = (len(stage.api.requests) - before) / 12
        first.kill()
        killed = stage.world.loop.now
        await until(lambda: stage.holder().startswith(TWO))
        return rate, stage.world.loop.now - killed

    rate, seconds = stage.world.run(main())
    assert rate < 1.5
    assert 10 < seconds < 31
