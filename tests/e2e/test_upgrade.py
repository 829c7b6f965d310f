"""An upgrade from an earlier revision and back keeps every reservation, and no pod waits for long."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.judging import Judgement
from e2e.scene import Scene
from e2e.site import EXTENDER, HA, Image, Site
from e2e.stream import streaming

pytestmark = pytest.mark.timeout(1500)

_SCENE, _STREAM = "e2e-kinds", "e2e-upgrade"


def test_an_upgrade_and_the_way_back_lose_nothing(
    site: Site, previous_checkout: Path, previous: Image, image: Image
) -> None:
    manifests = previous_checkout / "manifests"
    steps: dict[str, Callable[[], float]] = {
        "upgrade": lambda: site.install(image, HA, EXTENDER),
        "way back": lambda: site.install(previous, HA, EXTENDER, manifests=manifests),
        "second upgrade": lambda: site.install(image, HA, EXTENDER),
    }
    seconds = site.install(previous, HA, EXTENDER, manifests=manifests)
    print(f"\nthe earlier revision is ready after {seconds:.0f} s")  # noqa: T201 -- the output is the evidence
    with site.namespace(_SCENE), site.namespace(_STREAM):
        judged = asyncio.run(_changed(site, steps))
    print("\n".join(f"  {line}" for line in judged.lines(detailed=False)))  # noqa: T201
    assert judged.violations == []


async def _changed(site: Site, steps: dict[str, Callable[[], float]]) -> Judgement:
    """Take the steps under a stream, beside a scene of every kind, and judge the record."""
    async with site.recorded() as (client, record):
        scene = Scene(client, _SCENE, time.time)
        await scene.prepare()
        async with streaming(client, record, _STREAM, site.workers()) as stream:
            for name, take in steps.items():
                seconds = await asyncio.to_thread(take)
                await scene.until(f"all stand after the {name}", scene.stands)
                print(f"{name}: ready after {seconds:.0f} s, and every kind stands")  # noqa: T201
        await scene.finish()
        return stream.judged()
