"""The pages of a node and a reservation, and the lists of groups, schedules and quotas."""

from typing import Any

import pytest

from builders import NAMESPACE, NOW, node, pod
from tidelock.model.outlook import NextEvent, Upcoming
from tidelock.model.pods import BORROWS
from tidelock.web.lists import GroupsPage, QuotaLine, QuotasPage, SchedulesPage
from tidelock.web.node_page import NodePage
from tidelock.web.overview import OverviewPage
from tidelock.web.query import ViewQuery
from tidelock.web.reservation_page import LifeRow, ReservationPage
from unit.web.watched import Watched
from webview.scene import Scene
from webview.variety import AKS, EKS, EVIL, GKE, varied

ONE = {"cpu": "1"}


def reservation_page(core: Watched, name: str = "lock") -> ReservationPage:
    page = core.any_page(view="reservation", namespace=NAMESPACE, name=name)
    assert isinstance(page, ReservationPage)
    return page


def node_page(core: Watched, name: str = "node-a", **query: Any) -> NodePage:
    page = core.any_page(view="node", name=name, **query)
    assert isinstance(page, NodePage)
    return page


def page_of(scene: Scene, **query: Any) -> Any:
    slices = scene.stage.view.look(ViewQuery(**query), scene.clock.now())
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


@pytest.fixture(scope="module")
def scene() -> Scene:
    return varied()


def test_each_state_is_shown_with_its_marks(scene: Scene) -> None:
    page: OverviewPage = page_of(scene)
    shown = {row.name.removeprefix("shop/"): (row.phase, row.marks, row.trouble) for row in page.reservations}
    assert shown == {
        "active": ("Active", (), False),
        "planned": ("Planned", (), False),
        "renewed": ("Active", (), False),
        "lapsed": ("Active", ("LeaseLapsed",), True),
        "uncommitted": ("Active", ("AwaitingCommit",), False),
        "growing": ("Active", ("ResizePending",), False),
        "lent": ("Active", ("Lent",), False),
        "reused": ("Active", ("Occupied",), False),
        "invalid-edit": ("Active", ("InvalidSpec",), True),
        "cordoned": ("Active", ("NodeCordoned",), True),
        "violated": ("Active", ("Violated",), True),
        "waiting": ("Pending", (), False),
        "expired": ("Expired", (), False),
        "not-committed": ("Expired", (), False),
        "rejected": ("Rejected", ("DeadlineExceeded",), True),
        "invalid": ("Rejected", ("InvalidSpec",), True),
        "consumed": ("Consumed", (), False),
        "train-worker-0": ("Active", (), False),
        "train-worker-1": ("Active", (), False),
        "nightly-29933364": ("Planned", (), False),
    }


def test_the_nearest_event_of_a_reservation_comes_first(scene: Scene) -> None:
    page: OverviewPage = page_of(scene)
    now = scene.clock.now()
    events = {row.name.removeprefix("shop/"): row.upcoming for row in page.reservations}
    assert events["lapsed"] == Upcoming(now + 570, NextEvent.LOST)
    assert events["renewed"] == Upcoming(now + 30, NextEvent.LAPSES)
    assert events["uncommitted"] == Upcoming(now + 840, NextEvent.COMMIT_DUE)
    assert events["waiting"] == Upcoming(now + 240, NextEvent.REJECTED)
    live = [row for row in page.reservations if row.phase in ("Active", "Planned")]
    instants = [row.upcoming.at for row in live if row.upcoming is not None]
    assert len(instants) == len(live)
    assert instants == sorted(instants)


@pytest.mark.parametrize(
    ("namespace", "text", "names"),
    [
        ("shop", "train", ["shop/train-worker-0", "shop/train-worker-1"]),
        ("shop", "nightly", ["shop/nightly-29933364"]),
        ("guests", "", []),
    ],
)
def test_the_overview_is_filtered_by_namespace_and_by_the_names_of_groups(
    scene: Scene, namespace: str, text: str, names: list[str]
) -> None:
    page: OverviewPage = page_of(scene, namespace=namespace, text=text)
    assert [row.name for row in page.reservations] == names
    assert page.namespaces == ["shop"]
    assert all(row.name.startswith(f"{namespace}/") for row in page.decisions)


def test_the_page_of_a_node_shows_all_resources_and_its_reservations_over_time() -> None:
    core = Watched(node("node-a", cpu="4", memory="16Gi", **{"ephemeral-storage": "9Gi"}), node("node-b"))
    core.reservation(
        "later", nodeName="node-a", owner="nobody", startAt="2027-01-15T08:02:00Z", ttlSeconds=60
    )
    core.reservation("now", nodeName="node-a", owner="nobody", resources=ONE, ttlSeconds=600)
    core.reservation("other", nodeName="node-b", owner="nobody", resources=ONE)
    core.reservation("waits", nodeName="node-a", owner="nobody", resources={"cpu": "9"})
    core.step()
    page = node_page(core)

    assert (page.name, page.resources) == ("node-a", ["cpu", "memory", "ephemeral-storage", "pods"])
    assert page.node is not None
    assert page.node.amounts[2] == (9 * 2**30, 0, 0)
    assert [(row.reservation.name, row.begins, row.ends) for row in page.reservations] == [
        ("shop/waits", None, None),
        ("shop/now", NOW, NOW + 600),
        ("shop/later", NOW + 120, NOW + 180),
    ]


def test_an_ended_reservation_stays_on_its_nodes_page_while_it_is_retained() -> None:
    core = Watched(node("node-a"))
    core.reservation("over", owner="nobody", ttlSeconds=60, retention="Retain")
    core.step()
    core.clock.advance(90)
    core.step()
    (row,) = node_page(core).reservations
    assert (row.begins, row.ends, row.reservation.phase) == (NOW, NOW + 90, "Expired")


def test_an_unknown_node_has_a_page_without_amounts() -> None:
    core = Watched(node("node-a"))
    page = node_page(core, "gone")
    assert (page.node, page.resources, page.reservations) == (None, [], [])


def test_the_page_of_a_reservation_shows_its_life_its_conditions_and_the_decisions() -> None:
    core = Watched(node("node-a"))
    core.reservation(resources=ONE, owner="web-0", lease={"durationSeconds": 60, "graceSeconds": 30})
    core.stage.settle()
    core.clock.advance(70)
    core.stage.settle()
    core.add(pod("web-1"))  # not its owner
    core.stage.settle()
    page = reservation_page(core)

    assert page.reservation is not None
    assert (page.reservation.phase, page.reservation.marks) == ("Active", ("LeaseLapsed",))
    assert list(page.life) == [
        LifeRow(NOW, "created"),
        LifeRow(NOW, "active"),
        LifeRow(NOW, "lease renewed"),
        LifeRow(NOW + 60, "lease lapsed"),
        LifeRow(NOW + 90, "lease lost"),
        LifeRow(NOW + 600, "ends"),
    ]
    assert [(each.type, each.status, each.reason) for each in page.conditions] == [
        ("Active", "True", "Admitted"),
        ("Ready", "False", "NotRenewed"),
        ("LeaseLapsed", "True", "NotRenewed"),
    ]
    assert {each.name for each in page.decisions} == {"shop/lock"}


def test_the_page_of_a_reservation_names_its_owners_decisions_and_its_borrowers() -> None:
    core = Watched(node("node-a", cpu="1"))
    core.reservation(resources=ONE, owner="web-0", borrowable=True)
    core.stage.settle()
    core.add(pod("web-1", requests=ONE, node_name="node-a", annotations={BORROWS: "true"}))
    core.stage.settle()
    page = reservation_page(core)

    assert page.reservation is not None
    assert page.reservation.marks == ("Lent",)
    assert dict(page.facts)["Lent to other pods"] == "cpu 1"


def test_a_reservation_that_is_gone_has_a_page_with_the_decisions_about_it() -> None:
    core = Watched(node("node-a"))
    entry = core.reservation(resources=ONE)
    core.stage.settle()
    core.event_handlers.reservations.remove(entry.reservation)
    page = reservation_page(core)

    assert (page.name, page.reservation, page.life, page.conditions) == ("shop/lock", None, (), ())
    assert [each.verdict for each in page.decisions] == ["Active"]


def test_groups_are_listed_with_waiting_ones_first(scene: Scene) -> None:
    page: GroupsPage = page_of(scene, view="groups")
    rows = [(row.name, row.phase, row.ready, row.needed, row.members) for row in page.rows]
    assert rows == [("shop/large", "Pending", 0, 48, 64), ("shop/train", "Active", 2, 2, 2)]
    assert page.rows[0].why == "InsufficientCapacity: large-worker-0: 0/3 nodes are available"
    assert page.namespaces == ["shop"]
    filtered: GroupsPage = page_of(scene, view="groups", text="active")
    assert [row.name for row in filtered.rows] == ["shop/train"]


def test_schedules_are_listed_with_their_windows(scene: Scene) -> None:
    page: SchedulesPage = page_of(scene, view="schedules")
    (row,) = page.rows
    assert (row.name, row.timetable, row.seconds) == ("shop/nightly", "30 * * * * Europe/Berlin", 600)
    assert [(window.name, window.phase) for window in row.windows] == [("nightly-29933364", "Planned")]
    assert not row.trouble


def test_quotas_are_listed_with_their_use(scene: Scene) -> None:
    page: QuotasPage = page_of(scene, view="quotas")
    broken, strict, team = page.rows
    assert (broken.name, broken.trouble) == ("guests/broken", True)
    assert EVIL in broken.why
    assert strict.lines == [QuotaLine("cpu", 0.0, "0", "2")]
    assert [line.resource for line in team.lines] == ["cpu", "memory", "pods", "cpu seconds"]
    assert 0 < team.lines[0].share < 1
    assert team.rules == ["each at most cpu 40", "each for at most 86400 s", "weight 3"]
    of_shop: QuotasPage = page_of(scene, view="quotas", namespace="shop")
    assert [row.name for row in of_shop.rows] == ["shop/team"]
    assert of_shop.namespaces == ["guests", "shop"]


def test_texts_of_others_can_not_turn_the_reading_direction() -> None:
    core = Watched(node("node-a"))
    core.reservation(resources={"cpu": "\u202e1\x1b"}, owner="nobody")
    core.step()
    (row,) = core.page().reservations
    assert r"\u202e1\x1b" in row.why
    assert row.why.isprintable()


def test_names_of_cloud_nodes_are_on_the_page(scene: Scene) -> None:
    page: OverviewPage = page_of(scene)
    assert [row.name for row in page.nodes] == [AKS, GKE, EKS]
