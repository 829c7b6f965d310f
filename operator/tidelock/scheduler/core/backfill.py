"""Keeps capacity for a reservation that has waited for long, so a stream of smaller ones does not starve it.

This is EASY backfilling (Lifka, 1995) with one backfill reservation, here called an earmark. The first
reservation of the queue that has waited for a while gets the capacity of one node that comes free. Others of
at most its priority are placed on other nodes, and on that node only if they will be gone in time.

The time is known where reservations and pods have known ends. Otherwise the node with the smallest shortfall
is chosen. If no capacity of it has come free for long, another node has its turn.
"""

from collections.abc import Iterable
from math import inf

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.framework.api import Mask
from tidelock.framework.extension_point_timer import PluginError
from tidelock.framework.profile import Profile
from tidelock.ledger.capacity.forecast import Forecast, Shortages
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle import deadlines
from tidelock.ledger.queue.positions import waits_for_capacity
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.pods import Pod
from tidelock.scheduler.core.reservation_cycle import ReservationCycle

# Seconds between two looks, which take 1 ms on 5,000 nodes and 6 ms with 10,000 waiting reservations; between
# two kinds of reservations if one fits no node; and without freed capacity until another node has its turn.
BACKFILL_SECONDS = 5.0
_PAUSE = 0.5
PATIENCE = 300.0


class Backfill:
    """Keeps the one earmark.

    Args:
        after: seconds after which capacity is kept for a waiting reservation.

    """

    def __init__(
        self, ledger: Ledger, cache: Cache, cycle: ReservationCycle, profile: Profile, after: float
    ) -> None:
        self._ledger = ledger
        self._cache = cache
        self._cycle = cycle
        self._profile = profile
        self._after = after
        self._steady = ledger.waiting_reservations.steady
        self._next = 0.0  # this and the following by steady time
        self._entry: ReservationInfo | None = None
        self._shortage = inf
        self._progress_at = 0.0
        self._left: set[str] = set()  # nodes on which capacity was kept in vain
        self._hopeless: set[ReservationInfo] = set()  # fit no node, as of the last turn of any

    def next_due(self) -> float | None:
        """Return when `step` has something to do, or None for never."""
        waits = self._ledger.waiting_reservations.waiting or self._entry is not None
        return self._steady.instant(self._next) if waits else None

    @property
    def idle(self) -> bool:
        """Whether no reservation waits, and there is no earmark."""
        return self._entry is None and not self._ledger.waiting_reservations.waiting

    def step(self, now: float) -> None:
        """Drop an earmark that is not needed any more, and look for a new one now and then."""
        if self.idle:
            return
        if self._entry is not None and not self._waits(self._entry):
            self._let_go()
        at = self._steady.at(now)
        if self._next <= at:
            self._next = at + BACKFILL_SECONDS
            self._look(now, at)

    def _look(self, now: float, at: float) -> None:
        entry = self._first(now, at)
        if entry is None:
            self._let_go()
            self._hopeless.clear()
            waited = (
                self._waited(entry, now, at) for entry in self._ledger.waiting_reservations.waiting.values()
            )
            self._next = max(self._next, at + self._after - max(waited, default=0.0))
            return
        fits, pod = self._fits(entry, now), entry.reservation.pod
        if pod is None or not fits.any():
            if entry.earmark:
                self._let_go()
            self._hopeless.update(self._ledger.waiting_reservations.alike(entry))
            self._next = at + _PAUSE
            return
        self._let_go(but=entry)
        if entry is not self._entry:
            self._entry, self._shortage, self._progress_at = entry, inf, at
        forecast = self._ledger.forecast(now)
        shortages = forecast.shortages(pod.requests)
        node_name = self._node_for(entry, pod, fits, forecast, shortages, now, at)
        shortage = shortages[self._cache.columns.row_of[node_name]]
        if node_name != entry.earmark or shortage < self._shortage:
            self._shortage, self._progress_at = shortage, at
        start = forecast.earliest(pod.requests, node_name)
        until = -inf if start is None or start.at <= now else start.at
        self._ledger.nominations.set_earmark(entry, node_name, until, now)

    def _waited(self, entry: ReservationInfo, now: float, at: float) -> float:
        """Return for how long a reservation has waited, by its status or as this process saw it."""
        since = self._ledger.waiting_reservations.since.get(entry.key, at)
        return max(now - entry.pending_since, at - since)

    def _first(self, now: float, at: float) -> ReservationInfo | None:
        """Return the first of the queue that has waited for long. An earmark yields to priority only."""
        waiting = self._ledger.waiting_reservations.waiting.values()
        has = self._entry or next((entry for entry in waiting if entry.earmark and self._waits(entry)), None)
        least = -inf if has is None else has.priority
        waited = [
            entry
            for entry in waiting
            if entry.priority > least
            and self._waited(entry, now, at) >= self._after
            and self._waits(entry)
            and entry not in self._hopeless
        ]
        return self._ledger.shares.first(waited) or has

    def _waits(self, entry: ReservationInfo) -> bool:
        """Return whether a reservation waits for free capacity, and none is being freed for it."""
        waits = self._ledger.waiting_reservations.waiting.get(entry.key) is entry and entry.tried
        return waits and waits_for_capacity(entry) and not self._cache.nominator.node_of(entry.uid)

    def _fits(self, entry: ReservationInfo, now: float) -> Mask:
        """Return the nodes that suit a reservation, except those with evictions for others."""
        try:
            fits = self._cycle.fitting_if_empty(self._profile, entry, now)
        except PluginError:  # which is why it waits, too
            return np.zeros(0, np.bool_)
        return fits & ~self._called(self._cache.nominator.targets)

    def _node_for(
        self,
        entry: ReservationInfo,
        pod: Pod,
        fits: Mask,
        forecast: Forecast,
        shortages: Shortages,
        now: float,
        at: float,
    ) -> str:
        """Choose the node: the present one, the earliest known one, or that with the smallest shortfall."""
        columns, earmark = self._cache.columns, self._cache.nominator.earmark
        if entry.earmark:
            hopeful = at < self._progress_at + PATIENCE or (
                earmark is not None and now < earmark.at + PATIENCE
            )
            row = columns.row_of.get(entry.earmark)
            if row is not None and fits[row] and hopeful:
                return entry.earmark
            self._left.add(entry.earmark)
        candidates = fits & ~self._called(self._left)
        if not candidates.any():
            self._left.clear()
            candidates = fits
        start = forecast.earliest_among(pod.requests, candidates)
        if start is not None and start.at <= deadlines.given_up_at(entry):
            return start.node
        least = shortages[candidates].min()
        return forecast.first_of((candidates & (shortages == least)).nonzero()[0])

    def _let_go(self, but: ReservationInfo | None = None) -> None:
        """Keep capacity for one reservation, or for none. Statuses of earlier processes may name others."""
        if self._entry is not None and self._entry is not but:
            self._entry = None
            self._left.clear()
            self._hopeless.clear()
        for entry in self._ledger.waiting_reservations.waiting.values():
            if entry.earmark and entry is not but:
                self._ledger.nominations.end_earmark(entry)

    def _called(self, names: Iterable[str]) -> Mask:
        return self._cache.snapshot().called(names)
