"""Only what a decision has granted counts on a node: the amounts, and each part of the template."""

import numpy as np

from property.process import Process
from tidelock.cluster.reserve_pods import counts_as
from tidelock.cluster.usage.expected_use import ExpectedUse
from tidelock.cluster.usage.measurements import Measurements
from tidelock.framework.api import Handle
from tidelock.framework.measured_use import follow_expected_use
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reserved_devices import ReservedDevice
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import CPU, Resources
from tidelock.model.reserve_pod import ReservePod


class GrantObserver:
    """An observer of all placements of reservations, and of the expected use that follows from them."""

    def __init__(self) -> None:
        self._placed: dict[str, list[ReservePod]] = {}
        self._known: dict[str, list[ReservePod]] = {}

    def follow(self, process: Process) -> None:
        """Follow another process. What its predecessor has placed last may not be stored."""
        placement = process.ledger.placement
        admit = placement.admit
        self._known = {uid: list(pods) for uid, pods in self._placed.items()}

        def noted(
            entry: ReservationInfo, node: Node, now: float, devices: tuple[ReservedDevice, ...] = ()
        ) -> None:
            if (pod := entry.reservation.pod) is not None:
                self._placed.setdefault(entry.uid, []).append(pod)
                self._known[entry.uid] = [pod]
            admit(entry, node, now, devices)

        placement.__dict__["admit"] = noted
        handle = Handle(
            process.ledger.plugin_view, process.cache, process.decider.objects, measurements=Measurements()
        )
        self._use: ExpectedUse = follow_expected_use(handle, estimate=_likely_use, history=False)

    def check(self, process: Process) -> None:
        """Check that nothing counts for a reservation that no placement has granted."""
        entries = {entry.uid: entry for entry in process.ledger.entries.values()}
        for uid, reserved in process.cache.reserve_pods._placed.items():
            entry, pod = entries[uid], reserved.pod
            granted = [counts_as(each) for each in self._granted(process, entry)]
            for kind, part in enumerate(counts_as(pod)):
                allowed = [None, {}, (), *(each[kind] for each in granted)]
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

    def _check_use(self, process: Process, entry: ReservationInfo, asked: ReservePod) -> None:
        slot = self._use._slot_of[entry.uid]
        assert self._use._node_of[entry.uid] == entry.node, entry.key
        expected = float(np.nan_to_num(self._use._slots.expected[slot].reshape(-1, 2)[0, 0]))
        most = max(float(np.nan_to_num(each.likely_use[0])) for each in self._granted(process, entry))
        wanted = _cpu(entry.reserved) if entry.growing else float(np.nan_to_num(asked.likely_use[0]))
        assert expected == wanted <= most, (entry.key, expected, wanted, most)

    def _granted(self, process: Process, entry: ReservationInfo) -> list[ReservePod]:
        """Return the pods that may have been placed last: that of an answer is the first version."""
        if entry.uid not in self._known:
            first = process.api.reservations.versions[entry.uid][0].pod
            assert first is not None, entry.key
            self._known[entry.uid] = [first]
        return self._known[entry.uid]


def _has_no_neighbours(part: object) -> bool:
    """Return whether a part is an affinity without terms about pods."""
    near = getattr(part, "pod_affinity", part)
    return near is None and getattr(part, "pod_anti_affinity", part) is None


def _likely_use(pod: Pod) -> tuple[float, float]:
    return pod.likely_use


def _cpu(amounts: Resources) -> float:
    return float(amounts.get(CPU, 0))
