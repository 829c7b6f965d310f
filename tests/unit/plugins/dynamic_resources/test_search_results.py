"""Which nodes are searched again for a pod with the claims of an earlier one."""

from typing import Any

import pytest

from builders import NOW, node, pod
from devices import claiming, device_class, device_slice, put, request, resource_claim, taint_rule, wanting
from tidelock.devices.allocator import DeviceAllocator
from tidelock.framework.api import Code
from unit.plugins.dynamic_resources.cluster import Cluster

ONE, TWO = pod("web-1", **claiming("one")), pod("web-2", **claiming("two"))


class Searches:
    """A cluster with two equal claims, and the number of searches on its nodes."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.objects = self.cluster.objects
        self.cluster.claim("one")
        self.cluster.claim("two")
        put(self.objects, device_slice("a", "d0"), device_slice("b", "d0", node_name="node-b"))
        self._count = 0
        self._allocate = DeviceAllocator.allocate

    def allocate(self, *args: Any) -> Any:
        """Count a search, and make it."""
        self._count += 1
        return self._allocate(*args)

    def again(self) -> int:
        """Return how many nodes have been searched since the last call."""
        count, self._count = self._count, 0
        return count

    def fitting(self) -> set[str]:
        return self.cluster.judge(TWO).fitting


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    found = Searches()

    def counted(*args: Any) -> Any:
        return found.allocate(*args)

    monkeypatch.setattr(DeviceAllocator, "allocate", counted)
    assert found.cluster.judge(ONE).fitting == {"node-a", "node-b"}
    assert found.again() == 2
    return found


def test_equal_claims_share_all_results(searches: Searches) -> None:
    assert searches.fitting() == {"node-a", "node-b"}
    assert searches.again() == 0


def test_a_node_whose_devices_come_into_use_is_searched_again(searches: Searches) -> None:
    judged = searches.cluster.reserve(ONE, "node-b")
    assert searches.fitting() == {"node-a"}
    assert searches.again() == 1
    searches.cluster.unreserve(judged, "node-b")
    assert searches.fitting() == {"node-a", "node-b"}
    assert searches.again() == 1


def test_a_node_whose_slices_change_is_searched_again(searches: Searches) -> None:
    put(searches.objects, device_slice("a", "d0", slices=2))
    assert searches.fitting() == {"node-b"}
    assert searches.again() == 1
    for each in [*searches.objects.resource_slices.all()]:
        searches.objects.resource_slices.remove(each)
    assert searches.fitting() == set()


def test_nodes_that_come_go_or_change_are_searched_again(searches: Searches) -> None:
    cache = searches.cluster.scene.cache
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
    shared = device_slice("s", "d0", nodeSelector={"nodeSelectorTerms": [zone]})
    put(searches.objects, shared, resource_claim("one", request("gpu", wanting(count=2))))
    put(searches.objects, resource_claim("two", request("gpu", wanting(count=2))))
    assert searches.fitting() == set()
    searches.again()
    cache.put_node(node("node-a", labels={"zone": "x"}))
    assert searches.fitting() == {"node-a"}
    assert searches.again() == 1
    cache.put_node(node("node-c"))
    put(searches.objects, device_slice("c", "d0", "d1", node_name="node-c"))
    assert searches.fitting() == {"node-a", "node-c"}
    cache.drop_node("node-a")
    assert searches.fitting() == {"node-c"}


def test_classes_and_rules_concern_all_nodes(searches: Searches) -> None:
    put(searches.objects, taint_rule("hot", pool="b"))
    assert searches.fitting() == {"node-a"}
    put(searches.objects, device_class("gpu", "false"))
    assert searches.fitting() == set()


def test_a_reason_that_names_a_claim_is_not_shared(searches: Searches) -> None:
    put(searches.objects, device_class("gpu", "1 + 1"))
    for wanted in (ONE, TWO):
        judged = searches.cluster.judge(wanted)
        assert judged.fitting == set()
        assert judged.reasons() == judged.reasons()
        assert "class gpu: selector #0" in judged.reasons()[0]


def test_devices_that_are_taken_before_they_are_reserved_are_not_given_twice(searches: Searches) -> None:
    """Check two pods of a group: both have a node before one of them is reserved."""
    judged = [searches.cluster.judge(each) for each in (ONE, TWO)]
    assert all(each.fitting == {"node-a", "node-b"} for each in judged)
    codes = [searches.cluster.plugin.reserve(each.state, each.pod, "node-a", NOW).code for each in judged]
    assert codes == [Code.SUCCESS, Code.ERROR]
