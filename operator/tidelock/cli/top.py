"""`kubectl tidelock top`: nodes and reservations, live on a terminal."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, NoReturn

import typer

from tidelock.cli.failure import Failure
from tidelock.cli.options import Context, Everywhere, Kubeconfig, Namespace
from tidelock.cli.session import ClusterTarget, Session, ask, explained
from tidelock.cli.tables import span
from tidelock.cli.top_tables import TopState
from tidelock.cli.watch import ChangeSignal, followed
from tidelock.clock import Clock, SystemClock
from tidelock.kube.client import NODES, PODS, RESERVATIONS, WATERLEVELS
from tidelock.kube.errors import ApiError, Gone, NotFound, Unreachable
from tidelock.kube.skew import skew_of
from tidelock.kube.watch import Reflector
from tidelock.ledger.capacity.spans import Span
from tidelock.model.meta import Key
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.quantities import NOTHING, Resources, minus, plus
from tidelock.model.reservation import decode_reservation
from tidelock.model.water_level import decode_water_level
from tidelock.running import background

EXAMPLES = """\
kubectl tidelock top
kubectl tidelock top -A
"""

_CHECK_SECONDS = 5.0  # seconds between two checks of the API server, and for an answer
_BOUND = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


def command(
    namespace: Namespace = "",
    everywhere: Everywhere = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    """Show nodes and reservations live: used, reserved and free capacity, measured use, remaining time."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure(
            "top needs a terminal; elsewhere use kubectl tidelock status, which keeps running with -w"
        )
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
    status = ask(target, lambda session: _top(session, everywhere=everywhere))
    raise typer.Exit(status)


async def _top(session: Session, *, everywhere: bool) -> int:
    from tidelock.cli.top_app import NamespaceView, Top  # noqa: PLC0415 -- textual is slow to import

    needed = (NODES, PODS, RESERVATIONS)  # an error is printed before the screen hides it
    await asyncio.gather(*(session.client.get(each.collection(), {"limit": "1"}) for each in needed))
    async with following(session, SystemClock()) as cluster:
        screen = Top(cluster, NamespaceView(session.home, everywhere))
        await screen.run_async()
    return screen.return_code or 0


class Requested:
    """A handler of bound pods that sums up their requests by node, and notes those that end in time."""

    def __init__(self, changes: ChangeSignal) -> None:
        self.by_node: dict[str, Resources] = {}
        self.leaving: dict[str, dict[str, Span]] = {}
        self._changes = changes

    def upsert(self, old: Pod | None, new: Pod) -> None:
        """Add a pod, or replace its requests."""
        if old is not None:
            self._take(old)
        name, leaves = new.node_name, new.gone_by(0.0)
        self.by_node[name] = plus(self.by_node.get(name, NOTHING), new.requests)
        if leaves < inf:
            self.leaving.setdefault(name, {})[new.uid] = Span(-inf, leaves, new.requests)
        self._changes.upsert(old, new)

    def remove(self, last: Pod) -> None:
        """Remove a pod's requests."""
        self._take(last)
        self._changes.remove(last)

    def synced(self) -> None:
        """Report that a list is complete."""
        self._changes.synced()

    def _take(self, pod: Pod) -> None:
        self.by_node[pod.node_name] = minus(self.by_node[pod.node_name], pod.requests)
        self.leaving.get(pod.node_name, {}).pop(pod.uid, None)


class TopCluster:
    """The live state of the screen, and the state of the connection.

    Args:
        session: access to the API server.
        clock: this machine's clock.
        changes: receives the events of all copies.
        needed: copies without which nothing is shown: of nodes, pods and Reservations.
        world: the content of the copies.

    """

    def __init__(
        self,
        session: Session,
        clock: Clock,
        changes: ChangeSignal,
        needed: Sequence[Reflector[Any]],
        world: TopState,
    ) -> None:
        self._session = session
        self._client = session.client
        self._clock = clock
        self._changes = changes
        self._needed = needed
        self._world = world
        self._skew = 0.0
        self._silence: ApiError | None = None
        self._whole = clock.monotonic()  # when the copies were last as new as the API server

    @property
    def world(self) -> TopState | None:
        """The known state, or None before all of it has been read once."""
        return self._world if all(each.synced.is_set() for each in self._needed) else None

    def changed(self) -> bool:
        """Return whether anything has changed since the last call."""
        changed = self._changes.changed.is_set()
        self._changes.changed.clear()
        return changed

    @property
    def trouble(self) -> str:
        """Why the state is out of date, and how old it is, or empty if it is current."""
        error = self._lost()
        if error is None:
            return ""
        age = span(self._clock.monotonic() - self._whole)
        shown = "Nothing has been read yet" if self.world is None else f"This is the cluster of {age} ago"
        return f"{shown}; trying again: {explained(error, self._client.server)}."

    def now(self) -> float:
        """Return the seconds since the epoch by the API server's clock, which is closer to the operator's."""
        return self._clock.now() + self._skew

    async def explain(self, reservation: Key, width: int) -> str:
        """Return the verdict of each node about a reservation, for a terminal of `width` cells."""
        # Explanations need the scheduler, which is slow to import.
        from tidelock.cli.cluster_state import look  # noqa: PLC0415
        from tidelock.cli.why import explained_reservation  # noqa: PLC0415

        try:
            state = await look(self._session)
            return await asyncio.to_thread(explained_reservation, state, reservation, self.now(), width)
        except ApiError as error:
            return explained(error, self._client.server)
        except Failure as failure:
            return str(failure)

    async def watch_connection(self) -> NoReturn:
        """Check regularly whether the API server answers, as a watch without events would notice late."""
        while True:
            sent = self._clock.now()
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    theirs = await self._client.time_of_day()
            except (ApiError, TimeoutError) as error:
                said = f"nothing within {_CHECK_SECONDS:.0f} s"
                self._silence = error if isinstance(error, ApiError) else Unreachable(said)
            else:
                self._silence = None
                self._skew = skew_of(theirs, sent, self._clock.now())
                if self._lost() is None:
                    self._whole = self._clock.monotonic()
            await asyncio.sleep(_CHECK_SECONDS)

    def _lost(self) -> ApiError | None:
        errors = (self._silence, *(each.lost for each in self._needed))
        # An expired version is an ordinary event: the copy is listed again at once.
        return next((each for each in errors if each is not None and not isinstance(each, Gone)), None)


@asynccontextmanager
async def following(session: Session, clock: Clock) -> AsyncIterator[TopCluster]:
    """Follow nodes, bound pods, Reservations and WaterLevels of the cluster while the context lasts."""
    changes = ChangeSignal()
    requested = Requested(changes)
    async with (
        followed(session, NODES, decode_node, changes) as nodes,
        followed(session, PODS, decode_pod, requested, field_selector=_BOUND) as pods,
        followed(session, RESERVATIONS, decode_reservation, changes) as reservations,
        followed(session, WATERLEVELS, decode_water_level, changes, absent_if=(NotFound,)) as levels,
    ):
        world = TopState(nodes.store, requested.by_node, reservations.store, levels.store, requested.leaving)
        cluster = TopCluster(session, clock, changes, (nodes, pods, reservations), world)
        async with background(cluster.watch_connection()):
            yield cluster
