"""Quantities and times in the form in which the API server stores them."""

import re
from datetime import UTC, datetime
from decimal import ROUND_UP, Decimal
from functools import lru_cache

_QUANTITY = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
_NANO = Decimal("1e-9")
_LARGEST = Decimal(2**63 - 1)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)", re.ASCII)
_MICROS = 6


class AmountError(ValueError):
    """A text that is no quantity or time of the API."""


@lru_cache(maxsize=4096)
def canonical_quantity(text: str) -> str:
    """Return a quantity as `Quantity.CanonicalizeBytes` writes it. Raises AmountError."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        raise AmountError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, number, suffix = found.groups(default="")
    value = (Decimal(number) * _factor(suffix)).quantize(_NANO, rounding=ROUND_UP)
    value = min(value, _LARGEST)
    if suffix in _BINARY and value >= 1024:  # noqa: PLR2004 -- smaller ones are written as decimals
        return sign.replace("+", "") + _binary(value)
    minus = "-" if sign == "-" and value else ""
    return minus + (_exponent(value) if suffix[:1] in {"e", "E"} and len(suffix) > 1 else _decimal(value))


def amount(text: str) -> Decimal:
    """Return the number that a quantity stands for. Raises AmountError."""
    canonical_quantity(text)
    found = _QUANTITY.fullmatch(text.strip())
    sign, number, suffix = found.groups(default="") if found else ("", "0", "")
    return Decimal(sign + number) * _factor(suffix)


def _factor(suffix: str) -> Decimal:
    if suffix in _BINARY:
        return Decimal(_BINARY[suffix])
    return Decimal(1).scaleb(_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))


def _binary(value: Decimal) -> str:
    if value != value.to_integral_value():
        return _decimal(value)
    whole, suffix = int(value), ""
    for name, factor in _BINARY.items():
        if whole % factor == 0:
            suffix = name
    return f"{whole // _BINARY[suffix] if suffix else whole}{suffix}"


def _powers(value: Decimal) -> tuple[int, int]:
    """Return a whole number and the power of a thousand with which it makes up a value."""
    for power in range(18, -10, -3):
        scaled = value.scaleb(-power)
        if scaled == scaled.to_integral_value():
            return int(scaled), power
    raise AmountError("unable to parse quantity's suffix")


def _decimal(value: Decimal) -> str:
    if not value:
        return "0"
    number, power = _powers(value)
    return f"{number}{_SUFFIXES[power]}"


def _exponent(value: Decimal) -> str:
    if not value:
        return "0"
    number, power = _powers(value)
    return f"{number}e{power}" if power else str(number)


def canonical_time(text: str) -> str:
    """Return a time in whole seconds of UTC, as metav1.Time is stored. Raises AmountError."""
    return _read_time(text).strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_micro_time(text: str) -> str:
    """Return a time in microseconds of UTC, as metav1.MicroTime is stored. Raises AmountError."""
    found = _TIME.fullmatch(text)
    if found is None or len(found[2] or "") != _MICROS:
        raise AmountError(f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00"')
    return _read_time(text).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _read_time(text: str) -> datetime:
    found = _TIME.fullmatch(text)
    if found is None:
        raise AmountError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00"')
    try:
        moment = datetime.fromisoformat(
            f"{found[1]}.{(found[2] or '0')[:_MICROS]:0<6}{found[3].replace('Z', '+00:00')}"
        )
    except ValueError as error:
        raise AmountError(f'parsing time "{text}": {error}') from None
    return moment.astimezone(UTC)


def seconds_text(seconds: float) -> str:
    """Return a time of the server's clock, in seconds since 1970, as metav1.Time."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """Return the seconds since 1970 of a stored time."""
    return _read_time(text).timestamp()
