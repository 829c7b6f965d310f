"""WaterLevels of tests."""

from cluster.live import Live
from cluster.world import World
from replay.exporter import POD_CPU
from replay.manifests import water_level_manifest
from tidelock.kube.client import WATERLEVELS


def water_level(world: World, url: str, **spec: object) -> Live:
    """Create a WaterLevel for the nodes of a test, which reads a Prometheus every five seconds."""
    defaults = {
        "source": {"prometheus": {"address": url, "queries": {"podCPU": POD_CPU}}},
        "stalenessSeconds": 20,
    }
    manifest = water_level_manifest(world.namespace, world.selector, url, **(defaults | spec))
    return Live(world.api, WATERLEVELS, world.api.create(WATERLEVELS.collection(), manifest))
