"""Answers to creations that store no object: their capacity comes back when none can be stored any more.

It needs an API server that refuses creations after the webhook's review.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from cluster.answers import asked, create, create_wanted, known_node, until_answered, wanted
from cluster.api import Api, Manifest, RefusedError
from cluster.binder_server import SECRET, creation_webhook, operating_here
from cluster.quick_operator import QUICK
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import EXTENDER, operator_kubeconfig
from devcluster.loopback import free_ports
from tidelock.binders.certificate_rotator import ANSWER_KEY, FORMER_ANSWER_KEY
from tidelock.kube.client import ApiResource
from tidelock.ledger import answers
from tidelock.model.answer import ANSWER

UNSEEN = 5.0  # seconds, of 65
OFTEN = replace(QUICK, certificate_check=0.2)
ROUNDS = 4
CLIENTS = 4
POLICIES, BINDINGS = (
    ApiResource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
)
DENIED = {"example.org/denied": "true"}


@pytest.fixture
async def hasty(
    private_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Run an operator that waits less for objects, inside of this process, which must outlive it."""
    monkeypatch.setattr(answers, "UNSEEN_SECONDS", UNSEEN)
    (port,) = free_ports(1)
    api = Api(private_cluster.kubeconfig)
    kubeconfig = operator_kubeconfig(private_cluster, tmp_path, EXTENDER)
    async with operating_here(kubeconfig, port, OFTEN, answers=True):
        with creation_webhook(private_cluster, api, port), closing(World(api)) as trial:
            await asyncio.to_thread(until_answered, trial)
            yield


@contextmanager
def denying(world: World) -> Iterator[None]:
    """Deny the reservations of a namespace with a label, after the webhook has answered their creation."""
    name, api = world.namespace, world.admin
    rule = {
        "apiGroups": ["tidelock.dev"],
        "apiVersions": ["v1alpha1"],
        "resources": ["reservations"],
        "operations": ["CREATE"],
    }
    spec = {
        "matchConstraints": {
            "resourceRules": [rule],
            "objectSelector": {"matchLabels": DENIED},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        },
        "validations": [{"expression": "false", "message": "denied by a test"}],
    }
    api.create(POLICIES.collection(), {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, "validationActions": ["Deny"]}
    api.create(BINDINGS.collection(), {"metadata": {"name": name}, "spec": binding})
    try:
        wait_for(lambda: is_denied(world, "?dryRun=All"), what="the policy to deny", timeout=60)
        yield
    finally:
        api.delete(BINDINGS.item(name))
        api.delete(POLICIES.item(name))


def is_denied(world: World, query: str = "", **spec: Any) -> bool:
    """Create a reservation with the label, and return whether that is denied."""
    manifest = wanted(world, "denied", **spec)
    manifest["metadata"]["labels"] = DENIED
    try:
        create(world, manifest, query)
    except RefusedError as refusal:
        return "denied by a test" in str(refusal)
    return False


def phase_in_dry_run(world: World, cpu: str) -> str:
    """Return the phase that a reservation would have now."""
    status: Manifest = json.loads(asked(world, cpu=cpu)[ANSWER])["status"]
    return str(status["phase"])


def until_free(world: World, cpu: str) -> None:
    """Wait until a reservation of this size would be active."""
    wait_for(lambda: phase_in_dry_run(world, cpu) == "Active", what="capacity to come back", timeout=60)


@pytest.mark.parametrize("ttl", [600, 1])
@pytest.mark.usefixtures("hasty")
async def test_the_capacity_of_a_creation_that_another_admission_refuses_comes_back(
    private_world: World, ttl: int
) -> None:
    def scenario() -> None:
        node = known_node(private_world, cpu="2")
        lock, answer = create_wanted(private_world, "kept")
        with denying(private_world):
            assert phase_in_dry_run(private_world, "1") == "Active"
            assert is_denied(private_world, ttlSeconds=ttl)
            rival = private_world.reservation("rival")
            assert rival.until_phase("Active")["nodeName"] == node.name
        assert lock.until_phase("Active")["activatedAt"] == answer["activatedAt"]
        assert private_world.taken_cpu(node) == 2

    await asyncio.to_thread(scenario)


@pytest.mark.usefixtures("hasty")
async def test_of_several_creations_of_one_name_the_first_keeps_its_capacity(private_world: World) -> None:
    def scenario() -> None:
        node = known_node(private_world, cpu="16")
        kept = []
        with ThreadPoolExecutor(CLIENTS) as clients:
            for number in range(ROUNDS):
                name = f"web-{number}"
                tries = [clients.submit(create_wanted, private_world, name) for _ in range(CLIENTS)]
                errors = [error for each in tries if (error := each.exception()) is not None]
                assert [getattr(error, "status", error) for error in errors] == (CLIENTS - 1) * [
                    HTTPStatus.CONFLICT
                ]
                kept += [each.result() for each in tries if each.exception() is None]
        until_free(private_world, f"{16 - ROUNDS}")
        for lock, answer in kept:
            status = lock.until_phase("Active")
            assert {name: status[name] for name in answer} == answer
        assert private_world.taken_cpu(node) == ROUNDS

    await asyncio.to_thread(scenario)


@pytest.mark.usefixtures("hasty")
async def test_a_key_that_is_removed_is_replaced_and_stays_valid(private_world: World) -> None:
    def scenario() -> None:
        before = private_world.admin.get(SECRET)["data"][ANSWER_KEY]
        private_world.admin.merge(SECRET, {"data": {ANSWER_KEY: None}})
        data = wait_for(
            lambda: private_world.admin.get(SECRET)["data"],
            until=lambda found: found.get(ANSWER_KEY),
            what="another key",
        )
        assert data[ANSWER_KEY] != before
        assert data[FORMER_ANSWER_KEY] == before
        known_node(private_world, cpu="2")
        lock, answer = create_wanted(private_world)
        assert lock.until_phase("Active")["activatedAt"] == answer["activatedAt"]

    await asyncio.to_thread(scenario)
