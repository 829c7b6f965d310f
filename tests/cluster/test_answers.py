"""Reservations that are answered in the response to their own creation, by the real webhook.

It needs an API server that calls the webhook for each creation, and stores the annotations of its answer.
"""

import base64
import json
import re
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from http import HTTPStatus

import pytest

from cluster.answers import (
    answer_of,
    answers_of,
    asked,
    asking,
    create,
    create_wanted,
    first_phase,
    known_node,
    unanswered,
    until_answered,
    wanted,
)
from cluster.api import Manifest, RefusedError
from cluster.binder_server import SECRET, called_operator
from cluster.live import Lock, condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from tidelock.binders.certificate_rotator import ANSWER_KEY, FORMER_ANSWER_KEY
from tidelock.client import Cluster as Client
from tidelock.client import NoCapacity, hold
from tidelock.client.informer import Informer
from tidelock.kube.client import MUTATING_WEBHOOKS, RESERVATIONS
from tidelock.model.answer import ANSWER, SIGNATURE

CREATIONS = 200
CLIENTS = 8


@pytest.fixture(scope="module")
def answering(
    private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator with the webhook that answers creations."""
    folder = tmp_path_factory.mktemp("answering")
    with called_operator(private_cluster, folder, "--answers", MUTATING_WEBHOOKS, until_answered) as process:
        yield process


@pytest.fixture
def world(answering: OperatorProcess, private_world: World) -> World:
    return private_world


@contextmanager
def crashed(operator: OperatorProcess) -> Iterator[None]:
    """Kill the operator, and start it again at the end of the context."""
    operator.kill()
    try:
        yield
    finally:
        operator.start()
        operator.ready()


def agrees(lock: Lock, answer: Manifest, phase: str) -> Manifest:
    """Check that the first status is the answer, and return it."""
    status = lock.until_phase(phase)
    assert {name: status.get(name) for name in answer} == answer
    assert lock.phases() in ([], [phase])
    return status


def test_the_response_to_a_creation_has_the_node_and_the_end(world: World) -> None:
    node = known_node(world, cpu="4")
    lock, answer = create_wanted(world)
    assert (answer["phase"], answer["nodeName"], answer["resources"]) == ("Active", node.name, {"cpu": "1"})
    assert answer["expiresAt"]
    agrees(lock, answer, "Active")
    assert lock.until_condition("Active", "True", "Admitted")


def test_the_answer_of_a_reservation_that_waits_has_the_reason_with_the_numbers(world: World) -> None:
    node = known_node(world, cpu="4")
    lock, answer = create_wanted(world, cpu="9", pendingDeadlineSeconds=600)
    assert answer["phase"] == "Pending"
    told = condition(answer, "Active")
    assert told["reason"] == "InsufficientCapacity"
    assert "cpu" in told["message"]
    status = lock.until_phase("Pending")
    assert condition(status, "Active") == told
    node.resize(cpu="12")
    assert lock.until_phase("Active")["nodeName"] == node.name


def test_a_reservation_that_does_not_wait_is_rejected_in_the_answer(world: World) -> None:
    known_node(world, cpu="4")
    lock, answer = create_wanted(world, cpu="9", pendingDeadlineSeconds=0)
    assert answer["phase"] == "Rejected"
    status = lock.until_phase("Rejected")
    assert condition(status, "Active") == condition(answer, "Active")


def test_the_api_server_may_generate_the_name(world: World) -> None:
    node = known_node(world, cpu="4")
    locks = [create_wanted(world, "web-") for _ in range(2)]
    assert len({lock.name for lock, _ in locks}) == 2
    for lock, answer in locks:
        assert answer["nodeName"] == node.name
        agrees(lock, answer, "Active")


def test_a_dry_run_is_answered_and_holds_nothing(world: World) -> None:
    node = known_node(world, cpu="1")
    for _ in range(3):
        dry = json.loads(asked(world)[ANSWER])["status"]
        assert (dry["phase"], dry["nodeName"]) == ("Active", node.name)
    lock, answer = create_wanted(world)
    agrees(lock, answer, "Active")
    assert json.loads(asked(world)[ANSWER])["status"]["phase"] == "Pending"


def test_the_answer_to_a_creation_with_other_annotations_leaves_these_alone(world: World) -> None:
    known_node(world, cpu="1")
    manifest = wanted(world)
    manifest["metadata"]["annotations"] = {"example.org/a": "b"}
    created = create(world, manifest)
    assert created["metadata"]["annotations"]["example.org/a"] == "b"
    agrees(Lock(world.api, RESERVATIONS, created), answer_of(created), "Active")


def test_a_creation_of_a_name_in_use_holds_nothing(world: World) -> None:
    """Clients that create their reservations again and again held capacity for each of these creations."""
    node = known_node(world, cpu="4")
    lock, answer = create_wanted(world)
    agrees(lock, answer, "Active")
    for _ in range(3):
        with pytest.raises(RefusedError, match="already exists"):
            create_wanted(world)
    rest, answer = create_wanted(world, "rest", "3")
    assert answer["phase"] == "Active"
    agrees(rest, answer, "Active")
    assert world.taken_cpu(node) == 4


@pytest.mark.parametrize("name", [ANSWER, SIGNATURE])
@pytest.mark.parametrize("asks", [True, False])
def test_a_client_that_brings_an_answer_is_refused(world: World, name: str, asks: bool) -> None:
    manifest = wanted(world) if asks else world.manifest()
    manifest["metadata"]["annotations"] = {name: f"0.{64 * '0'}"}
    with pytest.raises(RefusedError, match="written by the operator alone") as refusal:
        create(world, manifest)
    assert refusal.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert "create the reservation without them" in str(refusal.value)


@pytest.mark.parametrize("kind", ["text", "copy", "copy of its namesake"])
def test_an_answer_that_a_client_brings_is_worth_nothing(
    answering: OperatorProcess, world: World, kind: str
) -> None:
    """The webhook refuses such a creation, but the API server calls no webhook while it is away."""
    node = known_node(world, cpu="1")
    lock, answer = create_wanted(world)
    agrees(lock, answer, "Active")
    annotations = answers_of(lock.read() or {})
    if kind == "text":
        annotations = {ANSWER: annotations[ANSWER], SIGNATURE: f"0.{secrets.token_hex(32)}"}
    name = "web-1"
    if kind == "copy of its namesake":
        name = lock.name
        lock.delete()
        rival, answer = create_wanted(world, "web-2")
        agrees(rival, answer, "Active")
    with unanswered(world):
        manifest = wanted(world, name)
        manifest["metadata"]["annotations"] = annotations
        forged = Lock(world.api, RESERVATIONS, create(world, manifest))
        assert condition(forged.until_phase("Pending"), "Active")["reason"] == "InsufficientCapacity"
        with crashed(answering):
            pass
        world.pod("witness", cpu="1").until_refused("reserved by")
        assert forged.status()["phase"] == "Pending"
        assert world.taken_cpu(node) == 1


def test_an_answer_cannot_be_added_or_changed_later(world: World) -> None:
    known_node(world, cpu="4")
    lock, answer = create_wanted(world)
    agrees(lock, answer, "Active")
    plain = world.active_reservation("plain")
    answers = answers_of(lock.read() or {})
    changes = [(plain, answers), (plain, {ANSWER: "{}"}), (lock, {ANSWER: "{}"}), (lock, {SIGNATURE: "0.0"})]
    for changed, annotations in changes:
        with pytest.raises(RefusedError, match="written by the operator alone") as refusal:
            changed.merge({"metadata": {"annotations": annotations}})
        assert refusal.value.status == HTTPStatus.FORBIDDEN
    lock.merge({"metadata": {"annotations": {"example.org/a": "b"}}})
    assert lock.status()["phase"] == "Active"


def test_the_token_in_the_answer_commits_a_reservation(world: World) -> None:
    known_node(world, cpu="4")
    lock, answer = create_wanted(world, commit={"withinSeconds": 600})
    lock.edit(commit={"token": answer["commit"]["token"]})
    lock.until_condition("Committed", "True", "Committed")
    status = lock.status()
    assert status["commit"]["token"] == answer["commit"]["token"]
    assert status["activatedAt"] == answer["activatedAt"]


def test_a_pod_that_comes_right_after_the_answer_runs_on_the_granted_node(world: World) -> None:
    for name in ("a", "b", "c"):
        known_node(world, name, cpu="2")
    for number in range(6):
        _, answer = create_wanted(world, f"web-{number}")
        assert world.pod(f"web-{number}").until_bound() == answer["nodeName"]


def test_a_reservation_without_an_answer_becomes_active_later(
    answering: OperatorProcess, world: World
) -> None:
    known_node(world, cpu="4")
    answers = asked(world, "web-1")
    with crashed(answering):
        created = create(world, wanted(world))
        assert not answers_of(created)
        manifest = wanted(world, "web-1")
        manifest["metadata"]["annotations"] = answers
        with pytest.raises(RefusedError, match="failed calling webhook"):
            create(world, manifest)
    Lock(world.api, RESERVATIONS, created).until_phase("Active")
    until_answered(world)


def test_an_answer_survives_a_crash_before_the_first_status(answering: OperatorProcess, world: World) -> None:
    for name in ("a", "b"):
        known_node(world, name, cpu="1")
    with asking(world):
        lock, answer = create_wanted(world, commit={"withinSeconds": 600})
        answering.kill()
    with crashed(answering):
        assert "phase" not in lock.status()
        rivals = [world.reservation(f"rival-{number}") for number in range(2)]
    status = agrees(lock, answer, "Active")
    assert sorted(first_phase(rival) for rival in rivals) == ["Active", "Pending"]
    assert status["commit"]["token"] == answer["commit"]["token"]
    until_answered(world)


def test_answers_stay_valid_when_their_key_is_replaced(answering: OperatorProcess, world: World) -> None:
    """The operator replaces the key with its certificate, and keeps the former one."""
    node = known_node(world, cpu="1")
    with asking(world):
        lock, answer = create_wanted(world)
        answering.kill()
    with crashed(answering):
        assert "phase" not in lock.status()
        data = world.admin.get(SECRET)["data"]
        fresh = base64.b64encode(secrets.token_bytes(32)).decode()
        world.admin.merge(SECRET, {"data": {ANSWER_KEY: fresh, FORMER_ANSWER_KEY: data[ANSWER_KEY]}})
        rival = world.reservation("rival")
    agrees(lock, answer, "Active")
    rival.until_phase("Pending")
    lock.delete()
    assert rival.until_phase("Active")["nodeName"] == node.name
    until_answered(world)


def test_many_creations_at_once_share_the_last_capacity(world: World) -> None:
    nodes = {name: known_node(world, name, cpu="10") for name in "abcd"}
    for name, node in nodes.items():
        world.bound_pod(node, f"resident-{name}", cpu="9250m")
    sizes = ("50m", "100m", "150m", "250m")

    def one(number: int) -> Manifest:
        manifest = wanted(
            world, f"web-{number}", sizes[number % 4], pendingDeadlineSeconds=600 * (number % 2)
        )
        if number % 5 == 0:
            del manifest["spec"]["answer"]
        return create(world, manifest)

    with ThreadPoolExecutor(CLIENTS) as clients:
        created = list(clients.map(one, range(CREATIONS)))
    answered = [
        (Lock(world.api, RESERVATIONS, each), answer_of(each)) for each in created if answers_of(each)
    ]
    assert len(answered) > CREATIONS / 4
    granted = [(lock, answer) for lock, answer in answered if answer["phase"] == "Active"]
    assert granted
    assert len(granted) < len(answered)
    for lock, answer in granted:
        agrees(lock, answer, "Active")
    for each in created:
        wait_for(
            Lock(world.api, RESERVATIONS, each).status, until=lambda told: "phase" in told, what="a status"
        )
    taken = {node.name: world.taken_cpu(node) for node in nodes.values()}
    assert all(cpu <= 10 for cpu in taken.values()), taken
    assert sum(taken.values()) > Decimal("39.8")  # the smallest one fits nowhere, or none of them waits
    assert re.search(r"\d", condition(answered[-1][1], "Active")["message"])


async def test_the_client_needs_only_the_response(
    world: World, private_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Informer, "upsert", lambda *_: None)
    node = known_node(world)
    spec = world.manifest()["spec"]
    async with Client("east", kubeconfig=private_cluster.kubeconfig, namespace=world.namespace) as cluster:
        async with hold(cluster, spec, name="web-0") as held:
            assert held.node == node.name
        with pytest.raises(NoCapacity, match="cpu 9 needed"):
            async with hold(
                cluster, spec | {"resources": {"cpu": "9"}, "pendingDeadlineSeconds": 0}, name="b"
            ):
                pytest.fail("there is no capacity")
