"""Reservation, Score and Reserve: nodes of own reservations come first, and Reserve claims these."""

import pytest

from builders import NOW, node, pod
from tidelock.model.api.reservation import Phase
from tidelock.plugins.reservation.plugin import ReservationPlugin
from unit.plugins.scene import Scene

OWNER = pod("web-0")


@pytest.fixture
def scene() -> Scene:
    """Return three nodes of 4 cpu, with a reservation for web-0 on each of the first two."""
    three = Scene(node("node-a", cpu="4"), node("node-b", cpu="4"), node("node-c", cpu="4"))
    three.reservation("first", "node-a", resources={"cpu": "2"}, owner="web-0")
    three.reservation("second", "node-b", resources={"cpu": "3"}, owner="web-0")
    return three


def reserved(scene: Scene) -> list[int]:
    """Return the reserved millicores of each node."""
    return [int(row[scene.columns.column_of["cpu"]]) for row in scene.columns.reserved[:3]]


def test_an_owner_prefers_the_nodes_of_its_reservations(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert judgement.scores == {"node-a": 100, "node-b": 100, "node-c": 0}
    assert judgement.scores_among("node-c", "node-b") == {"node-c": 0, "node-b": 100}


def test_a_pod_of_a_workload_prefers_the_node_of_the_best_fitting_reservation() -> None:
    """Without this preference the pod could end a large reservation where a small one suffices."""
    scene = Scene(*(node(name, cpu="4") for name in ("node-a", "node-b", "node-c", "node-d")))
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    for name, on, cpu in (("large", "node-a", "4"), ("fitting", "node-b", "2"), ("small", "node-c", "1")):
        scene.reservation(name, on, resources={"cpu": cpu}, owners=owners)
    scores = scene.judge(ReservationPlugin, pod(requests={"cpu": "2"}, labels={"app": "web"})).scores
    assert scores["node-b"] > scores["node-c"] > scores["node-a"] > scores["node-d"] == 0


def test_a_reservation_that_names_the_pod_is_preferred_to_one_that_selects_it(scene: Scene) -> None:
    """A reservation that names the pod ends in any case, and no other pod could use it."""
    scene.reservation(
        "any", "node-c", resources={"cpu": "1"}, owners=[{"selector": {"matchLabels": {"app": "web"}}}]
    )
    judgement = scene.judge(ReservationPlugin, pod("web-0", labels={"app": "web"}))
    assert judgement.scores == {"node-a": 100, "node-b": 100, "node-c": 99}


def test_other_pods_prefer_no_node(scene: Scene) -> None:
    assert set(scene.judge(ReservationPlugin, pod("db-0")).scores.values()) == {0}


@pytest.mark.parametrize(
    ("node_name", "kept"),
    [("node-a", [1000, 3000, 0]), ("node-b", [2000, 2000, 0]), ("node-c", [2000, 3000, 0])],
)
def test_reserve_claims_all_reservations_of_an_owner_on_every_node(
    scene: Scene, node_name: str, kept: list[int]
) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert isinstance(judgement.plugin, ReservationPlugin)

    assert judgement.plugin.reserve(judgement.state, OWNER, node_name, NOW).ok

    assert reserved(scene) == kept, "the capacity that its pod of 1 cpu leaves stays reserved"
    assert {entry.phase for entry in scene.ledger.entries.values()} == {Phase.BOUND}


def test_a_claimed_reservation_no_longer_adds_to_the_score(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert isinstance(judgement.plugin, ReservationPlugin)
    judgement.plugin.reserve(judgement.state, OWNER, "node-a", NOW)

    assert set(scene.judge(ReservationPlugin, OWNER).scores.values()) == {0}


def test_unreserve_restores_the_reservations(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert isinstance(judgement.plugin, ReservationPlugin)
    judgement.plugin.reserve(judgement.state, OWNER, "node-c", NOW)
    judgement.plugin.unreserve(judgement.state, OWNER, "node-c", NOW + 1)

    assert reserved(scene) == [2000, 3000, 0]
    assert {entry.phase for entry in scene.ledger.entries.values()} == {Phase.ACTIVE}


def test_unreserve_without_reserve_changes_nothing(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert isinstance(judgement.plugin, ReservationPlugin)
    judgement.plugin.unreserve(judgement.state, OWNER, "node-c", NOW)

    assert reserved(scene) == [2000, 3000, 0]


def test_reserving_a_pod_without_reservations_changes_none(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, pod("db-0"))
    assert isinstance(judgement.plugin, ReservationPlugin)

    assert judgement.plugin.reserve(judgement.state, pod("db-0"), "node-c", NOW).ok
    assert reserved(scene) == [2000, 3000, 0]
