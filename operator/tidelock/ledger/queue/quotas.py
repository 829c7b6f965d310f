"""The use of each namespace's ReservationQuotas, and whether a reservation may get more.

A reservation with capacity counts with its amounts, and with its amounts times its lifetime. While its owner
is being bound it counts as before, because it may come back. A reusable one counts as a whole. Beside a
ResourceQuota, which counts owners as pods, the amounts that they use are left out. Devices are amounts by
their class: before a decision as many as the claims can get, and then the held ones. A lifetime goes from the
beginning to the latest granted end. So the use shrinks when a reservation ends or its spec asks for less, and
not with time.

A priority above 0 and preemption take capacity from other namespaces, so a quota must allow them. This is the
rule of ResourceQuota for everything in `limitedResources`, such as PriorityClasses.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelock.cluster.lister import Lister
from tidelock.ledger.lifecycle import lifetime
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.quantities import NOTHING, Resources, covers, format_quantity, minus, plus
from tidelock.model.quotas import ReservationQuota, ResourceQuota
from tidelock.model.reserve_pod import ReservePod
from tidelock.model.resource_claims import devices_of_class
from tidelock.model.work_queue import WorkQueue


@dataclass(frozen=True, slots=True)
class Charge:
    """The use of one reservation or of a namespace: amounts, and amounts times seconds.

    `unused` are the amounts that no owner uses. The rest counts as the requests of the owners.
    """

    reserved: Resources = field(default_factory=dict)
    seconds: Resources = field(default_factory=dict)
    unused: Resources = field(default_factory=dict)

    @classmethod
    def of(cls, amounts: Resources, life: int, unused: Resources) -> "Charge":
        """Return the use of amounts for a lifetime in seconds."""
        if not amounts:
            return _NO_CHARGE
        return cls(amounts, {name: units * life for name, units in amounts.items()}, unused)

    def __add__(self, other: "Charge") -> "Charge":
        return Charge(
            plus(self.reserved, other.reserved),
            plus(self.seconds, other.seconds),
            plus(self.unused, other.unused),
        )

    def covers(self, other: "Charge") -> bool:
        """Return whether the other use is at most this one, in amounts and in amounts times seconds."""
        return covers(self.reserved, other.reserved) and covers(self.seconds, other.seconds)


class Excess(NamedTuple):
    """A violated limit of a quota, as texts."""

    resource: str
    asked: str
    limit: str
    used: str = ""


_NO_CHARGE = Charge()
_PREEMPT = "PreemptLowerPriority"

_Listener = Callable[[str], None]


class Quotas:
    """The quotas of all namespaces, and their use by reservations.

    Args:
        quotas: all ReservationQuotas.
        resource_quotas: all ResourceQuotas.
        devices: returns the devices that a reserve pod asks for, by the resource of their class.

    Attributes:
        changed: namespaces with quotas that have changed, or with another use of them.

    """

    def __init__(
        self,
        quotas: Lister[ReservationQuota],
        resource_quotas: Lister[ResourceQuota],
        devices: Callable[[ReservePod], Resources] = lambda _: NOTHING,
    ) -> None:
        self.changed = WorkQueue[str]()
        self._quotas = quotas
        self._resource_quotas = resource_quotas
        self._devices = devices
        self._charges: dict[Key, Charge] = {}
        self._used: dict[str, Charge] = {}
        self._on_change: list[_Listener] = []
        self._on_freed: list[_Listener] = []
        quotas.on_change(self._quota_changed)
        resource_quotas.on_change(self._resource_quota_changed)

    def on_change(self, listener: _Listener) -> None:
        """Call a function with each namespace after a change of its quotas."""
        self._on_change.append(listener)

    def on_freed(self, listener: _Listener) -> None:
        """Call a function with each namespace that may use more than before."""
        self._on_freed.append(listener)

    def of(self, namespace: str) -> list[ReservationQuota]:
        """Return the quotas of a namespace, by name."""
        return sorted(self._quotas.of(namespace), key=lambda quota: quota.meta.name)

    def used(self, namespace: str) -> Charge:
        """Return the use of a namespace's reservations."""
        return self._used.get(namespace, _NO_CHARGE)

    def asked(self, entry: ReservationInfo) -> Charge:
        """Return the use of a reservation once it has everything that its spec asks for."""
        pod, requests = entry.reservation.pod, entry.reservation.requests
        if pod is not None and (devices := self._devices(pod)):
            requests = {**requests, **devices}
        return Charge.of(requests, lifetime.wanted_seconds(entry), requests)

    def ceiling(self, namespace: str) -> int:
        """Return the highest priority of reservations in a namespace, or 0 if no quota names one."""
        ceilings = (quota.spec.max_priority for quota in self._quotas.of(namespace))
        return min((ceiling for ceiling in ceilings if ceiling is not None), default=0)

    def weight(self, namespace: str) -> int:
        """Return the weight of a namespace in the fair order of the queue."""
        return max((quota.spec.weight or 1 for quota in self._quotas.of(namespace)), default=1)

    def keeps_nodes(self, namespace: str) -> bool:
        """Return whether autoscalers must keep the nodes of a namespace's reservations."""
        return any(quota.spec.autoscaling is not None for quota in self._quotas.of(namespace))

    def requests_nodes(self, namespace: str) -> bool:
        """Return whether a namespace's reservations ask autoscalers for nodes while they wait."""
        return any(quota.spec.autoscaling == "RequestNodes" for quota in self._quotas.of(namespace))

    def counts(self, entry: ReservationInfo) -> bool:
        """Return whether a reservation uses quota."""
        return entry.key in self._charges

    def update(self, entry: ReservationInfo) -> None:
        """Count a reservation as it is now."""
        before = self._charges.get(entry.key, _NO_CHARGE)
        bound = entry.phase is Phase.BOUND
        reserved, unused = (before.reserved, before.unused) if bound else (_held(entry), _unused(entry))
        self._replace(entry.key, before, Charge.of(reserved, lifetime.granted_seconds(entry), unused))

    def remove(self, entry: ReservationInfo) -> None:
        """Stop counting a reservation that is gone."""
        self._replace(entry.key, self._charges.get(entry.key, _NO_CHARGE), _NO_CHARGE)

    def contents(self) -> Mapping[Any, object]:
        """Return the use of each reservation and of each namespace."""
        return dict[Any, object](self._charges) | self._used

    def problem(self, entry: ReservationInfo, beside: Charge = _NO_CHARGE) -> str:
        """Return why quotas forbid a request, or an empty text.

        `beside` is the use of other reservations of the namespace that get capacity in the same step.
        """
        namespace = entry.key.namespace
        if not self._quotas.of(namespace):
            return "; ".join(_unnamed((), entry))
        quotas = self.of(namespace)
        asked = self.asked(entry)
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
        self.changed.add(key.namespace)
        if not (after.covers(before) and covers(after.unused, before.unused)):
            self._report_freed(key.namespace)

    def _quota_changed(self, old: ReservationQuota | None, new: ReservationQuota | None) -> None:
        for namespace in {quota.meta.namespace for quota in (old, new) if quota is not None}:
            self.changed.add(namespace)
            for listener in self._on_change:
                listener(namespace)
            self._report_freed(namespace)

    def _resource_quota_changed(self, old: ResourceQuota | None, new: ResourceQuota | None) -> None:
        for namespace in {quota.meta.namespace for quota in (old, new) if quota is not None}:
            if any(quota.spec.count_against_resource_quota for quota in self._quotas.of(namespace)):
                self._report_freed(namespace)

    def _report_freed(self, namespace: str) -> None:
        for listener in self._on_freed:
            listener(namespace)


def _unnamed(quotas: Collection[ReservationQuota], entry: ReservationInfo) -> Iterator[str]:
    """Yield the parts of a spec that only a quota can allow, if no quota of the namespace does."""
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
    """Yield the limits of a quota that a request exceeds, beyond the present use."""
    if quota.problem:
        yield Excess("reservations", "1", f"0, as the quota can't be read ({quota.problem})")
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
    """Yield the limits of a ResourceQuota that a request exceeds, beside pods and other reservations."""
    for name, resource, hard, by_pods in quota.limits:
        more = asked.reserved.get(resource, 0) - own.reserved.get(resource, 0)
        in_use = by_pods + used.unused.get(resource, 0)
        if more > 0 and in_use + more > hard:
            yield Excess(name, *(format_quantity(resource, units) for units in (more, hard, in_use)))


def _text(name: str, excesses: list[Excess]) -> str:
    """Describe an exceeded quota in the words of the API server, with its resources."""
    asked = ",".join(f"{each.resource}={each.asked}" for each in excesses)
    used = ",".join(f"{each.resource}={each.used}" for each in excesses if each.used)
    limited = ",".join(f"{each.resource}={each.limit}" for each in excesses)
    return exceeded_text(name, asked, used, limited)


def exceeded_text(name: str, asked: str, used: str, limited: str) -> str:
    """Describe an exceeded quota. Limits of what one reservation may ask have no use."""
    use = f"used: {used}, " if used else ""
    return f"exceeded quota: {name}, requested: {asked}, {use}limited: {limited}"


def _held(entry: ReservationInfo) -> Resources:
    """Return the amounts and devices of a reservation."""
    return {**entry.reserved, **_devices(entry)} if entry.devices else entry.reserved


def _unused(entry: ReservationInfo) -> Resources:
    """Return the amounts that no owner uses. A borrower is no owner, and may be of another namespace."""
    amounts = entry.reserved if entry.reservation.borrowable else entry.held
    return {**amounts, **_devices(entry)} if entry.devices and not entry.occupants else amounts


def _devices(entry: ReservationInfo) -> Resources:
    return Counter(devices_of_class(each.device_class_name) for each in entry.devices)
