"""The clauses of `string.format`, in the form that they have up to version 3 of the strings extension.

Numbers with a fixed point and scientific ones are written as in American English: 1,234.500,
and a power of ten.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from tidelock.cel.errors import EvaluationError
from tidelock.cel.libraries.times import duration_text, timestamp_text
from tidelock.cel.limits import joined
from tidelock.cel.operators import double_text
from tidelock.cel.values import ELEMENT, Duration, Timestamp, UInt, footprint, keys, type_name

_CLAUSE = re.compile(r"%(?:%|(?:\.(\d{1,9}))?(.)|(.?))", re.DOTALL)
_PRECISION = 6
_NUMBER_TEXTS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
# Doubles have at most about 1,075 decimals that are not zero.
_LONGEST = 10_000


def format_cost(text: str, arguments: list[object]) -> int:
    """Return the cost of a text of the greatest length."""
    precisions = sum(int(each) for each in re.findall(r"%\.(\d{1,9})", text))
    return footprint(text) + ELEMENT * text.count("%") + footprint(arguments) + precisions


def format_string(text: str, arguments: list[object]) -> str:
    """Replace the clauses of a text by its arguments. Raises EvaluationError."""
    return joined("", _pieces(text, arguments))


def _pieces(text: str, arguments: list[object]) -> Iterator[str]:
    """Yield the texts between the clauses, and the arguments in their place."""
    used, position = 0, 0
    for clause in _CLAUSE.finditer(text):
        yield text[position : clause.start()]
        position = clause.end()
        if clause.group() == "%%":
            yield "%"
            continue
        if used == len(arguments):
            raise EvaluationError(f"index {used} out of range")
        yield _formatted(clause, arguments[used])
        used += 1
    yield text[position:]


def _formatted(clause: re.Match[str], argument: object) -> str:
    if clause[2] not in _CLAUSES:
        raise EvaluationError(
            f'could not parse formatting clause: unrecognized formatting clause "{clause[2] or ""}"'
        )
    precision = _PRECISION if clause[1] is None else int(clause[1])
    if precision > _LONGEST:
        raise EvaluationError(f"precision {precision} exceeds maximum allowed precision {_LONGEST}")
    return _CLAUSES[clause[2]](argument, precision)


def _refused(clause: str, argument: object) -> EvaluationError:
    return EvaluationError(f"error during formatting: {clause} clause can't be used on {type_name(argument)}")


def _bytes_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _refused("string", content) from None


def _map_text(entries: dict[object, object]) -> str:
    pairs = sorted(
        ((_member(key), value) for key, value in zip(keys(entries), entries.values(), strict=True)),
        key=itemgetter(0),
    )
    return f"{{{joined(', ', (f'{key}:{_member(value)}' for key, value in pairs))}}}"


_TEXTS: dict[str, Callable[[Any], str]] = {
    "null_type": lambda _null: "null",
    "bool": lambda value: "true" if value else "false",
    "int": str,
    "uint": lambda value: str(int(value)),
    "double": double_text,
    "string": str,
    "bytes": _bytes_text,
    "list": lambda elements: f"[{joined(', ', map(_member, elements))}]",
    "map": _map_text,
    "type": lambda value: value.name,
    "google.protobuf.Duration": duration_text,
    "google.protobuf.Timestamp": timestamp_text,
}


def _text(argument: object, _precision: int = 0) -> str:
    text = _TEXTS.get(type_name(argument))
    if text is None:
        raise _refused("string", argument)
    return text(argument)


def _member(value: object) -> str:
    """Return an element of a list or map as the literal that it could be written as."""
    match value:
        case str():
            return _quoted(value)
        case bytes():
            return f"b{_quoted(_text(value))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else _quoted(double_text(value))
        case Duration():
            return f'duration("{duration_text(value)}")'
        case Timestamp():
            return f'timestamp("{timestamp_text(value)}")'
    return _text(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _decimal(argument: object, _precision: int) -> str:
    if type(argument) in {int, UInt}:
        return str(int(argument))  # type: ignore[call-overload]
    raise _refused("decimal", argument)


def _double(clause: str, argument: object) -> float:
    if isinstance(argument, str) and argument in _NUMBER_TEXTS:
        return _NUMBER_TEXTS[argument]
    if not isinstance(argument, float):
        raise _refused(clause, argument)
    return argument


def _not_finite(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(argument: object, precision: int) -> str:
    number = _double("fixed-point", argument)
    return f"{number:,.{precision}f}" if math.isfinite(number) else _not_finite(number)


def _scientific(argument: object, width: int) -> str:
    """Write six decimals. The precision of the clause is its width, in this version of the extension."""
    number = _double("scientific", argument)
    if not math.isfinite(number):
        return _not_finite(number).rjust(width)
    mantissa, _, exponent = f"{number:.{_PRECISION}e}".partition("e")
    return f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}".rjust(width)


def _in_base(name: str, notation: str) -> Callable[[object, int], str]:
    def written(argument: object, _precision: int) -> str:
        if type(argument) in {int, UInt} or (notation == "b" and isinstance(argument, bool)):
            return format(int(argument), notation)  # type: ignore[call-overload]
        if notation in "xX" and isinstance(argument, str | bytes):
            digits = (argument.encode(errors="replace") if isinstance(argument, str) else argument).hex()
            return digits.upper() if notation == "X" else digits
        raise _refused(name, argument)

    return written


_CLAUSES: dict[str, Callable[[object, int], str]] = {
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _in_base("binary", "b"),
    "o": _in_base("octal", "o"),
    "x": _in_base("hex", "x"),
    "X": _in_base("hex", "X"),
}
