from dataclasses import replace

import pytest

from builders import NOW, Json, encode, level, node, node_json, water_level
from tidelock.cli.top_tables import (
    NodeSort,
    ReservationLine,
    ReservationSort,
    Share,
    TopState,
    bar,
    node_grid,
    node_lines,
    reservation_grid,
    sorted_nodes,
    sorted_reservations,
    total,
)
from tidelock.cli.units import amount, cells_of, shown_columns
from tidelock.model.meta import Key
from tidelock.model.nodes import decode_node
from tidelock.model.quantities import parse_resources
from tidelock.model.usage_annotations import NODE_LEVEL
from unit.cli.clouds import LOCKS as CLOUD_LOCKS
from unit.cli.clouds import NAMES, WIDTHS
from unit.cli.scenes import active_json, consumed_json, lock, pending_json


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (Share(10, 4, 2), "████▒▒····"),
        (Share(10), "··········"),
        (Share(), "··········"),  # a node without this resource
        (Share(10, 10), "██████████"),
        (Share(1000, 1, 1), "█▒········"),  # The smallest amounts are still visible.
        (Share(1000, 999, 1), "█████████▒"),
        (Share(10, 12, 4), "█████████▒"),  # more than the capacity, with the reservation still visible
        (Share(10, 4, 2, 4.5), "████│▒····"),
        (Share(10, 4, 2, 6.0, stale=True), "████▒▒┆···"),
        (Share(10, 4, 2, 11.0), "████▒▒···│"),
    ],
)
def test_a_bar_shows_used_reserved_and_measured_shares(share: Share, drawn: str) -> None:
    assert bar(share, 10).plain == drawn


def test_amounts_are_aligned() -> None:
    assert [amount("cpu", units) for units in (0, 250, 15_900, -1000)] == ["0.00", "0.25", "15.90", "-1.00"]
    assert amount("memory", 7.5 * 2**30) == "7.5Gi"
    assert amount("nvidia.com/gpu", 8) == "8"


def test_each_resource_that_occurs_gets_a_column() -> None:
    columns = shown_columns([{"cpu": 1000, "pods": 1}, {"nvidia.com/gpu": 2}, {}])
    assert columns == ["cpu", "memory", "nvidia.com/gpu"]
    assert cells_of({"cpu": 500, "nvidia.com/gpu": 1}, columns) == ["0.50", "", "1"]


def world(*reservations: Json, **annotations: str) -> TopState:
    one = node("node-a", cpu="4", memory="16Gi", annotations=annotations)
    known = [lock(each) for each in reservations]
    used = parse_resources({"cpu": "1500m", "memory": "2Gi"})
    return TopState({one.meta.key: one}, {"node-a": used}, {each.key: each for each in known}, {})


def test_the_line_of_a_node_sums_its_pods_and_reservations() -> None:
    (line,) = node_lines(
        world(active_json("a"), active_json("b", cpu="500m"), pending_json(), consumed_json()), "cpu", NOW
    )
    assert line.share == Share(4000, 1500, 2500)
    assert line.reservations == 2
    (line,) = node_lines(world(active_json("a")), "memory", NOW)
    assert line.share == Share(16 * 2**30, 2 * 2**30, 2**30)


def test_used_capacity_of_a_reservation_is_not_counted_twice() -> None:
    occupied = active_json("a", reuse="Always")
    occupied["status"]["used"] = {"cpu": "1500m", "memory": "1Gi"}
    (line,) = node_lines(world(occupied), "cpu", NOW)
    assert (line.share, line.reservations) == (Share(4000, 1500, 500), 1)


def test_measured_use_is_a_share_of_the_capacity() -> None:
    plain = node_json("node-a", cpu="4", annotations={NODE_LEVEL: level(50, 25)})
    plain["status"]["capacity"] = {"cpu": "8"}
    one = decode_node(encode(plain))
    (line,) = node_lines(TopState({one.meta.key: one}, {}, {}, {}), "cpu", NOW)
    assert line.percent == 50
    assert line.share.water == 4000


@pytest.mark.parametrize(("age", "stale"), [(0, False), (400, True)])
def test_a_measurement_is_stale_by_the_limit_of_its_water_level(age: float, stale: bool) -> None:
    levels = water_level(stalenessSeconds=300)
    known = replace(world(**{NODE_LEVEL: level(50, 25, at=NOW - age)}), levels={levels.meta.key: levels})
    (line,) = node_lines(known, "cpu", NOW)
    assert line.share.stale == stale


def test_an_unreadable_measurement_is_ignored() -> None:
    (line,) = node_lines(world(**{NODE_LEVEL: "x"}), "cpu", NOW)
    assert (line.percent, line.share.water) == (None, None)


def test_the_total_sums_all_nodes() -> None:
    lines = node_lines(world(active_json("a")), "cpu", NOW)
    assert total([*lines, *lines]) == Share(8000, 3000, 4000)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (NodeSort.NAME, ["a", "b", "c"]),
        (NodeSort.FREE, ["b", "c", "a"]),
        (NodeSort.USED, ["c", "b", "a"]),
        (NodeSort.RESERVED, ["b", "a", "c"]),
        (NodeSort.WATER, ["c", "a", "b"]),  # Nodes without a measurement come last.
    ],
)
def test_nodes_can_be_sorted_by_each_column(by: NodeSort, names: list[str]) -> None:
    (like,) = node_lines(world(), "cpu", NOW)
    lines = [
        replace(like, key=Key("", "c"), share=Share(100, 60, 0), percent=90.0),
        replace(like, key=Key("", "a"), share=Share(10, 1, 1), percent=10.0),
        replace(like, key=Key("", "b"), share=Share(10, 5, 4), percent=None),
    ]
    assert [line.name for line in sorted_nodes(lines, by)] == names


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (ReservationSort.ENDS, ["large", "soon", "late", "used"]),
        (ReservationSort.NAME, ["large", "late", "soon", "used"]),
        (ReservationSort.PHASE, ["large", "late", "soon", "used"]),
        (ReservationSort.NODE, ["large", "soon", "late", "used"]),
    ],
)
def test_reservations_can_be_sorted_by_each_column(by: ReservationSort, names: list[str]) -> None:
    lines = [
        ReservationLine.of(lock(each))
        for each in (
            active_json("late", "node-b", ends=NOW + 900),
            pending_json(),
            consumed_json(),
            active_json("soon", "node-a"),
        )
    ]
    assert [line.listed.reservation.meta.name for line in sorted_reservations(lines, by)] == names


def test_a_reservation_is_found_by_namespace_name_node_or_owner() -> None:
    line = ReservationLine.of(lock(active_json("web-0", "node-b", owner="frontend")))
    assert all(map(line.speaks_of, ("", "shop/web", "node-b", "front")))
    assert not line.speaks_of("backend")


def test_a_table_without_reservations_has_headings() -> None:
    grid = reservation_grid([], lambda: NOW, 120)
    assert not grid.keys
    assert grid.head().plain.split()[:3] == ["NAMESPACE", "NAME", "PHASE"]


def test_long_names_are_shortened() -> None:
    grid = reservation_grid([ReservationLine.of(lock(active_json("x" * 60)))], lambda: NOW, 400)
    assert f"{'x' * 44}…  Active" in grid.line(0).plain


@pytest.mark.parametrize("width", [*WIDTHS, 78])
def test_a_narrow_table_leaves_columns_out(width: int) -> None:
    lines = [ReservationLine.of(lock(each)) for each in CLOUD_LOCKS]
    grid = reservation_grid(lines, lambda: NOW + 30, width)
    shown = [grid.head(), *map(grid.line, range(len(grid.keys)))]
    assert all(line.cell_len <= width for line in shown)
    heads = grid.head().plain.split()
    assert {"NAME", "PHASE", "NODE", "WHY"} <= set(heads)
    assert ("AGE" in heads) == (width == 200)

    state = world()
    nodes = {each.meta.key: each for each in (node(name, cpu="16") for name in NAMES)}
    nodes_grid = node_grid(node_lines(replace(state, nodes=nodes), "cpu", NOW), "cpu", width)
    assert {"NODE", "CPU", "FREE", "STATE"} <= set(nodes_grid.head().plain.split())
    assert nodes_grid.line(0).cell_len <= width
