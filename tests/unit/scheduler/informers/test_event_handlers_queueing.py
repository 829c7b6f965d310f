"""The events that the scheduling queue gets from the event handlers."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec.structs import replace

from builders import NOW, encode, node, pod
from storage import storage_class
from tidelock.framework.events import ClusterEvent
from tidelock.model.namespaces import Namespace
from tidelock.model.pods import Pod
from tidelock.model.workloads import Service
from tidelock.scheduler.core.pod_queue import SchedulingQueue
from tidelock.scheduler.informers.event_handlers import ObjectEventHandler
from unit.scheduler.machinery import Core


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the label of each event that the queue gets, with the name of its object."""
    labels: list[str] = []

    def notify(
        _: SchedulingQueue, event: ClusterEvent, old: object, new: object, now: float, only: object = None
    ) -> None:
        assert (now, only) == (NOW, None)
        about = new if new is not None else old
        labels.append(f"{event.label} {about.meta.name}")  # type: ignore[attr-defined]

    monkeypatch.setattr(SchedulingQueue, "notify", notify)
    return labels


BOUND = pod("other", node_name="node-a")


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        (lambda core: core.event_handlers.pods.remove(BOUND), ["AssignedPodDelete other"]),
        (
            lambda core: core.event_handlers.pods.upsert(
                BOUND, pod("other", node_name="node-a", phase="Succeeded")
            ),
            ["AssignedPodDelete other"],
        ),
        (
            lambda core: core.event_handlers.pods.upsert(
                BOUND, pod("other", node_name="node-a", phase="Running")
            ),
            [],
        ),
        (
            lambda core: core.event_handlers.pods.upsert(
                BOUND, pod("other", node_name="node-a", labels={"a": "b"})
            ),
            ["AssignedPodUpdatePodLabel other"],
        ),
        (
            lambda core: core.event_handlers.pods.upsert(BOUND, pod("other", node_name="node-b")),
            ["AssignedPodDelete other", "AssignedPodAdd other"],
        ),
        (lambda core: core.add(pod("waiting")), []),
        (lambda core: core.event_handlers.pods.remove(pod("unknown")), []),
        (lambda core: core.event_handlers.nodes.upsert(None, node("node-b")), ["NodeAdd node-b"]),
        (lambda core: core.event_handlers.nodes.remove(node()), ["NodeDelete node-a"]),
        (lambda core: core.event_handlers.nodes.upsert(node(), node(version=2)), []),
        (
            lambda core: core.event_handlers.nodes.upsert(node(), node(cpu="8", labels={"a": "b"})),
            ["NodeUpdateNodeAllocatable node-a", "NodeUpdateNodeLabel node-a"],
        ),
        (
            lambda core: core.event_handlers.nodes.upsert(node(), node(uid="another")),
            ["NodeDelete node-a", "NodeAdd node-a"],
        ),
    ],
)
def test_the_queue_gets_the_events_that_may_help_a_pod(
    heard: list[str], change: Callable[[Core], None], labels: list[str]
) -> None:
    core = Core(node())
    core.add(BOUND)
    assert heard == ["NodeAdd node-a", "AssignedPodAdd other"]
    heard.clear()
    change(core)

    assert heard == labels


def test_a_pod_that_is_deleted_during_its_binding_frees_its_capacity(heard: list[str]) -> None:
    core = Core(node())
    core.add(pod())
    core.place()
    heard.clear()
    core.event_handlers.pods.remove(pod())

    assert heard == ["AssignedPodDelete web-0"]


def test_the_queue_gets_events_of_our_own_bindings_too(heard: list[str]) -> None:
    core = Core(node())
    core.add(pod())
    core.place()
    heard.clear()
    core.event_handlers.pods.upsert(pod(), pod(node_name="node-a"))

    assert heard == ["AssignedPodAdd web-0"]


def test_the_event_of_an_assumed_pod_has_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core(node())
    core.add(pod())
    core.place()
    told: list[Pod] = []
    monkeypatch.setattr(SchedulingQueue, "notify", lambda _queue, _event, old, *_: told.append(old))
    core.event_handlers.pods.remove(pod())

    assert [each.node_name for each in told] == ["node-a"]


def test_the_queue_gets_events_of_other_objects_only_if_a_plugin_registers_for_them(heard: list[str]) -> None:
    event_handlers = Core().event_handlers
    space = msgspec.json.decode(encode({"metadata": {"name": "shop"}}), type=Namespace)
    service = msgspec.json.decode(encode({"metadata": {"name": "shop"}}), type=Service)
    event_handlers.others["services"].upsert(None, service)
    event_handlers.others["namespaces"].upsert(None, space)
    event_handlers.others["namespaces"].upsert(space, space)
    event_handlers.others["namespaces"].remove(space)

    assert heard == ["NamespaceAdd shop", "NamespaceUpdate shop", "NamespaceDelete shop"]


def test_another_object_of_the_same_name_is_new_to_the_queue(heard: list[str]) -> None:
    """Check that hints for new objects see an object whose predecessor's end the watch has missed."""
    core = Core()
    handler = ObjectEventHandler(core.event_handlers, "storage_classes", core.decider.objects.storage_classes)
    former, later = storage_class(), storage_class(mode="Immediate")
    later = replace(later, metadata=replace(later.metadata, uid="uid-later"))
    handler.upsert(None, former)
    handler.upsert(former, later)

    name = "storage.k8s.io/StorageClass"
    assert heard == [f"{name}Add local", f"{name}Delete local", f"{name}Add local"]
