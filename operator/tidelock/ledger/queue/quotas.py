"""What the locks of each namespace take of its ReservationQuotas, and whether one may be given more.

A lock that has room counts with that room, and with that room times its life; while its owner is being
bound it counts as before, as it may come back. One for reuse counts as a whole whoever is in it, but where
pods are counted as well, without what they use of it. A life is whole, from its beginning to the latest end
that the lock was given, so what is used shrinks when a lock ends, or its spec asks for less, and not with
time.

A priority above 0 and preemption take room from other namespaces, so they need a quota that names them. This
is the rule of ResourceQuota for what an administrator lists in `limitedResources`, such as PriorityClasses.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelock.cluster.lister import Lister
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.quantities import Resources, covers, format_quantity, minus, plus
from tidelock.model.quotas import ReservationQuota, ResourceQuota


@dataclass(frozen=True, slots=True)
class Charge:
    """What a lock, or all of a namespace, counts with: room, and room times seconds.

    `unused` is the part of the room that no owner uses, who would be counted for it as a pod.
    """

    reserved: Resources = field(default_factory=dict)
    seconds: Resources = field(default_factory=dict)
    unused: Resources = field(default_factory=dict)

    @classmethod
    def of(cls, room: Resources, life: int, unused: Resources) -> "Charge":
        """Count room that a lock has for a life in seconds."""
        return cls(room, {name: units * life for name, units in room.items()}, unused) if room else _NO_CHARGE

    @classmethod
    def asked_for(cls, entry: ReservationInfo) -> "Charge":
        """Count a lock as it will count when it has what its spec asks for."""
        requests = entry.reservation.requests
        return cls.of(requests, lifetime.wanted_seconds(entry), requests)

    def __add__(self, other: "Charge") -> "Charge":
        return Charge(
            plus(self.reserved, other.reserved),
            plus(self.seconds, other.seconds),
            plus(self.unused, other.unused),
        )

    def covers(self, other: "Charge") -> bool:
        """Whether the other has no more of anything."""
        return covers(self.reserved, other.reserved) and covers(self.seconds, other.seconds)


class Excess(NamedTuple):
    """What a quota does not allow, as texts."""

    what: str
    asked: str
    limit: str
    used: str = ""


_NO_CHARGE = Charge()
_PREEMPT = "PreemptLowerPriority"

_Listener = Callable[[str], None]


class Quotas:
    """The quotas of all namespaces, and what their locks use of them.

    Args:
        quotas: the ReservationQuotas that there are.
        resource_quotas: the ResourceQuotas that there are.

    Attributes:
        changed: namespaces whose quotas, or whose use of them, have changed, for their status.

    """

    def __init__(self, quotas: Lister[ReservationQuota], resource_quotas: Lister[ResourceQuota]) -> None:
        self.changed: dict[str, None] = {}
        self._quotas = quotas
        self._resource_quotas = resource_quotas
        self._charges: dict[Key, Charge] = {}
        self._used: dict[str, Charge] = {}
        self._on_change: list[_Listener] = []
        self._on_room: list[_Listener] = []
        quotas.on_change(self._quota_changed)
        resource_quotas.on_change(self._resource_quota_changed)

    def on_change(self, listener: _Listener) -> None:
        """Have a function called with each namespace whose quotas have changed."""
        self._on_change.append(listener)

    def on_room(self, listener: _Listener) -> None:
        """Have a function called with each namespace that may be allowed more than before."""
        self._on_room.append(listener)

    def of(self, namespace: str) -> list[ReservationQuota]:
        """Give the quotas of a namespace, by name."""
        return sorted(self._quotas.of(namespace), key=lambda quota: quota.meta.name)

    def used(self, namespace: str) -> Charge:
        """Give what the locks of a namespace count with."""
        return self._used.get(namespace, _NO_CHARGE)

    def ceiling(self, namespace: str) -> int:
        """Return the highest priority that locks of a namespace may have; 0 if no quota names one."""
        ceilings = (quota.spec.max_priority for quota in self._quotas.of(namespace))
        return min((ceiling for ceiling in ceilings if ceiling is not None), default=0)

    def weight(self, namespace: str) -> int:
        """Give the weight with which a namespace takes part in the order of those that wait."""
        return max((quota.spec.weight or 1 for quota in self._quotas.of(namespace)), default=1)

    def counts(self, entry: ReservationInfo) -> bool:
        """Whether a lock counts with anything."""
        return entry.key in self._charges

    def update(self, entry: ReservationInfo) -> None:
        """Count a reservation as it is now."""
        before = self._charges.get(entry.key, _NO_CHARGE)
        bound = entry.phase is Phase.BOUND
        room, unused = (before.reserved, before.unused) if bound else (entry.reserved, _unused(entry))
        self._replace(entry.key, before, Charge.of(room, lifetime.granted_seconds(entry), unused))

    def remove(self, entry: ReservationInfo) -> None:
        """Count a reservation that is gone no more."""
        self._replace(entry.key, self._charges.get(entry.key, _NO_CHARGE), _NO_CHARGE)

    def contents(self) -> Mapping[Any, object]:
        """Return what each reservation counts with, and what each namespace uses."""
        return dict[Any, object](self._charges) | self._used

    def problem(self, entry: ReservationInfo, beside: Charge = _NO_CHARGE) -> str:
        """Say why a lock can't be given what its spec asks for; empty if it can, or asks for nothing more.

        Others of its namespace may be about to be given something `beside` it.
        """
        namespace = entry.key.namespace
        if not self._quotas.of(namespace):
            return "; ".join(_unnamed((), entry))
        quotas = self.of(namespace)
        asked = Charge.asked_for(entry)
        own = self._charges.get(entry.key, _NO_CHARGE)
        if own.covers(asked) and not entry.moving:
            return ""
        used = self.used(namespace) + beside
        found = [(quota.meta.name, list(_excesses(quota, entry, asked, own, used))) for quota in quotas]
        if any(quota.spec.count_against_resource_quota for quota in quotas):
            found += [
                (quota.meta.name, list(_pods_excesses(quota, asked, own, used)))
                for quota in sorted(self._resource_quotas.of(namespace), key=lambda quota: quota.meta.name)
            ]
        exceeded = (_text(name, excesses) for name, excesses in found if excesses)
        return "; ".join((*exceeded, *_unnamed(quotas, entry)))

    def _replace(self, key: Key, before: Charge, after: Charge) -> None:
        if before == after:
            return
        if after.reserved:
            self._charges[key] = after
        else:
            self._charges.pop(key, None)
        used = self.used(key.namespace)
        self._used[key.namespace] = Charge(
            minus(plus(used.reserved, after.reserved), before.reserved),
            minus(plus(used.seconds, after.seconds), before.seconds),
            minus(plus(used.unused, after.unused), before.unused),
        )
        if not self._used[key.namespace].reserved:
            del self._used[key.namespace]
        self.changed[key.namespace] = None
        if not (after.covers(before) and covers(after.unused, before.unused)):
            self._tell_of_room(key.namespace)

    def _quota_changed(self, old: ReservationQuota | None, new: ReservationQuota | None) -> None:
        for namespace in {quota.meta.namespace for quota in (old, new) if quota is not None}:
            self.changed[namespace] = None
            for listener in self._on_change:
                listener(namespace)
            self._tell_of_room(namespace)

    def _resource_quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        for namespace in {quota.meta.namespace for quota in (old, new) if quota is not None}:
            if any(quota.spec.count_against_resource_quota for quota in self._quotas.of(namespace)):
                self._tell_of_room(namespace)

    def _tell_of_room(self, namespace: str) -> None:
        for listener in self._on_room:
            listener(namespace)


def _unnamed(quotas: Collection[ReservationQuota], entry: ReservationInfo) -> Iterator[str]:
    """Say what a lock asks for that is refused because no quota of its namespace names it."""
    if entry.reservation.priority > 0 and all(quota.spec.max_priority is None for quota in quotas):
        wanted = f"spec.priority {entry.reservation.priority}"
        yield f"{wanted} needs a ReservationQuota with maxPriority, and there is none"
    if entry.reservation.preempts and all(quota.spec.preemption_policy is None for quota in quotas):
        yield (
            f"spec.preemptionPolicy {_PREEMPT} needs a ReservationQuota with preemptionPolicy {_PREEMPT},"
            " and there is none"
        )


def _excesses(
    quota: ReservationQuota, entry: ReservationInfo, asked: Charge, own: Charge, used: Charge
) -> Iterator[Excess]:
    """Give what a lock asks for beyond a quota; what it counts with already is not asked for."""
    if quota.problem:
        yield Excess("a lock", "1", f"a quota that can be read ({quota.problem})")
        return
    spec = quota.spec
    yield from _sums(asked.reserved, own.reserved, used.reserved, quota.hard)
    yield from _sums(asked.seconds, own.seconds, used.seconds, quota.hard_seconds, "-seconds")
    for resource, limit in quota.max_amounts.items():
        units = asked.reserved.get(resource, 0)
        if units > max(limit, own.reserved.get(resource, 0)):
            text, most = format_quantity(resource, units), format_quantity(resource, limit)
            yield Excess(f"maxAmounts.{resource}", text, most)
    longer = lifetime.wanted_seconds(entry) > lifetime.granted_seconds(entry) or not own.reserved
    if (
        spec.max_life_seconds is not None
        and longer
        and lifetime.wanted_seconds(entry) > spec.max_life_seconds
    ):
        yield Excess("maxLifeSeconds", str(lifetime.wanted_seconds(entry)), str(spec.max_life_seconds))
    if spec.max_priority is not None and entry.reservation.priority > spec.max_priority:
        yield Excess("maxPriority", str(entry.reservation.priority), str(spec.max_priority))
    if spec.preemption_policy == "Never" and entry.reservation.preempts:
        yield Excess("preemptionPolicy", _PREEMPT, "Never")


def _sums(
    asked: Resources, own: Resources, used: Resources, hard: Resources, unit: str = ""
) -> Iterator[Excess]:
    for resource, limit in hard.items():
        more = asked.get(resource, 0) - own.get(resource, 0)
        if more > 0 and used.get(resource, 0) + more > limit:
            amounts = (format_quantity(resource, units) for units in (more, limit, used.get(resource, 0)))
            yield Excess(f"{resource}{unit}", *amounts)


def _pods_excesses(quota: ResourceQuota, asked: Charge, own: Charge, used: Charge) -> Iterator[Excess]:
    """Give what a lock asks for beyond a ResourceQuota, of which pods and locks use something."""
    for name, resource, hard, by_pods in quota.limits:
        more = asked.reserved.get(resource, 0) - own.reserved.get(resource, 0)
        in_use = by_pods + used.unused.get(resource, 0)
        if more > 0 and in_use + more > hard:
            yield Excess(name, *(format_quantity(resource, units) for units in (more, hard, in_use)))


def _text(name: str, excesses: list[Excess]) -> str:
    """Say what exceeds a quota in the words in which the API server does."""
    asked = ",".join(f"{each.what}={each.asked}" for each in excesses)
    used = ",".join(f"{each.what}={each.used}" for each in excesses if each.used)
    limited = ",".join(f"{each.what}={each.limit}" for each in excesses)
    return (
        f"exceeded quota: {name}, requested: {asked}, {f'used: {used}, ' if used else ''}limited: {limited}"
    )


def _unused(entry: ReservationInfo) -> Resources:
    """Tell what no owner uses of a lock's room; who borrows of it is none, and maybe of another namespace."""
    return entry.reserved if entry.reservation.borrowable else entry.held
