"""Two operators and one Lease: hand-over, crash, and a leader that is suspended and resumes.

It needs an API server that refuses writes of a former leader, and gives the Lease to one process.
"""

import json
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http import HTTPStatus
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from cluster.api import Api, RefusedError
from cluster.binder_server import (
    BY_STOCK,
    addresses,
    authority,
    bind,
    known_schedulers,
    repoint,
    until_reviewed,
    webhooks,
)
from cluster.leases import forget_lease
from cluster.live import Node, Pod
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.binders import scheduler_keys
from devcluster.identity import (
    EXTENDER,
    SYSTEM_NAMESPACE,
    operator_kubeconfig,
)
from devcluster.loopback import HOST, free_ports
from tidelock.binders.endpoint import SERVICE, SLICES
from tidelock.binders.server import EXTENDER_PATH
from tidelock.kube.client import RESERVATIONQUOTAS, ApiResource

FENCE = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
REFRESHED = 5  # seconds after which an API server has surely noticed the deletion of a policy binding
SECONDS = 12  # of the Lease, which a leader on a machine that stalls must not lose

Replica = Callable[..., OperatorProcess]
"""A function that starts an operator with a name and these options."""


@pytest.fixture
def replica(private_cluster: LocalCluster, private_kubeconfig: Path, tmp_path: Path) -> Iterator[Replica]:
    """Yield a function that starts a named operator, and delete the Lease after the test.

    The function returns when the operator leads or is a standby.
    """
    with ExitStack() as running:
        running.callback(forget_lease, Api(private_cluster.kubeconfig))

        def start(name: str, *options: str) -> OperatorProcess:
            directory = tmp_path / name
            directory.mkdir()
            return running.enter_context(
                OperatorProcess(
                    private_kubeconfig,
                    directory,
                    "--leader-elect",
                    f"--lease-namespace={SYSTEM_NAMESPACE}",
                    f"--lease-duration-seconds={SECONDS}",
                    *options,
                )
            )

        yield start


def until_led(operator: OperatorProcess) -> None:
    """Wait until an operator leads."""
    wait_for(lambda: "leading" in operator.log, what="the operator to lead")


def shown(operator: OperatorProcess) -> dict[str, Any]:
    """Read the first event that the web view sends to a browser."""
    with urlopen(f"http://{HOST}:{operator.port}/web/events", timeout=60) as stream:
        told: dict[str, Any] = json.loads(stream.readline().removeprefix(b"data: "))
    return told


def test_a_leader_that_ends_hands_over(replica: Replica, private_world: World) -> None:
    first, second = replica("first", "--web-view"), replica("second", "--web-view")
    node = private_world.node(cpu="4")
    reservation = private_world.active_reservation("web-0", "3", node)
    epoch = reservation.status()["epoch"]
    assert epoch > 0
    assert "leading" not in second.log
    told, other = shown(first), shown(second)
    assert (told["replica"]["state"], other["replica"]["state"]) == ("leading", "standby")
    assert other["replica"]["leader"] == told["replica"]["leader"]
    assert [row["node"] for row in told["page"]["reservations"]] == [node.name]
    assert told["page"]["decisions"][0]["verdict"] == "Active"
    assert other["page"] is None

    assert first.stop() == 0
    until_led(second)
    assert "given up" not in first.log
    assert reservation.status()["phase"] == "Active"
    private_world.pod("stranger", cpu="3").until_refused("3 reserved by")
    assert private_world.pod("web-0", cpu="3").until_bound() == node.name
    assert private_world.active_reservation("next", "1", node).status()["epoch"] == epoch + 1


def test_a_standby_leads_after_a_crash_of_the_leader(replica: Replica, private_world: World) -> None:
    first, second = replica("first"), replica("second")
    node = private_world.node(cpu="4")
    private_world.active_reservation("web-0", "3", node)
    first.kill()
    assert private_world.pod("web-0", cpu="3").until_bound() == node.name
    assert second.stop() == 0


def test_a_suspended_leader_ends_when_it_resumes(replica: Replica, private_world: World) -> None:
    first, second = replica("first"), replica("second")
    node = private_world.node(cpu="4")
    private_world.active_reservation("web-0", "3", node)
    first.signal(signal.SIGSTOP)
    until_led(second)
    pod = private_world.pod("web-0", cpu="3")
    assert pod.until_bound() == node.name
    # The former leader would write to this reservation if it had seen only a part of the above.
    reservation = private_world.active_reservation("other", "1", node)
    before = reservation.read()

    first.signal(signal.SIGCONT)
    assert first.wait() == 1
    assert "tidelock: Lease tidelock-system/tidelock" in first.log
    assert reservation.read() == before
    assert second.stop() == 0


def test_only_the_leader_answers_other_binders(
    replica: Replica, private_cluster: LocalCluster, private_world: World, tmp_path: Path
) -> None:
    operator_kubeconfig(private_cluster, tmp_path, EXTENDER)  # grants the rights of the component
    ports, own = free_ports(2), ("10.11.12.1", "10.11.12.2")
    first, second = (
        replica(
            name, "--extender", known_schedulers(private_cluster), "--admission", *addresses(port, address)
        )
        for name, port, address in zip(("first", "second"), ports, own, strict=True)
    )
    api = private_world.api
    until_endpoint(api, own[0], ports[0])
    keys = scheduler_keys(private_cluster)
    tls = ssl.create_default_context(cafile=authority(api, tmp_path, ports[0]))
    tls.load_cert_chain(keys.admin_certificate, keys.admin_key)
    with webhooks(private_cluster, api, ports[0]):
        until_reviewed(private_world)
        node = private_world.node(cpu="4")
        private_world.active_reservation("web-0", "3", node)
        stranger = private_world.pod("stranger", "2", **BY_STOCK)
        assert "3 reserved by" in bind(stranger, node)
        assert "beside reservations" in asked(tls, ports[0], stranger, node)
        with pytest.raises(ConnectionRefusedError):
            asked(tls, ports[1], stranger, node)

        assert first.stop() == 0
        until_endpoint(api, own[1], ports[1])
        with pytest.raises(ConnectionRefusedError):
            asked(tls, ports[0], stranger, node)
        assert "failed calling webhook" in bind(stranger, node)  # because it still calls the former leader
        assert "beside reservations" in asked(tls, ports[1], stranger, node)
        repoint(api, ports[1])
        until_reviewed(private_world)
        assert "3 reserved by" in bind(stranger, node)
    assert second.stop() == 0


def until_endpoint(api: Api, address: str, port: int) -> None:
    """Wait until the Service has this endpoint. No test connects through it."""

    def found() -> tuple[str, int] | None:
        try:
            slice_ = api.get(SLICES.item(SERVICE, SYSTEM_NAMESPACE))
        except RefusedError:
            return None
        return slice_["endpoints"][0]["addresses"][0], slice_["ports"][0]["port"]

    wait_for(found, until=lambda there: there == (address, port), what=f"the Service to lead to {address}")


def asked(tls: ssl.SSLContext, port: int, pod: Pod, node: Node) -> str:
    """Call the extender at a port as a scheduler does, and return why a pod does not fit, if so."""
    with closing(HTTPSConnection(HOST, port, timeout=60, context=tls)) as connection:
        body = json.dumps({"Pod": pod.read(), "NodeNames": [node.name]})
        connection.request("POST", f"{EXTENDER_PATH}/filter", body)
        failed: dict[str, str] = json.loads(connection.getresponse().read())["FailedNodes"]
        return failed.get(node.name, "")


def test_the_api_server_refuses_writes_of_a_former_leader(
    replica: Replica, private_world: World, private_cluster: LocalCluster, private_kubeconfig: Path
) -> None:
    for name in ("first", "second"):
        operator = replica(name)
        until_led(operator)
        if name == "first":
            assert operator.stop() == 0
    node = private_world.node(cpu="4")
    reservation = private_world.active_reservation("web-0", "1", node).read()
    assert reservation is not None
    epoch = reservation["status"]["epoch"]
    pod = private_world.pod("plain", cpu="1", schedulerName="nobody")
    as_operator = Api(private_kubeconfig)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node.name},
    }

    def bind(manager: str) -> None:
        as_operator.create(f"{pod.path}/binding?fieldManager={manager}&dryRun=All", binding)

    def release(manager: str) -> None:
        path = f"/apis/tidelock.dev/v1alpha1/namespaces/{private_world.namespace}/reservations/web-0/status"
        as_operator.replace(f"{path}?fieldManager={manager}&dryRun=All", reservation)

    def evict(manager: str) -> None:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
        as_operator.create(f"{pod.path}/eviction?fieldManager={manager}&dryRun=All", eviction)

    quota = private_world.quota(maxPriority=1).read() or {}

    def count(manager: str) -> None:
        path = RESERVATIONQUOTAS.item("team", private_world.namespace, "status")
        as_operator.replace(f"{path}?fieldManager={manager}&dryRun=All", quota)

    for write in (bind, release, evict, count):
        for manager in (f"tidelock-{epoch - 1}", "tidelock", f"tidelock-{epoch}x"):
            with pytest.raises(RefusedError, match=f"is over: the Lease is at {epoch}") as refusal:
                write(manager)
            assert refusal.value.status == HTTPStatus.FORBIDDEN
        write(f"tidelock-{epoch}")


def test_a_new_installation_writes_though_the_api_server_compares_with_the_old_lease(
    replica: Replica, private_world: World, private_cluster: LocalCluster
) -> None:
    """The API server refused all writes of the new leader until it was restarted.

    An API server with a fence that was deleted and applied again sees no change of the Lease, as
    docs/guarantees.md explains.
    """
    api, path = private_world.api, FENCE.item("tidelock-fence")
    for name in ("first", "second"):
        operator = replica(name)
        until_led(operator)
        assert operator.stop() == 0
    binding = api.get(path)
    api.delete(path)
    time.sleep(REFRESHED)
    api.create(FENCE.collection(), {**binding, "metadata": {"name": binding["metadata"]["name"]}})
    forget_lease(api)
    try:
        until_led(replica("third"))
        private_world.active_reservation("web-0", "1", private_world.node(cpu="4"))
    finally:
        private_cluster.apiserver.stop()
        private_cluster.apiserver.start()
