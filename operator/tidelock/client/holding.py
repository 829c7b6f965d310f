"""Holding a reservation while a block of code runs."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from tidelock.client.cluster import Cluster
from tidelock.client.errors import ClientError, Lost, Refused
from tidelock.client.remote import RemoteReservation, completed, finish, release_all
from tidelock.model import reasons
from tidelock.model.api.reservation import ReservationSpec, ReservationStatus

_RENEWALS = 3  # in the time for which one renewal lasts
_SOON = 1.0  # seconds until the next try of a renewal that has failed


class Held:
    """A reservation that holds its capacity.

    Attributes:
        lost: set when the capacity is lost. `loss` then has the reason.
        taken: set when the owner is bound, or another pod that the reservation is for.
        loss: the reason of the loss, or None.

    """

    def __init__(self, remote: RemoteReservation) -> None:
        self._remote = remote
        self._kept = False
        self.lost = asyncio.Event()
        self.taken = asyncio.Event()
        self.loss: Lost | None = None

    def __repr__(self) -> str:
        return f"Held({self.namespace}/{self.name} on {self.node} in {self.cluster.name})"

    @property
    def cluster(self) -> Cluster:
        """The cluster of the reservation."""
        return self._remote.cluster

    @property
    def name(self) -> str:
        """Name of the reservation."""
        return self._remote.name

    @property
    def namespace(self) -> str:
        """Namespace of the reservation."""
        return self._remote.namespace

    @property
    def uid(self) -> str:
        """Uid of the reservation."""
        return self._remote.state.uid

    @property
    def status(self) -> ReservationStatus:
        """The newest status."""
        return self._remote.state.status

    @property
    def node(self) -> str:
        """Name of the node with the capacity. It can change when the node is cordoned for long."""
        return self.status.node_name or ""

    @property
    def resources(self) -> dict[str, str]:
        """The reserved amounts, by resource."""
        return dict(self.status.resources or {})

    @property
    def expires_at(self) -> datetime | None:
        """Time at which the reservation ends at the latest, by the operator's clock."""
        return self.status.expires_at

    @property
    def token(self) -> str:
        """Token of the hold of a reservation in two phases, or empty."""
        return (self.status.commit and self.status.commit.token) or ""

    @property
    def adopted(self) -> bool:
        """Whether an earlier run of the manager has created the reservation."""
        return self._remote.adopted

    @property
    def kept(self) -> bool:
        """Whether the reservation stays when the block ends."""
        return self._kept

    def keep(self) -> None:
        """Leave the reservation when the block ends. It is taken by its owner, or ends by its limits."""
        self._kept = True

    async def commit(self) -> None:
        """Commit a reservation in two phases. Raises Refused if the commit does not count."""
        await self._remote.commit()


@asynccontextmanager
async def hold(
    cluster: Cluster,
    spec: ReservationSpec | Mapping[str, Any],
    *,
    name: str,
    namespace: str = "",
    interrupt: bool = True,
) -> AsyncIterator[Held]:
    """Reserve capacity, and hold it while the block runs.

    If the response to the creation has the answer, nothing else is awaited. Otherwise a watch brings it. The
    reservation is released at the end of the block, also after an exception or a cancellation, unless it was
    taken by its owner or `Held.keep` was called. A lease of the spec is renewed as long as the block runs.

    `hold` is idempotent. If a reservation of the name exists and asks for the same, the block holds that one.
    So a manager that has crashed calls it again. The spec must be the same then, so prefer `ttlSeconds` to
    an `expireAt` that is computed from the time of day.

    Args:
        cluster: an open cluster.
        spec: the spec of the reservation, or its JSON.
        name: name of the reservation.
        namespace: its namespace. Default: that of the cluster.
        interrupt: whether a loss cancels the block and raises Lost. Otherwise only `Held.lost` is set.

    Raises:
        NoCapacity, Refused: the reservation was not granted, with the reason and the numbers.
        Taken: its pod has taken the reservation of an earlier run.
        TimedOut: there is no answer.
        AlreadyExists: another reservation has this name.
        Lost: the capacity was lost while the block ran.
        ClientError: the API server could not be reached, or refused a request.

    """
    with RemoteReservation(cluster, name, namespace, completed(spec)) as remote:
        held = Held(remote)
        try:
            await finish(remote.create())
            await remote.granted()
            async with watched(held, remote, interrupt=interrupt):
                yield held
        finally:
            if not held.kept:
                await finish(release_all([remote]))


@asynccontextmanager
async def watched(held: Held, remote: RemoteReservation, *, interrupt: bool) -> AsyncIterator[None]:
    """Renew the lease and wait for a loss while the block runs, and raise Lost as `hold` does."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 -- there is one in any coroutine
    before = task.cancelling()
    interrupted = False

    def lose(loss: Lost) -> None:
        nonlocal interrupted
        if not held.lost.is_set():
            held.loss = loss
            held.lost.set()
            if interrupt:
                interrupted = True
                task.cancel()

    guards = [asyncio.create_task(_follow(held, remote, lose))]
    if remote.spec.lease is not None:
        guards.append(asyncio.create_task(_renew(remote, held, lose)))
    try:
        try:
            yield
            if interrupted:
                await asyncio.sleep(0)  # the block can end before its cancellation reaches it
                raise asyncio.CancelledError  # noqa: TRY301 -- the block has suppressed its own
        except asyncio.CancelledError:
            if interrupted and task.uncancel() <= before and held.loss is not None:
                raise held.loss from None
            raise
    finally:
        for guard in guards:
            guard.cancel()
        await finish(_ended(guards))


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(held: Held, remote: RemoteReservation, lose: Callable[[Lost], None]) -> None:
    """Take over each version of a reservation until its capacity is taken or lost."""
    state = remote.state
    while not state.over and state.holds:
        await remote.advance()
    if state.taken:
        held.taken.set()
    else:
        error = state.error()
        lose(Lost(error.message, cluster=error.cluster, reason=error.reason))


async def _renew(remote: RemoteReservation, held: Held, lose: Callable[[Lost], None]) -> None:
    """Renew a lease until it is lost. It lasts at least as long as the holder counts from its own request."""
    lease = remote.spec.lease
    assert lease is not None  # noqa: S101 -- by the caller
    pause = lease.duration_seconds / _RENEWALS
    renewed = remote.created_at
    wait = 0.0 if remote.adopted else pause
    while not held.taken.is_set() and not remote.state.over:
        await asyncio.sleep(wait)
        asked = time.monotonic()
        try:
            await remote.renew()
            renewed, wait = asked, pause
        except Refused:
            return  # it has ended, which the watch reports with the reason
        except ClientError as error:
            if time.monotonic() >= renewed + lease.duration_seconds + lease.grace_seconds:
                text = f"spec.lease was not renewed in time: {error}"
                lose(Lost(text, cluster=remote.cluster.name, reason=reasons.LEASE_EXPIRED))
                return
            wait = min(_SOON, pause)
