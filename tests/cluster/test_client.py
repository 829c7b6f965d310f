"""The client for managers, on real API servers with the operator.

It needs an API server that serves watches, conflicts and dry runs to several clients at once.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from cluster.api import Api
from cluster.live import Pod
from cluster.managed import pods, reservations, spec
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import Cluster as ControlPlane
from devcluster import LocalCluster, wait_for
from devcluster.identity import token_kubeconfig
from documents import ROOT
from tidelock.client import (
    PODS,
    RESERVATIONS,
    AllRefused,
    AlreadyExists,
    Cluster,
    Forbidden,
    Held,
    Invalid,
    Lost,
    NoCapacity,
    Phase,
    Taken,
    Unknown,
    Unreachable,
    hold,
    quote,
    race,
    release,
)
from tidelock.client.sync import blocking, call
from unit.kube.kubeconfigs import write_kubeconfig


@pytest.fixture
async def cluster(world: World, controlplane: ControlPlane) -> AsyncIterator[Cluster]:
    """Yield the client's connection to the shared cluster."""
    kubeconfig = controlplane.kubeconfig
    async with Cluster("east", kubeconfig=kubeconfig, namespace=world.namespace) as opened:
        yield opened


@pytest.fixture
def west_world(
    private_cluster: LocalCluster, world: World, private_operator: OperatorProcess
) -> Iterator[World]:
    """Yield the world of another cluster, with the same namespace."""
    with closing(World(Api(private_cluster.kubeconfig), world.namespace)) as made:
        yield made


@pytest.fixture
async def west(west_world: World, private_cluster: LocalCluster) -> AsyncIterator[Cluster]:
    """Yield the client's connection to the other cluster."""
    kubeconfig = private_cluster.kubeconfig
    async with Cluster("west", kubeconfig=kubeconfig, namespace=west_world.namespace) as opened:
        yield opened


@asynccontextmanager
async def silent_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Yield a cluster whose API server takes connections and never answers."""
    connections: list[asyncio.StreamWriter] = []

    async def listen(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    kubeconfig = write_kubeconfig(folder / "silent", f"http://127.0.0.1:{port}", {})
    async with Cluster("silent", kubeconfig=kubeconfig, timeout=1.0) as opened:
        yield opened
    server.close()
    for writer in connections:
        writer.close()


def away(folder: Path) -> Cluster:
    """Return a cluster with an address at which nothing listens."""
    kubeconfig = write_kubeconfig(folder / "away", "http://127.0.0.1:1", {})
    return Cluster("away", kubeconfig=kubeconfig, timeout=1.0)


def phases(world: World) -> list[str]:
    """Return the phases of the reservations of a world."""
    return [each["status"].get("phase", "") for each in reservations(world)]


async def until(condition: Callable[[], Any], what: str, seconds: float = 30) -> None:
    """Wait for a condition while the client goes on."""
    await asyncio.to_thread(wait_for, condition, what=what, timeout=seconds)


async def test_a_reservation_is_held_and_released(world: World, cluster: Cluster) -> None:
    node = world.node()
    async with hold(cluster, spec(world), name="web-0") as held:
        (stored,) = reservations(world)
        assert (held.node, held.uid, held.resources) == (node.name, stored["metadata"]["uid"], {"cpu": "1"})
        assert stored["status"]["phase"] == "Active"
        assert held.expires_at is not None
    assert reservations(world) == []


async def test_what_is_kept_is_taken_by_its_pod(world: World, cluster: Cluster) -> None:
    node = world.node()
    async with hold(cluster, spec(world), name="web-0") as held:
        held.keep()
    pod = world.pod("web-0")
    assert (await asyncio.to_thread(pod.until_bound)) is not None
    assert held.node == node.name


async def test_the_holder_sees_that_its_pod_has_taken_it(world: World, cluster: Cluster) -> None:
    world.node()
    async with hold(cluster, spec(world), name="web-0") as held:
        world.pod("web-0")
        async with asyncio.timeout(30):
            await held.taken.wait()
        assert held.status.phase is Phase.CONSUMED
        assert not held.lost.is_set()
    assert phases(world) == ["Consumed"]


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_it_is_released_after_an_exception(
    world: World, cluster: Cluster, error: type[BaseException]
) -> None:
    world.node()
    with pytest.raises(error):
        async with hold(cluster, spec(world), name="web-0"):
            raise error
    assert reservations(world) == []


async def test_a_cancelled_wait_leaves_nothing(world: World, cluster: Cluster) -> None:
    async def wait() -> None:
        async with hold(cluster, spec(world, pendingDeadlineSeconds=600), name="web-0"):
            pytest.fail("there is no node")

    task = asyncio.create_task(wait())
    await until(lambda: reservations(world), "the reservation")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert reservations(world) == []


async def test_no_capacity_is_refused_with_the_numbers(world: World, cluster: Cluster) -> None:
    world.known_node(cpu="2")
    with pytest.raises(NoCapacity, match="cpu 3 needed") as caught:
        async with hold(cluster, spec(world, "3", pendingDeadlineSeconds=0), name="web-0"):
            pytest.fail("there is no capacity")
    assert (caught.value.cluster, caught.value.reason) == ("east", "DeadlineExceeded")
    assert reservations(world) == []


async def test_a_wait_ends_when_capacity_comes(world: World, cluster: Cluster) -> None:
    async def come() -> None:
        await until(lambda: phases(world) == ["Pending"], "a wait")
        world.node()

    task = asyncio.create_task(come())
    async with hold(cluster, spec(world), name="web-0") as held:
        assert held.node == world.node_name("a")
    await task


async def test_a_manager_that_comes_again_holds_the_same_reservation(world: World, cluster: Cluster) -> None:
    world.node()
    async with hold(cluster, spec(world), name="web-0") as first:
        first.keep()
    async with hold(cluster, spec(world), name="web-0") as again:
        assert (again.uid, again.adopted) == (first.uid, True)
        with pytest.raises(AlreadyExists, match="asks for something else"):
            async with hold(cluster, spec(world, "2"), name="web-0"):
                pytest.fail("it is another one")
        assert len(reservations(world)) == 1
    assert reservations(world) == []


async def test_a_reservation_that_was_refused_is_replaced(world: World, cluster: Cluster) -> None:
    wanted = spec(world, pendingDeadlineSeconds=0, retention="Retain")
    refused = world.reservation(pendingDeadlineSeconds=0, retention="Retain", answer="Immediate")
    await asyncio.to_thread(refused.until_phase, "Rejected")
    await asyncio.to_thread(world.known_node)
    async with hold(cluster, wanted, name="web-0") as held:
        assert held.uid != refused.uid


@pytest.mark.parametrize("interrupt", [True, False])
async def test_the_holder_learns_that_its_node_is_gone(
    world: World, cluster: Cluster, interrupt: bool
) -> None:
    node = world.node()
    reached = []

    async def work() -> Held:
        async with hold(cluster, spec(world, node=node.name), name="web-0", interrupt=interrupt) as held:
            node.delete()
            async with asyncio.timeout(30):
                await held.lost.wait()
            await asyncio.sleep(0.1)
            reached.append(held)
        return held

    if interrupt:
        with pytest.raises(Lost) as caught:
            await work()
        assert (caught.value.cluster, caught.value.reason, reached) == ("east", "NodeLost", [])
    else:
        held = await work()
        assert (held.loss and held.loss.reason) == "NodeLost"
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    assert reservations(world) == []


async def test_the_holder_learns_of_expiry_and_of_a_deletion(world: World, cluster: Cluster) -> None:
    world.node()
    with pytest.raises(Lost) as caught:
        async with hold(cluster, spec(world, ttlSeconds=1), name="web-0"):
            await asyncio.sleep(30)
    assert caught.value.reason == "Expired"

    async def deleted() -> None:
        async with hold(cluster, spec(world), name="web-0"):
            await release(cluster, "web-0")
            await asyncio.sleep(30)

    with pytest.raises(Lost) as caught:
        await deleted()
    assert caught.value.reason == "Deleted"


async def test_a_lease_is_renewed_while_it_is_held(world: World, cluster: Cluster) -> None:
    world.node()
    lease = {"durationSeconds": 1, "graceSeconds": 1}
    async with hold(cluster, spec(world, lease=lease), name="web-0") as held:
        await asyncio.sleep(3)  # it would expire after two
        assert not held.lost.is_set()
        held.keep()
    await until(lambda: phases(world) != ["Active"], "a loss")


async def test_errors_name_the_field_the_right_and_the_cluster(
    world: World, cluster: Cluster, controlplane: ControlPlane, tmp_path: Path
) -> None:
    with pytest.raises(Invalid) as invalid:
        async with hold(cluster, spec(world, ttlSeconds=0), name="web-0"):
            pytest.fail("the client refuses it")
    assert invalid.value.fields == ("spec.ttlSeconds",)
    with pytest.raises(Invalid) as invalid:
        async with hold(cluster, spec(world, expireAt="2099-01-01T00:00:00Z", ttlSeconds=5), name="web-0"):
            pytest.fail("the API server refuses it")
    assert invalid.value.fields == ("spec.expireAt",)
    kubeconfig = token_kubeconfig(controlplane, "default", world.namespace, tmp_path / "kubeconfig")
    async with Cluster("east", kubeconfig=kubeconfig) as powerless:
        with pytest.raises(Forbidden, match="cannot create resource"):
            async with hold(powerless, spec(world), name="web-0"):
                pytest.fail("it has no rights")


async def test_a_quote_answers_without_holding(world: World, cluster: Cluster) -> None:
    node = world.node(cpu="4")
    fits = await quote(cluster, spec(world))
    too_large = await quote(cluster, spec(world, "9"))
    assert (fits.feasible, fits.reason, fits.status.node_name, fits.status.count) == (
        True,
        "Fits",
        node.name,
        4,
    )
    assert (too_large.feasible, too_large.reason) == (False, "InsufficientCapacity")
    assert reservations(world) == []


def test_without_asyncio(world: World, controlplane: ControlPlane) -> None:
    node = world.node()
    opened = Cluster("east", kubeconfig=controlplane.kubeconfig, namespace=world.namespace)
    with blocking(opened) as cluster:
        with blocking(hold(cluster, spec(world), name="web-0")) as held:
            assert held.node == node.name
        with pytest.raises(RuntimeError), blocking(hold(cluster, spec(world), name="web-0")):
            raise RuntimeError
        assert call(quote(cluster, spec(world))).feasible
        too_large = spec(world, "9", pendingDeadlineSeconds=0)
        with pytest.raises(NoCapacity), blocking(hold(cluster, too_large, name="web-0")):
            pytest.fail("there is no capacity")
        assert reservations(world) == []
        world.pod("web-0")
        with pytest.raises(Taken), blocking(race([cluster], spec(world), name="web-0")):
            pytest.fail("the pod exists")
    assert reservations(world) == []


async def test_a_race_commits_the_first_and_releases_the_others(
    world: World, west_world: World, cluster: Cluster, west: Cluster
) -> None:
    world.node()
    west_world.node()
    async with race([cluster, west], spec(world), name="web-0") as held:
        assert held.cluster is cluster
        (stored,) = reservations(world)
        assert stored["spec"]["commit"]["token"] == held.token
        await until(lambda: not reservations(west_world), "the release")
    assert reservations(world) == []


def test_the_example_of_the_readme_sends_its_pod_once(
    world: World, west_world: World, controlplane: ControlPlane, private_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The second run took the reservation that its own pod had consumed in west for a refusal.

    So it sent another pod to east, where capacity had come free meanwhile.
    """
    world.node(cpu="1")
    west = west_world.node(cpu="4")
    for name, kubeconfig in (("east", controlplane.kubeconfig), ("west", private_cluster.kubeconfig)):
        (tmp_path / f"{name}.yaml").symlink_to(kubeconfig)
    program = (ROOT / "docs/examples/quickstart/send.py").read_text()
    here = f'"containers": [CONTAINER], "nodeSelector": {dict(world.selector)}'
    own = program.replace('"shop"', f'"{world.namespace}"').replace('"containers": [CONTAINER]', here)
    assert world.namespace in own
    assert here in own

    def send() -> str:
        done = subprocess.run(
            [sys.executable, "-c", own], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    assert send() == f"web-0 goes to {west.name} in west\n"
    world.node("b", cpu="4")
    (sent,) = pods(west_world)
    Pod(west_world.api, PODS, sent).until_bound()
    assert send() == "web-0 is in west already\n"
    for stored in reservations(west_world):  # as its retention does after a minute
        west_world.api.delete(RESERVATIONS.item(stored["metadata"]["name"], west_world.namespace))
    assert send() == "web-0 is in west already\n"
    assert (len(pods(west_world)), pods(world), reservations(world)) == (1, [], [])


async def test_a_race_takes_the_smallest_by_a_key(
    world: World, west_world: World, cluster: Cluster, west: Cluster
) -> None:
    world.node()
    west_world.node()
    order = {"east": 2, "west": 1}
    async with race(
        [cluster, west], spec(world), name="web-0", key=lambda held: order[held.cluster.name]
    ) as held:
        assert held.cluster is west


async def test_a_race_goes_past_clusters_that_are_full(
    world: World, west_world: World, cluster: Cluster, west: Cluster
) -> None:
    world.node(cpu="500m")
    west_world.node()
    async with race([cluster, west], spec(world), name="web-0") as held:
        assert held.cluster is west
    assert (reservations(world), reservations(west_world)) == ([], [])


async def test_a_race_does_not_start_without_the_answers_of_all_clusters(
    world: World, cluster: Cluster, tmp_path: Path
) -> None:
    world.node()
    async with away(tmp_path) as gone, silent_cluster(tmp_path) as silent:
        with pytest.raises(Unknown) as caught:
            async with race([gone, silent, cluster], spec(world), name="web-0"):
                pytest.fail("an earlier run may have sent the pod")
        assert {name: type(each) for name, each in caught.value.failures.items()} == {
            "away": Unreachable,
            "silent": Unreachable,
        }
        assert reservations(world) == []
        others = [each for each in (gone, silent, cluster) if each.name not in caught.value.failures]
        async with race(others, spec(world), name="web-0") as held:
            assert held.cluster is cluster


async def test_a_race_without_capacity_has_the_reason_of_each_cluster(
    world: World, west_world: World, cluster: Cluster, west: Cluster
) -> None:
    world.known_node(cpu="500m")
    west_world.known_node(cpu="250m")
    with pytest.raises(AllRefused) as caught:
        async with race([cluster, west], spec(world, pendingDeadlineSeconds=0), name="web-0"):
            pytest.fail("there is no capacity")
    failures = caught.value.failures
    assert (type(failures["east"]), type(failures["west"])) == (NoCapacity, NoCapacity)
    assert (reservations(world), reservations(west_world)) == ([], [])


async def test_a_cancelled_race_leaves_nothing(
    world: World, west_world: World, cluster: Cluster, west: Cluster
) -> None:
    world.node()
    west_world.node()
    for pause in (0.0, 0.005, 0.02, 0.05, 0.1, 0.3):

        async def run() -> None:
            async with race([cluster, west], spec(world), name="web-0"):
                await asyncio.sleep(60)

        task = asyncio.create_task(run())
        await asyncio.sleep(pause)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (reservations(world), reservations(west_world)) == ([], [])


async def test_a_race_continues_with_the_cluster_of_an_earlier_commit(
    world: World, west_world: World, cluster: Cluster, west: Cluster
) -> None:
    world.node()
    west_world.node()
    wanted = spec(world)
    async with race([west], wanted, name="web-0") as first:
        first.keep()
    async with race([cluster, west], wanted, name="web-0") as held:
        assert (held.cluster, held.uid) == (west, first.uid)
    assert (reservations(world), reservations(west_world)) == ([], [])


async def test_the_next_cluster_is_committed_when_the_first_refuses_the_commit(
    world: World, west_world: World, cluster: Cluster, west: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.node()
    west_world.node()
    patch = cluster.patch

    async def end_before(*given: Any) -> bytes:
        await release(cluster, "web-0")
        return await patch(*given)

    monkeypatch.setattr(cluster, "patch", end_before)
    async with race([cluster, west], spec(world), name="web-0") as held:
        assert held.cluster is west


async def test_a_hold_outlives_a_restart_of_the_api_server(
    west_world: World, west: Cluster, private_cluster: LocalCluster
) -> None:
    node = west_world.node()
    async with hold(west, spec(west_world, node=node.name), name="web-0", interrupt=False) as held:
        await asyncio.to_thread(private_cluster.apiserver.stop)
        with pytest.raises(Unreachable):
            await west.get(RESERVATIONS, "web-0")
        await asyncio.to_thread(private_cluster.apiserver.start)
        await asyncio.sleep(1)
        assert not held.lost.is_set()
        node.delete()
        async with asyncio.timeout(60):
            await held.lost.wait()
        assert (held.loss and held.loss.reason) == "NodeLost"
