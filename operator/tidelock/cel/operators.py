"""Operators, conversions and the other functions of the language's standard library."""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tidelock.cel.errors import EvaluationError
from tidelock.cel.functions import Cost, Function, Overload, function, method
from tidelock.cel.libraries.times import (
    duration_cost,
    duration_text,
    in_range,
    read_duration,
    read_timestamp,
    timestamp_cost,
    timestamp_text,
)
from tidelock.cel.limits import check_elements, check_text
from tidelock.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    checked_int,
    checked_uint,
    compare,
    contains,
    footprint,
    type_name,
)

_INT = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_UINT = re.compile(r"\d{1,400}", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)
_NANOSECONDS = 10**9
# Characters that are compared in a unit of cost.
_COMPARED = 100


def int_or_overflow(number: int) -> int:
    """Return a number as an int. Raises EvaluationError if it does not fit 64 bits."""
    fitted = checked_int(number)
    if fitted is None:
        raise EvaluationError("integer overflow")
    return fitted


def uint_or_overflow(number: int) -> UInt:
    """Return a number as a uint. Raises EvaluationError if it does not fit 64 bits."""
    fitted = checked_uint(number)
    if fitted is None:
        raise EvaluationError("unsigned integer overflow")
    return fitted


def _integers(name: str, operation: Callable[[int, int], int]) -> tuple[Overload, Overload]:
    return (
        function(name, "int, int -> int", lambda a, b: int_or_overflow(operation(int(a), int(b)))),
        function(name, "uint, uint -> uint", lambda a, b: uint_or_overflow(operation(int(a), int(b)))),
    )


def _quotient(dividend: int, divisor: int) -> int:
    """Divide towards zero."""
    if divisor == 0:
        raise EvaluationError("division by zero")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    """Return the rest of a division towards zero. It has the sign of the dividend."""
    if divisor == 0:
        raise EvaluationError("modulus by zero")
    if divisor == -1:
        int_or_overflow(-dividend)
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def _divide_doubles(dividend: float, divisor: float) -> float:
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or math.isnan(dividend):
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1.0, divisor)


def _span(left: Any, right: Any, sign: int) -> Duration:
    return Duration(int_or_overflow(left.nanoseconds + sign * right.nanoseconds))


def _moved(instant: Timestamp, span: Duration, sign: int) -> Timestamp:
    return in_range(Timestamp(instant.nanoseconds + sign * span.nanoseconds))


def _ordered(name: str, test: Callable[[int], bool]) -> list[Overload]:
    """Return the overloads of a comparison. Numbers of different types are compared, too."""

    def implementation(left: object, right: object) -> bool:
        return test(compare(left, right))

    numbers = ("int", "uint", "double")
    pairs = [(left, right) for left in numbers for right in numbers]
    pairs += [(each, each) for each in ("bool", "timestamp", "duration")]
    return [
        *(function(name, f"{left}, {right} -> bool", implementation) for left, right in pairs),
        *(
            function(name, f"{each}, {each} -> bool", implementation, _compared_size)
            for each in ("string", "bytes")
        ),
    ]


def _compared_size(left: str | bytes, right: str | bytes) -> int:
    return min(len(left), len(right)) // 10


def _size_of(value: Any) -> int:
    return len(value)


def _joined_size(left: str | bytes, right: str | bytes) -> int:
    return 1 + check_text(len(left) + len(right)) // 10


def search_cost(text: str, part: str, *_others: object) -> int:
    """Return the cost of a search for a part, at each of its places.

    Python's searches compare up to the whole part at each place, and nothing runs beside them.
    """
    places = max(len(text) - len(part) + 1, 0)
    return footprint(text) + footprint(part) + places * len(part) // _COMPARED


def _list_sizes(left: list[object], right: list[object]) -> int:
    return check_elements(len(left) + len(right))


def _invalid(value: object, target: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{target}'")


def _double_to_int(number: float) -> int:
    # The bounds themselves are excluded, as in cel-go: they may stand for numbers beyond.
    if not -(2.0**63) < number < 2.0**63:
        raise EvaluationError("integer overflow")
    return int(number)


def _double_to_uint(number: float) -> UInt:
    if not 0 <= number < 2.0**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(number)


def _text_to_int(text: str) -> int:
    number = checked_int(int(text)) if _INT.fullmatch(text) else None
    if number is None:
        raise _invalid(text, "int")
    return number


def _text_to_uint(text: str) -> UInt:
    number = checked_uint(int(text)) if _UINT.fullmatch(text) else None
    if number is None:
        raise _invalid(text, "uint")
    return number


def _text_to_double(text: str) -> float:
    number = float(text) if _DOUBLE.fullmatch(text) else None
    if number is None or (math.isinf(number) and "inf" not in text.lower()):
        raise _invalid(text, "double")
    return number


def _text_to_bool(text: str) -> bool:
    if text not in _BOOLEANS:
        raise _invalid(text, "bool")
    return _BOOLEANS[text]


def _text_to_bytes(text: str) -> bytes:
    content = text.encode(errors="replace")
    check_text(len(content))
    return content


def _bytes_to_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def double_text(number: float) -> str:
    """Return the shortest text of a double, as Go's `%g` writes it: with an exponent from a million on."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"
    exact = Decimal(repr(number)).normalize()
    exponent = exact.adjusted() if number else 0
    if -5 < exponent < 6:  # noqa: PLR2004 -- Go's bounds for a text without an exponent
        return format(exact, "f")
    return f"{exact.scaleb(-exponent):f}e{exponent:+03d}"


def _text_functions() -> list[Overload]:
    tests: dict[str, tuple[Function, Cost]] = {
        "contains": (lambda text, part: part in text, search_cost),
        "startsWith": (lambda text, part: text.startswith(part), _compared_size),
        "endsWith": (lambda text, part: text.endswith(part), _compared_size),
    }
    return [method(name, "string, string -> bool", *test) for name, test in tests.items()]


def _identities() -> list[Overload]:
    names = ("bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint")
    return [function(name, f"{name} -> {name}", lambda value: value) for name in names]


OVERLOADS = (
    *_integers("+", lambda a, b: a + b),
    *_integers("-", lambda a, b: a - b),
    *_integers("*", lambda a, b: a * b),
    *_integers("/", _quotient),
    *_integers("%", _remainder),
    function("+", "double, double -> double", lambda a, b: a + b),
    function("-", "double, double -> double", lambda a, b: a - b),
    function("*", "double, double -> double", lambda a, b: a * b),
    function("/", "double, double -> double", _divide_doubles),
    function("+", "string, string -> string", lambda a, b: a + b, _joined_size),
    function("+", "bytes, bytes -> bytes", lambda a, b: a + b, _joined_size),
    function("+", "list(A), list(A) -> list(A)", lambda a, b: a + b, _list_sizes),
    function("+", "duration, duration -> duration", lambda a, b: _span(a, b, 1)),
    function("+", "duration, timestamp -> timestamp", lambda a, b: _moved(b, a, 1)),
    function("+", "timestamp, duration -> timestamp", lambda a, b: _moved(a, b, 1)),
    function("-", "duration, duration -> duration", lambda a, b: _span(a, b, -1)),
    function("-", "timestamp, timestamp -> duration", lambda a, b: _span(a, b, -1)),
    function("-", "timestamp, duration -> timestamp", lambda a, b: _moved(a, b, -1)),
    function("-_", "int -> int", lambda a: int_or_overflow(-a)),
    function("-_", "double -> double", lambda a: -a),
    function("!_", "bool -> bool", lambda a: not a),
    *_ordered("<", lambda order: order < 0),
    *_ordered("<=", lambda order: order <= 0),
    *_ordered(">", lambda order: order > 0),
    *_ordered(">=", lambda order: order >= 0),
    function(
        "in", "A, list(A) -> bool", lambda a, b: contains(b, a), lambda a, b: footprint(b) + footprint(a)
    ),
    function("in", "A, map(A, B) -> bool", lambda a, b: contains(b, a)),
    *(function("size", f"{each} -> int", _size_of) for each in ("bytes", "list(A)", "map(A, B)", "string")),
    *(method("size", f"{each} -> int", _size_of) for each in ("bytes", "list(A)", "map(A, B)", "string")),
    *_text_functions(),
    *_identities(),
    function("dyn", "A -> dyn", lambda value: value),
    function("type", "A -> type(A)", lambda value: TypeValue(type_name(value))),
    function("bool", "string -> bool", _text_to_bool),
    function("bytes", "string -> bytes", _text_to_bytes, footprint),
    function("double", "int -> double", float),
    function("double", "uint -> double", float),
    function("double", "string -> double", _text_to_double, footprint),
    function("duration", "string -> duration", read_duration, duration_cost),
    function("timestamp", "string -> timestamp", read_timestamp, timestamp_cost),
    function("timestamp", "int -> timestamp", lambda seconds: in_range(Timestamp(seconds * _NANOSECONDS))),
    function("int", "uint -> int", lambda number: int_or_overflow(int(number))),
    function("int", "double -> int", _double_to_int),
    function("int", "string -> int", _text_to_int, footprint),
    function("int", "duration -> int", lambda span: span.nanoseconds),
    function("int", "timestamp -> int", lambda instant: instant.nanoseconds // _NANOSECONDS),
    function("uint", "int -> uint", uint_or_overflow),
    function("uint", "double -> uint", _double_to_uint),
    function("uint", "string -> uint", _text_to_uint, footprint),
    function("string", "bool -> string", lambda value: "true" if value else "false"),
    function("string", "int -> string", str),
    function("string", "uint -> string", lambda value: str(int(value))),
    function("string", "double -> string", double_text),
    function("string", "bytes -> string", _bytes_to_text, footprint),
    function("string", "duration -> string", duration_text),
    function("string", "timestamp -> string", timestamp_text),
)
