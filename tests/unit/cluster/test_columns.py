import numpy as np
import pytest

from builders import node
from tidelock.cluster.columns import Amounts, Columns
from tidelock.model.quantities import CEILING
from tidelock.model.selectors import Taint

GPU = "nvidia.com/gpu"


def of(columns: Columns, amounts: Amounts, name: str) -> dict[str, int]:
    return columns.named(amounts[columns.row_of[name]])


def test_a_node_gets_a_row_and_keeps_it() -> None:
    columns = Columns()

    assert columns.put(node("node-a", cpu="4", memory="1Ki", pods="10")) == 0
    assert columns.put(node("node-b")) == 1
    assert columns.put(node("node-a", cpu="8", memory="1Ki", pods="10")) == 0
    assert len(columns) == 2
    assert of(columns, columns.allocatable, "node-a") == {"cpu": 8000, "memory": 1024, "pods": 10}


def test_rows_grow_and_keep_their_amounts() -> None:
    columns = Columns(capacity=1)
    for index in range(5):
        columns.put(node(f"node-{index}", cpu=str(index + 1)))
        columns.request(f"node-{index}", {"cpu": index}, (index, index), 1)
        columns.reservation(f"node-{index}", {"cpu": 10 * index}, 1)

    cpu = columns.column_of["cpu"]
    assert columns.allocatable[:5, cpu].tolist() == [1000, 2000, 3000, 4000, 5000]
    assert columns.requested[:5, cpu].tolist() == [0, 1, 2, 3, 4]
    assert columns.reserved[:5, cpu].tolist() == [0, 10, 20, 30, 40]
    assert columns.nonzero[:5].tolist() == [[index, index] for index in range(5)]


def test_a_resource_gets_its_column_when_a_node_has_it() -> None:
    columns = Columns()
    columns.put(node("node-a"))
    columns.request("node-a", {"cpu": 5}, (5, 0), 1)
    columns.put(node("node-b", **{GPU: "8"}))

    assert columns.resources[columns.column_of[GPU]] == GPU
    assert of(columns, columns.allocatable, "node-b")[GPU] == 8
    assert GPU not in of(columns, columns.allocatable, "node-a")
    assert of(columns, columns.requested, "node-a") == {"cpu": 5}


def test_an_amount_that_a_node_no_longer_has_is_gone() -> None:
    columns = Columns()
    columns.put(node("node-a", **{GPU: "8"}))
    columns.put(node("node-a"))

    assert GPU not in of(columns, columns.allocatable, "node-a")


def test_amounts_are_capped_at_the_ceiling() -> None:
    assert Columns().vector({"memory": 2**63 - 1}).max() == CEILING


def test_the_last_row_replaces_the_row_of_a_removed_node() -> None:
    columns = Columns()
    for index, name in enumerate(("node-a", "node-b", "node-c")):
        columns.put(node(name, cpu=str(index + 1)))
        columns.request(name, {"cpu": index}, (index, index), 1)
        columns.reservation(name, {"pods": index}, 1)
    columns.drop("node-a")

    assert columns.row_of == {"node-c": 0, "node-b": 1}
    assert [each.name for each in columns.nodes] == ["node-c", "node-b"]
    assert of(columns, columns.allocatable, "node-c")["cpu"] == 3000
    assert of(columns, columns.requested, "node-c") == {"cpu": 2}
    assert of(columns, columns.reserved, "node-c") == {"pods": 2}
    assert columns.nonzero[0].tolist() == [2, 2]


def test_a_node_that_takes_over_a_row_begins_empty() -> None:
    columns = Columns()
    columns.put(node("node-a"))
    columns.request("node-a", {"cpu": 5}, (5, 5), 1)
    columns.reservation("node-a", {"cpu": 7}, 1)
    columns.drop("node-a")
    columns.put(node("node-b"))

    assert of(columns, columns.requested, "node-b") == {}
    assert of(columns, columns.reserved, "node-b") == {}
    assert columns.nonzero[0].tolist() == [0, 0]


def test_counted_amounts_can_be_subtracted_without_a_rest() -> None:
    columns = Columns()
    columns.put(node("node-a"))
    for sign in (1, -1):
        columns.request("node-a", {"cpu": 5, GPU: 1}, (5, 7), sign)
        columns.reservation("node-a", {"cpu": 3}, sign)

    assert of(columns, columns.requested, "node-a") == {}
    assert of(columns, columns.reserved, "node-a") == {}
    assert not columns.nonzero.any()


def test_a_node_that_is_not_known_is_ignored() -> None:
    columns = Columns()
    columns.request("node-x", {GPU: 5}, (5, 5), 1)
    columns.reservation("node-x", {"cpu": 5}, 1)
    columns.drop("node-x")

    assert columns.shortfall("node-x") == {}
    assert not columns.fits("node-x", {})
    assert not columns.requested.any()
    assert not columns.reserved.any()
    assert columns.version == 0


def test_the_shortfall_is_the_excess_of_pods_and_reservations_over_the_capacity() -> None:
    columns = Columns()
    columns.put(node("node-a", cpu="4", memory="1Ki"))
    columns.request("node-a", {"cpu": 3000, "memory": 1024}, (0, 0), 1)
    columns.reservation("node-a", {"cpu": 1000}, 1)
    assert columns.shortfall("node-a") == {}

    columns.reservation("node-a", {"cpu": 500, GPU: 2}, 1)
    assert columns.shortfall("node-a") == {"cpu": 500, GPU: 2}


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({"cpu": 1000}, True),
        ({"cpu": 1001}, False),
        ({"cpu": 1000, "pods": 1}, True),
        ({GPU: 1}, False),
        ({GPU: 0}, True),
        ({}, True),
    ],
)
def test_capacity_that_neither_pods_nor_reservations_have_is_free(wanted: dict[str, int], fits: bool) -> None:
    columns = Columns()
    columns.put(node("node-a", cpu="4"))
    columns.request("node-a", {"cpu": 2000}, (0, 0), 1)
    columns.reservation("node-a", {"cpu": 1000}, 1)

    assert columns.fits("node-a", wanted) is fits


def test_an_overcommitted_resource_only_prevents_requests_for_it() -> None:
    columns = Columns()
    columns.put(node("node-a", cpu="4"))
    columns.request("node-a", {"memory": 2**60}, (0, 0), 1)

    assert columns.fits("node-a", {"cpu": 4000, "memory": 0})
    assert not columns.fits("node-a", {"cpu": 4000, "memory": 1})


def test_the_version_changes_with_the_nodes_but_not_with_their_use() -> None:
    columns = Columns()
    columns.put(node("node-a"))
    version = columns.version
    columns.put(node("node-a", version=2))
    columns.request("node-a", {"cpu": 1}, (0, 0), 1)
    columns.reservation("node-a", {"cpu": 1}, 1)
    assert columns.version == version

    columns.put(node("node-a", cordoned=True))
    assert columns.version == version + 1
    columns.drop("node-a")
    assert columns.version == version + 2


def test_freed_counts_every_change_after_which_more_may_fit() -> None:
    columns = Columns()
    columns.put(node("node-a"))
    freed = columns.freed
    columns.request("node-a", {"cpu": 1}, (1, 0), 1)
    columns.reservation("node-a", {"cpu": 1}, 1)
    columns.reservation("node-a", {}, -1)
    columns.request("node-x", {"cpu": 1}, (1, 0), -1)
    assert columns.freed == freed

    columns.request("node-a", {"cpu": 1}, (1, 0), -1)
    assert columns.freed == freed + 1
    columns.reservation("node-a", {"cpu": 1}, -1)
    assert columns.freed == freed + 2
    columns.put(node("node-a", cpu="5"))
    assert columns.freed == freed + 3


def test_traits_describe_the_nodes() -> None:
    columns = Columns()
    columns.put(node("node-c", taints=["gpu:NoSchedule"]))
    columns.put(node("node-a", cordoned=True))
    columns.put(node("node-b", taints=["gpu:NoSchedule"]))

    traits = columns.traits()

    assert traits.cordoned.tolist() == [False, True, False]
    assert traits.name_rank.tolist() == [2, 0, 1]
    assert traits.taint_sets == ((Taint("gpu", "NoSchedule"),), ())
    assert traits.taint_set_of.tolist() == [0, 1, 0]


def test_traits_are_computed_once_a_version_and_refuse_to_be_written() -> None:
    """Check that a plugin cannot write to the traits, because later decisions use them too."""
    columns = Columns()
    columns.put(node("node-a"))
    traits = columns.traits()
    columns.put(node("node-a", version=2))
    assert columns.traits() is traits

    columns.put(node("node-b"))
    assert columns.traits() is not traits
    for array in (traits.cordoned, traits.name_rank, traits.taint_set_of):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_no_nodes_have_empty_traits() -> None:
    traits = Columns().traits()
    assert traits.cordoned.dtype == np.bool_
    assert traits.name_rank.dtype == traits.taint_set_of.dtype == np.intp
    assert len(traits.cordoned) == len(traits.name_rank) == len(traits.taint_set_of) == 0


def test_a_resource_that_no_node_has_gets_no_column() -> None:
    """Guard against a permanent column for each such resource: 8,000 in one pod took half a minute."""
    columns = Columns()
    columns.put(node("node-a"))
    names = {f"example.com/r-{number}": 1 for number in range(1000)}
    width = columns.requested.shape[1]
    for sign in (1, 1, -1):
        columns.request("node-a", names, (0, 0), sign)
        columns.reservation("node-a", names, sign)
        columns.vector(names)

    assert columns.requested.shape[1] == width == len(columns.resources)
    assert columns.layout == 0
    assert columns.shortfall("node-a") == dict.fromkeys(names, 2)
    assert not columns.fits("node-a", {"cpu": 0, "example.com/r-1": 1})
    assert columns.fits("node-a", {"cpu": 0, "example.com/r-1": 0})


def test_requests_for_an_unknown_resource_count_once_a_node_has_it() -> None:
    columns = Columns()
    columns.put(node("node-a"))
    columns.put(node("node-b"))
    columns.request("node-a", {GPU: 3}, (0, 0), 1)
    columns.reservation("node-a", {GPU: 2}, 1)
    columns.request("node-b", {GPU: 1}, (0, 0), 1)
    before = columns.clock
    columns.put(node("node-c", **{GPU: "8"}))

    assert of(columns, columns.requested, "node-a") == {GPU: 3}
    assert of(columns, columns.reserved, "node-a") == {GPU: 2}
    assert of(columns, columns.requested, "node-b") == {GPU: 1}
    assert columns.changed(before).tolist() == [0, 1, 2]
    columns.put(node("node-a", **{GPU: "4"}))
    assert columns.shortfall("node-a") == {GPU: 1}
    columns.request("node-a", {GPU: 3}, (0, 0), -1)
    assert columns.shortfall("node-a") == {}


def test_a_column_is_released_with_the_last_node_that_has_the_resource() -> None:
    columns = Columns()
    columns.put(node("node-a", **{GPU: "4"}))
    columns.put(node("node-b", **{GPU: "4"}))
    columns.request("node-a", {GPU: 3}, (0, 0), 1)
    columns.reservation("node-a", {GPU: 1}, 1)
    columns.drop("node-b")
    assert GPU in columns.column_of
    columns.put(node("node-a"))
    assert GPU not in columns.column_of
    assert columns.shortfall("node-a") == {GPU: 4}

    width = len(columns.resources)
    columns.put(node("node-c", **{"example.com/fpga": "1"}))
    assert len(columns.resources) == width, "the column serves another resource"
    assert of(columns, columns.requested, "node-a") == {}
    assert of(columns, columns.allocatable, "node-c")["example.com/fpga"] == 1
    columns.put(node("node-a", **{GPU: "4"}))
    assert of(columns, columns.requested, "node-a") == {GPU: 3}
    assert of(columns, columns.reserved, "node-a") == {GPU: 1}


def test_requests_on_a_node_are_dropped_with_it() -> None:
    columns = Columns()
    columns.put(node("node-a", **{GPU: "4"}))
    columns.request("node-a", {GPU: 3, "example.com/none": 1}, (0, 0), 1)
    columns.drop("node-a")
    columns.put(node("node-a", **{GPU: "4", "example.com/none": "1"}))

    assert of(columns, columns.requested, "node-a") == {}


def test_columns_grow_a_few_at_a_time() -> None:
    columns = Columns()
    sizes = []
    for number in range(100):
        columns.put(node(f"node-{number}", **{f"example.com/r-{number}": "1"}))
        sizes.append(columns.allocatable.shape[1])

    assert len(set(sizes)) <= 10
    assert [of(columns, columns.allocatable, f"node-{n}")[f"example.com/r-{n}"] for n in range(100)] == [
        1
    ] * 100


def test_all_nodes_count_as_changed_when_devices_begin_to_provide_a_resource() -> None:
    columns = Columns()
    columns.put(node("node-a"))
    columns.put(node("node-b"))
    clock, version = columns.clock, columns.version
    columns.back({GPU: "gpu"})
    assert columns.changed(clock).tolist() == [0, 1]
    assert columns.version > version
    clock = columns.clock
    columns.back({GPU: "gpu"})
    assert columns.clock == clock
