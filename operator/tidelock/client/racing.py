"""Capacity in one of several clusters: prepared in all, committed in one, released in the others."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from tidelock.client.cluster import Cluster
from tidelock.client.earlier import look_up
from tidelock.client.errors import AllRefused, ClientError, Conflict, Taken, Unavailable
from tidelock.client.holding import Held, watched
from tidelock.client.remote import RemoteReservation, completed, finish, release_all
from tidelock.model.api.reservation import ReservationSpec
from tidelock.model.api.two_phase import Commit

_COMMIT_SECONDS = 30  # for the commits, after the window

Order = Callable[[Held], Any]
"""Returns a sort key for a prepared reservation. The smallest is committed first."""


class RacingReservation:
    """A reservation in a race.

    Attributes:
        held: the reservation.
        failure: the reason for which it is out of the race, or None.

    """

    def __init__(self, remote: RemoteReservation, changed: asyncio.Event) -> None:
        self.remote = remote
        self.held = Held(remote)
        self.failure: ClientError | None = None
        self._known_token = remote.state.token
        self._own = remote.state.committed
        self._changed = changed
        self._task = asyncio.create_task(self._prepare())

    @property
    def answered(self) -> bool:
        """Whether the cluster has answered, with or without capacity, or has failed."""
        return self.failure is not None or self.remote.state.answered

    @property
    def ready(self) -> bool:
        """Whether the reservation is prepared."""
        return self.failure is None and self.remote.state.decided and self.remote.state.holds

    @property
    def committed_elsewhere(self) -> bool:
        """Whether another run has committed it, or asked for its commit, since the race began."""
        state = self.remote.state
        return not self._own and (state.committed or state.token not in ("", self._known_token))

    async def commit(self, others: Sequence["RacingReservation"]) -> None:
        """Commit the reservation. If that does not count, it is out of the race.

        The others are read after the token is stored. Of two runs at the same time that commit in two
        clusters, at least one therefore sees the token of the other.
        """
        await self.rest()
        self._own = True
        try:
            if self.failure is None:
                await self.remote.ask_for_commit()
                await asyncio.gather(self.remote.confirmed(), *(each.look() for each in others))
        except ClientError as error:
            self.failure = error

    async def look(self) -> None:
        """Read the newest version, if the cluster has stored one and answers."""
        if self.remote.state.uid and not isinstance(self.failure, Unavailable):
            with suppress(ClientError):
                await self.remote.look()

    async def rest(self) -> None:
        """Stop following the reservation. A creation that is under way is awaited."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def drop(self) -> None:
        """Release the reservation."""
        await self.rest()
        await release_all([self.remote])

    async def _prepare(self) -> None:
        try:
            await finish(self.remote.create())
            self._changed.set()
            await self.remote.granted()
            self._changed.set()
            while self.ready:
                await self.remote.advance()
            # Prepared capacity was lost: its next hold is another one.
            self.failure = self.remote.state.error()
        except ClientError as error:
            self.failure = error
        finally:
            self._changed.set()


@asynccontextmanager
async def race(
    clusters: Sequence[Cluster],
    spec: ReservationSpec | Mapping[str, Any],
    *,
    name: str,
    namespace: str = "",
    key: Order | None = None,
    window: float = 5.0,
    interrupt: bool = True,
) -> AsyncIterator[Held]:
    """Reserve capacity in one of several clusters, and hold it while the block runs.

    The reservation is prepared in all clusters at once. When each has answered, or failed, or the window is
    over, the best prepared one is committed. If its commit does not count, the next one is committed. All
    others are released, also after an exception or a cancellation. A reservation in a cluster that can't be
    reached releases itself after `commit.withinSeconds`.

    A race is idempotent like `hold`. First it asks all clusters for the reservation and for the pods that its
    owners name. It continues with the reservations of an earlier run, or with the committed one alone. The
    winner is released at the end of the block, as by `hold`.

    Args:
        clusters: open clusters with different names, the best first. All that an earlier run used are needed.
        spec: the spec of the reservations, or its JSON. Default for `commit`: 30 s beyond the window.
        name: name of the reservation, which is the same in all clusters.
        namespace: its namespace. Default: that of each cluster.
        key: sort key of a prepared reservation. The smallest wins. Default: the order of the clusters.
        window: seconds within which each cluster can answer.
        interrupt: as for `hold`.

    Raises:
        Taken: an earlier run has sent the pod to one of the clusters.
        Unknown: a cluster can't be asked for what an earlier run has left. Nothing is created anywhere.
        AlreadyExists: another reservation has this name in one of the clusters.
        Conflict: another run at the same time has committed in another cluster. Race again, to find it.
        AllRefused: no cluster has granted and committed it, with the failure of each.
        Invalid: the spec is wrong.
        Lost: as for `hold`.

    """
    _check_names(clusters)
    full = _in_two_phases(spec, window)
    async with AsyncExitStack() as stack:
        changed = asyncio.Event()
        remotes = [stack.enter_context(RemoteReservation(each, name, namespace, full)) for each in clusters]
        await look_up(remotes)
        committed = [each for each in remotes if each.state.committed]
        racing = [RacingReservation(remote, changed) for remote in committed or remotes]
        idle = [each for each in remotes if committed and each not in committed]
        dropped = [asyncio.create_task(release_all(idle))]
        winner: RacingReservation | None = None
        try:
            winner = await _decide(racing, changed, key, window)
            dropped += [asyncio.create_task(each.drop()) for each in racing if each is not winner]
            async with watched(winner.held, winner.remote, interrupt=interrupt):
                yield winner.held
        finally:
            left = racing if winner is None else [winner]
            dropped += [asyncio.create_task(each.rest() if each.held.kept else each.drop()) for each in left]
            await finish(_all(dropped))


def _check_names(clusters: Sequence[Cluster]) -> None:
    """Raise ClientError if two clusters have the same name."""
    names = [each.name for each in clusters]
    if len(set(names)) < len(names):
        raise ClientError(f"two clusters have the same name: {names}")


def _in_two_phases(spec: ReservationSpec | Mapping[str, Any], window: float) -> ReservationSpec:
    """Return the whole spec, with a time for the commit if it has none."""
    full = completed(spec)
    if full.commit is not None:
        return full
    commit = Commit(within_seconds=math.ceil(window) + _COMMIT_SECONDS)
    return full.model_copy(update={"commit": commit})


def choose(racing: Sequence[RacingReservation], key: Order | None, *, late: bool) -> RacingReservation | None:
    """Return the reservation to commit now, or None as long as others can still answer in time."""
    ready = [each for each in racing if each.ready]
    if not ready or not (late or all(each.answered for each in racing)):
        return None
    if chosen := [each for each in ready if each.remote.state.token]:
        return chosen[0]  # the choice of an earlier run of the manager
    return min(ready, key=lambda each: key(each.held)) if key is not None else ready[0]


async def _decide(
    racing: Sequence[RacingReservation], changed: asyncio.Event, key: Order | None, window: float
) -> RacingReservation:
    """Commit the best reservation, then the next one until a commit counts, or raise an error of `race`."""
    end = time.monotonic() + window
    best: RacingReservation | None = None
    while True:
        for each in racing:
            if isinstance(each.failure, Taken):
                raise each.failure
            if each.committed_elsewhere and best is not None:
                each.held.keep()
                raise Conflict("another run has committed it meanwhile", cluster=each.remote.cluster.name)
        if best is not None and best.failure is None:
            return best
        left = end - time.monotonic()
        if (best := choose(racing, key, late=left <= 0)) is not None:
            await best.commit([each for each in racing if each is not best])
            continue
        failures = {each.remote.cluster.name: each.failure for each in racing if each.failure}
        if len(failures) == len(racing):
            raise AllRefused(failures)
        changed.clear()
        try:
            async with asyncio.timeout(left if left > 0 else None):
                await changed.wait()
        except TimeoutError:
            continue


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
