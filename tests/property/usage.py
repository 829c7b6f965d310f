"""Invariants of quotas: all use is counted, and nothing is granted beyond the limits."""

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from builders import NAMESPACE
from property.process import Process
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.queue.quotas import Quotas
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.quantities import Resources, minus, plus
from tidelock.model.quotas import ReservationQuota

_NO_LIMIT = 2**63


class Use(NamedTuple):
    """The use of a reservation: the capacity that it holds or its owner has, and its longest life."""

    entry: ReservationInfo
    reserved: Resources
    life: int

    @property
    def seconds(self) -> Resources:
        return {name: units * self.life for name, units in self.reserved.items()}


class UsageObserver:
    """An observer of the quota use of a process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._known: set[str] = set()
        self._uses: Mapping[str, Use] = {}

    def check(self) -> None:
        """Check the sums, and each reservation that was granted more since the last check."""
        ledger, before, known = self._process.ledger, self._uses, self._known
        # Until all is known, a reservation has the amounts of its status, or of the answer to its creation.
        ready = self._process.event_handlers.ready
        self._known = {entry.uid for entry in ledger.entries.values()} if ready else set()
        self._uses = {use.entry.uid: use for use in uses(self._process)}
        room, seconds = _sums(self._uses)
        used = ledger.quotas.used(NAMESPACE)
        # A life of zero seconds counts nothing.
        assert (used.reserved, used.seconds) == (
            room,
            {name: units for name, units in seconds.items() if units},
        )
        owned = [use.entry for use in self._uses.values() if not use.entry.reservation.borrowable]
        in_use = [each.uses for entry in owned for each in entry.occupants.values()]
        assert used.unused == reduce(minus, in_use, room), "capacity counts as unused, and pods are in it"
        for uid in self._uses.keys() & known:  # new ones hold the amounts of their status
            for quota in ledger.quotas.of(NAMESPACE):
                _check_gain(quota, before.get(uid), self._uses[uid], room, seconds)
            _check_rank(ledger.quotas, before.get(uid), self._uses[uid])


def uses(process: Process) -> Iterator[Use]:
    """Yield the use of each reservation, without the ledger's sums."""
    ledger = process.ledger
    claims = [*ledger.claims.in_flight.values(), *process.effects.claims, *process.questions]
    claims += [claim for claim, _ in process.answers]
    # The API server may be asked about a pod that has gone since, and has freed its reservations.
    taken = [(claim.pod.uid, each.entry, each.held) for claim in claims for each in claim.taken]
    lent = {entry.uid: held for uid, entry, held in taken if entry.bound_pod and entry.bound_pod.uid == uid}
    for entry in ledger.entries.values():
        room = lent.get(entry.uid, {}) if entry.phase is Phase.BOUND else entry.reserved
        if room:
            yield Use(entry, room, lifetime.granted_seconds(entry))


def check_parked(process: Process) -> None:
    """Check that each reservation that waits for quota is over it, and that none waits without a reason."""
    ledger = process.ledger
    for entry in ledger.entries.values():
        if ledger.waiting_reservations.over_quota(entry):
            assert ledger.quotas.problem(entry), f"{entry.key} is within its quota"
        assert not lifetime.wants_longer(entry) or ledger.waiting_reservations.over_quota(entry), (
            f"{entry.key} wants a longer life, and does not wait for quota"
        )
    waiting = ledger.waiting_reservations
    assert not waiting.unanswered, "no reservation is being tried, and an equivalence class has no answer"
    refused = (waiting._over_quota, waiting._inadmissible)
    lost = [key for key in waiting.waiting if not any(key in classes for classes in refused)]
    assert lost == list(process.decider.reservation_scheduler._resting), f"{lost} wait for nothing"


def _check_gain(
    quota: ReservationQuota, before: Use | None, after: Use, room: Resources, seconds: Resources
) -> None:
    earlier_room = before.reserved if before else {}
    earlier_seconds = before.seconds if before else {}
    more_room = {name for name, units in after.reserved.items() if units > earlier_room.get(name, 0)}
    more_seconds = {name for name, units in after.seconds.items() if units > earlier_seconds.get(name, 0)}
    if not more_room and not more_seconds:
        return
    about = (quota.meta.name, after.entry.key)
    assert not quota.problem, about
    for name in more_room:
        assert room[name] <= quota.hard.get(name, _NO_LIMIT), about
        assert after.reserved[name] <= quota.max_amounts.get(name, _NO_LIMIT), about
    for name in more_seconds:
        assert seconds[name] <= quota.hard_seconds.get(name, _NO_LIMIT), about
    spec = quota.spec
    if before is None or after.life > before.life:
        assert spec.max_life_seconds is None or after.life <= spec.max_life_seconds, about
    assert spec.max_priority is None or after.entry.reservation.priority <= spec.max_priority, about
    assert spec.max_priority is None or after.entry.priority <= spec.max_priority, about


def _check_rank(quotas: Quotas, before: Use | None, after: Use) -> None:
    """Check that a reservation gets capacity only if quotas allow its priority and its preemption."""
    entry = after.entry
    if before is not None and all(
        units <= before.reserved.get(name, 0) for name, units in after.reserved.items()
    ):
        return
    allowing = [quota.spec for quota in quotas.of(NAMESPACE)]
    named = [spec.max_priority for spec in allowing if spec.max_priority is not None]
    assert entry.reservation.priority <= (min(named) if named else 0), entry.key
    if entry.reservation.preempts:
        policies = {spec.preemption_policy for spec in allowing} - {None}
        assert policies == {"PreemptLowerPriority"}, entry.key


def _sums(all_uses: Mapping[str, Use]) -> tuple[Resources, Resources]:
    room: dict[str, int] = {}
    seconds: dict[str, int] = {}
    for use in all_uses.values():
        room, seconds = plus(room, use.reserved), plus(seconds, use.seconds)
    return room, seconds
