"""The values of expressions, their types at run time, equality and order.

Booleans, ints, doubles, strings, bytes, null, lists and maps are Python's own. A map keeps a boolean key in a
tuple, because Python takes True and 1 for the same key. Ints and uints are checked to fit 64 bits wherever
they are made.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from math import isnan
from typing import Any, NamedTuple

from tidelock.cel.errors import EvaluationError, no_such_overload, shown

MAX_COST = 1_000_000
"""The cost of one evaluation, as `CELSelectorExpressionMaxCost` of the API."""
ELEMENT = 8
"""The cost of an element of a list or map that is walked through. It is one in cel-go."""
MAX_FOOTPRINT = 250_000
"""The cost of a walk through the largest value. An evaluation with a larger value costs too much."""
# Up to here, every whole number is a double.
_EXACT_DOUBLE = 2**53
_LOWEST_INT, _HIGHEST_INT, _HIGHEST_UINT = -(2**63), 2**63 - 1, 2**64 - 1


class UInt(int):
    """An unsigned integer of 64 bits."""


class Domains(dict[str, dict[str, object]]):
    """A map of maps by domain, in which every unknown domain is an empty map."""

    def __missing__(self, key: str) -> dict[str, object]:
        return {}

    def of(self, key: object) -> dict[str, object]:
        """Return the map of a domain. A key that is no text is an unknown domain, too."""
        return self[key] if isinstance(key, str) else {}


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent, as of `.?` and `[?]`."""

    value: object = None
    present: bool = True


NONE = Optional(present=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value: `type(1)` and `int`."""

    name: str


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """An instant in nanoseconds since 1970."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount of a resource, in billionths. The API has no smaller parts.

    Kubernetes keeps an amount as a number times ten to the power of `scale`. The number is an int64, or a
    `decimal` of any length. Its notation decides about both. The result of a sum is `computed`.
    """

    nano: int
    scale: int = field(default=0, compare=False)
    decimal: bool = field(default=False, compare=False)
    computed: bool = field(default=False, compare=False)

    @property
    def unscaled(self) -> int:
        """The number beside the power of ten."""
        unit: int = 10 ** (9 + self.scale)
        return self.nano // unit


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version. Its precedence ignores the build metadata."""

    numbers: tuple[int, int, int]
    prerelease: tuple[int | str, ...]

    def precedence(self) -> tuple[object, ...]:
        """Return a key of the order of semver.org: numbers before words, a release after its prereleases."""
        identifiers = tuple((isinstance(each, str), each) for each in self.prerelease)
        return self.numbers, not identifiers, identifiers


class Url(NamedTuple):
    """The parts of a URL, as the functions of Kubernetes return them."""

    scheme: str
    host: str
    hostname: str
    port: str
    escaped_path: str
    query: str
    text: str


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format of strings by its name."""

    name: str


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Domains: "map",
    TypeValue: "type",
    Optional: "optional_type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
    IPv4Address: "net.IP",
    IPv6Address: "net.IP",
    IPv4Interface: "net.CIDR",
    IPv6Interface: "net.CIDR",
}
PYTHON_TYPES: dict[str, tuple[type, ...]] = {}
"""The Python types of the values of each type."""
for _python_type, _name in _TYPE_NAMES.items():
    PYTHON_TYPES[_name] = (*PYTHON_TYPES.get(_name, ()), _python_type)

_NUMBERS = {int, UInt, float}
_OPAQUE = {each for each, name in _TYPE_NAMES.items() if name.startswith(("kubernetes.", "net."))}
_ORDERED = {bool, str, bytes, Duration, Timestamp}


def type_name(value: object) -> str:
    """Return the name of a value's type."""
    return name_of_type(type(value))


def name_of_type(kind: type) -> str:
    """Return the name of the type whose values have a Python type."""
    return _TYPE_NAMES[kind]


def checked_int(number: int) -> int | None:
    """Return a number if it is an int, otherwise None."""
    return number if _LOWEST_INT <= number <= _HIGHEST_INT else None


def checked_uint(number: int) -> UInt | None:
    """Return a number as a uint, or None if it is none."""
    return UInt(number) if 0 <= number <= _HIGHEST_UINT else None


def map_key(value: object) -> object:
    """Return the key under which a map keeps an entry. Raises EvaluationError for a value that is no key."""
    kind = type(value)
    if kind is bool:
        return (value,)
    if kind is str or kind in _NUMBERS or value is None:
        return value
    raise EvaluationError(f"unsupported key type: {type_name(value)}")


def key_text(key: object) -> str:
    """Return a key as messages show it, as a value or in the form in which a map keeps it."""
    if isinstance(key, tuple):
        (key,) = key
    return shown(str(key).lower() if isinstance(key, bool) else str(key))


def keys(entries: dict[object, object]) -> Iterator[object]:
    """Yield the keys of a map as values."""
    for key in entries:
        yield key[0] if isinstance(key, tuple) else key


def equal(left: object, right: object) -> bool:
    """Return whether two values are equal, across types as in cel-spec.

    Numbers of different types are compared as numbers. Values of otherwise different types are unequal. Only
    a quantity, version, URL, address or format on the left demands its own type on the right, as in
    Kubernetes. A quantity demands one that is no result of a sum. Raises EvaluationError for others.
    """
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        if isinstance(left, float) or isinstance(right, float):
            return float(left) == float(right)  # type: ignore[arg-type]
        return left == right
    if type_name(left) == type_name(right):
        equality = _EQUALITIES.get(type_name(left))
        return left == right if equality is None else equality(left, right)
    if type(left) in _OPAQUE and right is not None:
        raise no_such_overload()
    return False


def _equal_elements(left: object, right: object) -> bool:
    """Return whether elements are equal, and True if they can't be compared, as in cel-go."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _equal_lists(left: list[object], right: list[object]) -> bool:
    return len(left) == len(right) and all(map(_equal_elements, left, right))


def _equal_maps(left: dict[object, object], right: dict[object, object]) -> bool:
    if len(left) != len(right):
        return False
    return all(key in right and _equal_elements(value, right[key]) for key, value in left.items())


def _equal_optionals(left: Optional, right: Optional) -> bool:
    return left.present == right.present and (not left.present or equal(left.value, right.value))


def _equal_quantities(left: Quantity, right: Quantity) -> bool:
    if right.computed:  # which is a pointer in Kubernetes
        raise no_such_overload()
    return left == right


def _equal_urls(left: Url, right: Url) -> bool:
    return left.text == right.text


_EQUALITIES: dict[str, Callable[[Any, Any], bool]] = {
    "list": _equal_lists,
    "map": _equal_maps,
    "optional_type": _equal_optionals,
    "kubernetes.Quantity": _equal_quantities,
    "kubernetes.URL": _equal_urls,
}


def same(left: object, right: object) -> bool:
    """Return whether two values are equal, and False if they can't be compared."""
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def compare(left: object, right: object) -> int:
    """Return -1, 0 or 1. Raises EvaluationError for values that have no order."""
    left_type, right_type = type(left), type(right)
    if left_type in _NUMBERS and right_type in _NUMBERS:
        if float in {left_type, right_type}:
            left, right = float(left), float(right)  # type: ignore[arg-type]
            if isnan(left) or isnan(right):
                raise EvaluationError("NaN values cannot be ordered")
    elif left_type is not right_type or left_type not in _ORDERED:
        raise no_such_overload()
    return int(left > right) - int(left < right)  # type: ignore[operator]


def contains(container: object, value: object) -> bool:
    """Return whether a list has an equal element, or a map the key. Raises EvaluationError."""
    if isinstance(container, dict):
        try:
            return map_key(value) in container
        except EvaluationError:
            return False
    if not isinstance(container, list):
        raise no_such_overload()
    if type(value) is str:
        return value in container
    if type(value) is int and abs(value) < _EXACT_DOUBLE and value not in container:
        return False
    return any(same(value, each) for each in container)


def footprint(value: object) -> int:
    """Return the cost of a walk through a value: one for ten characters, and ELEMENT for each element.

    The walk ends with MAX_FOOTPRINT. A value that contains another one twice may be exponentially large.
    """
    if isinstance(value, str | bytes):
        return 1 + len(value) // 10
    total, waiting = ELEMENT, [value]
    while waiting and total < MAX_FOOTPRINT:
        match waiting.pop():
            case list() as elements:
                total += ELEMENT * len(elements)
                waiting += elements
            case dict() as entries:
                total += 2 * ELEMENT * len(entries)
                waiting += entries
                waiting += entries.values()
            case str() | bytes() as text:
                total += len(text) // 10
            case Optional(value=inner):
                total += ELEMENT
                waiting.append(inner)
    return total if total < MAX_FOOTPRINT else MAX_COST + 1
