"""Claimants of the same capacity, in four ways, and an independent observer of their results."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bench.events import decode_event
from bench.following import following
from bench.scenarios import pod_object
from tidelock.kube.client import PODS, RESERVATIONS, KubeClient
from tidelock.kube.errors import ApiError, Forbidden
from tidelock.model.reasons import INSUFFICIENT_CAPACITY


class ClaimMethod(Enum):
    """The ways to claim capacity."""

    RESERVATION = "Reservations"
    POD = "pods of Tidelock"
    BINDING = "bindings by hand"
    STOCK = "pods of kube-scheduler"


@dataclass
class Claims:
    """The observed results of claimants, by their names, since the last `clear`.

    Attributes:
        capacity: number of claimants that fit on a node.
        begun: when each claim was sent, as of `time.perf_counter`.
        answered: when each claimant first got capacity or a refusal.
        won: the node that each claimant got.
        unreviewed: bindings that were refused because no review came in time.
        faults: a text for each node with more claimants than fit, and for capacity that was taken back.

    """

    capacity: int
    begun: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    won: dict[str, str] = field(default_factory=dict)
    unreviewed: int = 0
    faults: list[str] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def clear(self) -> None:
        """Forget all claimants, but not the faults."""
        for kept in (self.begun, self.answered, self.won):
            kept.clear()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until a condition on the observed results is true."""
        while not done():
            self._changed.clear()
            await self._changed.wait()

    def refused(self, name: str, now: float) -> None:
        """Note that a claimant was refused. It may get capacity later."""
        self.answered.setdefault(name, now)
        self._changed.set()

    def take_pod(self, line: bytes, now: float) -> str:
        """Handle an event of a pod."""
        event = decode_event(line)
        pod = event.object
        if event.type != "DELETED" and pod.metadata.name in self.begun:
            if pod.spec.node_name:
                self._given(pod.metadata.name, pod.spec.node_name, now)
            elif any((each.type, each.status) == ("PodScheduled", "False") for each in pod.status.conditions):
                self.refused(pod.metadata.name, now)
        return pod.metadata.resource_version

    def take_reservation(self, line: bytes, now: float) -> str:
        """Handle an event of a Reservation."""
        event = decode_event(line)
        name, status = event.object.metadata.name, event.object.status
        if event.type != "DELETED" and name in self.begun:
            active = [each for each in status.conditions if each.type == "Active"]
            if status.active:
                self._given(name, status.node_name, now)
            elif name in self.won:
                self.faults.append(f"{name} was Active and is not any more: {active}")
            elif any(each.reason == INSUFFICIENT_CAPACITY for each in active):
                self.refused(name, now)
        return event.object.metadata.resource_version

    def _given(self, name: str, node: str, now: float) -> None:
        self.answered.setdefault(name, now)
        if self.won.setdefault(name, node) != node:
            self.faults.append(f"{name} was given {self.won[name]} and then {node}")
        taken = Counter(self.won.values())[node]
        if taken > self.capacity:
            self.faults.append(f"{node} was given to {taken} claimants and has capacity for {self.capacity}")
        self._changed.set()


@asynccontextmanager
async def claims(client: KubeClient, namespace: str, capacity: int) -> AsyncIterator[Claims]:
    """Watch claimants while the context lasts. `capacity` is the number of them that fit on a node."""
    seen = Claims(capacity)
    async with AsyncExitStack() as watches:
        for resource, take in ((PODS, seen.take_pod), (RESERVATIONS, seen.take_reservation)):
            await watches.enter_async_context(following(client, resource.collection(namespace), take))
        yield seen


@dataclass(frozen=True)
class Claimant:
    """A request for one core of any of these nodes, in one of the ways.

    Attributes:
        name: name of the pod or Reservation.
        way: way of the claim.
        scheduler: schedulerName of its pod, if it is a pod.
        selector: labels of the nodes.
        node: node that a binding by hand names.

    """

    name: str
    way: ClaimMethod
    scheduler: str
    selector: dict[str, str]
    node: str

    async def prepare(self, client: KubeClient, namespace: str) -> None:
        """Create the pod for a later binding by hand."""
        if self.way is ClaimMethod.BINDING:
            await client.create(PODS.collection(namespace), self.pod)

    async def claim(self, client: KubeClient, namespace: str, seen: Claims) -> None:
        """Claim capacity. Raises ApiError if the request fails."""
        seen.begun[self.name] = time.perf_counter()
        if self.way is ClaimMethod.RESERVATION:
            await client.create(RESERVATIONS.collection(namespace), self._reservation())
        elif self.way is not ClaimMethod.BINDING:
            await client.create(PODS.collection(namespace), self.pod)
        else:
            target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name}, "target": target}
            try:
                await client.create(PODS.item(self.name, namespace, "binding"), body)
            except ApiError as error:
                seen.refused(self.name, time.perf_counter())
                seen.unreviewed += not isinstance(error, Forbidden)

    @property
    def pod(self) -> dict[str, Any]:
        """The pod of this claim, or of its binding by hand."""
        container = {"name": "main", "image": "example.org/none", "resources": {"requests": {"cpu": "1"}}}
        spec = {"nodeSelector": self.selector, "containers": [container], "terminationGracePeriodSeconds": 0}
        return pod_object(self.name, self.scheduler, {"spec": spec})

    def _reservation(self) -> dict[str, Any]:
        spec = {
            "nodeSelector": self.selector,
            "resources": {"cpu": "1"},
            "owners": [{"pod": {"name": f"owner-of-{self.name}"}}],
            "ttlSeconds": 86_400,
            "pendingDeadlineSeconds": 86_400,
        }
        kind = {"apiVersion": RESERVATIONS.api_version, "kind": RESERVATIONS.kind}
        return {**kind, "metadata": {"name": self.name}, "spec": spec}


async def attempt(claimant: Claimant, client: KubeClient, namespace: str, seen: Claims) -> None:
    """Send a claim, and note a failed request as a fault."""
    try:
        await claimant.claim(client, namespace, seen)
    except ApiError as error:
        seen.faults.append(f"{claimant.name} got no answer: {error}")
        seen.refused(claimant.name, time.perf_counter())
