"""Objects that can't be read in full, in metrics and events."""

from random import Random
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from builders import encode, node_json
from tidelock.kube.client import NODES
from tidelock.kube.events import ObjectReference
from tidelock.kube.watch import Reflector
from tidelock.model.meta import Key
from tidelock.model.nodes import decode_node
from tidelock.scheduler.informers.unreadable import UnreadableObjectCounts, UnreadableObjectReporter


class Ignoring:
    """An event handler that ignores all events."""

    def upsert(self, old: Any, new: Any) -> None:
        pass

    def remove(self, last: Any) -> None:
        pass

    def synced(self) -> None:
        pass


@pytest.fixture
def nodes() -> Reflector[Any]:
    client: Any = None  # no request is sent
    return Reflector(client, NODES, decode_node, Ignoring(), rng=Random(1))  # noqa: S311 -- no secret


def test_unreadable_objects_are_counted_by_consequence(nodes: Reflector[Any]) -> None:
    registry = CollectorRegistry()
    registry.register(UnreadableObjectCounts([nodes]))
    bad: dict[str, Any] = {"a": {"cpu": "?"}, "b": {"annotations": {"x": 1}}, "c": {"cpu": "?"}}
    for name, fields in bad.items():
        meta = decode_node(encode(node_json(name, **fields))).meta
        nodes.faulty[Key("", name)] = meta.faults

    def count(consequence: str) -> float | None:
        labels = {"resource": "nodes", "consequence": consequence}
        return registry.get_sample_value("tidelock_unreadable_objects", labels)

    assert count("unusable") is None  # nothing is known before the first list
    nodes.synced.set()
    assert (count("unusable"), count("part_ignored")) == (2, 1)
    nodes.faulty.clear()
    assert (count("unusable"), count("part_ignored")) == (0, 0)


def test_an_unusable_object_gets_an_event() -> None:
    events: list[tuple[Any, ...]] = []
    faults = UnreadableObjectReporter(lambda *event: events.append(event))
    odd: Any = {"x": 1}
    faults.noted(NODES, decode_node(encode(node_json("part", annotations=odd))).meta)
    faults.noted(NODES, decode_node(encode(node_json("node-a", uid="1", cpu="?"))).meta)

    [(regarding, kind, reason, action, note)] = events
    assert regarding == ObjectReference("v1", "Node", "node-a", uid="1")
    assert (kind, reason, action) == ("Warning", "Unreadable", "Reading")
    assert note.startswith("Not used for decisions, as parts of it can't be read: status.allocatable.cpu: ")
