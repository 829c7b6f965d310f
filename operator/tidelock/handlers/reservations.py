"""Kopf's part in the life of a lock, a group or a schedule: whatever happens, it is made what it ought to be.

The ledger learns of Reservations from a watch of its own, as a lock must not wait for Kopf's queues. Kopf
sees every object again, a moment later and independently: what a crash, a lost write or an edit of the
status has left wrong is put right here, by level. A plain event handler leaves no finalizer behind.
"""

from typing import Any, Protocol

import kopf

from tidelock.kube.client import Resource
from tidelock.model.meta import Key


class Keeper(Protocol):
    """Who knows what the objects of a resource ought to be."""

    def lags(self, key: Key) -> bool:
        """Tell whether one is not as it ought to be, and nobody sees to it."""

    def reconcile(self, key: Key) -> None:
        """Make it what it ought to be, in the background."""


def register(registry: kopf.OperatorRegistry, resource: Resource, keeper: Keeper) -> None:
    """Add the handlers of a resource to the registry."""

    # Asked first, as it costs a fraction of a handler's run and nearly every event finds nothing to do.
    def lags(namespace: str | None, name: str | None, **_: Any) -> bool:
        return keeper.lags(_key(namespace, name))

    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry, when=lags)
    async def reconcile(namespace: str | None, name: str | None, **_: Any) -> None:
        keeper.reconcile(_key(namespace, name))


def _key(namespace: str | None, name: str | None) -> Key:
    return Key(namespace or "", name or "")
