"""Reservation: an owner prefers its lock's node, and takes its locks when it is reserved."""

import pytest

from builders import NOW, node, pod
from tidelock.model.api.reservation import Phase
from tidelock.plugins.reservation.plugin import ReservationPlugin
from unit.plugins.scene import Scene

OWNER = pod("web-0")


@pytest.fixture
def scene() -> Scene:
    """Give three nodes of 4 cpu, with a lock for web-0 on the first two."""
    three = Scene(node("node-a", cpu="4"), node("node-b", cpu="4"), node("node-c", cpu="4"))
    three.reservation("first", "node-a", resources={"cpu": "2"}, owner="web-0")
    three.reservation("second", "node-b", resources={"cpu": "3"}, owner="web-0")
    return three


def reserved(scene: Scene) -> list[int]:
    """Millicores that are locked of each node."""
    return [int(row[scene.columns.column_of["cpu"]]) for row in scene.columns.reserved[:3]]


def test_an_owner_prefers_the_nodes_of_its_locks(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert judgement.scores == {"node-a": 100, "node-b": 100, "node-c": 0}
    assert judgement.scores_among("node-c", "node-b") == {"node-c": 0, "node-b": 100}


def test_a_pod_of_a_workload_prefers_the_node_whose_locks_fit_it_best() -> None:
    """It went to any of them, and ended a large lock where a small one would have done."""
    scene = Scene(*(node(name, cpu="4") for name in ("node-a", "node-b", "node-c", "node-d")))
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    for name, on, cpu in (("large", "node-a", "4"), ("fitting", "node-b", "2"), ("small", "node-c", "1")):
        scene.reservation(name, on, resources={"cpu": cpu}, owners=owners)
    scores = scene.judge(ReservationPlugin, pod(requests={"cpu": "2"}, labels={"app": "web"})).scores
    assert scores["node-b"] > scores["node-c"] > scores["node-a"] > scores["node-d"] == 0


def test_a_lock_that_names_the_pod_comes_before_one_that_fits_it_as_well(scene: Scene) -> None:
    """What names it ends anyway, and would be of no use to anybody."""
    scene.reservation(
        "any", "node-c", resources={"cpu": "1"}, owners=[{"selector": {"matchLabels": {"app": "web"}}}]
    )
    judgement = scene.judge(ReservationPlugin, pod("web-0", labels={"app": "web"}))
    assert judgement.scores == {"node-a": 100, "node-b": 100, "node-c": 99}


def test_other_pods_prefer_nothing(scene: Scene) -> None:
    assert set(scene.judge(ReservationPlugin, pod("db-0")).scores.values()) == {0}


@pytest.mark.parametrize(
    ("node_name", "kept"),
    [("node-a", [1000, 3000, 0]), ("node-b", [2000, 2000, 0]), ("node-c", [2000, 3000, 0])],
)
def test_all_locks_of_an_owner_are_taken_wherever_it_is_reserved(
    scene: Scene, node_name: str, kept: list[int]
) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert isinstance(judgement.plugin, ReservationPlugin)

    assert judgement.plugin.reserve(judgement.state, OWNER, node_name, NOW).ok

    assert reserved(scene) == kept, "what its pod of 1 cpu does not use stays theirs until it is bound"
    assert {entry.phase for entry in scene.ledger.entries.values()} == {Phase.BOUND}


def test_a_lock_that_is_claimed_attracts_its_owner_no_more(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, OWNER)
    assert isinstance(judgement.plugin, ReservationPlugin)
    judgement.plugin.reserve(judgement.state, OWNER, "node-a", NOW)

    assert set(scene.judge(ReservationPlugin, OWNER).scores.values()) == {0}


def test_unreserve_takes_the_locks_back(scene: Scene) -> None:
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


def test_a_pod_without_locks_releases_none(scene: Scene) -> None:
    judgement = scene.judge(ReservationPlugin, pod("db-0"))
    assert isinstance(judgement.plugin, ReservationPlugin)

    assert judgement.plugin.reserve(judgement.state, pod("db-0"), "node-c", NOW).ok
    assert reserved(scene) == [2000, 3000, 0]
