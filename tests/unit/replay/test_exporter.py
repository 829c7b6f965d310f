from types import SimpleNamespace

import pytest

from replay.exporter import Exporter


def test_counters_grow_by_the_use_since_the_last_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of load between two scrapes once counted from the earlier scrape on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("replay.exporter.time", SimpleNamespace(monotonic=lambda: clock.now))
    exporter = Exporter("nowhere", _last=0.0)
    exporter.show({"node-a": (0.25, 0.5)}, {("shop", "web"): (1.0, 100.0)})
    clock.now = 10.0
    exporter.show({"node-a": (0.75, 0.5)}, {("shop", "web"): (2.0, 100.0)})
    clock.now = 14.0
    text = exporter.render()

    node = 'instance="node-a:9100",job="node-exporter"'
    pod = 'namespace="shop",pod="web",container="main"'
    assert f'node_cpu_seconds_total{{{node},cpu="0",mode="idle"}} 8.5\n' in text
    assert f'node_cpu_seconds_total{{{node},cpu="0",mode="user"}} 5.5\n' in text
    assert f"container_cpu_usage_seconds_total{{{pod}}} 18.0\n" in text
    assert f"container_memory_working_set_bytes{{{pod}}} 100.0\n" in text
