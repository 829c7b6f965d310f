"""Keeps room for a lock that has waited for long, so that a stream of smaller ones does not starve it.

This is EASY backfilling (Lifka, 1995) with one reservation, here called an earmark: the first lock in line
that has waited for a while has what comes free on one node kept for it. Others that are not above it are
given room around it, and on that node too if they are known to be gone by when there is to be enough.

When there will be enough is known where locks and pods are known to end. Where nothing is known, the node
that lacks least is chosen; if no more of it has come free for long, another one has its turn.
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

# Seconds between two looks, of which one takes 1 ms on 5,000 nodes and 6 ms if 10,000 locks wait; between two
# locks of which one fits no node; and after how many without more room another node has its turn.
BACKFILL_SECONDS = 5.0
_PAUSE = 0.5
PATIENCE = 300.0


class Backfill:
    """Keeps the earmark, of which there is one at most.

    Args:
        after: seconds for which a lock has to wait before room is kept for it.

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
        self._next = 0.0  # this and what follows in steady time
        self._entry: ReservationInfo | None = None
        self._shortage = inf
        self._progress_at = 0.0
        self._left: set[str] = set()  # nodes on which room was kept for it in vain
        self._hopeless: set[ReservationInfo] = set()  # fit no node, as of the last turn of any

    def next_due(self) -> float | None:
        """Instant at which `step` has something to do; None for never."""
        waits = self._ledger.waiting_reservations.waiting or self._entry is not None
        return self._steady.instant(self._next) if waits else None

    @property
    def idle(self) -> bool:
        """Whether no lock waits, and none is kept room for."""
        return self._entry is None and not self._ledger.waiting_reservations.waiting

    def step(self, now: float) -> None:
        """Let go of what is not needed any more, and look now and then for what is to be kept for whom."""
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
            self._hopeless.add(entry)
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
        """Return for how long a lock has waited, by what is stored or as this process saw it."""
        since = self._ledger.waiting_reservations.since.get(entry.key, at)
        return max(now - entry.pending_since, at - since)

    def _first(self, now: float, at: float) -> ReservationInfo | None:
        """Give the first in line that has waited for long; who has the earmark yields to priority alone."""
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
        return self._ledger.shares.in_order(waited)[0] if waited else has

    def _waits(self, entry: ReservationInfo) -> bool:
        """Whether a lock waits until room comes free, and none is being made for it."""
        waits = self._ledger.waiting_reservations.waiting.get(entry.key) is entry and entry.tried
        return waits and waits_for_capacity(entry) and not self._cache.nominator.node_of(entry.uid)

    def _fits(self, entry: ReservationInfo, now: float) -> Mask:
        """Tell which nodes would do for a lock, but for those where room is being made for others."""
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
        """Choose where to keep room: where it is kept, the earliest that is known, or where least lacks."""
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
        """Keep room for nobody, or for one alone; others may have been told so by an earlier process."""
        if self._entry is not None and self._entry is not but:
            self._entry = None
            self._left.clear()
            self._hopeless.clear()
        for entry in self._ledger.waiting_reservations.waiting.values():
            if entry.earmark and entry is not but:
                self._ledger.nominations.end_earmark(entry)

    def _called(self, names: Iterable[str]) -> Mask:
        return self._cache.snapshot().called(names)
