"""What WaterLevels say of themselves while nothing measures yet."""

from cluster.api import Api, Manifest
from cluster.live import Live, condition
from cluster.world import World
from tidelock.kube.client import WATERLEVELS


def create(api: Api, name: str, **spec: object) -> Live:
    manifest = {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "WaterLevel",
        "metadata": {"name": name},
        "spec": {"source": {"metricsServer": {}}} | spec,
    }
    return Live(api, WATERLEVELS, api.create(WATERLEVELS.collection(), manifest))


def ready(found: Manifest) -> Manifest:
    return condition(found.get("status", {}), "Ready")


def test_a_water_level_without_a_source_that_is_read_is_not_ready(world: World) -> None:
    level = create(world.api, world.namespace)
    found = level.until(ready, "be told of")
    assert (ready(found)["status"], ready(found)["reason"]) == ("False", "NoSource")
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 1
    assert "finalizers" not in found["metadata"]
    assert "annotations" not in found["metadata"]

    level.merge({"spec": {"refreshSeconds": 60}})
    edited = level.until(lambda seen: seen["status"]["observedGeneration"] == 2, "be seen anew")
    assert ready(edited)["lastTransitionTime"] == ready(found)["lastTransitionTime"]
    level.delete()
    level.until_gone()
