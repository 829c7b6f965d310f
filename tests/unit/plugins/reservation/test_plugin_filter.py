"""Filter of the plugin Reservation: the nodes that fit, and the reasons and numbers of the others."""

from builders import node, pod
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.own_reservations import OwnReservations
from tidelock.model.pods import REQUIRE_RESERVATION
from tidelock.model.quantities import CPU, MEMORY, PODS
from tidelock.plugins.reservation.plugin import NO_OWN_RESERVATION, ReservationPlugin, insufficient_beside
from unit.plugins.scene import Judgement, Scene

REQUIRED = {REQUIRE_RESERVATION: "true"}


def scene() -> Scene:
    """Return two nodes of 4 cpu, with 2 cpu of the first reserved for web-0."""
    two = Scene(node("node-a", cpu="4"), node("node-b", cpu="4"))
    two.reservation("lock", resources={"cpu": "2"}, owner="web-0")
    return two


def test_reserved_capacity_is_free_only_for_its_owner() -> None:
    assert scene().judge(ReservationPlugin, pod("db-0", requests={"cpu": "3"})).fitting == {"node-b"}
    assert scene().judge(ReservationPlugin, pod("web-0", requests={"cpu": "3"})).fitting == {
        "node-a",
        "node-b",
    }


def test_capacity_that_is_neither_used_nor_reserved_is_free_for_every_pod() -> None:
    assert scene().judge(ReservationPlugin, pod("db-0", requests={"cpu": "2"})).fitting == {
        "node-a",
        "node-b",
    }


def test_a_pod_of_another_namespace_is_no_owner() -> None:
    stranger = pod("web-0", namespace="other", requests={"cpu": "3"})
    assert scene().judge(ReservationPlugin, stranger).fitting == {"node-b"}


def test_a_pod_that_requests_no_reserved_resource_fits() -> None:
    full = Scene(node("node-a", cpu="4"))
    full.reservation("lock", resources={"cpu": "4"})
    assert full.judge(ReservationPlugin, pod("db-0", requests={"memory": "1Gi"})).fitting == {"node-a"}


def test_the_reservations_of_a_pod_do_not_count_against_it() -> None:
    full = Scene(node("node-a", cpu="4"), node("node-b", cpu="4"))
    full.reservation("first", "node-a", resources={"cpu": "1"}, owner="web-0")
    full.reservation("second", "node-a", resources={"cpu": "3"}, owner="web-0")
    full.reservation("third", "node-b", resources={"cpu": "4"}, owner="web-0")

    assert full.judge(ReservationPlugin, pod("web-0", requests={"cpu": "4"})).fitting == {"node-a", "node-b"}


def test_requests_of_an_owner_beyond_its_reservation_must_be_free() -> None:
    shared = scene()
    shared.reservation("other", resources={"cpu": "1"}, owner="db-0")

    assert shared.judge(ReservationPlugin, pod("web-0", requests={"cpu": "3"})).fitting == {
        "node-a",
        "node-b",
    }
    too_big = shared.judge(ReservationPlugin, pod("web-0", requests={"cpu": "4"}))
    assert too_big.fitting == {"node-b"}
    assert too_big.reasons() == (insufficient_beside(CPU),)
    assert too_big.detail() == "cpu 4 needed, 3 free, 1 reserved by shop/other"


def test_an_owner_fits_where_a_resource_that_it_does_not_request_is_overcommitted() -> None:
    overfull = Scene(node("node-a", cpu="4", memory="1Gi"))
    overfull.cache.assume(pod("other", requests={"memory": "2Gi"}), "node-a")
    overfull.reservation("lock", resources={"cpu": "4"}, owner="web-0")
    assert overfull.judge(ReservationPlugin, pod("web-0", requests={"cpu": "4"})).fitting == {"node-a"}


def test_a_reservation_that_is_being_placed_does_not_count_against_itself() -> None:
    growing = scene()
    entry = growing.ledger.entries[next(iter(growing.ledger.entries))]
    reserve_pod = pod("no-owner", requests={"cpu": "4"})

    assert growing.judge(ReservationPlugin, reserve_pod, OwnReservations((entry,))).fitting == {
        "node-a",
        "node-b",
    }
    assert growing.judge(ReservationPlugin, reserve_pod).fitting == {"node-b"}


def test_a_pod_that_requires_its_reservation_fits_only_on_its_node() -> None:
    picky = pod("web-0", annotations=REQUIRED, requests={"cpu": "1"})
    judgement = scene().judge(ReservationPlugin, picky)

    assert judgement.fitting == {"node-a"}
    assert judgement.reasons("node-b") == (NO_OWN_RESERVATION,)
    assert judgement.detail("node-b") == ""


def test_a_pod_that_requires_a_reservation_and_has_none_fits_on_no_node() -> None:
    judgement = scene().judge(ReservationPlugin, pod("db-0", annotations=REQUIRED))
    assert judgement.fitting == set()


def test_a_required_reservation_that_is_too_small_is_refused_as_insufficient() -> None:
    shared = scene()
    shared.reservation("other", resources={"cpu": "1"}, owner="db-0")
    judgement = shared.judge(ReservationPlugin, pod("web-0", annotations=REQUIRED, requests={"cpu": "4"}))
    assert judgement.fitting == set()
    assert judgement.reasons("node-a") == (insufficient_beside(CPU),)


def test_a_reservation_on_a_removed_node_does_not_help_its_owner() -> None:
    shrunk = scene()
    shrunk.cache.drop_node("node-a")
    judgement = shrunk.judge(ReservationPlugin, pod("web-0", annotations=REQUIRED))
    assert judgement.fitting == set()
    assert judgement.scores == {"node-b": 0}


def test_a_refusal_names_every_insufficient_resource_and_its_reservations() -> None:
    full = Scene(node("node-a", cpu="4", memory="8Gi", pods="2"))
    full.reservation("one", resources={"cpu": "1500m", "memory": "2Gi"}, owner="x")
    full.reservation("two", resources={"cpu": "1"}, owner="y")

    judgement = full.judge(ReservationPlugin, pod("db-0", requests={"cpu": "2", "memory": "7Gi"}))

    assert judgement.reasons() == (
        insufficient_beside(CPU),
        insufficient_beside(MEMORY),
        insufficient_beside(PODS),
    )
    assert judgement.detail() == (
        "cpu 2 needed, 1500m free, 2500m reserved by shop/one, shop/two, "
        "memory 7Gi needed, 6Gi free, 2Gi reserved by shop/one, "
        "pods 1 needed, 0 free, 2 reserved by shop/one, shop/two"
    )


def test_the_first_three_of_many_reservations_are_named() -> None:
    full = Scene(node("node-a", cpu="4"))
    for index in range(5):
        full.reservation(f"lock-{index}", resources={"cpu": "500m"}, owner="x")

    assert full.judge(ReservationPlugin, pod("db-0", requests={"cpu": "2"})).detail() == (
        "cpu 2 needed, 1500m free, 2500m reserved by shop/lock-0, shop/lock-1, shop/lock-2 and 2 more"
    )


def test_resources_that_extenders_manage_are_ignored() -> None:
    one = Scene(node("node-a", cpu="2"))
    one.reservation("other", resources={"cpu": "1"}, owners=[{"pod": {"name": "other"}}])
    wanting = pod("web-0", requests={"cpu": "1", "example.com/foo": "1"})
    one.columns.vector(wanting.requests)
    snapshot = Snapshot.of(one.columns)
    args = {"ignoredResources": ["example.com/foo"]}

    assert one.judge(ReservationPlugin, wanting).fitting == set()
    assert Judgement(ReservationPlugin(one.handle, args), wanting, snapshot, ()).fitting == {"node-a"}
    greedy = pod("web-0", requests={"cpu": "2", "example.com/foo": "1"})
    judged = Judgement(ReservationPlugin(one.handle, args), greedy, snapshot, ())
    assert judged.reasons() == (insufficient_beside(CPU),)
