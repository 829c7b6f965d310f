"""The example manager with two clusters, each of which runs the operator."""

from collections.abc import Callable, Iterator
from contextlib import closing

import manager
import pytest
from manager import Member, NoCapacityError, dispatch

from cluster.api import Api, Manifest
from cluster.live import Lock, Pod
from cluster.operator_process import Launch
from cluster.world import SCHEDULER, World
from devcluster import Cluster, LocalCluster, wait_for
from tidelock.kube.client import PODS, RESERVATIONS

STEPS = ("prepared", "committed", "released", "sent")
PATIENT = 60  # seconds until a reservation must be active, on a busy machine


class CrashError(Exception):
    """The manager crashes here."""


@pytest.fixture
def east(world: World) -> World:
    """Return the world of the cluster that the manager asks first."""
    return world


@pytest.fixture
def west(private_cluster: LocalCluster, east: World, launch: Launch) -> Iterator[World]:
    """Yield the world of the other cluster, with the same namespace."""
    launch()
    with closing(World(Api(private_cluster.kubeconfig), east.namespace)) as made:
        yield made


@pytest.fixture
def members(controlplane: Cluster, private_cluster: LocalCluster, east: World) -> Callable[[], list[Member]]:
    """Return a function that builds a manager's clients of both clusters, as each start does."""
    pod: Manifest = {
        "metadata": {"name": "web-0", "namespace": east.namespace},
        "spec": east.pod_spec("1") | {"schedulerName": SCHEDULER},
    }
    clusters = (controlplane, private_cluster)
    return lambda: [Member(str(cluster.kubeconfig), pod) for cluster in clusters]


def pods(world: World) -> list[Manifest]:
    found: list[Manifest] = world.api.get(PODS.collection(world.namespace))["items"]
    return found


def reservations(world: World) -> list[Manifest]:
    found: list[Manifest] = world.api.get(RESERVATIONS.collection(world.namespace))["items"]
    return found


def crash_after(last: str) -> Callable[[str], None]:
    """Return a callback that crashes the manager after a step."""

    def crash(step: str) -> None:
        if step == last:
            raise CrashError(step)

    return crash


def until_settled(home: World, other: World) -> None:
    """Wait until the pod is bound in one cluster, and check that the other has no objects left."""
    (sent,) = pods(home)
    Pod(home.api, PODS, sent).until_bound()
    assert (pods(other), reservations(other)) == ([], [])


def test_the_pod_goes_to_the_cluster_with_capacity(
    east: World, west: World, members: Callable[[], list[Member]], private_cluster: LocalCluster
) -> None:
    east.node(cpu="500m")
    west.node()
    assert dispatch(members(), PATIENT) == str(private_cluster.kubeconfig)
    until_settled(west, east)


def test_the_first_of_several_clusters_with_capacity_is_chosen(
    east: World, west: World, members: Callable[[], list[Member]], controlplane: Cluster
) -> None:
    east.node()
    west.node()
    assert dispatch(members(), PATIENT) == str(controlplane.kubeconfig)
    until_settled(east, west)


def test_reservations_that_are_prepared_and_never_committed_expire(
    east: World, west: World, members: Callable[[], list[Member]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "COMMIT_SECONDS", 1)
    east.node()
    west.node()
    with pytest.raises(CrashError):
        dispatch(members(), 1, crash_after("prepared"))
    wait_for(
        lambda: reservations(east) + reservations(west), until=lambda left: not left, what="the locks to go"
    )


def test_a_hold_that_lost_its_capacity_is_not_committed(
    east: World, west: World, members: Callable[[], list[Member]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capacity of the hold was lost, and could have been used by others before the hold got it again."""
    node = east.node()
    west.node(cpu="500m")
    taken_away: list[Lock] = []

    def commit(member: Member, reservation: Manifest) -> None:
        if not taken_away:
            held = Lock(east.api, RESERVATIONS, reservation)
            node.resize(cpu="500m")
            held.until_phase("Pending")
            node.resize(cpu="4")
            held.until_phase("Active")
            taken_away.append(held)
        original(member, reservation)

    original = Member.commit
    monkeypatch.setattr(Member, "commit", commit)
    steps: list[str] = []
    dispatch(members(), PATIENT, steps.append)
    assert steps == ["prepared", "committed", *STEPS]
    until_settled(east, west)


def test_without_capacity_anywhere_the_error_has_the_numbers_and_no_object_is_left(
    east: World, west: World, members: Callable[[], list[Member]]
) -> None:
    east.node(cpu="500m")
    west.node(cpu="250m")
    with pytest.raises(NoCapacityError, match=r"cpu 1 needed.*cpu 1 needed"):
        dispatch(members(), 5)
    assert [pods(east), pods(west), reservations(east), reservations(west)] == [[], [], [], []]


@pytest.mark.parametrize("last", STEPS)
def test_the_manager_recovers_from_a_crash_after_each_step(
    east: World, west: World, members: Callable[[], list[Member]], last: str
) -> None:
    east.node()
    west.node()

    with pytest.raises(CrashError):
        dispatch(members(), PATIENT, crash_after(last))
    dispatch(members(), PATIENT)

    home, other = (east, west) if pods(east) else (west, east)
    until_settled(home, other)
