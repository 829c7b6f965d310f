"""The devices that nodes have access to."""

import pytest

from builders import Json, node
from devices import device, device_slice
from tidelock.devices.pools import NodeDevices, ResourcePools
from tidelock.model.devices import ResourceSlice


def pools(*slices: ResourceSlice) -> ResourcePools:
    index = ResourcePools()
    for each in slices:
        index.put(None, each)
    return index


def names(found: NodeDevices) -> list[str]:
    return [each.device.name for each in found.candidates]


NODE = node("node-a", labels={"zone": "a"})


def zone(value: str) -> Json:
    wanted = {"key": "zone", "operator": "In", "values": [value]}
    return {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}


def test_pools_and_slices_are_ordered_by_name_and_conditional_pools_come_last() -> None:
    index = pools(
        device_slice("z", "d3", pool="b"),
        device_slice("y", "d2", pool="a", slices=2),
        device_slice("x", "d1", pool="a", slices=2),
        device_slice("w", device("d0", bindingConditions=["Ready"]), pool="0"),
        device_slice("v", "d4", pool="c", driver="another.example.com"),
    )
    assert names(index.of(NODE)) == ["d4", "d1", "d2", "d3", "d0"]


def test_only_the_newest_generation_counts() -> None:
    old = device_slice("old", "d0", pool="a")
    new = device_slice("new", "d1", pool="a", generation=2)
    assert names(pools(old, new).of(NODE)) == ["d1"]
    assert names(pools(new, old).of(NODE)) == ["d1"]
    elsewhere = device_slice("new", "d1", pool="a", generation=2, node_name="node-b")
    stale = device_slice("old", "d0", pool="a", slices=2)
    assert pools(stale, elsewhere).of(NODE) == NodeDevices()


@pytest.mark.parametrize(
    ("slices", "problem"),
    [
        ([device_slice("a", "d0", "d0")], "duplicate device name d0"),
        (
            [
                device_slice("a", device("d0", consumesCounters=[{"counterSet": "chip"}])),
            ],
            "counter set chip not found",
        ),
        (
            [
                device_slice(
                    "a",
                    device("d0", consumesCounters=[{"counterSet": "c", "counters": {"x": {"value": "1"}}}]),
                    pool="a",
                    slices=2,
                ),
                device_slice("b", pool="a", slices=2, sharedCounters=[{"name": "c"}]),
            ],
            "counter x not found in counter set c",
        ),
        (
            [device_slice("a", sharedCounters=[{"name": "c"}, {"name": "c"}])],
            "duplicate counter set name c",
        ),
    ],
)
def test_a_pool_that_contradicts_itself_has_no_devices(slices: list[ResourceSlice], problem: str) -> None:
    found = pools(*slices).of(NODE)
    assert [pool.invalid for pool in found.pools] == [problem]
    assert found.candidates == ()


def test_a_pool_with_missing_or_unusable_slices_is_incomplete() -> None:
    groups = [{"counterSet": "c", "compatibilityGroups": ["x"]}]
    for missing in (
        [],
        [device_slice("b", device("d1", consumesCounters=groups), pool="a", slices=2)],
        [device_slice("b", {"name": 5}, pool="a", slices=2)],
    ):
        found = pools(device_slice("a", "d0", pool="a", slices=2), *missing).of(NODE)
        assert [pool.complete for pool in found.pools] == [False]
        assert found.candidates == ()


def test_devices_can_select_nodes_by_themselves() -> None:
    index = pools(
        device_slice(
            "a",
            device("d0", nodeName="node-a"),
            device("d1", nodeName="node-b"),
            device("d2", allNodes=True),
            device("d3", nodeSelector=zone("a")),
            device("d4", nodeSelector=zone("b")),
            device("d5"),
            perDeviceNodeSelection=True,
        )
    )
    assert names(index.of(NODE)) == ["d0", "d2", "d3"]
    assert names(index.of(node("node-c"))) == ["d2"]
    found = {each.device.name: each for each in index.of(NODE).candidates}
    assert (found["d0"].node_name, found["d2"].node_name) == ("node-a", "")
    assert found["d3"].node_selector is not None


def test_a_slice_without_any_selection_of_nodes_is_for_none() -> None:
    assert pools(device_slice("a", "d0", allNodes=False)).of(NODE) == NodeDevices()


def test_the_result_is_kept_until_a_slice_that_concerns_the_node_changes() -> None:
    mine, other = device_slice("a", "d0"), device_slice("b", "d0", node_name="node-b")
    index = pools(mine, other)
    before = index.of(NODE)
    index.put(other, None)
    assert index.of(NODE) is before
    index.put(None, device_slice("net", "d9", allNodes=True))
    assert names(index.of(NODE)) == ["d0", "d9"]
    index.put(mine, device_slice("a", "d1"))
    assert names(index.of(NODE)) == ["d1", "d9"]
    assert index.of(node("node-a")) is not before
