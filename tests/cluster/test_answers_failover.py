"""Answers to creations around a change of the leader.

It needs an API server that refuses answers of a former leader, and calls the webhook of the present one.
"""

import base64
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path

import pytest

from cluster.answers import (
    answers_of,
    asking,
    create,
    create_wanted,
    first_phase,
    known_node,
    unanswered,
    until_answered,
    wanted,
)
from cluster.api import Api, Manifest, RefusedError
from cluster.binder_server import SECRET, addresses, creation_webhook, repoint
from cluster.leases import LEASE, forget_lease
from cluster.live import Lock, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import EXTENDER, SYSTEM_NAMESPACE, operator_kubeconfig
from devcluster.loopback import free_ports
from tidelock.binders.certificate_rotator import ANSWER_KEY
from tidelock.kube.client import MUTATING_WEBHOOKS, RESERVATIONS
from tidelock.model.answer import ANSWER, SIGNATURE, Answer, AnswerKeys

SECONDS = 12  # of the Lease, which a leader on a machine that stalls must not lose


class Replicas:
    """Two operators with one Lease. The API server calls the one that leads."""

    def __init__(self, api: Api, start: Callable[[int], OperatorProcess], ports: tuple[int, ...]) -> None:
        self.api = api
        self.ports = ports
        self.processes = [start(port) for port in ports]

    def point_to(self, number: int) -> None:
        """Make the API server call one of them, as when the Service has another endpoint."""
        repoint(self.api, self.ports[number], MUTATING_WEBHOOKS)


@pytest.fixture
def replicas(private_cluster: LocalCluster, tmp_path: Path) -> Iterator[Replicas]:
    """Run two operators that answer creations, of which the first leads."""
    api = Api(private_cluster.kubeconfig)
    kubeconfig = operator_kubeconfig(private_cluster, tmp_path, EXTENDER)
    with ExitStack() as running:
        running.callback(forget_lease, api)
        ports = tuple(free_ports(2))
        running.enter_context(creation_webhook(private_cluster, api, ports[0]))

        def start(port: int) -> OperatorProcess:
            directory = tmp_path / str(port)
            directory.mkdir()
            return running.enter_context(
                OperatorProcess(
                    kubeconfig,
                    directory,
                    "--leader-elect",
                    f"--lease-namespace={SYSTEM_NAMESPACE}",
                    f"--lease-duration-seconds={SECONDS}",
                    "--answers",
                    *addresses(port),
                )
            )

        yield Replicas(api, start, ports)


def leadership(api: Api) -> int:
    """Return the number of the present leadership."""
    return int(api.get(LEASE)["spec"]["leaseTransitions"])


@pytest.mark.parametrize("crashes", [False, True])
def test_a_hand_over_keeps_what_the_former_leader_has_granted(
    replicas: Replicas, private_world: World, crashes: bool
) -> None:
    world, (first, second) = private_world, replicas.processes
    until_answered(world)
    nodes = [known_node(world, name, cpu="2") for name in "abc"]
    before = leadership(replicas.api)
    with asking(world):
        granted = [create_wanted(world, f"web-{number}") for number in range(5)]
        if crashes:
            first.kill()
            assert any("phase" not in lock.status() for lock, _ in granted)
        else:
            assert first.stop() == 0
    rivals = [world.reservation(f"rival-{number}") for number in range(2)]
    wait_for(lambda: "leading" in second.log, what="the other operator to lead")
    assert leadership(replicas.api) == before + 1
    for lock, answer in granted:
        assert answer["phase"] == "Active"
        status = lock.until_phase("Active")
        assert {name: status[name] for name in answer} == answer
        assert lock.phases() in ([], ["Active"])
    assert sorted(first_phase(rival) for rival in rivals) == ["Active", "Pending"]
    assert all(world.taken_cpu(node) == 2 for node in nodes)
    replicas.point_to(1)
    until_answered(world)
    known_node(world, "d", cpu="3")
    _, answer = create_wanted(world, "next", "2")
    assert (answer["phase"], answer["epoch"]) == ("Active", before + 1)


def test_the_api_server_refuses_an_answer_of_a_former_leader(
    replicas: Replicas, private_world: World
) -> None:
    """A creation can be under way while the leader changes. Here its answer has the real key."""
    world, (first, second) = private_world, replicas.processes
    until_answered(world)
    node = known_node(world, cpu="1")
    lock, granted = create_wanted(world)
    lock.until_phase("Active")
    told = json.loads(answers_of(lock.read() or {})[ANSWER])
    assert first.stop() == 0
    wait_for(lambda: "leading" in second.log, what="the other operator to lead")
    keys = AnswerKeys()
    keys.use(base64.b64decode(world.admin.get(SECRET)["data"][ANSWER_KEY]))

    def late(leadership: int) -> Manifest:
        answer = Answer(
            nonce=secrets.token_hex(16),
            leadership=leadership,
            at=told["at"],
            status=granted,
            namespace=world.namespace,
            name="late",
        )
        manifest = wanted(world, "late")
        manifest["metadata"]["annotations"] = keys.sign(answer)
        return create(world, manifest)

    present = leadership(replicas.api)
    replicas.point_to(1)
    with unanswered(world):
        for old in (told["leadership"], present - 1, 0):
            with pytest.raises(RefusedError, match=f"not of the present leadership, {present}") as refusal:
                late(old)
            assert refusal.value.status == HTTPStatus.FORBIDDEN
        for bad in ("", f"{present}", f"x.{64 * '0'}", f"{present}.{63 * '0'}"):
            manifest = wanted(world, "late")
            manifest["metadata"]["annotations"] = {ANSWER: "{}", SIGNATURE: bad}
            with pytest.raises(RefusedError, match="not of the present leadership"):
                create(world, manifest)
        # This leader has not given the answer, so it holds nothing for it.
        forged = Lock(world.api, RESERVATIONS, late(present))
        assert condition(forged.until_phase("Pending"), "Active")["reason"] == "InsufficientCapacity"
        assert world.taken_cpu(node) == 1
