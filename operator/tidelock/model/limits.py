"""A ReservationQuota and a ResourceQuota, decoded once into what the ledger works with."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pydantic

from tidelock.model.meta import ObjectMeta, Stored
from tidelock.model.quantities import Resources, parse_quantity, parse_resources
from tidelock.model.reservationquotas import ReservationQuotaSpec
from tidelock.model.wire import spec_problems

_NO_LIMITS = ReservationQuotaSpec()


@dataclass(frozen=True, slots=True)
class ReservationQuota:
    """One version of a ReservationQuota; of a spec that cannot be read there is only the `problem`.

    `status` is the stored status as plain JSON values.
    """

    meta: ObjectMeta
    spec: ReservationQuotaSpec = _NO_LIMITS
    problem: str = ""
    hard: Resources = field(default_factory=dict)
    hard_seconds: Resources = field(default_factory=dict)
    max_amounts: Resources = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


_DECODER = msgspec.json.Decoder(Stored)


def decode_reservation_quota(raw: bytes | msgspec.Raw) -> ReservationQuota:
    """Decode a ReservationQuota from its JSON; a bad spec becomes the result's `problem`."""
    stored = _DECODER.decode(raw)
    try:
        spec = ReservationQuotaSpec.model_validate(stored.spec)
    except pydantic.ValidationError as error:
        return ReservationQuota(stored.metadata, problem=spec_problems(error), status=stored.status)
    return ReservationQuota(
        stored.metadata,
        spec,
        hard=parse_resources(spec.hard or {}),
        hard_seconds=parse_resources(spec.hard_seconds or {}),
        max_amounts=parse_resources(spec.max_amounts or {}),
        status=stored.status,
    )


class Limit(NamedTuple):
    """What there may be at most of a resource, and what there is."""

    name: str
    resource: str
    hard: int
    used: int


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """What a ResourceQuota says of what pods request.

    One for a scope of pods says nothing here, as nobody can tell whether a lock's pod will be in it.
    """

    meta: ObjectMeta
    limits: tuple[Limit, ...] = ()


class _Scoped(msgspec.Struct, frozen=True, rename="camel"):
    scopes: tuple[str, ...] = ()
    scope_selector: dict[str, Any] | None = None


class _Figures(msgspec.Struct, frozen=True):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class _Core(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Scoped = _Scoped()
    status: _Figures = _Figures()


_CORE_DECODER = msgspec.json.Decoder(_Core)


def decode_resource_quota(raw: bytes | msgspec.Raw) -> ResourceQuota:
    """Decode a ResourceQuota from its JSON; raises ValueError for what no API server sends."""
    stored = _CORE_DECODER.decode(raw)
    if stored.spec.scopes or stored.spec.scope_selector is not None:
        return ResourceQuota(stored.metadata)
    return ResourceQuota(stored.metadata, tuple(_limits(stored.status)))


def _limits(figures: _Figures) -> Iterator[Limit]:
    """Read what a lock can ask for: cpu is another name for requests.cpu, count/pods counts pods as well."""
    for name, hard in sorted(figures.hard.items()):
        resource = name.removeprefix("requests.").removeprefix("count/")
        used = figures.used.get(name, "0")
        yield Limit(name, resource, parse_quantity(resource, hard), parse_quantity(resource, used))
