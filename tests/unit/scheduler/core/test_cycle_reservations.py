from typing import Any

import pytest

from builders import NOW, node, pod
from tidelock.framework.rejections import nodes_by_reason, shortage_text
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.nodes import Node
from tidelock.plugins.node_name import NodeName
from unit.scheduler.machinery import Core

NOT_READY = "node.kubernetes.io/not-ready:NoSchedule"


def test_a_reservation_uses_capacity_as_its_pod_would() -> None:
    core = Core(node("node-b", cpu="4"), node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "2"})
    core.step()

    assert (entry.phase, entry.node, entry.held["cpu"]) == (Phase.ACTIVE, "node-a", 2000)
    assert core.reserved("node-a") == 2000


@pytest.mark.parametrize(
    ("a_node", "spec", "reason"),
    [
        (node("node-b"), {"nodeName": "node-a"}, reasons.NODE_NOT_FOUND),
        (node("node-a", cpu="500m"), {}, reasons.INSUFFICIENT_CAPACITY),
        (node("node-a", cpu="500m"), {"nodeName": "node-a"}, reasons.INSUFFICIENT_CAPACITY),
        (node("node-a", cordoned=True), {"nodeName": "node-a"}, reasons.NODE_CORDONED),
        (node("node-a", taints=[NOT_READY]), {"nodeName": "node-a"}, reasons.NODE_NOT_READY),
        (node("node-a", taints=["a=b:NoSchedule"]), {"nodeName": "node-a"}, reasons.NO_MATCHING_NODE),
        (node("node-a", cordoned=True), {}, reasons.NO_MATCHING_NODE),
        (node("node-a", taints=[NOT_READY]), {}, reasons.NO_MATCHING_NODE),
        (node("node-a"), {"nodeSelector": {"disk": "ssd"}}, reasons.NO_MATCHING_NODE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_waiting_reservation_names_the_cause(a_node: Node, spec: dict[str, Any], reason: str) -> None:
    core = Core(a_node)
    entry = core.reservation(**spec)
    core.step()

    assert (entry.phase, entry.reason) == (Phase.PENDING, reason)
    assert core.reserved(a_node.name) == 0


def test_a_reservation_for_a_missing_node_names_it() -> None:
    core = Core(node("node-b"))
    entry = core.reservation(nodeName="node-a")
    core.step()

    assert entry.message == f"{nodes_by_reason(1, {NodeName.reason: 1})} There is no node node-a."


def test_used_and_reserved_capacity_both_count_as_insufficient_capacity() -> None:
    core = Core(node("node-a", cpu="4"))
    core.add(pod("other", requests={"cpu": "1"}, node_name="node-a"))
    first, second = (
        core.reservation("first", resources={"cpu": "2"}),
        core.reservation("second", resources={"cpu": "2"}),
    )
    core.step()

    assert (first.phase, second.phase) == (Phase.ACTIVE, Phase.PENDING)
    assert second.reason == reasons.INSUFFICIENT_CAPACITY
    assert f"{shortage_text('cpu', '2', '1')}, 2 reserved by shop/first" in second.message


def test_a_growing_reservation_stays_on_its_node() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="2"))
    entry = core.reservation(resources={"cpu": "2"})
    core.step()
    assert entry.node == "node-a"
    core.event_handlers.nodes.upsert(None, node("node-c", cpu="64"))
    core.reservation(resources={"cpu": "4"}, generation=2, version=2)
    core.step()

    assert (entry.node, core.reserved("node-a"), core.reserved("node-c")) == ("node-a", 4000, 0)


def test_a_growth_that_fails_keeps_the_old_size() -> None:
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "2"})
    core.step()
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="64"))
    core.reservation(resources={"cpu": "5"}, generation=2, version=2)
    core.step()

    assert (entry.phase, entry.node, core.reserved("node-a")) == (Phase.ACTIVE, "node-a", 2000)
    assert shortage_text("cpu", "5", "4") in entry.resize_problem


def test_a_reservation_moves_only_to_a_healthy_node() -> None:
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "2"}, ttlSeconds=3600, tolerations=[{"operator": "Exists"}])
    core.step()
    core.event_handlers.nodes.upsert(None, node("node-a", cpu="4", cordoned=True, version=2))
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="64", cordoned=True))
    core.clock.advance(300)
    core.step()
    assert (entry.node, entry.moving) == ("node-a", True)

    core.event_handlers.nodes.upsert(None, node("node-c", cpu="2"))
    core.step()

    assert (entry.node, entry.moving, core.reserved("node-a")) == ("node-c", False, 0)


def test_a_reservation_with_an_unreadable_spec_is_never_placed() -> None:
    core = Core(node("node-a"))
    entry = core.reservation(resources={"cpu": "much"})

    assert core.step() is None
    assert entry.phase is Phase.REJECTED
    with pytest.raises(ValueError, match="spec cannot be read"):
        core.decider.reservation_cycle.place(core.decider.profile, entry, NOW)
