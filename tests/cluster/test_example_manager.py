"""The example manager with two clusters, each of which runs the operator.

It needs an API server that keeps the objects of programs that are killed at any moment.
"""

import asyncio
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import manager
import pytest
import yaml
from manager import dispatch

from cluster.api import Api, Manifest
from cluster.live import Pod
from cluster.managed import pods, reservations
from cluster.operator_process import OperatorProcess
from cluster.world import SCHEDULER, World
from devcluster import Cluster as ControlPlane
from devcluster import LocalCluster, wait_for
from devcluster.identity import token_kubeconfig
from tidelock.client import PODS, AllRefused, Cluster, Forbidden, Unknown, Unreachable

PATIENT = 60  # seconds until a reservation must be active, on a busy machine
REQUESTS = 10  # of a manager that sends a pod to one of two clusters
CRASHED = 9
# Runs the manager, which ends like a crash right before or right after its request of this number.
CRASHING = """
import os, sys
import manager
from tidelock.client import Cluster, racing
racing._COMMIT_SECONDS = int(os.environ.get("COMMIT_SECONDS", racing._COMMIT_SECONDS))
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
def operator_of_west(private_operator: OperatorProcess) -> OperatorProcess:
    """Run the operator of the other cluster."""
    return private_operator


@pytest.fixture
def west(private_cluster: LocalCluster, east: World, operator_of_west: OperatorProcess) -> Iterator[World]:
    """Yield the world of the other cluster, with the same namespace."""
    with closing(World(Api(private_cluster.kubeconfig), east.namespace)) as made:
        yield made


@pytest.fixture
def kubeconfigs(controlplane: ControlPlane, private_cluster: LocalCluster) -> list[Path]:
    """Return the kubeconfigs of the administrators of both clusters."""
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


async def test_a_pod_whose_cluster_is_away_is_sent_nowhere_else(
    east: World, west: World, clusters: list[Cluster], pod: Manifest, private_cluster: LocalCluster
) -> None:
    east.node(cpu="500m")
    west.node()
    assert await dispatch(clusters, pod, PATIENT) == "west"
    await asyncio.to_thread(lambda: Pod(west.api, PODS, pods(west)[0]).until_bound())
    east.node("b")
    await asyncio.to_thread(private_cluster.apiserver.stop)
    with pytest.raises(Unknown) as caught:
        await dispatch(clusters, pod, PATIENT)
    assert {name: type(error) for name, error in caught.value.failures.items()} == {"west": Unreachable}
    await asyncio.to_thread(private_cluster.apiserver.start)
    assert await dispatch(clusters, pod, PATIENT) == "west"
    assert (pods(east), reservations(east)) == ([], [])


async def test_a_cluster_that_stops_to_answer_after_the_look_up_is_passed_over(
    east: World,
    west: World,
    clusters: list[Cluster],
    pod: Manifest,
    private_cluster: LocalCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    east.node()
    west.node()
    create = Cluster.create

    async def create_when_frozen(*given: Any, **named: Any) -> bytes:
        private_cluster.apiserver.freeze()
        return await create(*given, **named)

    monkeypatch.setattr(Cluster, "create", create_when_frozen)
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


async def test_a_cluster_that_refuses_the_manager_may_have_the_pod(
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
    async with connected(controlplane.kubeconfig, powerless) as clusters:
        with pytest.raises(Unknown, match="cannot get resource") as caught:
            await dispatch(clusters, pod, PATIENT)
        assert {name: type(error) for name, error in caught.value.failures.items()} == {"west": Forbidden}
        assert [pods(east), pods(west), reservations(east), reservations(west)] == [[], [], [], []]
        assert await dispatch(clusters[:1], pod, PATIENT) == "east"
    await asyncio.to_thread(until_settled, east, west)


def run(pod: Manifest, clusters: list[Path], folder: Path, *crash: str) -> int:
    """Run the manager as a process, which can crash at a request, and return its exit status."""
    file = folder / f"{pod['metadata']['name']}.yaml"
    file.write_text(yaml.safe_dump(pod))
    program = ["-c", CRASHING, *crash] if crash else [manager.__file__]
    options = [f"--kubeconfig={path}" for path in clusters]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *program, f"--deadline={PATIENT}", *options, str(file)]
    return subprocess.run(command, check=False, env=environment, timeout=120).returncode


def options_of(pod: Manifest, clusters: list[Path]) -> Namespace:
    """Return the options of a manager that runs inside of this process, as its command reads them."""
    return Namespace(kubeconfig=[str(path) for path in clusters], deadline=PATIENT, pod=yaml.safe_dump(pod))


@pytest.mark.parametrize("when", ["before", "after"])
def test_each_pod_is_sent_once_though_the_manager_crashes_at_any_request(
    east: World, west: World, kubeconfigs: list[Path], pod: Manifest, tmp_path: Path, when: str
) -> None:
    """It looks for reservations and pods, reserves, commits, reads the others, releases and sends the pod.

    Each of ten pods has a manager that crashes at another request. Only west has capacity at first, and
    east has more when the managers run again. They took what they had left in west for a refusal.
    """
    west.node(cpu="64")
    named = [pod | {"metadata": pod["metadata"] | {"name": f"web-{number}"}} for number in range(REQUESTS)]

    def crash(number: int) -> int:
        return run(named[number], kubeconfigs, tmp_path, str(number + 1), when)

    with ThreadPoolExecutor(max_workers=2) as pool:
        assert list(pool.map(crash, range(REQUESTS))) == [CRASHED] * REQUESTS
        assert pods(east) == []
        east.node(cpu="64")
        assert run(named[0], kubeconfigs, tmp_path) == 0
        list(pool.map(lambda each: asyncio.run(manager.run(options_of(each, kubeconfigs))), named[1:]))
    homes = {world.api: {Pod(world.api, PODS, each).name for each in pods(world)} for world in (east, west)}
    assert sorted(homes[east.api] | homes[west.api]) == [each["metadata"]["name"] for each in named]
    assert not homes[east.api] & homes[west.api]
    assert homes[east.api]  # the managers that had not committed
    for world in (east, west):
        for sent in pods(world):
            Pod(world.api, PODS, sent).until_bound()
        assert {each["metadata"]["name"] for each in reservations(world)} <= homes[world.api]


def test_reservations_that_are_prepared_and_never_committed_expire(
    east: World,
    west: World,
    kubeconfigs: list[Path],
    pod: Manifest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    east.node()
    west.node()
    monkeypatch.setenv("COMMIT_SECONDS", "3")  # of 30
    assert run(pod, kubeconfigs, tmp_path, "7", "before") == CRASHED
    prepared = reservations(east) + reservations(west)
    assert [each["spec"]["commit"] for each in prepared] == [{"withinSeconds": 8}] * 2
    wait_for(
        lambda: {each["status"].get("phase") for each in reservations(east) + reservations(west)},
        until=lambda phases: phases <= {"Expired"},
        what="the reservations to release themselves",
        timeout=120,
    )
