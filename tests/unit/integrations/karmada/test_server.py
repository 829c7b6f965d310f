"""The server for Karmada on a real socket: answers, refusals, limits and certificates."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from ssl import SSLContext, SSLError, get_server_certificate

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError

from builders import NAMESPACE, encode, node, pod_json
from devcluster.karmada import (
    CLUSTER,
    EstimatorClient,
    assumed,
    component,
    data,
    replica,
    replicas_request,
    tls_folder,
)
from devcluster.keys import Keys, make_keys
from devcluster.loopback import HOST
from isolating import Isolating
from tidelock.binders.endpoint import Endpoint
from tidelock.integrations.karmada import server, transport
from tidelock.integrations.karmada.server import ENDPOINT, EstimatorServer
from tidelock.kube.errors import ServerError
from tidelock.model.meta import Key
from tidelock.model.workloads import decode_workload
from tidelock.scheduler.core.estimation import CapacityEstimator
from tidelock.tcp_server import ListenError
from tidelock.telemetry import Telemetry
from unit.integrations.karmada.pods_api import PodsApi
from unit.scheduler.machinery import Core


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("karmada"))


class Scene:
    """A node of four cores, and a server for Karmada."""

    def __init__(self, keys: Keys, folder: Path) -> None:
        self.keys, self.folder = keys, folder
        self.core = Core(node("node-a", cpu="4"))
        self.api = PodsApi()
        self.isolation = Isolating()
        self.telemetry = Telemetry(self.core.clock.monotonic, Random(1))  # noqa: S311 -- no secret
        self.ready = True
        with socket.create_server((HOST, 0)) as free:
            self.port = free.getsockname()[1]
        self.server = EstimatorServer(
            self.core.decider,
            self.api,
            Endpoint(self.api, Key("system", ENDPOINT), "10.0.0.7", self.port, "grpc"),
            self.core.clock,
            self.telemetry,
            self.isolation,
            cluster=CLUSTER,
            folder=folder,
            address=HOST,
            port=self.port,
            ready=lambda: self.ready,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[EstimatorClient]:
        """Serve, and yield a client once the port is open."""
        task = asyncio.create_task(self.server.run())
        try:
            async with asyncio.timeout(60):
                while not await self.listens():
                    assert not task.done(), task.result()
                    await asyncio.sleep(0.01)
            async with EstimatorClient(self.port, self.keys) as client:
                yield client
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, self.port)
        except OSError:
            return False
        writer.close()
        return True

    def answers(self, method: str, status: str) -> float | None:
        labels = {"method": method, "status": status}
        return self.telemetry.registry.get_sample_value("tidelock_estimates_total", labels)

    async def certificate(self) -> str:
        """Return the certificate of the server, or an empty text while it has none."""
        with suppress(OSError):
            return await asyncio.to_thread(get_server_certificate, (HOST, self.port), timeout=5)
        return ""


@pytest.fixture
def scene(keys: Keys, tmp_path: Path) -> Scene:
    return Scene(keys, tls_folder(tmp_path / "tls", keys))


@asynccontextmanager
async def refused(status: Status, text: str) -> AsyncIterator[None]:
    with pytest.raises(GRPCError) as caught:
        yield
    assert (caught.value.status, caught.value.message) == (status, text)


async def test_replicas_and_sets_are_counted_beside_reservations_and_assumed_workloads(scene: Scene) -> None:
    async with scene.open() as client:
        assert await client.replicas(replica({"cpu": "1"})) == 4
        scene.core.reservation(resources={"cpu": "1"})
        scene.core.step()
        in_flight = assumed(component("web", 1, {"cpu": "500m"}))
        assert await client.replicas(replica({"cpu": "1"})) == 3
        assert await client.replicas(replica({"cpu": "1"}), in_flight) == 2
        parts = component("web", 1, {"cpu": "1"}), component("db", 1, {"cpu": "500m"})
        assert await client.sets(*parts) == 2
        assert await client.sets(*parts, assume=[in_flight]) == 1
        assert await client.replicas(replica({"cpu": "8"})) == 0
    assert scene.answers("MaxAvailableReplicas", "OK") == 4
    assert scene.answers("MaxAvailableComponentSets", "OK") == 2
    assert scene.isolation.faults == []


async def test_unschedulable_replicas_are_counted(scene: Scene) -> None:
    metadata = {"name": "web", "namespace": NAMESPACE, "uid": "uid-web"}
    scene.core.decider.objects.replica_sets.upsert(None, decode_workload(encode({"metadata": metadata})))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    refusal = condition | {"lastTransitionTime": "2020-01-01T00:00:00Z"}
    scene.api.pods = (
        pod_json("web-0", controller="apps/v1/ReplicaSet/web", status={"conditions": [refusal]}),
    )
    async with scene.open() as client:
        assert await client.unschedulable("ReplicaSet", NAMESPACE, "web") == 1
        async with refused(Status.NOT_FOUND, f"ReplicaSet {NAMESPACE}/none is not known"):
            await client.unschedulable("ReplicaSet", NAMESPACE, "none")
        async with refused(Status.UNIMPLEMENTED, "apps/v1 DaemonSet is not supported"):
            await client.unschedulable("DaemonSet", NAMESPACE, "web")
        scene.api.error = ServerError("out of order", status=500)
        async with refused(Status.UNAVAILABLE, "500: out of order"):
            await client.unschedulable("ReplicaSet", NAMESPACE, "web")
    assert scene.isolation.faults == []


async def test_a_bad_request_another_cluster_and_an_unready_process_are_refused(scene: Scene) -> None:
    async with scene.open() as client:
        async with refused(Status.INVALID_ARGUMENT, "replicaRequirements: field 5 ends early"):
            await client.replicas(b"\x2a\x05")
        async with refused(Status.INVALID_ARGUMENT, "request: a number ends early or is too long"):
            await client.ask("GetUnschedulableReplicas", b"\xff")
        async with refused(Status.FAILED_PRECONDITION, f"cluster: this is {CLUSTER}, not other"):
            await client.replicas(replica({}), cluster="other")
        scene.ready = False
        async with refused(Status.UNAVAILABLE, "not ready: not leading, or the cluster is not read yet"):
            await client.replicas(replica({}))
        with pytest.raises(GRPCError):
            await client.ask("MaxAvailableWishes", b"")
    assert scene.answers("MaxAvailableReplicas", "INVALID_ARGUMENT") == 1
    assert scene.isolation.faults == []


async def test_a_fault_costs_one_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise ZeroDivisionError("a planted fault")

    async with scene.open() as client:
        with monkeypatch.context() as planted:
            planted.setattr(CapacityEstimator, "replicas", fail)
            async with refused(Status.INTERNAL, "ZeroDivisionError: a planted fault"):
                await client.replicas(replica({"cpu": "1"}))
        assert await client.replicas(replica({"cpu": "1"})) == 4
    assert scene.isolation.faults == ["estimate: a planted fault"]


async def test_a_large_request_is_refused_and_the_connection_goes_on(scene: Scene) -> None:
    async with scene.open() as client:
        padding = data(99, b"x" * (2 * transport.MOST_BYTES))
        limit = f"a request has at most {transport.MOST_BYTES} bytes"
        async with refused(Status.RESOURCE_EXHAUSTED, limit):
            await client.ask("MaxAvailableReplicas", replicas_request(replica({})) + padding)
        assert await client.replicas(replica({"cpu": "1"})) == 4
        just = data(99, b"x" * (transport.MOST_BYTES - 100))
        request = replicas_request(replica({"cpu": "1"})) + just
        assert await client.ask("MaxAvailableReplicas", request) == 4


@pytest.mark.parametrize(
    ("frame", "status", "text"),
    [
        (b"", Status.INVALID_ARGUMENT, "the request ended early"),
        (b"\x00\x00", Status.INVALID_ARGUMENT, "the request ended early"),
        (b"\x00\x00\x00\x00\x05abc", Status.INVALID_ARGUMENT, "the request ended early"),
        (b"\x01\x00\x00\x00\x03abc", Status.UNIMPLEMENTED, "compressed requests are not supported"),
    ],
)
async def test_a_frame_that_is_no_whole_request_is_refused(
    scene: Scene, frame: bytes, status: Status, text: str
) -> None:
    async with scene.open() as client:
        async with refused(status, text):
            await send(client, frame, end=True)
        assert await client.replicas(replica({"cpu": "1"})) == 4


async def test_a_request_must_arrive_in_time(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_ARRIVAL", 0.1)
    async with scene.open() as client, refused(Status.DEADLINE_EXCEEDED, "the request did not arrive"):
        await send(client, b"\x00\x00\x00\x00\x05abc", end=False)


async def send(client: EstimatorClient, frame: bytes, *, end: bool) -> None:
    """Send a frame in the place of a request, and wait for the answer."""
    async with client.method("MaxAvailableReplicas").open(timeout=30) as stream:
        await stream.send_request()
        await stream._stream.send_data(frame, end_stream=end)
        stream._send_message_done = stream._end_done = True
        await stream.recv_message()


async def test_a_request_after_its_deadline_is_not_computed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene.open() as client:
        async with scene.server._turn:
            with pytest.raises((asyncio.TimeoutError, GRPCError)):
                await client.ask("MaxAvailableReplicas", replicas_request(replica({})), seconds=0.2)
        assert await client.replicas(replica({"cpu": "1"})) == 4
    assert scene.answers("MaxAvailableReplicas", "OK") == 1


async def test_a_caller_without_a_certificate_of_the_authority_is_refused(
    scene: Scene, tmp_path: Path
) -> None:
    stranger = make_keys(tmp_path / "stranger")
    shutil.copyfile(scene.keys.authority, stranger.authority)  # it trusts the server
    async with scene.open() as client:
        for each in (
            EstimatorClient(scene.port, scene.keys, authenticates=False),
            EstimatorClient(scene.port, stranger),
        ):
            async with each:
                with pytest.raises((OSError, SSLError, StreamTerminatedError, asyncio.TimeoutError)):
                    await each.ask("MaxAvailableReplicas", replicas_request(replica({})), seconds=5)
        assert await client.replicas(replica({"cpu": "1"})) == 4


async def test_too_many_connections_are_closed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MOST_CONNECTIONS", 1)
    async with scene.open() as client:
        assert await client.replicas(replica({"cpu": "1"})) == 4
        async with EstimatorClient(scene.port, scene.keys) as second:
            with pytest.raises((OSError, StreamTerminatedError)):
                await second.replicas(replica({"cpu": "1"}))
        assert await client.replicas(replica({"cpu": "1"})) == 4


async def test_the_server_waits_for_its_certificates_and_takes_new_ones_over(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_LOOK", 0.02)
    monkeypatch.setattr(server, "_RETRY", 0.02)
    shutil.rmtree(scene.folder)
    task = asyncio.create_task(scene.server.run())
    async with asyncio.timeout(60):
        while "can't connect without certificates" not in caplog.text:
            assert not await scene.listens()
            await asyncio.sleep(0.01)
        tls_folder(scene.folder, scene.keys)
        while not await scene.listens():
            assert not task.done(), task.result()
            await asyncio.sleep(0.01)
    async with EstimatorClient(scene.port, scene.keys) as client:
        assert await client.replicas(replica({"cpu": "1"})) == 4

    # asyncio never closes a connection that comes while a listener closes:
    # https://github.com/python/cpython/issues/109564
    old_listener_closed = asyncio.Event()

    def mutual_tls(folder: Path) -> SSLContext:
        old_listener_closed.set()
        return load_tls(folder)

    load_tls = transport.mutual_tls
    monkeypatch.setattr(transport, "mutual_tls", mutual_tls)
    renewed = make_keys(tmp_path / "renewed")
    tls_folder(scene.folder, renewed)
    async with asyncio.timeout(60):
        await old_listener_closed.wait()
        while await scene.certificate() != renewed.server_certificate.read_text():
            assert not task.done(), task.result()
            await asyncio.sleep(0.01)
    async with EstimatorClient(scene.port, renewed) as client:
        assert await client.replicas(replica({"cpu": "1"})) == 4
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert scene.api.patched[0].endswith(f"/endpointslices/{ENDPOINT}")
    assert scene.isolation.faults == []


async def test_a_port_in_use_is_reported_with_its_option(scene: Scene) -> None:
    with socket.create_server((HOST, scene.port)), pytest.raises(ListenError, match="--karmada-port"):
        await scene.server.run()
