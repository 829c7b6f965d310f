import pytest

from builders import node
from tidelock.cluster.columns import NO_ROW, Columns
from tidelock.cluster.snapshot import Snapshot
from tidelock.model.quantities import CEILING


@pytest.fixture
def columns() -> Columns:
    """Return two nodes of 4 cpu: node-a with 1 cpu in use and 2 reserved, and the empty node-b."""
    columns = Columns(capacity=8)
    columns.put(node("node-a", cpu="4"))
    columns.put(node("node-b", cpu="4"))
    columns.request("node-a", {"cpu": 1000}, (1000, 0), 1)
    columns.reservation("node-a", {"cpu": 2000}, 1)
    return columns


def test_a_snapshot_shows_the_rows_in_use(columns: Columns) -> None:
    snapshot = Snapshot.of(columns)

    assert len(snapshot) == 2
    assert [each.name for each in snapshot.nodes] == ["node-a", "node-b"]
    assert snapshot.allocatable.shape == snapshot.requested.shape == snapshot.reserved.shape == (2, 5)
    assert snapshot.nonzero.shape == (2, 2)
    assert list(snapshot.resources) == ["cpu", "memory", "ephemeral-storage", "pods", ""]
    assert (snapshot.row("node-b"), snapshot.row("node-x")) == (1, None)
    assert snapshot.column("memory") == 1


def test_a_snapshot_refuses_to_be_written(columns: Columns) -> None:
    snapshot = Snapshot.of(columns)

    for array in (snapshot.allocatable, snapshot.requested, snapshot.reserved, snapshot.nonzero):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1
    columns.request("node-b", {"cpu": 5}, (5, 0), 1)
    assert columns.requested[1, 0] == 5, "the columns themselves can still be written"


@pytest.mark.parametrize(
    ("wanted", "beside_reservations", "fits"),
    [
        ({"cpu": 1000}, True, [True, True]),
        ({"cpu": 1001}, True, [False, True]),
        ({"cpu": 3000}, False, [True, True]),
        ({"cpu": 3001}, False, [False, True]),
        ({"cpu": 4001}, False, [False, False]),
        ({"cpu": 0, "ephemeral-storage": 1}, True, [False, False]),
        ({}, True, [True, True]),
    ],
)
def test_reserved_capacity_counts_as_free_or_as_used_as_asked(
    columns: Columns, wanted: dict[str, int], beside_reservations: bool, fits: list[bool]
) -> None:
    snapshot = Snapshot.of(columns)
    assert (
        snapshot.free_for(snapshot.wanted(wanted), beside_reservations=beside_reservations).tolist() == fits
    )


def test_a_search_for_free_capacity_changes_nothing(columns: Columns) -> None:
    snapshot = Snapshot.of(columns)
    snapshot.free_for(snapshot.wanted({"cpu": 1}), beside_reservations=True)
    assert columns.named(columns.requested[0]) == {"cpu": 1000}
    assert columns.named(columns.reserved[0]) == {"cpu": 2000}


def test_amounts_are_laid_out_by_resource(columns: Columns) -> None:
    snapshot = Snapshot.of(columns)
    row = snapshot.vector({"pods": 1, "cpu": 500})
    assert row.tolist() == [500, 0, 0, 1, 0]
    assert snapshot.named(row) == {"cpu": 500, "pods": 1}


def test_requests_are_listed_by_column(columns: Columns) -> None:
    snapshot = Snapshot.of(columns)
    assert snapshot.wanted({"pods": 1, "memory": 0, "cpu": 500}) == ((0, 500), (3, 1))
    assert snapshot.wanted({"cpu": 2**62}) == ((0, CEILING),)


def test_the_least_amount_of_all_nodes_follows_nodes_and_resources(columns: Columns) -> None:
    assert Snapshot.of(columns).traits.least[0] == 4000
    columns.put(node("node-c", cpu="2"))
    assert Snapshot.of(columns).traits.least[0] == 2000
    columns.put(node("node-d", **{"nvidia.com/gpu": "1"}))
    assert Snapshot.of(columns).traits.least[columns.column_of["nvidia.com/gpu"]] == 0


def test_a_request_for_a_resource_that_no_node_has_never_fits(columns: Columns) -> None:
    snapshot = Snapshot.of(columns)
    requests = {"cpu": 1, "nvidia.com/gpu": 2, "example.com/none": 0}

    assert snapshot.wanted(requests) == ((0, 1), (NO_ROW, 2))
    assert snapshot.absent(requests) == {"nvidia.com/gpu": 2}
    assert not snapshot.free_for(snapshot.wanted(requests), beside_reservations=False).any()
    assert snapshot.multiples(snapshot.wanted(requests), beside_reservations=True).tolist() == [0] * len(
        snapshot
    )
    assert columns.named(snapshot.vector(requests)) == {"cpu": 1}
