"""Quantities and semantic versions."""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

from tidelock.cel.errors import EvaluationError
from tidelock.cel.functions import Function, Overload, function, method
from tidelock.cel.values import Quantity, Semver, checked_int, footprint
from tidelock.model.quantities import QuantityError, exact_quantity

_NANO = 10**9
_WHOLE = re.compile(r"[+-]?0*([0-9]*)([kMGTPE]|[KMGTPE]i|[eE]\+?[0-9]{1,3})?")
# Digits of a number that Kubernetes reads as an integer. A binary suffix counts as three a power of 1024.
_DECIMAL_DIGITS, _BINARY_DIGITS = 18, 14
_LARGEST_BINARY = (2**63 - 1) * _NANO
_NUMBER = r"(?:0|[1-9][0-9]{0,19})"
_WORD = r"[0-9A-Za-z-]+"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_WORD}(?:\.{_WORD})*))?(?:\+{_WORD}(?:\.{_WORD})*)?"
)
_LEADING_ZEROS = re.compile(r"0+(?=[0-9])")
_LARGEST_NUMBER = 2**64 - 1


@lru_cache(maxsize=16_384)
def read_quantity(text: str) -> Quantity:
    """Parse a quantity, rounded up to billionths as in the API. Raises EvaluationError."""
    try:
        amount = exact_quantity(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None
    nano = ceil(abs(Fraction(amount)) * _NANO)
    if text.endswith("i"):
        nano = min(nano, _LARGEST_BINARY)
    return _quantity(-nano if amount < 0 else nano, is_integer=_is_plain(text))


def _is_plain(text: str) -> bool:
    """Return whether Kubernetes reads the text of a whole number as an integer. It is short, then."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return False
    digits, suffix = len(found[1]), found[2] or ""
    if suffix.endswith("i"):
        return digits <= _BINARY_DIGITS - 3 * (1 + "KMGTPE".index(suffix[0]))
    return digits <= _DECIMAL_DIGITS


def _quantity(nano: int, *, is_integer: bool) -> Quantity:
    whole, rest = divmod(nano, _NANO)
    return Quantity(nano, is_integer and not rest and checked_int(whole) is not None)


def _sum(left: Quantity, right: Quantity, sign: int = 1) -> Quantity:
    return _quantity(left.nano + sign * right.nano, is_integer=left.is_integer and right.is_integer)


def quantity_of(amount: Fraction | int) -> Quantity:
    """Return the quantity of an exact amount."""
    return _quantity(int(amount * _NANO), is_integer=True)


@lru_cache(maxsize=16_384)
def read_version(text: str) -> Semver:
    """Parse a version of semver.org. Raises EvaluationError."""
    found = _VERSION.fullmatch(text)
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


def _as_integer(quantity: Quantity) -> int:
    if not quantity.is_integer:
        raise EvaluationError("cannot convert value to integer")
    return quantity.nano // _NANO


def _as_float(quantity: Quantity) -> float:
    try:
        return quantity.nano / _NANO
    except OverflowError:
        return float("inf") if quantity.nano > 0 else float("-inf")


def _cost(text: str, *_normalize: bool) -> int:
    return footprint(text)


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _compare_versions(left: Semver, right: Semver) -> int:
    return _order(left.precedence(), right.precedence())


OVERLOADS: tuple[Overload, ...] = (
    function("quantity", "string -> Quantity", read_quantity, _cost),
    function("isQuantity", "string -> bool", is_valid(read_quantity), _cost),
    function("sign", "Quantity -> int", lambda quantity: _order(quantity.nano, 0)),
    method("isInteger", "Quantity -> bool", lambda quantity: quantity.is_integer),
    method("asInteger", "Quantity -> int", _as_integer),
    method("asApproximateFloat", "Quantity -> double", _as_float),
    method("add", "Quantity, Quantity -> Quantity", _sum),
    method("add", "Quantity, int -> Quantity", lambda a, b: _sum(a, quantity_of(b))),
    method("sub", "Quantity, Quantity -> Quantity", lambda a, b: _sum(a, b, -1)),
    method("sub", "Quantity, int -> Quantity", lambda a, b: _sum(a, quantity_of(b), -1)),
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
    method("isGreaterThan", "Semver, Semver -> bool", lambda a, b: _compare_versions(a, b) > 0),
    method("isLessThan", "Semver, Semver -> bool", lambda a, b: _compare_versions(a, b) < 0),
    method("compareTo", "Semver, Semver -> int", _compare_versions),
)
