"""The example manager with two clusters, each of which runs the operator."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path

import manager
import pytest
import yaml
from manager import dispatch

from cluster.api import Api, Manifest
from cluster.live import Pod
from cluster.operator_process import Launch, OperatorProcess
from cluster.world import SCHEDULER, World
from devcluster import Cluster as ControlPlane
from devcluster import LocalCluster, wait_for
from devcluster.identity import token_kubeconfig
from tidelock.client import AllRefused, Cluster, NoCapacity, Unreachable
from tidelock.kube.client import PODS, RESERVATIONS

PATIENT = 60  # seconds until a reservation must be active, on a busy machine
CRASHED = 9
# Runs the manager, which ends like a crash right before or right after its request of this number.
CRASHING = """
import os, sys
import manager
from tidelock.client import Cluster
number, after = int(sys.argv.pop(1)), sys.argv.pop(1) == "after"
def crashing(request):
    async def run(*given, **named):
        global number
        number -= 1
        last = number == 0
        if last and not after:
            os._exit(9)
        try:
            return await request(*given, **named)
        finally:
            if last:
                os._exit(9)
    return run
for name in ("get", "create", "patch", "delete"):
    setattr(Cluster, name, crashing(getattr(Cluster, name)))
manager.main()
"""


@pytest.fixture
def east(world: World) -> World:
    """Return the world of the cluster that the manager asks first."""
    return world


@pytest.fixture
def operator_of_west(launch: Launch) -> OperatorProcess:
    """Run the operator of the other cluster."""
    return launch()


@pytest.fixture
def west(private_cluster: LocalCluster, east: World, operator_of_west: OperatorProcess) -> Iterator[World]:
    """Yield the world of the other cluster, with the same namespace."""
    with closing(World(Api(private_cluster.kubeconfig), east.namespace)) as made:
        yield made


@pytest.fixture
def kubeconfigs(
    east: World, west: World, controlplane: ControlPlane, private_cluster: LocalCluster
) -> list[Path]:
    """Create a node in both clusters, and return the kubeconfigs of their administrators."""
    east.node()
    west.node()
    return [controlplane.kubeconfig, private_cluster.kubeconfig]


@pytest.fixture
def pod(east: World) -> Manifest:
    """Return the pod to send."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": east.namespace},
        "spec": east.pod_spec("1") | {"schedulerName": SCHEDULER},
    }


@asynccontextmanager
async def connected(east: Path, west: Path) -> AsyncIterator[list[Cluster]]:
    """Yield the manager's connections to both clusters."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(Cluster(name, kubeconfig=path, timeout=2.0))
            for name, path in (("east", east), ("west", west))
        ]


@pytest.fixture
async def clusters(
    controlplane: ControlPlane, private_cluster: LocalCluster, west: World
) -> AsyncIterator[list[Cluster]]:
    """Yield the manager's connections to both clusters, as an administrator."""
    async with connected(controlplane.kubeconfig, private_cluster.kubeconfig) as found:
        yield found


def pods(world: World) -> list[Manifest]:
    found: list[Manifest] = world.api.get(PODS.collection(world.namespace))["items"]
    return found


def reservations(world: World) -> list[Manifest]:
    found: list[Manifest] = world.api.get(RESERVATIONS.collection(world.namespace))["items"]
    return found


def until_settled(home: World, other: World) -> None:
    """Wait until the pod is bound in one cluster, and check that the other has no objects left."""
    (sent,) = pods(home)
    Pod(home.api, PODS, sent).until_bound()
    assert (pods(other), reservations(other)) == ([], [])


async def test_the_pod_goes_to_the_cluster_with_capacity(
    east: World, west: World, clusters: list[Cluster], pod: Manifest
) -> None:
    east.node(cpu="500m")
    west.node()
    assert await dispatch(clusters, pod, PATIENT) == "west"
    await asyncio.to_thread(until_settled, west, east)


async def test_the_first_of_several_clusters_with_capacity_is_chosen(
    east: World, west: World, clusters: list[Cluster], pod: Manifest
) -> None:
    east.node()
    west.node()
    assert await dispatch(clusters, pod, PATIENT) == "east"
    assert await dispatch(clusters, pod, PATIENT) == "east"
    await asyncio.to_thread(until_settled, east, west)


async def test_without_capacity_anywhere_the_error_has_the_numbers_and_no_object_is_left(
    east: World, west: World, clusters: list[Cluster], pod: Manifest
) -> None:
    east.node(cpu="500m")
    west.node(cpu="250m")
    with pytest.raises(AllRefused, match=r"cpu 1 needed.*cpu 1 needed"):
        await dispatch(clusters, pod, 1)
    assert [pods(east), pods(west), reservations(east), reservations(west)] == [[], [], [], []]


async def test_one_of_two_clusters_may_be_down_and_come_back(
    east: World, west: World, clusters: list[Cluster], pod: Manifest, private_cluster: LocalCluster
) -> None:
    east.node(cpu="500m")
    await asyncio.to_thread(private_cluster.apiserver.stop)
    with pytest.raises(AllRefused) as caught:
        await dispatch(clusters, pod, 1)
    failures = {name: type(error) for name, error in caught.value.failures.items()}
    assert failures == {"east": NoCapacity, "west": Unreachable}
    east.node("b")
    assert await dispatch(clusters, pod, PATIENT) == "east"
    await asyncio.to_thread(private_cluster.apiserver.start)
    assert await dispatch(clusters, pod, PATIENT) == "east"
    await asyncio.to_thread(until_settled, east, west)


async def test_a_cluster_that_does_not_answer_is_passed_over(
    east: World, west: World, clusters: list[Cluster], pod: Manifest, private_cluster: LocalCluster
) -> None:
    east.node()
    west.node()
    private_cluster.apiserver.freeze()
    try:
        assert await dispatch(list(reversed(clusters)), pod, PATIENT) == "east"
    finally:
        private_cluster.apiserver.thaw()
    phases = {each["status"].get("phase") for each in reservations(west)}
    assert (len(pods(east)), pods(west), "Active" in phases) == (1, [], False)


async def test_a_cluster_without_operator_is_passed_over(
    east: World,
    west: World,
    clusters: list[Cluster],
    pod: Manifest,
    operator_of_west: OperatorProcess,
) -> None:
    east.node()
    west.node()
    operator_of_west.stop()
    assert await dispatch(list(reversed(clusters)), pod, PATIENT) == "east"
    await asyncio.to_thread(until_settled, east, west)


async def test_a_cluster_that_refuses_the_manager_is_passed_over(
    east: World,
    west: World,
    controlplane: ControlPlane,
    private_cluster: LocalCluster,
    pod: Manifest,
    tmp_path: Path,
) -> None:
    east.node()
    west.node()
    powerless = tmp_path / "powerless"
    private_cluster.kubectl("create", "serviceaccount", "nobody", f"--namespace={east.namespace}")
    token_kubeconfig(private_cluster, "nobody", east.namespace, powerless)
    async with connected(powerless, controlplane.kubeconfig) as clusters:
        assert await dispatch(clusters, pod, PATIENT) == "west"
    await asyncio.to_thread(until_settled, east, west)


def run(pod: Manifest, clusters: list[Path], folder: Path, *crash: str) -> int:
    """Run the manager as a process, which can crash at a request, and return its exit status."""
    file = folder / "pod.yaml"
    file.write_text(yaml.safe_dump(pod))
    program = ["-c", CRASHING, *crash] if crash else [manager.__file__]
    options = [f"--kubeconfig={path}" for path in clusters]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *program, f"--deadline={PATIENT}", *options, str(file)]
    return subprocess.run(command, check=False, env=environment, timeout=120).returncode


@pytest.mark.parametrize(("number", "when"), [*((number, "before") for number in range(1, 8)), (7, "after")])
def test_the_manager_recovers_from_a_crash_at_each_request(
    east: World,
    west: World,
    kubeconfigs: list[Path],
    pod: Manifest,
    tmp_path: Path,
    number: int,
    when: str,
) -> None:
    """It makes seven requests: it looks for the pod, reserves, commits, releases and sends the pod."""
    assert run(pod, kubeconfigs, tmp_path, str(number), when) == CRASHED
    assert run(pod, kubeconfigs, tmp_path) == 0
    until_settled(*((east, west) if pods(east) else (west, east)))


def test_reservations_that_are_prepared_and_never_committed_expire(
    east: World,
    west: World,
    kubeconfigs: list[Path],
    pod: Manifest,
    tmp_path: Path,
) -> None:
    assert run(pod, kubeconfigs, tmp_path, "5", "before") == CRASHED
    prepared = reservations(east) + reservations(west)
    assert [each["spec"]["commit"] for each in prepared] == [{"withinSeconds": 35}] * 2
    wait_for(
        lambda: {each["status"].get("phase") for each in reservations(east) + reservations(west)},
        until=lambda phases: phases <= {"Expired"},
        what="the reservations to release themselves",
        timeout=120,
    )
