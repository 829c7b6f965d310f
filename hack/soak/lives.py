"""The lives that locks and pods lead in the churn: each knows its own good end."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from soak.seen import Seen
from tidelock.kube.client import PODS, RESERVATIONS, ApiResource, KubeClient
from tidelock.settings import DEFAULT_SCHEDULER_NAME

REQUIRE = "tidelock.dev/require-reservation"

_LONG = 86_400  # seconds
_SIZES = ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "4Gi"})
_NOWHERE = {"cpu": "1k"}
_STAY = 4.0  # seconds that a life lasts at most where it could last for ever


@dataclass(frozen=True)
class Actor:
    """Makes, changes and removes objects, and waits for what becomes of them.

    Attributes:
        client: an admin's.
        namespace: where all of it goes on.
        seen: the watch that tells.
        rng: chance.

    """

    client: KubeClient
    namespace: str
    seen: Seen
    rng: Random

    async def reservation(self, name: str, **spec: Any) -> None:
        """Write a lock for the pod of its name: of a usual size, on any node, for a day."""
        body = {
            "apiVersion": RESERVATIONS.api_version,
            "kind": RESERVATIONS.kind,
            "metadata": {"name": name},
            "spec": {
                "resources": self.rng.choice(_SIZES),
                "owners": [{"pod": {"name": name}}],
                "ttlSeconds": _LONG,
                **spec,
            },
        }
        self.seen.expect(RESERVATIONS, name)
        await self.client.create(RESERVATIONS.collection(self.namespace), body)

    async def pod(self, name: str, *, insists: bool = False, **spec: Any) -> None:
        """Create a pod; one that insists goes where its lock is, or nowhere."""
        requests = self.rng.choice(_SIZES)
        container = {"name": "main", "image": "example.org/none", "resources": {"requests": requests}}
        body = {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {"name": name, "annotations": {REQUIRE: "true"} if insists else {}},
            "spec": {
                "schedulerName": DEFAULT_SCHEDULER_NAME,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }
        self.seen.expect(PODS, name)
        await self.client.create(PODS.collection(self.namespace), body)

    async def edit(self, name: str, **spec: Any) -> None:
        """Change a lock's spec."""
        await self.client.patch(RESERVATIONS.item(name, self.namespace), {"spec": spec})

    async def remove(self, resource: ApiResource, name: str) -> None:
        """Delete an object, and wait until it is gone."""
        await self.client.delete(resource.item(name, self.namespace))
        await self.gone(resource, name)

    async def stay(self) -> None:
        """Let some time pass."""
        await asyncio.sleep(self.rng.uniform(0, _STAY))

    async def active(self, name: str) -> None:
        """Wait until a lock is told to hold."""
        await self.seen.until(RESERVATIONS, name, lambda story: story.was_active, "Active")

    async def group_committed(self, name: str) -> None:
        """Wait until a lock is told to hold, or to be over: a short one may end before that is told."""
        await self.seen.until(
            RESERVATIONS, name, lambda story: story.was_active or story.phase == "Expired", "given"
        )

    async def phase(self, name: str, phase: str) -> None:
        """Wait until a lock is in a phase that lasts."""
        await self.seen.until(RESERVATIONS, name, lambda story: story.phase == phase, phase)

    async def bound(self, name: str) -> None:
        """Wait until a pod is bound."""
        await self.seen.until(PODS, name, lambda story: story.node, "bound")

    async def gone(self, resource: ApiResource, name: str) -> None:
        """Wait until an object is gone; its story ends there."""
        await self.seen.until(resource, name, lambda story: story.gone, "gone")
        self.seen.forget(resource, name)


async def consumed(actor: Actor, name: str) -> None:
    """Have a lock taken by its pod, and go; the pod follows later."""
    await actor.reservation(name)
    await actor.active(name)
    await actor.pod(name, insists=actor.rng.random() < 1 / 2)
    await actor.bound(name)
    await actor.gone(RESERVATIONS, name)
    await actor.stay()
    await actor.remove(PODS, name)


async def awaited(actor: Actor, name: str) -> None:
    """Have a pod there first, that waits for its lock."""
    await actor.pod(name, insists=True)
    await actor.reservation(name)
    await actor.bound(name)
    await actor.gone(RESERVATIONS, name)
    await actor.remove(PODS, name)


async def retained(actor: Actor, name: str) -> None:
    """Leave a lock as a tombstone, and remove it."""
    await actor.reservation(name, retention="Retain")
    await actor.pod(name)
    await actor.bound(name)
    await actor.phase(name, "Consumed")
    await actor.remove(RESERVATIONS, name)
    await actor.remove(PODS, name)


async def expired(actor: Actor, name: str) -> None:
    """Let a lock that nobody takes end by itself."""
    await actor.reservation(name, ttlSeconds=actor.rng.randint(1, 5))
    await actor.group_committed(name)
    await actor.gone(RESERVATIONS, name)


async def deleted(actor: Actor, name: str) -> None:
    """Give a lock up."""
    await actor.reservation(name)
    await actor.active(name)
    await actor.stay()
    await actor.remove(RESERVATIONS, name)


async def withdrawn(actor: Actor, name: str) -> None:
    """Delete a lock and its pod whatever has become of them."""
    await actor.reservation(name)
    await actor.pod(name)
    await asyncio.sleep(actor.rng.uniform(0, 0.2))
    await actor.client.delete(PODS.item(name, actor.namespace))
    await actor.client.request("DELETE", RESERVATIONS.collection(actor.namespace), params=_named(name))
    await actor.gone(PODS, name)
    await actor.gone(RESERVATIONS, name)


async def edited(actor: Actor, name: str) -> None:
    """Make a lock larger, then smaller, and cut it short."""
    await actor.reservation(name, resources={"cpu": "1"})
    await actor.active(name)
    for cpu in ("2", "500m"):
        await actor.edit(name, resources={"cpu": cpu})
        await actor.stay()
    await actor.edit(name, ttlSeconds=1)
    await actor.gone(RESERVATIONS, name)


async def rejected(actor: Actor, name: str) -> None:
    """Ask for room that no node has, until the deadline."""
    await actor.reservation(name, resources=_NOWHERE, pendingDeadlineSeconds=1)
    await actor.phase(name, "Rejected")
    await actor.remove(RESERVATIONS, name)


async def plain(actor: Actor, name: str) -> None:
    """Place a pod without a lock."""
    await actor.pod(name)
    await actor.bound(name)
    await actor.stay()
    await actor.remove(PODS, name)


def _named(name: str) -> Mapping[str, str]:
    # By a selector, as it is no error then if the lock is consumed and gone.
    return {"fieldSelector": f"metadata.name={name}"}


class Kind(NamedTuple):
    """A kind of life: how many objects it makes, and how often it is led in relation to others."""

    live: Callable[[Actor, str], Awaitable[None]]
    objects: int
    weight: int


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "consumed": Kind(consumed, 2, 25),
        "awaited": Kind(awaited, 2, 10),
        "retained": Kind(retained, 2, 10),
        "expired": Kind(expired, 1, 15),
        "deleted": Kind(deleted, 1, 10),
        "withdrawn": Kind(withdrawn, 2, 10),
        "edited": Kind(edited, 1, 10),
        "rejected": Kind(rejected, 1, 5),
        "plain": Kind(plain, 1, 20),
    }
)
