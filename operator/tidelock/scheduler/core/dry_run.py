"""Quotes: the result that a reservation would have now. Nothing is held, counted or nominated.

The same filters and scores decide as for a reservation, over the same snapshot. They run in a pipeline of
their own, so many kinds of quotes do not crowd out the cached results of waiting pods.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import NO_ROW, Amounts
from tidelock.cluster.snapshot import Snapshot, Wanted
from tidelock.framework.api import Mask
from tidelock.framework.extension_point_timer import PluginError
from tidelock.framework.profile import Profile
from tidelock.framework.whatif import reserved
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation_quote import MOST_NAMED
from tidelock.model.conditions import Aspect, dated
from tidelock.model.failures import OnFailure, log_failure
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.model.quantities import Resources, format_resources
from tidelock.model.reservation_quote import Quote
from tidelock.scheduler.core.equal_pods import EqualPods
from tidelock.scheduler.core.pipeline import Evaluation, FilterPipeline
from tidelock.scheduler.core.reservation_cycle import reason_of

# Nodes on which the ends of reservations are tried, those with free capacity first.
_MOST_TRIED = 64
_MOST_REASONS = 64


@dataclass(frozen=True, slots=True)
class DryRunOccupant:
    """A reservation or pod, and its amounts of the missing resources."""

    key: Key
    taken: Resources
    ends: float | None = None


@dataclass(frozen=True, slots=True)
class DryRunBlockers:
    """The obstacles: nodes by reason, the shortfall of the best node, and the users of its capacity."""

    reasons: Sequence[tuple[str, int]] = ()
    node: str = ""
    shortfall: Resources = field(default_factory=dict)
    reservations: Sequence[DryRunOccupant] = ()
    pods: Sequence[DryRunOccupant] = ()


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The result that a reservation would have. Instants are seconds since the epoch.

    Attributes:
        feasible: whether it fits now, or None if that is unknown.
        node: the node on which it would be held.
        count: how many of them would fit, as EqualPods counts them.
        fits_at: when it fits, if that is known: now, or once enough reservations have ended.
        starts_at: when it may fit at the earliest by known ends of amounts, if not now.

    """

    feasible: bool | None
    reason: str
    message: str
    node: str = ""
    count: int = 0
    fits_at: float | None = None
    starts_at: float | None = None
    blockers: DryRunBlockers | None = None


class DryRun:
    """Answers quotes over the cache and the ledger, which stay as they are."""

    def __init__(
        self, cache: Cache, ledger: Ledger, pipeline: FilterPipeline, on_failure: OnFailure = log_failure
    ) -> None:
        """Take the parts of a decision, and a handler of the exceptions of plugins."""
        self._cache = cache
        self._ledger = ledger
        self._pipeline = pipeline
        self._on_failure = on_failure

    def answer(self, profile: Profile, pod: Pod, now: float) -> DryRunResult:
        """Return the result that a reservation with this reserve pod would have."""
        try:
            with self._pipeline.evaluate(profile, pod, now, own=()) as evaluation:
                return self._answer(evaluation, now)
        except PluginError as error:
            self._on_failure("quote", "ReservationQuote", pod.meta, error)
            return DryRunResult(None, reasons.PLUGIN_FAILED, str(error))

    def _answer(self, evaluation: Evaluation, now: float) -> DryRunResult:
        pod, node = evaluation.pod, evaluation.best()
        if node is not None:
            count = EqualPods(evaluation).total(evaluation.snapshot, node)
            text = f"fits on {node.name} now, and {count} of it in all"
            return DryRunResult(True, reasons.FITS, text, node.name, count, now)
        diagnosis = evaluation.diagnose()
        reason = reason_of(self._cache, pod, diagnosis)
        blockers, fits_at = self._blockers(evaluation)
        starts_at = None
        if reason == reasons.INSUFFICIENT_CAPACITY:
            starts_at = self._ledger.forecast(now).to_come(pod.requests, pod.spec.node_name)
        return DryRunResult(
            False, reason, diagnosis.message, fits_at=fits_at, starts_at=starts_at, blockers=blockers
        )

    def _blockers(self, evaluation: Evaluation) -> tuple[DryRunBlockers, float | None]:
        pod, snapshot = evaluation.pod, evaluation.snapshot
        counts: Counter[str] = Counter() if evaluation.rejection is not None else evaluation.reasons()
        most = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_MOST_REASONS]
        blockers = DryRunBlockers(most)
        sound = evaluation.fitting_apart_from_placement()
        rows = sound.nonzero()[0]
        if not len(rows):
            return blockers, None
        wanted = snapshot.wanted(pod.requests)
        row = int(rows[_least_lacking(wanted, snapshot, rows)])
        return self._about(blockers, pod, snapshot, row, wanted), self._fits_at(evaluation, wanted, sound)

    def _about(
        self, blockers: DryRunBlockers, pod: Pod, snapshot: Snapshot, row: int, wanted: Wanted
    ) -> DryRunBlockers:
        """Add the shortfall of a node, and the users of the missing resources."""
        name = snapshot.nodes[row].name
        free = snapshot.allocatable[row] - snapshot.requested[row] - snapshot.reserved[row]
        lacking = {
            snapshot.resources[column]: units - int(free[column])
            for column, units in wanted
            if free[column] < units and column != NO_ROW
        }
        lacking.update(snapshot.absent(pod.requests))
        held = (entry for entry in self._ledger.holdings.held_on(name) if _part(entry.held, lacking))
        reservations = heapq.nsmallest(MOST_NAMED, held, key=lambda entry: (_end(entry), entry.key))
        placed = (each.pod for each in self._cache.pods_on(name) if _part(each.pod.requests, lacking))
        first = next(iter(lacking), "")
        pods = heapq.nsmallest(
            MOST_NAMED,
            placed,
            key=lambda pod: (pod.spec.priority, -pod.requests.get(first, 0), pod.key),
        )
        return replace(
            blockers,
            node=name,
            shortfall=lacking,
            reservations=[
                DryRunOccupant(entry.key, _part(entry.held, lacking), entry.expires_at)
                for entry in reservations
            ],
            pods=[DryRunOccupant(each.key, _part(each.requests, lacking)) for each in pods],
        )

    def _fits_at(self, evaluation: Evaluation, wanted: Wanted, sound: Mask) -> float | None:
        """Return when the ends of reservations free enough capacity, or None if they don't or it is unknown.

        Pods count as staying, and reservations end at their latest end. A node with nominated pods is left
        out, as it is unknown when these come.
        """
        if not self._ledger.holdings.holds_any:
            return None
        snapshot = evaluation.snapshot
        hopeful = sound & snapshot.free_for(wanted, beside_reservations=False)
        hopeful &= ~snapshot.called(self._cache.nominator.nodes)
        rows = hopeful.nonzero()[0]
        if not 0 < len(rows) <= _MOST_TRIED:
            return None
        found = []
        for row in rows.tolist():
            entries = sorted(self._ledger.holdings.held_on(snapshot.nodes[row].name), key=_end)
            free = snapshot.allocatable[row] - snapshot.requested[row] - snapshot.reserved[row]
            for count, entry in enumerate(entries, 1):
                free = free + snapshot.vector(entry.held)
                if all(free[column] >= units for column, units in wanted):
                    found.append((_end(entry), row, entries[:count]))
                    break
        for instant, row, ended in sorted(found, key=lambda each: each[:2]):
            whatif = evaluation.whatif(np.array([row]))
            whatif.shift(_reserved(snapshot, ended), -1)
            whatif.remove(0, reserved(ended))
            if instant != _NEVER and whatif.judge().fits.all():
                return instant
        return None


def render_dry_run(quote: Quote, answer: DryRunResult, now: float) -> dict[str, Any]:
    """Write the status of a quote as plain JSON values."""
    status: dict[str, Any] = {
        "observedGeneration": quote.meta.generation,
        "answeredAt": format_instant(now),
        "validUntil": format_instant(now + quote.spec.valid_seconds),
        "count": answer.count,
    }
    if answer.node:
        status["nodeName"] = answer.node
    if answer.fits_at is not None:
        status["fitsAt"] = format_instant(answer.fits_at)
    if answer.starts_at is not None:
        status["earliestStart"] = format_instant(answer.starts_at)
    if answer.blockers is not None:
        status["blockers"] = _plain(answer.blockers)
    filter_result = {True: "True", False: "False", None: "Unknown"}[answer.feasible]
    aspects = [Aspect("Feasible", filter_result, answer.reason, answer.message)]
    if answer.feasible is None:
        aspects += [
            Aspect("Ready", "False", answer.reason, answer.message),
            Aspect("Stalled", "True", answer.reason, answer.message),
        ]
    else:
        aspects.append(Aspect("Ready", "True", reasons.ANSWERED, "the question is answered"))
    return status | {"conditions": dated(aspects, quote.status, quote.meta.generation, now)}


def _plain(blockers: DryRunBlockers) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "reasons": [{"reason": reason, "nodes": nodes} for reason, nodes in blockers.reasons],
        "locks": [_plain_occupant(each) for each in blockers.reservations],
        "pods": [_plain_occupant(each) for each in blockers.pods],
    }
    if blockers.node:
        plain |= {"nodeName": blockers.node, "shortfall": format_resources(blockers.shortfall)}
    return plain


def _plain_occupant(occupant: DryRunOccupant) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "namespace": occupant.key.namespace,
        "name": occupant.key.name,
        "resources": format_resources(occupant.taken),
    }
    return plain if occupant.ends is None else plain | {"expiresAt": format_instant(occupant.ends)}


_NEVER = float("inf")


def _end(entry: ReservationInfo) -> float:
    return _NEVER if entry.expires_at is None else entry.expires_at


def _part(amounts: Resources, lacking: Resources) -> Resources:
    """Return the amounts of the missing resources."""
    return {name: units for name, units in amounts.items() if units and name in lacking}


def _reserved(snapshot: Snapshot, entries: Sequence[ReservationInfo]) -> Amounts:
    """Return the sum of held amounts, as the one row for `WhatIf.shift`."""
    width = len(snapshot.resources)
    amounts = np.zeros((1, 2 * width + 2), np.int64)
    for entry in entries:
        amounts[0, width : 2 * width] += snapshot.vector(entry.held)
    return amounts


def _least_lacking(wanted: Wanted, snapshot: Snapshot, rows: Any) -> int:
    """Return the index of the row with the smallest shortfall, as shares of the request."""
    lacking = np.zeros(len(rows))
    for column, units in wanted:
        free = snapshot.allocatable[rows, column] - snapshot.requested[rows, column]
        free -= snapshot.reserved[rows, column]
        lacking += np.maximum(units - free, 0) / units
    return int(np.lexsort((snapshot.traits.name_rank[rows], lacking))[0])
