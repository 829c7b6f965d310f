"""Kopf's part in the life of a Reservation: whatever happens to the object, it is made what it ought to be.

The ledger learns of Reservations from a watch of its own, as a lock must not wait for Kopf's queues. Kopf
sees every object again, a moment later and independently: what a crash, a lost write or an edit of the
status has left wrong is put right here, by level. A plain event handler leaves no finalizer behind.
"""

from typing import Any

import kopf

from tidelock.kube.client import RESERVATIONS
from tidelock.model.meta import Key
from tidelock.scheduler.publisher import Publisher


def register(registry: kopf.OperatorRegistry, publisher: Publisher) -> None:
    """Add the handlers to the registry."""

    # Asked first, as it costs a fraction of a handler's run and nearly every event finds nothing to do.
    def lags(namespace: str | None, name: str | None, **_: Any) -> bool:
        return publisher.lags(_key(namespace, name))

    @kopf.on.event(
        RESERVATIONS.group, RESERVATIONS.version, RESERVATIONS.plural, registry=registry, when=lags
    )
    async def reconcile(namespace: str | None, name: str | None, **_: Any) -> None:
        publisher.reconcile(_key(namespace, name))


def _key(namespace: str | None, name: str | None) -> Key:
    return Key(namespace or "", name or "")
