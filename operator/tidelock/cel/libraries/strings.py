"""The strings extension of version 2."""

from typing import Any

from tidelock.cel.errors import EvaluationError
from tidelock.cel.functions import Overload, function, method
from tidelock.cel.libraries.formatting import format_cost, format_string
from tidelock.cel.limits import check_text, joined
from tidelock.cel.operators import search_cost
from tidelock.cel.values import ELEMENT, MAX_COST, footprint

_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = {upper: lower for lower, upper in _UPPER.items()}
_QUOTED = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": r"\\",
        '"': r"\"",
    }
)


def _in_range(index: int, length: int) -> int:
    if not 0 <= index <= length:
        raise EvaluationError(f"index out of range: {index}")
    return index


def _char_at(text: str, index: int) -> str:
    start = _in_range(index, len(text))
    return text[start : start + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.find(part, offset) if offset < len(text) else -1


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    if not part:
        return min(offset, len(text))
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, max(limit, -1))


def _replace_cost(text: str, old: str, new: str, limit: int = -1) -> int:
    if (cost := search_cost(text, old)) > MAX_COST:
        return cost
    count = text.count(old)
    replaced = count if limit < 0 else min(count, limit)
    check_text(len(text) + replaced * (len(new) - len(old)))
    return cost + count * len(new) // 10


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, max(limit, 0) - 1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _split_cost(text: str, separator: str, limit: int = -1) -> int:
    del limit  # the cost is that without one
    cost = search_cost(text, separator)
    return cost if cost > MAX_COST else cost + ELEMENT * (1 + text.count(separator))


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return text[_in_range(start, len(text)) : _in_range(stop, len(text))]


def _join(parts: list[object], separator: str = "") -> str:
    texts = [each for each in parts if isinstance(each, str)]
    if len(texts) < len(parts):
        raise EvaluationError("join: invalid input")
    return joined(separator, texts)


def _join_cost(parts: list[object], separator: str = "") -> int:
    return footprint(parts) + len(parts) * len(separator) // 10


def _quoted(text: str) -> str:
    quoted = f'"{text.translate(_QUOTED)}"'
    check_text(len(quoted))
    return quoted


def _whole_cost(text: Any, *_others: object) -> int:
    return footprint(text)


OVERLOADS: tuple[Overload, ...] = (
    method("charAt", "string, int -> string", _char_at),
    method("indexOf", "string, string -> int", _index_of, search_cost),
    method("indexOf", "string, string, int -> int", _index_of, search_cost),
    method("lastIndexOf", "string, string -> int", _last_index_of, search_cost),
    method("lastIndexOf", "string, string, int -> int", _last_index_of, search_cost),
    method("lowerAscii", "string -> string", lambda text: text.translate(_LOWER), len),
    method("upperAscii", "string -> string", lambda text: text.translate(_UPPER), len),
    method("replace", "string, string, string -> string", _replace, _replace_cost),
    method("replace", "string, string, string, int -> string", _replace, _replace_cost),
    method("split", "string, string -> list(string)", _split, _split_cost),
    method("split", "string, string, int -> list(string)", _split, _split_cost),
    method("substring", "string, int -> string", _substring, _whole_cost),
    method("substring", "string, int, int -> string", _substring, _whole_cost),
    method("trim", "string -> string", lambda text: text.strip(_WHITE_SPACE), _whole_cost),
    method("join", "list(string) -> string", _join, _join_cost),
    method("join", "list(string), string -> string", _join, _join_cost),
    method("format", "string, list(dyn) -> string", format_string, format_cost),
    function("strings.quote", "string -> string", _quoted, len),
)
