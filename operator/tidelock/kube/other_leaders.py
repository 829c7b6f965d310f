"""The search for other operators of a cluster: processes that renew a Lease of the same name elsewhere.

Operators with one Lease take turns. Two with Leases in different namespaces both lead, and can give one piece
of capacity twice. The fence reads one Lease only (manifests/base/fence.yaml).
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from tidelock.kube.client import KubeClient
from tidelock.kube.errors import ApiError, MalformedResponse
from tidelock.kube.lease import LEASES, LeaseObject, LeaseTimes, decode_lease
from tidelock.kube.listing import pages
from tidelock.model.meta import Key
from tidelock.model.printable import printable

logger = logging.getLogger(__name__)

# Tenants can write Leases of that name, of any size. So many Leases are read at a time, so many are named in
# the log, with so many characters of the holder.
_PAGE_LIMIT = 10
_MOST_NAMED = 3
_LONGEST_NAME = 100


class _Seen(NamedTuple):
    """A Lease as it was last seen, with the time of the last change that was seen, or minus infinity."""

    version: str
    changed_at: float


class OtherLeaders:
    """The Leases of one name, except the own one, that were seen to be renewed within their duration.

    As in an election, only changes count, by the clock of this process. So the first look finds no leader.
    """

    def __init__(self, client: KubeClient, own: Key, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the own Lease. Without an election its namespace is empty, and all others are of others."""
        self._client, self._own, self._clock = client, own, clock
        self._seen: dict[Key, _Seen] = {}

    async def look(self) -> dict[Key, str]:
        """List the Leases, and return the holder of each that another leader renews. Raises an ApiError."""
        before, self._seen = self._seen, {}
        leaders: dict[Key, str] = {}
        chosen = {"fieldSelector": f"metadata.name={self._own.name}"}
        async for page in pages(self._client, LEASES, chosen=chosen, limit=_PAGE_LIMIT):
            for raw in page:
                try:
                    lease = decode_lease(raw)
                except MalformedResponse:
                    continue  # no process can renew it
                if lease.meta.key != self._own and self._is_renewed(lease, before.get(lease.meta.key)):
                    leaders[lease.meta.key] = printable(lease.spec.holder_identity or "")[:_LONGEST_NAME]
        return leaders

    def _is_renewed(self, lease: LeaseObject, before: _Seen | None) -> bool:
        """Note a Lease, and return whether it has a holder that renewed it not long ago."""
        now, version = self._clock(), lease.meta.resource_version
        changed_at = -math.inf if before is None else before.changed_at
        if before is not None and before.version != version:
            changed_at = now
        self._seen[lease.meta.key] = _Seen(version, changed_at)
        duration = lease.spec.lease_duration_seconds or LeaseTimes().duration
        return bool(lease.spec.holder_identity) and now - changed_at < duration


async def watch_other_leaders(
    others: OtherLeaders, observe: Callable[[float], None], period: float
) -> NoReturn:
    """Look for other leaders in each period: `observe` gets their number, or NaN while it is not known."""
    known: dict[Key, str] | None = {}
    while True:
        try:
            found = await others.look()
        except ApiError as error:
            observe(math.nan)
            if known is not None:
                logger.warning("other operators are not looked for", extra={"error": str(error)})
            known = None
        else:
            observe(len(found))
            _report(known or {}, found)
            known = found
        await asyncio.sleep(period)


def _report(before: dict[Key, str], found: dict[Key, str]) -> None:
    """Log the other leaders that are new, and the end of the last one."""
    if new := [f"{holder} by Lease {key}" for key, holder in found.items() if key not in before]:
        named = ", ".join(new[:_MOST_NAMED]) + (", ..." if len(new) > _MOST_NAMED else "")
        logger.error(
            "another operator leads too, so capacity can be given twice",
            extra={
                "leaders": named,
                "advice": "stop one of them, or let both use one Lease (--lease-namespace)",
            },
        )
    elif before and not found:
        logger.info("no other operator leads any more")
