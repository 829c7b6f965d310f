"""Quantities and semantic versions."""

import math
import re
from fractions import Fraction
from typing import Any

from tidelock.cel.errors import EvaluationError
from tidelock.cel.functions import Function, Overload, function, method
from tidelock.cel.values import ELEMENT, Quantity, Semver, checked_int
from tidelock.model.quantities import QuantityError, exact_quantity

_NANO = 10**9
_ENDING = r"([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+)"
_SUFFIX = re.compile(rf"(?!$)[+-]?\.?{_ENDING}")
_PARTS = re.compile(rf"[+-]?0*([0-9]*)\.?([0-9]*){_ENDING}")
# Digits of a number that Kubernetes reads as an int64. A binary suffix counts as three a power of 1024.
_DECIMAL_DIGITS, _BINARY_DIGITS = 18, 14
_DECIMAL_SUFFIXES = {suffix: 3 * power for power, suffix in enumerate("num kMGTPE", start=-3)} | {"": 0}
_LARGEST_BINARY = (2**63 - 1) * _NANO
_FINEST_SCALE = -9
_NUMBER = r"(?:0|[1-9][0-9]{0,19})"
_WORD = r"[0-9A-Za-z-]+"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?(?:\+{_WORD}(?:\.{_WORD})*)?"
)
_LEADING_ZEROS = re.compile(r"0+(?=[0-9])")
_LARGEST_NUMBER = 2**64 - 1
# The API's versions have 64 characters. An author of an expression may put longer ones together.
_LONGEST_VERSION = 1_000


def read_quantity(text: str) -> Quantity:
    """Parse a quantity, rounded up to billionths as in the API. A suffix alone is zero of it, as there.

    Raises:
        EvaluationError: the text is no quantity.

    """
    suffix = _SUFFIX.fullmatch(text)
    try:
        amount = exact_quantity(f"0{suffix[1]}" if suffix else text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None
    nano = math.ceil(abs(Fraction(amount)) * _NANO)
    scale = _scale(text, nano)
    if text.endswith("i"):
        nano = min(nano, _LARGEST_BINARY)
    signed = -nano if amount < 0 else nano
    return Quantity(signed, _FINEST_SCALE, decimal=True) if scale is None else Quantity(signed, scale)


def _scale(text: str, nano: int) -> int | None:
    """Return the power of ten if Kubernetes reads a quantity as an int64, otherwise None.

    Semantics of apimachinery, resource.ParseQuantity.
    """
    found = _PARTS.fullmatch(text)
    if found is None:
        return None
    whole, decimals, suffix = found[1] or "0", found[2], found[3]
    if suffix.endswith("i"):
        digits = _BINARY_DIGITS - 3 * (1 + "KMGTPE".index(suffix[0]))
        fits = not decimals and len(whole) <= digits and checked_int(nano // _NANO) is not None
        return 0 if fits else None
    exponent = _DECIMAL_SUFFIXES[suffix] if suffix in _DECIMAL_SUFFIXES else int(suffix[1:])
    scale = exponent - len(decimals)
    return scale if len(whole + decimals) <= _DECIMAL_DIGITS and scale >= _FINEST_SCALE else None


def _sum(left: Quantity, right: Quantity, sign: int = 1) -> Quantity:
    """Return a sum or difference, with the scale that `resource.Quantity.Add` gives it."""
    nano, scale = left.nano + sign * right.nano, min(left.scale, right.scale)
    if left.decimal or right.decimal:
        return Quantity(nano, scale, decimal=True, computed=True)
    if not left.nano or not right.nano:
        return Quantity(nano, left.scale if left.nano or not right.nano else right.scale, computed=True)
    unit = 10 ** (scale - _FINEST_SCALE)
    fits = all(checked_int(each // unit) is not None for each in (left.nano, right.nano, nano))
    return Quantity(nano, scale, decimal=not fits, computed=True)


def _sum_with_int(left: Quantity, number: int, sign: int = 1) -> Quantity:
    return _sum(left, Quantity(number * _NANO), sign)


def read_version(text: str) -> Semver:
    """Parse a version of semver.org, of at most 1,000 characters. Raises EvaluationError."""
    found = _VERSION.fullmatch(text) if len(text) <= _LONGEST_VERSION else None
    if found is None:
        raise EvaluationError(f"{text[:50]!r} is not a semantic version")
    major, minor, patch = (int(each) for each in found.groups()[:3])
    words = found[4].split(".") if found[4] else []
    numbers = [major, minor, patch, *(int(each[:30]) for each in words if each.isdigit())]
    if max(numbers) > _LARGEST_NUMBER or any(
        each.isdigit() and each[0] == "0" and len(each) > 1 for each in words
    ):
        raise EvaluationError(f"{text[:50]!r} is not a semantic version")
    return Semver((major, minor, patch), tuple(int(each) if each.isdigit() else each for each in words))


def _normalized(text: str) -> str:
    """Return a version without a leading `v` and leading zeros, and with all of its three numbers."""
    parts = text.removeprefix("v").split(".", 2)
    parts = [_LEADING_ZEROS.sub("", part, count=1) if part[:1] == "0" else part for part in parts]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):  # noqa: PLR2004 -- major, minor, patch
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][: max(3, len(parts))])


def _version(text: str, normalize: bool = False) -> Semver:
    return read_version(_normalized(text) if normalize else text)


def is_valid(read: Function) -> Function:
    """Return a test whether a text can be read."""

    def valid(*arguments: object) -> bool:
        try:
            read(*arguments)
        except EvaluationError:
            return False
        return True

    return valid


def _integer(quantity: Quantity) -> int | None:
    if quantity.decimal or quantity.scale < 0:
        return None
    return checked_int(quantity.nano // _NANO)


def _as_integer(quantity: Quantity) -> int:
    number = _integer(quantity)
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _as_float(quantity: Quantity) -> float:
    """Return a double as `AsApproximateFloat64` does: with two roundings, so 0.3 is 0.30000000000000004."""
    try:
        return float(quantity.unscaled) * _power_of_ten(quantity.scale)
    except OverflowError:
        return math.inf if quantity.nano > 0 else -math.inf


def _power_of_ten(exponent: int) -> float:
    """Return a power of ten as Go's math.Pow10, which multiplies two powers from a table."""
    tens, rest = divmod(abs(exponent), 32)
    if exponent < 0:
        return 1 / float(f"1e{rest}")
    return float(f"1e{32 * tens}") * float(f"1e{rest}")


def _cost(text: str, *_normalize: bool) -> int:
    return 50 + 2 * len(text)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _comparison_cost(left: Semver, right: Semver) -> int:
    return ELEMENT * (len(left.prerelease) + len(right.prerelease))


def _compare_versions(left: Semver, right: Semver) -> int:
    return _order(left.precedence(), right.precedence())


OVERLOADS: tuple[Overload, ...] = (
    function("quantity", "string -> Quantity", read_quantity, _cost),
    function("isQuantity", "string -> bool", is_valid(read_quantity), _cost),
    function("sign", "Quantity -> int", lambda quantity: _order(quantity.nano, 0)),
    method("isInteger", "Quantity -> bool", lambda quantity: _integer(quantity) is not None),
    method("asInteger", "Quantity -> int", _as_integer),
    method("asApproximateFloat", "Quantity -> double", _as_float, lambda _quantity: 20),
    method("add", "Quantity, Quantity -> Quantity", _sum),
    method("add", "Quantity, int -> Quantity", _sum_with_int),
    method("sub", "Quantity, Quantity -> Quantity", lambda a, b: _sum(a, b, -1)),
    method("sub", "Quantity, int -> Quantity", lambda a, b: _sum_with_int(a, b, -1)),
    method("isGreaterThan", "Quantity, Quantity -> bool", lambda a, b: a.nano > b.nano),
    method("isLessThan", "Quantity, Quantity -> bool", lambda a, b: a.nano < b.nano),
    method("compareTo", "Quantity, Quantity -> int", lambda a, b: _order(a.nano, b.nano)),
    function("semver", "string -> Semver", _version, _cost),
    function("semver", "string, bool -> Semver", _version, _cost),
    function("isSemver", "string -> bool", is_valid(_version), _cost),
    function("isSemver", "string, bool -> bool", is_valid(_version), _cost),
    method("major", "Semver -> int", lambda version: version.numbers[0]),
    method("minor", "Semver -> int", lambda version: version.numbers[1]),
    method("patch", "Semver -> int", lambda version: version.numbers[2]),
    method(
        "isGreaterThan", "Semver, Semver -> bool", lambda a, b: _compare_versions(a, b) > 0, _comparison_cost
    ),
    method(
        "isLessThan", "Semver, Semver -> bool", lambda a, b: _compare_versions(a, b) < 0, _comparison_cost
    ),
    method("compareTo", "Semver, Semver -> int", _compare_versions, _comparison_cost),
)
