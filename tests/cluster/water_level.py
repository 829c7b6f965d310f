"""WaterLevels of tests."""

import json
from functools import partial
from urllib.parse import urlencode
from urllib.request import urlopen

from cluster.live import Live
from cluster.world import World
from devcluster import wait_for
from replay.exporter import POD_CPU, SECONDS
from replay.manifests import water_level_manifest
from tidelock.kube.client import WATERLEVELS

NODE_COUNTER = "node_cpu_seconds_total"
POD_COUNTER = "container_cpu_usage_seconds_total"


def water_level(world: World, url: str, **spec: object) -> Live:
    """Create a WaterLevel for the nodes of a test, which reads a Prometheus every five seconds."""
    defaults = {
        "source": {"prometheus": {"address": url, "queries": {"podCPU": POD_CPU}}},
        "stalenessSeconds": 20,
    }
    manifest = water_level_manifest(world.namespace, world.selector, url, **(defaults | spec))
    return Live(world.api, WATERLEVELS, world.api.create(WATERLEVELS.collection(), manifest))


def until_rated(url: str, *counters: str) -> None:
    """Wait until a Prometheus has two samples of all counters of these names, so it can compute rates.

    The first reading of a WaterLevel that is created earlier lacks them, and the next one is five seconds
    later.
    """
    for name in counters:
        rated = f"count(rate({name}[{SECONDS}s])) == count({name})"
        asked = f"{url}/api/v1/query?{urlencode({'query': rated})}"
        wait_for(partial(_has_series, asked), what=f"rates of {name}")


def _has_series(asked: str) -> bool:
    with urlopen(asked) as told:  # noqa: S310 -- loopback
        return bool(json.load(told)["data"]["result"])
