"""A ReservationQuota and a ResourceQuota, decoded once into the form that the ledger uses."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pydantic

from tidelock.model.api.reservation_quota import ReservationQuotaSpec, ReservationQuotaStatus
from tidelock.model.api.wire import legible, spec_problems
from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta, StoredObject
from tidelock.model.quantities import (
    Resources,
    at_most,
    capped_quantity,
    parse_quantity,
    parse_resources,
)
from tidelock.model.resource_claims import devices_of_class


@dataclass(frozen=True, slots=True)
class ReservationQuota:
    """One version of a ReservationQuota. For an unreadable spec there is only the `problem`.

    `hard` has the limits on devices too. `status` is the stored status as plain JSON values.
    """

    meta: ObjectMeta
    spec: ReservationQuotaSpec = field(default_factory=ReservationQuotaSpec)
    problem: str = ""
    hard: Resources = field(default_factory=dict)
    hard_seconds: Resources = field(default_factory=dict)
    max_amounts: Resources = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


_READ = Reader(StoredObject)


def decode_reservation_quota(raw: bytes | msgspec.Raw) -> ReservationQuota:
    """Decode a ReservationQuota from its JSON; a bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    status = legible(ReservationQuotaStatus, stored.status)
    try:
        spec = ReservationQuotaSpec.model_validate(stored.spec)
    except pydantic.ValidationError as error:
        return ReservationQuota(stored.metadata, problem=spec_problems(error), status=status)
    if stored.problem:
        return ReservationQuota(stored.metadata, problem=stored.problem, status=status)
    return ReservationQuota(
        stored.metadata,
        spec,
        hard=_hard(spec),
        hard_seconds=parse_resources(spec.hard_seconds or {}),
        max_amounts=parse_resources(spec.max_amounts or {}),
        status=status,
    )


def _hard(spec: ReservationQuotaSpec) -> Resources:
    """Return the limits on amounts and on devices. The stricter one counts where both limit a class."""
    amounts = parse_resources(spec.hard or {})
    devices = {devices_of_class(name): count for name, count in (spec.devices or {}).items()}
    return amounts | devices | at_most(amounts, devices)


class QuotaLimit(NamedTuple):
    """The limit of a resource, and its use."""

    name: str
    resource: str
    hard: int
    used: int


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """The part of a ResourceQuota that concerns the requests of pods.

    A quota with a scope of pods is empty here, as it is unknown whether a reservation's pod will be in the
    scope.
    """

    meta: ObjectMeta
    limits: tuple[QuotaLimit, ...] = ()


class _Scoped(msgspec.Struct, frozen=True, rename="camel"):
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class _Figures(msgspec.Struct, frozen=True):
    hard: dict[str, str | int] = {}
    used: dict[str, str | int] = {}


class _Core(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Scoped = _Scoped()
    status: _Figures = _Figures()


_READ_CORE = Reader(
    _Core,
    spare=r"metadata\.(annotations|labels|ownerReferences).*",
    check=lambda stored: tuple(_limits(stored)),
)


def decode_resource_quota(raw: bytes | msgspec.Raw) -> ResourceQuota:
    """Decode a ResourceQuota from its JSON, as far as possible, or raise ValueError if it has no name."""
    stored = _READ_CORE(raw)
    if stored.spec.scopes or stored.spec.scope_selector is not None:
        return ResourceQuota(stored.metadata)
    return ResourceQuota(stored.metadata, tuple(_limits(stored)))


def _limits(stored: _Core) -> Iterator[QuotaLimit]:
    """Return the limits of requestable resources: cpu means requests.cpu, count/pods also counts pods.

    If the quota can't be read in full, a resource without its limit has a limit of 0, and a resource without
    its use is used up.
    """
    hard, used, lost = stored.status.hard, stored.status.used, bool(stored.metadata.unreadable)
    for name in sorted(hard.keys() | used.keys() if lost else hard):
        resource = name.removeprefix("requests.").removeprefix("count/")
        most = hard.get(name, "0")
        amounts = most, used.get(name, most if lost else "0")
        yield QuotaLimit(
            name, resource, *(parse_quantity(resource, capped_quantity(resource, each)) for each in amounts)
        )
