"""The sample manager, between two clusters that each run the operator."""

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
PATIENT = 60  # seconds that a lock may take, on a machine that has other work


class CrashError(Exception):
    """The manager ends here."""


@pytest.fixture
def east(world: World) -> World:
    """Where the manager asks first."""
    return world


@pytest.fixture
def west(private_cluster: LocalCluster, east: World, launch: Launch) -> Iterator[World]:
    """The other cluster, with the same namespace."""
    launch()
    with closing(World(Api(private_cluster.kubeconfig), east.namespace)) as made:
        yield made


@pytest.fixture
def members(controlplane: Cluster, private_cluster: LocalCluster, east: World) -> Callable[[], list[Member]]:
    """Make a manager's view of both clusters, as each of its lives does."""
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
    """Have the manager end after a step."""

    def crash(step: str) -> None:
        if step == last:
            raise CrashError(step)

    return crash


def until_settled(home: World, other: World) -> None:
    """Wait until the pod is bound in one cluster; the other has nothing left."""
    (sent,) = pods(home)
    Pod(home.api, PODS, sent).until_bound()
    assert (pods(other), reservations(other)) == ([], [])


def test_the_pod_goes_where_room_is(
    east: World, west: World, members: Callable[[], list[Member]], private_cluster: LocalCluster
) -> None:
    east.node(cpu="500m")
    west.node()
    assert dispatch(members(), PATIENT) == str(private_cluster.kubeconfig)
    until_settled(west, east)


def test_of_several_with_room_the_first_is_taken(
    east: World, west: World, members: Callable[[], list[Member]], controlplane: Cluster
) -> None:
    east.node()
    west.node()
    assert dispatch(members(), PATIENT) == str(controlplane.kubeconfig)
    until_settled(east, west)


def test_what_was_prepared_and_never_committed_goes_by_itself(
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


def test_a_promise_that_was_lost_meanwhile_is_not_trusted(
    east: World, west: World, members: Callable[[], list[Member]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room that its token names was lost, and others could have had it before the lock got some again."""
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


def test_without_room_anywhere_nothing_is_left_and_the_numbers_are_told(
    east: World, west: World, members: Callable[[], list[Member]]
) -> None:
    east.node(cpu="500m")
    west.node(cpu="250m")
    with pytest.raises(NoCapacityError, match=r"cpu 1 needed.*cpu 1 needed"):
        dispatch(members(), 5)
    assert [pods(east), pods(west), reservations(east), reservations(west)] == [[], [], [], []]


@pytest.mark.parametrize("last", STEPS)
def test_it_survives_its_own_crash_after_each_step(
    east: World, west: World, members: Callable[[], list[Member]], last: str
) -> None:
    east.node()
    west.node()

    with pytest.raises(CrashError):
        dispatch(members(), PATIENT, crash_after(last))
    dispatch(members(), PATIENT)

    home, other = (east, west) if pods(east) else (west, east)
    until_settled(home, other)
