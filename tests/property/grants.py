"""Only what a decision has granted counts on a node: the amounts, and each part of the template.

A part that an edit gave up counts again once another decision has granted it. Each edit that ends a part is
reported to the pods that wait.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from property.process import Process
from tidelock.cluster.reserve_pods import Reserved, counts_as
from tidelock.cluster.usage.expected_use import ExpectedUse
from tidelock.cluster.usage.measurements import Measurements
from tidelock.framework.api import Handle
from tidelock.framework.measured_use import follow_expected_use
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, Resources
from tidelock.model.reserve_pod import LIMITS, ReservePod


@dataclass(slots=True)
class Grant:
    """The parts of a template with which a reservation was placed, and its expected use of cpu.

    A part that an edit has given up is None.
    """

    pod: ReservePod
    parts: list[object]
    use: float

    def follow(self, asked: ReservePod | None) -> None:
        """Give up the parts that a spec no longer asks for."""
        wanted = [None] * len(self.parts) if asked is None else list(counts_as(asked))
        self.parts = [mine if mine == other else None for mine, other in zip(self.parts, wanted, strict=True)]
        if asked is None or asked.parts.get(LIMITS) != self.pod.parts.get(LIMITS):
            self.use = min(self.use, _cpu(self.pod.requests))


class GrantObserver:
    """An observer of all placements of reservations, and of the expected use that follows from them."""

    def __init__(self) -> None:
        self._placed: dict[str, list[ReservePod]] = {}
        self._known: dict[str, list[Grant]] = {}
        self._counted: dict[str, Reserved] = {}
        self._left: set[str] = set()

    def follow(self, process: Process) -> None:
        """Follow another process. What its predecessor has placed last may not be stored."""
        placement, holdings = process.ledger.placement, process.ledger.holdings
        admit, set_held = placement.admit, holdings._set_held
        self._known = {uid: list(map(_grant_of, pods)) for uid, pods in self._placed.items()}
        self._counted, self._left = {}, set()

        def noted(
            entry: ReservationInfo, node: Node, now: float, devices: tuple[ReservedDevice, ...] = ()
        ) -> None:
            if (pod := entry.reservation.pod) is not None:
                self._placed.setdefault(entry.uid, []).append(pod)
                self._known[entry.uid] = [_grant_of(pod)]
            admit(entry, node, now, devices)

        def reported(entry: ReservationInfo, *amounts: Resources) -> None:
            known = len(holdings.changes)
            set_held(entry, *amounts)
            for change in islice(holdings.changes.values(), known, None):
                if change.left is not None or (change.before and not change.after):
                    self._left.add(entry.uid)

        placement.__dict__["admit"] = noted
        holdings.__dict__["_set_held"] = reported
        handle = Handle(
            process.ledger.plugin_view, process.cache, process.decider.objects, measurements=Measurements()
        )
        self._use: ExpectedUse = follow_expected_use(handle, estimate=_likely_use, history=False)

    def check(self, process: Process) -> None:
        """Check that nothing counts for a reservation that no placement has granted."""
        entries = {entry.uid: entry for entry in process.ledger.entries.values()}
        for entry in entries.values():
            for grant in self._granted(process, entry) if entry.reserved else ():
                grant.follow(entry.reservation.pod)
        for uid, reserved in process.cache.reserve_pods._placed.items():
            entry, pod = entries[uid], reserved.pod
            grants = self._granted(process, entry)
            for kind, part in enumerate(counts_as(pod)):
                allowed = [None, {}, (), *(each.parts[kind] for each in grants)]
                assert part in allowed or _has_no_neighbours(part), (entry.key, part, allowed)
            asked = entry.reservation.pod
            assert entry.growing or (asked is not None and counts_as(asked) == counts_as(pod)), entry.key
        for uid, entry in entries.items():
            if entry.held and not entry.occupants and entry.reservation.pod is not None:
                self._check_use(process, entry, entry.reservation.pod)
            else:
                assert uid not in self._use._slot_of, entry.key
        placed = process.cache._placed.keys()
        assert self._use._slot_of.keys() <= placed | entries.keys(), "the use of a pod that is gone"
        self._check_reports(process, entries)

    def _check_reports(self, process: Process, entries: dict[str, ReservationInfo]) -> None:
        """Check that each reserve pod that an edit has ended was reported, even if all of it is lent."""
        counted = dict(process.cache.reserve_pods._placed)
        for uid, before in self._counted.items():
            entry, after = entries.get(uid), counted.get(uid)
            if entry is None or entry.phase is not Phase.ACTIVE or entry.node != before.node_name:
                continue
            same = after is not None and counts_as(after.pod) == counts_as(before.pod)
            inside = entry.reservation.reusable and bool(entry.occupants)
            assert same or inside or uid in self._left, f"no pod knows that {entry.key} has other parts"
        self._counted = counted
        self._left.clear()

    def _check_use(self, process: Process, entry: ReservationInfo, asked: ReservePod) -> None:
        slot = self._use._slot_of[entry.uid]
        assert self._use._node_of[entry.uid] == entry.node, entry.key
        expected = float(np.nan_to_num(self._use._slots.expected[slot].reshape(-1, 2)[0, 0]))
        most = max(each.use for each in self._granted(process, entry))
        wanted = _cpu(entry.reserved) if entry.growing else float(np.nan_to_num(asked.likely_use[0]))
        assert expected == wanted <= most, (entry.key, expected, wanted, most)

    def _granted(self, process: Process, entry: ReservationInfo) -> list[Grant]:
        """Return the grants that may be the last one: that of an answer is of the first version."""
        if entry.uid not in self._known:
            first = process.api.reservations.versions[entry.uid][0].pod
            assert first is not None, entry.key
            self._known[entry.uid] = [_grant_of(first)]
        return self._known[entry.uid]


def _grant_of(pod: ReservePod) -> Grant:
    return Grant(pod, list(counts_as(pod)), float(np.nan_to_num(pod.likely_use[0])))


def _has_no_neighbours(part: object) -> bool:
    """Return whether a part is an affinity without terms about pods."""
    near = getattr(part, "pod_affinity", part)
    return near is None and getattr(part, "pod_anti_affinity", part) is None


def _likely_use(pod: Pod) -> tuple[float, float]:
    return pod.likely_use


def _cpu(amounts: Resources) -> float:
    return float(amounts.get(CPU, 0))
