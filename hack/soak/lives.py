"""The lives of reservations and pods in the churn, each of which checks its own expected end."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from soak.histories import Histories
from tidelock.kube.client import PODS, RESERVATIONS, ApiResource, KubeClient
from tidelock.settings import DEFAULT_SCHEDULER_NAME

REQUIRE = "tidelock.dev/require-reservation"

_LONG = 86_400  # seconds
_SIZES = ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "4Gi"})
_NOWHERE = {"cpu": "1k"}
_STAY = 4.0  # limit in seconds of a random delay


@dataclass(frozen=True)
class SoakClient:
    """A client that creates, changes and deletes objects, and waits for their states.

    Attributes:
        client: client of an admin.
        namespace: namespace of all objects.
        seen: states of the objects from a watch.
        rng: source of random choices.

    """

    client: KubeClient
    namespace: str
    seen: Histories
    rng: Random

    async def reservation(self, name: str, **spec: Any) -> None:
        """Create a reservation for the pod of its name, of a usual size, on any node, for a day."""
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
        """Create a pod. One that insists stays gated until its reservation is active, and runs only there."""
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
        """Change a reservation's spec."""
        await self.client.patch(RESERVATIONS.item(name, self.namespace), {"spec": spec})

    async def remove(self, resource: ApiResource, name: str) -> None:
        """Delete an object, and wait until it is gone."""
        await self.client.delete(resource.item(name, self.namespace))
        await self.gone(resource, name)

    async def stay(self) -> None:
        """Wait for a random time."""
        await asyncio.sleep(self.rng.uniform(0, _STAY))

    async def active(self, name: str) -> None:
        """Wait until a reservation has reported Active."""
        await self.seen.until(RESERVATIONS, name, lambda history: history.was_active, "Active")

    async def group_committed(self, name: str) -> None:
        """Wait until a reservation has reported Active or Expired, as a short one may end very early."""
        await self.seen.until(
            RESERVATIONS, name, lambda history: history.was_active or history.phase == "Expired", "given"
        )

    async def phase(self, name: str, phase: str) -> None:
        """Wait until a reservation is in a phase that lasts."""
        await self.seen.until(RESERVATIONS, name, lambda history: history.phase == phase, phase)

    async def bound(self, name: str) -> None:
        """Wait until a pod is bound."""
        await self.seen.until(PODS, name, lambda history: history.node, "bound")

    async def gone(self, resource: ApiResource, name: str) -> None:
        """Wait until an object is gone, and forget its history."""
        await self.seen.until(resource, name, lambda history: history.gone, "gone")
        self.seen.forget(resource, name)


async def consumed(actor: SoakClient, name: str) -> None:
    """Let a pod consume its reservation, and delete the pod later."""
    await actor.reservation(name)
    await actor.active(name)
    await actor.pod(name, insists=actor.rng.random() < 1 / 2)
    await actor.bound(name)
    await actor.gone(RESERVATIONS, name)
    await actor.stay()
    await actor.remove(PODS, name)


async def awaited(actor: SoakClient, name: str) -> None:
    """Create a pod first, which waits for its reservation."""
    await actor.pod(name, insists=True)
    await actor.reservation(name)
    await actor.bound(name)
    await actor.gone(RESERVATIONS, name)
    await actor.remove(PODS, name)


async def retained(actor: SoakClient, name: str) -> None:
    """Let a reservation be retained as a tombstone, and delete it."""
    await actor.reservation(name, retention="Retain")
    await actor.pod(name)
    await actor.bound(name)
    await actor.phase(name, "Consumed")
    await actor.remove(RESERVATIONS, name)
    await actor.remove(PODS, name)


async def expired(actor: SoakClient, name: str) -> None:
    """Let a reservation expire, as its pod never comes."""
    await actor.reservation(name, ttlSeconds=actor.rng.randint(1, 5))
    await actor.group_committed(name)
    await actor.gone(RESERVATIONS, name)


async def deleted(actor: SoakClient, name: str) -> None:
    """Delete an active reservation."""
    await actor.reservation(name)
    await actor.active(name)
    await actor.stay()
    await actor.remove(RESERVATIONS, name)


async def withdrawn(actor: SoakClient, name: str) -> None:
    """Delete a reservation and its pod in any state."""
    await actor.reservation(name)
    await actor.pod(name)
    await asyncio.sleep(actor.rng.uniform(0, 0.2))
    await actor.client.delete(PODS.item(name, actor.namespace))
    await actor.client.request("DELETE", RESERVATIONS.collection(actor.namespace), params=_named(name))
    await actor.gone(PODS, name)
    await actor.gone(RESERVATIONS, name)


async def edited(actor: SoakClient, name: str) -> None:
    """Make a reservation larger, then smaller, and shorten its lifetime."""
    await actor.reservation(name, resources={"cpu": "1"})
    await actor.active(name)
    for cpu in ("2", "500m"):
        await actor.edit(name, resources={"cpu": cpu})
        await actor.stay()
    await actor.edit(name, ttlSeconds=1)
    await actor.gone(RESERVATIONS, name)


async def rejected(actor: SoakClient, name: str) -> None:
    """Create a reservation that fits no node, and wait for its deadline."""
    await actor.reservation(name, resources=_NOWHERE, pendingDeadlineSeconds=1)
    await actor.phase(name, "Rejected")
    await actor.remove(RESERVATIONS, name)


async def plain(actor: SoakClient, name: str) -> None:
    """Create a pod without a reservation."""
    await actor.pod(name)
    await actor.bound(name)
    await actor.stay()
    await actor.remove(PODS, name)


def _named(name: str) -> Mapping[str, str]:
    # With a selector it is no error if the reservation is consumed and gone.
    return {"fieldSelector": f"metadata.name={name}"}


class Kind(NamedTuple):
    """A kind of life: its function, its number of objects, and its weight among the kinds."""

    live: Callable[[SoakClient, str], Awaitable[None]]
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
