"""The cost of reservations: for each pod that arrives, a reservation of its node some seconds before.

A reservation for a pod that is bound to a node at an instant t could have been made at t - L, for a lead time
L. It would have held the pod's requests idle for L seconds. Whether it would have been given follows from the
free amounts of the node since then, which are remembered for the longest lead time.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from tidelock.cluster.cache import Cache
from tidelock.cluster.placed import Placed
from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS, Resources
from tidelock.shadow.results import HoldResults

# Remembered changes of a node. With more in the longest lead time, the oldest are forgotten, and pods that
# need them are left out.
_MOST_CHANGES = 4096


@dataclass(slots=True)
class _Lead:
    """The sums for one lead time. `capacity` is in units times seconds, as is `held`."""

    seconds: float
    pods: int = 0
    uncovered: int = 0
    given: int = 0
    clear: int = 0
    refused_on_node: int = 0
    refused_everywhere: int = 0
    held: dict[str, float] = field(default_factory=dict)
    capacity: dict[str, float] = field(default_factory=dict)


class FreeHistory:
    """The free amounts of each node over a span of time: allocatable less the requests of its pods."""

    def __init__(self, span: float) -> None:
        """Remember at least the last `span` seconds, as long as a node does not change too often."""
        self._span = span
        self._changes: dict[str, deque[tuple[float, Resources]]] = {}
        self._since = 0.0

    def begin(self, now: float) -> None:
        """Forget everything, as the history has a gap."""
        self._changes.clear()
        self._since = now

    def note(self, node_name: str, free: Resources, now: float) -> None:
        """Note the free amounts of a node from now on. Nothing is free on a node that is gone."""
        changes = self._changes.get(node_name)
        if changes is None:
            changes = self._changes[node_name] = deque(maxlen=_MOST_CHANGES)
            if now > self._since:  # before that it did not exist
                changes.append((self._since, {}))
        if changes and changes[-1][0] == now:
            changes.pop()
        if not changes or changes[-1][1] != free:
            changes.append((now, free))
        while len(changes) > 1 and changes[1][0] <= now - self._span:
            changes.popleft()

    def prune(self, now: float) -> None:
        """Forget nodes that have been gone for the whole span."""
        for name, changes in tuple(self._changes.items()):
            last, free = changes[-1]
            if not free and last < now - self._span:
                del self._changes[name]

    def covers(self, node_name: str, instant: float) -> bool:
        """Return whether the free amounts of a node are known from an instant on."""
        changes = self._changes.get(node_name)
        return changes is not None and self._since <= instant and changes[0][0] <= instant

    def room(self, node_name: str, wanted: Resources, instant: float) -> tuple[bool, bool]:
        """Return whether amounts were free on a node at an instant, and at all times since then."""
        changes = self._changes[node_name]
        first = max(bisect_right(changes, instant, key=lambda change: change[0]) - 1, 0)
        then = _fits(wanted, changes[first][1])
        return then, then and all(_fits(wanted, free) for _, free in islice(changes, first + 1, None))

    def anywhere(self, wanted: Resources, instant: float) -> bool:
        """Return whether amounts were free on any node at an instant."""
        return any(
            self.room(name, wanted, instant)[0] for name in self._changes if self.covers(name, instant)
        )


def _fits(wanted: Resources, free: Resources) -> bool:
    return all(free.get(name, 0) >= units for name, units in wanted.items() if units > 0)


class Holds:
    """Adds up for each lead time how much reservations would have held, and how often they were refused."""

    def __init__(self, cache: Cache, leads: Sequence[float]) -> None:
        """Take lead times in seconds."""
        self._cache = cache
        self._leads = [_Lead(seconds) for seconds in sorted(leads)]
        self._history = FreeHistory(max(leads))
        self._since = 0.0
        self._now = 0.0
        cache.on_move(self._moved)

    def begin(self, now: float) -> None:
        """Begin, or begin again after a gap, with the nodes as they are."""
        self._since = self._now = now
        self._history.begin(now)
        for node in self._cache.columns.nodes:
            self.changed(node.name, now)

    def at(self, now: float) -> None:
        """Set the time of the pods that come and leave from now on."""
        self._now = now

    def changed(self, node_name: str, now: float) -> None:
        """Note that a node has come, changed or gone."""
        self._history.note(node_name, self._free(node_name), now)

    def arrived(self, pod: Pod, node_name: str, now: float) -> None:
        """Count a pod that is bound to a node, before the cache counts it."""
        for lead in self._leads:
            instant = now - lead.seconds
            if not self._history.covers(node_name, instant):
                lead.uncovered += 1
                continue
            lead.pods += 1
            given, clear = self._history.room(node_name, pod.requests, instant)
            if not given:
                lead.refused_on_node += 1
                lead.refused_everywhere += not self._history.anywhere(pod.requests, instant)
                continue
            lead.given += 1
            lead.clear += clear
            for name, units in pod.requests.items():
                if name != PODS:
                    lead.held[name] = lead.held.get(name, 0.0) + units * lead.seconds

    def look(self, now: float, seconds: float) -> None:
        """Add the seconds since the last look to the capacity, for the lead times that are covered by now."""
        self._history.prune(now)
        columns = self._cache.columns
        total = columns.named(columns.allocatable[: len(columns)].sum(axis=0))
        for lead in self._leads:
            lasted = min(seconds, now - self._since - lead.seconds)
            if lasted > 0:
                for name, units in total.items():
                    lead.capacity[name] = lead.capacity.get(name, 0.0) + units * lasted

    def results(self) -> list[HoldResults]:
        """Return the sums so far."""
        return [
            HoldResults(
                lead_seconds=lead.seconds,
                pods=lead.pods,
                uncovered=lead.uncovered,
                given=lead.given,
                given_beside_all=lead.clear,
                refused_on_node=lead.refused_on_node,
                refused_everywhere=lead.refused_everywhere,
                idle_share={
                    name: lead.held.get(name, 0.0) / capacity
                    for name, capacity in sorted(lead.capacity.items())
                    if capacity and name in lead.held
                },
            )
            for lead in self._leads
        ]

    def _moved(self, placed: Placed, sign: int) -> None:
        del sign
        if self._since:
            self.changed(placed.node_name, self._now)

    def _free(self, node_name: str) -> Resources:
        columns = self._cache.columns
        row = columns.row_of.get(node_name)
        if row is None:
            return {}
        free = columns.allocatable[row] - columns.requested[row]
        return {name: int(free[column]) for name, column in columns.column_of.items()}
