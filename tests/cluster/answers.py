"""Reservations that ask for an answer in the response to their creation, and the webhook that answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cluster.api import Api, Manifest, RefusedError
from cluster.live import Lock, Node
from cluster.world import World
from devcluster import wait_for
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.kube.client import MUTATING_WEBHOOKS, RESERVATIONS
from tidelock.model.answer import ANSWER, SIGNATURE

_WEBHOOKS = MUTATING_WEBHOOKS.item(CONFIGURATION)
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


def wanted(world: World, name: str = "web-0", cpu: str = "1", **spec: Any) -> Manifest:
    """Return a reservation that asks for an answer. A name that ends with a hyphen is completed."""
    manifest = world.manifest(name, cpu, answer="Immediate", **spec)
    if name.endswith("-"):
        manifest["metadata"] = {"generateName": name, "namespace": world.namespace}
        manifest["spec"]["owners"] = spec.get("owners", [{"pod": {"name": "web-0"}}])
    return manifest


def create(world: World, manifest: Manifest, query: str = "") -> Manifest:
    """Create a reservation and return the API server's response."""
    return world.api.create(f"{RESERVATIONS.collection(world.namespace)}{query}", manifest)


def create_wanted(world: World, name: str = "web-0", cpu: str = "1", **spec: Any) -> tuple[Lock, Manifest]:
    """Create a reservation that asks for an answer. Return it with the status in the answer."""
    created = create(world, wanted(world, name, cpu, **spec))
    return Lock(world.api, RESERVATIONS, created), answer_of(created)


def answers_of(created: Manifest) -> dict[str, str]:
    """Return the annotations of an answer, or none."""
    annotations: dict[str, str] = created["metadata"].get("annotations") or {}
    return {name: text for name, text in annotations.items() if name in {ANSWER, SIGNATURE}}


def answer_of(created: Manifest) -> Manifest:
    """Return the status in the answer."""
    answer: Manifest = json.loads(answers_of(created)[ANSWER])["status"]
    return answer


def asked(world: World, name: str = "trial", cpu: str = "1", **spec: Any) -> dict[str, str]:
    """Return the answer to a dry run, or nothing without one."""
    return answers_of(create(world, wanted(world, name, cpu, **spec), "?dryRun=All"))


def known_node(world: World, name: str = "a", cpu: str = "4") -> Node:
    """Create a node, and wait until the operator knows it: answers do not wait for its watches."""
    node = world.node(name, cpu=cpu)
    wait_for(
        lambda: asked(world, cpu="1m", nodeName=node.name).get(ANSWER, ""),
        until=lambda answer: bool(answer) and json.loads(answer)["status"]["phase"] == "Active",
        what=f"{node.name} to be known",
    )
    return node


def first_phase(lock: Lock) -> str:
    """Wait until a reservation has a status, and return its phase."""
    return str(wait_for(lambda: lock.status().get("phase"), what=f"a decision about {lock.name}"))


def until_answered(world: World) -> None:
    """Wait until the operator answers creations."""
    wait_for(lambda: asked(world), what="an answer", timeout=60)


@contextmanager
def unanswered(world: World) -> Iterator[None]:
    """Keep the webhook away from the namespace of a test."""
    _select(world.admin, {"matchExpressions": [_outside(world)]})
    try:
        wait_for(lambda: not asked(world), what="creations without the webhook", timeout=60)
        yield
    finally:
        _select(world.admin, {})
    until_answered(world)


@contextmanager
def asking(world: World) -> Iterator[None]:
    """Ask all the time, so that the operator writes statuses that repeat answers as late as it may."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            with suppress(RefusedError):
                asked(world, cpu="1m")

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _outside(world: World) -> Manifest:
    return {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": [world.namespace]}


def _select(api: Api, selector: Manifest) -> None:
    """Call the webhook for the selected namespaces alone."""

    def select(configuration: Manifest) -> None:
        for webhook in configuration["webhooks"]:
            webhook["namespaceSelector"] = selector

    api.edit(_WEBHOOKS, select)
