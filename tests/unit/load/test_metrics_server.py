"""Measurements of the resource metrics API, as its servers write them."""

from builders import NOW, Json, encode
from tidelock.load.metrics_server import NODE_METRICS, POD_METRICS, MetricsServerSource
from tidelock.model.instants import format_instant

AT = format_instant(NOW)


class Api:
    """An API server that answers with these lists."""

    def __init__(self, nodes: list[Json] | None, pods: list[Json] | None) -> None:
        self._answers = {NODE_METRICS.collection(): nodes, POD_METRICS.collection(): pods}

    async def get(self, path: str) -> bytes:
        return encode({"items": self._answers[path]})


async def test_null_is_read_as_empty() -> None:
    """Go writes null for an empty list or map. One such item once made the whole reading fail."""
    nodes: list[Json] = [
        {"metadata": {"name": "a"}, "timestamp": AT, "usage": None},
        {"metadata": {"name": "b"}, "timestamp": AT, "usage": {"cpu": "1"}},
    ]
    pods: list[Json] = [
        {"metadata": {"name": "bare", "namespace": "shop"}, "timestamp": AT, "containers": None},
        {
            "metadata": {"name": "web", "namespace": "shop"},
            "timestamp": AT,
            "containers": [{"name": "main", "usage": {"cpu": "1"}}],
        },
    ]
    source = MetricsServerSource(Api(nodes, pods), lambda _: {"cpu": 4000, "memory": 2**30})

    reading = await source.read(NOW)

    assert reading.nodes["b"].cpu == 25
    assert reading.nodes["a"].cpu is None
    assert [key.name for key in reading.pods] == ["web"]
    assert reading.problems == []


async def test_a_list_of_null_has_no_items() -> None:
    reading = await MetricsServerSource(Api(None, None), lambda _: None).read(NOW)

    assert not reading.nodes
    assert not reading.pods
