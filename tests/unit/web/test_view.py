"""The contents of the web view's page, for a scheduler that is driven by hand."""

import msgspec
import pytest

from builders import NOW, level, node, pod, water_level
from tidelock.framework.rejections import nodes_by_reason
from tidelock.model.meta import Key
from tidelock.model.outlook import NextEvent, Upcoming
from tidelock.model.quantities import CPU
from tidelock.model.usage_annotations import Quality
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.scheduler.views.recent_decisions import Decision
from tidelock.web.nodes import WaterRow
from tidelock.web.query import BadQueryError, ViewQuery, read_query
from tidelock.web.rows import DECISIONS, ROWS, ListPart
from unit.web.watched import Watched

GI = 2**30
VIEWS = "overview, node, reservation, groups, schedules, quotas"
PARAMETERS = "view, text, sort, namespace, name, nodes, reservations, first"


def test_a_node_shows_its_capacity_requests_and_reservations() -> None:
    core = Watched(node("node-a", cpu="4", memory="16Gi"))
    core.add(pod("web-0", requests={"cpu": "1500m", "memory": "2Gi"}, node_name="node-a"))
    core.reservation(resources={"cpu": "500m", "memory": "1Gi"}, owner="web-1")
    core.step()
    page = core.page()

    (row,) = page.nodes
    assert (page.resources, row.name, row.state) == (["cpu", "memory"], "node-a", "")
    assert row.amounts == [(4000, 1500, 500), (16 * GI, 2 * GI, GI)]
    assert page.totals == row.amounts


def test_totals_cover_all_nodes_including_those_on_other_pages() -> None:
    core = Watched(*(node(f"node-{number:03}", cpu="2", memory="1Gi") for number in range(ROWS + 1)))
    page = core.page()

    assert page.totals == [(2000 * (ROWS + 1), 0, 0), (GI * (ROWS + 1), 0, 0)]
    assert (len(page.nodes), page.nodes_part) == (ROWS, ListPart(ROWS + 1, ROWS + 1, 0))


def test_the_state_of_a_node_shows_its_problem() -> None:
    core = Watched(node("a", cordoned=True), node("b", ready=False), node("c", ready=True))
    assert [row.state for row in core.page().nodes] == ["Cordoned", "NotReady", ""]


def test_devices_have_a_column_if_any_node_has_them() -> None:
    core = Watched(
        node("a", **{"x.io/gpu": "8"}),
        node("b", **{"x.io/fpga": "2", "x.io/nic": "1", "hugepages-2Mi": "1Gi"}),
    )
    page = core.page()

    assert page.resources == ["cpu", "memory", "x.io/fpga", "x.io/gpu"]
    assert [row.amounts[2:] for row in page.nodes] == [[(0, 0, 0), (8, 0, 0)], [(2, 0, 0), (0, 0, 0)]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ({}, ["a", "b", "c"]),
        ({"reverse": True}, ["c", "b", "a"]),
        ({"sort": "cpu"}, ["c", "b", "a"]),  # reserved capacity counts as used
        ({"sort": "cpu", "reverse": True}, ["a", "b", "c"]),
        ({"sort": "memory"}, ["a", "b", "c"]),
        ({"sort": "water"}, ["b", "a", "c"]),
        ({"sort": "x.io/gpu"}, ["b", "a", "c"]),  # a has free ones and b has none
        ({"sort": "no such thing"}, ["a", "b", "c"]),
    ],
)
def test_nodes_are_sorted_by_name_by_used_amounts_and_by_measured_use(
    query: dict[str, object], names: list[str]
) -> None:
    core = Watched(
        node("c", cpu="2"),
        node("a", cpu="8", annotations={"tidelock.dev/water-level": level(20, 30)}, **{"x.io/gpu": "4"}),
        node("b", cpu="4", annotations={"tidelock.dev/water-level": level(70, 10)}, **{"x.io/gpu": "1"}),
    )
    core.add(pod("web-0", requests={"cpu": "1", "x.io/gpu": "1"}, node_name="b"))
    core.reservation(nodeName="c", resources={"cpu": "1"}, owner="nobody")
    core.step()
    assert [row.name for row in core.page(**query).nodes] == names


def test_measured_use_is_shown_with_its_time_and_quality() -> None:
    def at(seconds: float) -> dict[str, str]:
        return {"tidelock.dev/water-level": level(61.04, 48, at=seconds)}

    core = Watched(
        node("a", annotations=at(NOW - 30)),
        node("b", annotations=at(NOW - 1000)),
        node("c"),
        node("d", annotations={"tidelock.dev/water-level": "no JSON"}),
    )
    page = core.page()

    assert [(row.quality, row.measured_at) for row in page.nodes] == [
        (Quality.FRESH, NOW - 30),
        (Quality.STALE, NOW - 1000),
        (Quality.MISSING, None),
        (Quality.INVALID, None),
    ]
    assert [row.water for row in page.nodes[:3]] == [[61.0, 48.0], [61.0, 48.0], [None, None]]
    assert (page.measured, page.water) == (1, [WaterRow(61.0, 61.0, 61.0), WaterRow(48.0, 48.0, 48.0)])


def test_a_water_level_defines_when_its_nodes_are_stale() -> None:
    slow = node("a", annotations={"tidelock.dev/water-level": level(10, 10, at=NOW - 500)})
    core = Watched(slow)
    core.decider.objects.water_levels.upsert(None, water_level(stalenessSeconds=600, refreshSeconds=60))

    assert core.page().nodes[0].quality is Quality.FRESH


def test_the_measured_use_of_the_cluster_covers_only_measured_nodes() -> None:
    core = Watched(
        node("a", annotations={"tidelock.dev/water-level": level(10, 0)}),
        node("b", annotations={"tidelock.dev/water-level": level(40, 0)}),
        node("c"),
    )
    page = core.page()
    assert (page.measured, page.water[0]) == (2, WaterRow(25.0, 10.0, 40.0))
    assert Watched(node("a")).page().water == [None, None]


def test_a_reservation_shows_its_owner_node_amounts_and_end() -> None:
    core = Watched(node("node-a"))
    core.reservation("lock", resources={"cpu": "2", "memory": "4Gi"}, ttlSeconds=600)
    core.step()
    page = core.page()

    (row,) = page.reservations
    assert (row.name, row.phase, row.node, row.owner) == ("shop/lock", "Active", "node-a", "pod/web-0")
    assert (row.capacity, row.ended_at) == ("cpu 2, memory 4Gi", None)
    assert row.upcoming == Upcoming(NOW + 600, NextEvent.ENDS)
    assert (row.why, row.trouble, page.phases) == ("", False, {"Active": 1})


def test_a_waiting_reservation_shows_its_reason_and_deadline() -> None:
    core = Watched(node("node-a", cpu="1"))
    core.reservation("lock", resources={"cpu": "2"}, pendingDeadlineSeconds=60)
    core.step()

    (row,) = core.page().reservations
    assert (row.phase, row.node, row.capacity) == ("Pending", "", "cpu 2")
    assert row.upcoming == Upcoming(NOW + 60, NextEvent.REJECTED)
    assert row.why.startswith(f"InsufficientCapacity: {nodes_by_reason(1, {insufficient(CPU): 1})}")


def test_problems_of_reservations_are_marked() -> None:
    core = Watched(node("a", cpu="1"), node("b", cpu="1"), node("d", cpu="1"))
    for name in ("a", "b", "d"):
        core.reservation(f"on-{name}", nodeName=name, owner="nobody")
    core.step()
    core.event_handlers.nodes.upsert(
        core.decider.columns.nodes[0], node("a", cpu="1", cordoned=True, version=2)
    )
    core.add(pod("thief", requests={"cpu": "600m"}, node_name="b", scheduler="another"))
    core.reservation("on-d", nodeName="d", owner="nobody", resources={"cpu": "2"}, generation=2, version=2)
    core.reservation("late", owner="nobody", resources={"cpu": "9"}, pendingDeadlineSeconds=0)
    core.reservation("bad", owner="nobody", ttlSeconds=0)
    core.step()

    rows = {row.name: (row.marks, row.why.partition(":")[0], row.trouble) for row in core.page().reservations}
    assert rows == {
        "shop/on-a": (("NodeCordoned",), "NodeCordoned", True),
        "shop/on-b": (("Violated",), "CapacityTaken", True),
        "shop/on-d": (("ResizePending",), "ResizePending", False),  # it has what it had before
        "shop/late": (("DeadlineExceeded",), "DeadlineExceeded", True),
        "shop/bad": (("InvalidSpec",), "InvalidSpec", True),
    }


def test_waiting_reservations_come_first_then_those_that_end_next_then_finished_ones() -> None:
    core = Watched(node("node-a", cpu="4"))
    core.reservation("over", owner="nobody", ttlSeconds=1, retention="Retain")
    core.reservation("late", owner="nobody", ttlSeconds=600)
    core.reservation("soon", owner="nobody", ttlSeconds=30)
    core.step()
    core.clock.advance(2)
    core.reservation("waits", owner="nobody", resources={"cpu": "9"}, pendingDeadlineSeconds=60)
    core.step()
    page = core.page()

    assert [row.name for row in page.reservations] == ["shop/waits", "shop/soon", "shop/late", "shop/over"]
    assert page.reservations[-1].ended_at == NOW + 2
    assert page.phases == {"Pending": 1, "Active": 2, "Expired": 1}


@pytest.mark.parametrize(
    ("text", "nodes", "reservations", "decisions"),
    [
        ("", ["node-a", "node-b"], ["shop/lock", "shop/other"], ["shop/web-7"]),
        ("node-a", ["node-a"], ["shop/lock"], ["shop/web-7"]),
        ("node-b", ["node-b"], ["shop/other"], []),
        ("web-7", [], ["shop/lock"], ["shop/web-7"]),
        ("other", [], ["shop/other"], []),
        ("active", [], ["shop/lock", "shop/other"], []),
        ("scheduled", [], [], ["shop/web-7"]),
    ],
)
def test_a_text_filters_nodes_reservations_and_decisions(
    text: str, nodes: list[str], reservations: list[str], decisions: list[str]
) -> None:
    core = Watched(node("node-a"), node("node-b"))
    core.reservation("lock", nodeName="node-a", owner="web-7")
    core.reservation("other", nodeName="node-b", owner="nobody")
    core.step()
    core.recent._note(Decision(NOW, "Pod", Key("shop", "web-7"), "Scheduled", "node-a"))
    page = core.page(text=text)

    assert [row.name for row in page.nodes] == nodes
    assert [row.name for row in page.reservations] == reservations
    assert [row.name for row in page.decisions] == decisions
    assert page.nodes_part == ListPart(2, len(nodes), 0)
    assert page.reservations_part == ListPart(2, len(reservations), 0)


def test_pages_follow_each_other_and_end_with_the_last() -> None:
    count = 2 * ROWS + 3
    core = Watched(*(node(f"node-{number:03}", pods="200") for number in range(count)))
    for number in range(count):
        core.reservation(f"lock-{number:03}", owner="nobody", resources={"memory": "1Ki"})
    while core.decider.next_due() == 0:
        core.step()

    second, beyond = (
        core.page(nodes=ROWS, reservations=ROWS),
        core.page(nodes=10 * count, reservations=10 * count),
    )
    assert [second.nodes[0].name, second.reservations[0].name] == [f"node-{ROWS:03}", f"shop/lock-{ROWS:03}"]
    assert second.nodes_part == second.reservations_part == ListPart(count, count, ROWS)
    assert len(beyond.nodes) == len(beyond.reservations) == 3
    assert beyond.nodes_part.first == beyond.reservations_part.first == 2 * ROWS


def test_an_empty_cluster_has_an_empty_page() -> None:
    page = Watched().page()
    assert (page.totals, page.nodes, page.reservations, page.decisions) == (
        [(0, 0, 0), (0, 0, 0)],
        [],
        [],
        [],
    )
    assert page.nodes_part == page.reservations_part == ListPart(0, 0, 0)


def test_changes_between_two_slices_are_harmless() -> None:
    core = Watched(node("node-a"))
    entry = core.reservation("gone", owner="nobody")
    core.reservation("stays", owner="nobody")
    core.step()
    slices = core.stage.view.look(ViewQuery(), NOW)
    next(slices)
    core.event_handlers.reservations.remove(entry.reservation)
    next(slices)
    core.event_handlers.nodes.remove(core.decider.columns.nodes[0])
    with pytest.raises(StopIteration) as end:
        next(slices)

    assert [row.name for row in end.value.value.reservations] == ["shop/stays"]
    assert end.value.value.nodes == []


def test_the_newest_decisions_come_first_and_are_bounded() -> None:
    core = Watched()
    for number in range(DECISIONS + 10):
        core.recent._note(
            Decision(NOW + number, "Pod", Key("shop", f"web-{number}"), "Unschedulable", why="full")
        )
    page = core.page()

    assert len(page.decisions) == DECISIONS
    newest = page.decisions[0]
    assert (newest.at, newest.kind, newest.name) == (NOW + DECISIONS + 9, "Pod", f"shop/web-{DECISIONS + 9}")
    assert (newest.verdict, newest.node, newest.why) == ("Unschedulable", "", "full")


def test_a_page_is_encoded_with_the_field_names_of_the_script() -> None:
    core = Watched(node("node-a"))
    written = msgspec.json.decode(msgspec.json.encode(core.page()))

    assert written["nodesPart"] == {"total": 1, "matching": 1, "first": 0}
    assert written["nodes"][0]["measuredAt"] is None
    assert written["nodes"][0]["quality"] == "missing"


def test_a_query_is_read_from_its_parameters() -> None:
    parameters = {"text": " Node-A ", "sort": "-cpu", "nodes": "50", "reservations": "100"}
    assert read_query(parameters) == ViewQuery(
        text="node-a", sort="cpu", reverse=True, nodes=50, reservations=100
    )
    assert read_query({}) == ViewQuery()
    of_node = {"view": "node", "name": "node-a", "first": "50"}
    assert read_query(of_node) == ViewQuery(view="node", name="node-a", first=50)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"nodes": "-1"}, "nodes: Invalid value: '-1': expected a whole number, such as 0"),
        ({"reservations": "x"}, "reservations: Invalid value: 'x': expected a whole number, such as 0"),
        ({"nodes": "9" * 10}, "nodes: Invalid value: '9999999999': expected a whole number, such as 0"),
        ({"text": "x" * 254}, "text: Too long: may not be more than 253 characters"),
        (
            {"colour": "red"},
            f"colour: unknown parameter: expected any of {PARAMETERS}",
        ),
        (
            {"view": "pods"},
            "view: Unsupported value: 'pods': expected any of " + VIEWS,
        ),
    ],
)
def test_an_invalid_query_is_an_error(parameters: dict[str, str], problem: str) -> None:
    with pytest.raises(BadQueryError) as error:
        read_query(parameters)
    assert str(error.value) == problem
