"""Quantities of resources as whole numbers: cpu in millicores, all others in their base unit.

Whole numbers make sums exact, so an amount can be added and subtracted without a remainder. Rounding is away
from zero, as in the API's `Quantity.Value` and `Quantity.MilliValue`.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_UP, Context, Decimal, localcontext
from functools import lru_cache
from types import MappingProxyType

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

Resources = Mapping[str, int]
"""Amounts by resource name: cpu in millicores, all others in base units."""

NOTHING: Resources = MappingProxyType({})

# Sums are cut off here. It is beyond any node, and small enough that a column of such amounts adds up, times
# a hundred as scores need it, within 64 bits.
CEILING = 2**53

NANOS = 10**9
"""Billionths in a unit."""

# The grammar of the API's Quantity: a number, and a suffix or an exponent.
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?", re.ASCII)
_LARGEST = 2**63 - 1
# Characters of a quantity. The API server stores fewer, except in content without a known type. Computing a
# number of 900,000 digits takes 20 s, and the cache would keep the text.
_LONGEST = 1000
_EXACT = Context(prec=1000)
_BINARY_SUFFIXES = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_FACTORS = {suffix: Decimal(factor) for suffix, factor in _BINARY_SUFFIXES} | {
    suffix: Decimal(1).scaleb(3 * power)
    for power, suffix in zip((-3, -2, -1, 1, 2, 3, 4, 5, 6), "numkMGTPE", strict=True)
}
_BYTES = {MEMORY, EPHEMERAL_STORAGE}


class QuantityError(ValueError):
    """A text that is no quantity, or a quantity that does not fit 64 bits."""


class TooLargeError(QuantityError):
    """A quantity that does not fit 64 bits."""


def exact_quantity(text: str) -> Decimal:
    """Return the number that a quantity of the API stands for, or raise QuantityError."""
    if len(text) > _LONGEST:
        raise QuantityError(f"a quantity of {len(text)} characters; expected at most {_LONGEST}, as in 500m")
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise QuantityError(f"{text!r} is not a quantity such as 2, 500m or 4Gi")
    with localcontext(_EXACT):
        number, suffix = found.groups()
        return Decimal(number) * _FACTORS[suffix] if suffix in _FACTORS else Decimal(text)


@lru_cache(maxsize=16_384)
def parse_quantity(resource: str, value: str | int) -> int:
    """Parse a quantity in the unit of its resource.

    Raises:
        QuantityError: the value is no quantity of the API, is too long, or is beyond 64 bits.

    """
    text = str(value)
    try:
        amount = exact_quantity(text)
    except QuantityError as error:
        raise QuantityError(f"{resource}: {error}") from None
    with localcontext(_EXACT):
        units = int((amount * (1000 if resource == CPU else 1)).to_integral_value(rounding=ROUND_UP))
    if abs(units) > _LARGEST:
        raise TooLargeError(f"{resource}: {text!r} is too large")
    return units


@lru_cache(maxsize=16_384)
def parse_nanos(value: str | int) -> int:
    """Parse a quantity in billionths of its unit, the smallest amount that the API knows.

    Raises:
        QuantityError: the value is no quantity of the API, is too long, or is beyond 64 bits.

    """
    amount = exact_quantity(str(value))
    with localcontext(_EXACT):
        nanos = int((amount * NANOS).to_integral_value(rounding=ROUND_UP))
    if abs(nanos) > _LARGEST * NANOS:
        raise TooLargeError(f"{str(value)!r} is too large")
    return nanos


def format_nanos(nanos: int) -> str:
    """Format an amount in billionths of its unit. `parse_nanos` returns the same number again."""
    units, rest = divmod(nanos, NANOS)
    if rest:
        return next(
            f"{nanos // factor}{suffix}"
            for suffix, factor in (("m", 10**6), ("u", 10**3), ("n", 1))
            if nanos % factor == 0
        )
    for suffix, factor in _BINARY_SUFFIXES:
        if units and units % factor == 0:
            return f"{units // factor}{suffix}"
    return str(units)


def capped_quantity(resource: str, value: str | int) -> str | int:
    """Return a quantity, or the largest one that fits 64 bits. Raises QuantityError for a bad one."""
    try:
        parse_quantity(resource, value)
    except TooLargeError:
        sign = "-" if str(value).startswith("-") else ""
        return f"{sign}{_LARGEST}{'m' if resource == CPU else ''}"
    return value


def parse_resources(values: Mapping[str, str | int]) -> dict[str, int]:
    """Parse a resource list, or raise QuantityError for its first bad value."""
    return {resource: parse_quantity(resource, value) for resource, value in values.items()}


def format_quantity(resource: str, units: int) -> str:
    """Format an amount for people; parse_quantity returns the same number again."""
    if resource == CPU:
        return str(units // 1000) if units % 1000 == 0 else f"{units}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for suffix, factor in _BINARY_SUFFIXES:
            if units and units % factor == 0:
                return f"{units // factor}{suffix}"
    return str(units)


def format_resources(resources: Resources) -> dict[str, str]:
    """Format a resource list, sorted by name."""
    return {resource: format_quantity(resource, units) for resource, units in sorted(resources.items())}


def plus(left: Resources, right: Resources) -> dict[str, int]:
    """Return the sum of two resource lists."""
    total = dict(left)
    for resource, units in right.items():
        total[resource] = total.get(resource, 0) + units
    return total


def minus(left: Resources, right: Resources) -> dict[str, int]:
    """Return the difference of two resource lists, without the resources of which nothing is left."""
    rest = {resource: units - right.get(resource, 0) for resource, units in left.items()}
    return {resource: units for resource, units in rest.items() if units}


def beyond(left: Resources, right: Resources) -> dict[str, int]:
    """Return the amounts by which one resource list exceeds another, where it does."""
    rest = {resource: units - right.get(resource, 0) for resource, units in left.items()}
    return {resource: units for resource, units in rest.items() if units > 0}


def at_least(left: Resources, right: Resources) -> dict[str, int]:
    """Return the larger of two resource lists, resource by resource."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in (*left, *right)}


def at_most(left: Resources, right: Resources) -> dict[str, int]:
    """Return the smaller of two resource lists, for the resources that both have."""
    return {name: min(units, right[name]) for name, units in left.items() if name in right}


def covers(large: Resources, small: Resources) -> bool:
    """Return whether no amount in `small` is more than the one in `large`."""
    for name, units in small.items():  # noqa: SIM110 -- all() takes twice the time
        if units > large.get(name, 0):
            return False
    return True
