"""Hostile values for a schema: at its bounds, beyond them, of another type, too long, too many, too deep."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from random import Random
from typing import Any

import msgspec

from fuzz.schema import Schema
from tidelock.model.quantities import QuantityError, parse_quantity

_MISSING: Any = object()
_TRIES = 12  # tries to draw a value at the bounds of its schema that the schema allows
_LARGE = 0.01  # share of values that are as large as the API server accepts
_OPTIONAL = 0.2  # share of optional fields that are present
_DEPTH = 5  # depth beyond which no optional field is added

INSTANTS = (
    "0001-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "1969-12-31T23:59:59.999999999Z",
    "2016-12-31T23:59:60Z",
    "2036-02-29T24:00:00Z",
    "2035-01-01T00:00:00.000000001+14:00",
    "2035-01-01T00:00:00-23:59",
    "9998-12-31T23:59:59.9999999Z",
    "9999-12-31T23:59:59.9999999Z",
    "9999-12-31T23:59:59-01:00",
    "2035-01-01t00:00:00z",
    "2035-13-01T00:00:00Z",
    "not an instant",
)
QUANTITIES = (
    *("0", "1", "-1", "1m", "1n", "1u", "0.0000000001", "999999999999999999999", "1e-30", "1e30", "1e308"),
    *(
        "1E",
        "16E",
        "999P",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1Ei",
        "8Ei",
    ),
    *("0.5", ".5", "5.", "+1", "1_000", " 1", "NaN", "Inf", "1e999999999", "0x10", "", "٣", "1" * 33),
    *(0, 1, -1, 2**31, 2**63 - 1, 2**63, 10**30, 0.5),
)
TEXTS = (
    *("", " ", "a", "A", "a/b", "..", "-", "null", "true", "0", "__proto__", "a" * 63, "a" * 64, "a" * 254),
    *("\x00", "\x1b[31m", "a\nb", "\r", "\u202egnp", "\ufeff", "\U0001f40b" * 20, "e\u0301" * 40, "\x7f"),
    *("${x}", "{{.x}}", "%s%n", "<script>alert(1)</script>", "'; --", "\\", "*", "[", "(a+)+$", "=cmd()"),
)
_LIKELY = (
    *(
        "a",
        "web-0",
        "cpu",
        "1",
        "memory",
        "tidelock.dev/a",
        "10m",
        "15m",
        "http://127.0.0.1:9",
        "UTC",
        "@yearly",
    ),
    *("0 0 * * *", "apps/v1", "Deployment", "metadata.name", "2035-01-01T00:00:00Z", "0.5", "nvidia.com/gpu"),
)
# Texts for fields with formats that no schema describes.
_BY_NAME: Mapping[str, tuple[str, ...]] = {
    "schedule": (
        "0 2 * * *",
        "*/5 * * * *",
        "@yearly",
        "59 23 31 12 7",
        "0 0 29 2 *",
        "0 0 31 2 *",
        "1-59/58 * L * 0#1",
    ),
    "timeZone": ("Etc/UTC", "Europe/Berlin", "Pacific/Apia", "Antarctica/Troll", "America/St_Johns"),
    "image": ("example.org/none", "a" * 255),
    "apiVersion": ("v1", "apps/v1"),
    **dict.fromkeys(
        (
            "name",
            "claimName",
            "volumeName",
            "storageClassName",
            "serviceName",
            "drivers",
            "attacher",
            "hostname",
        ),
        ("a", "web-0", "0", "a" * 63),
    ),
}
_RESOURCE_NAMES = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "example.com/r0")
_KEYS = ("app", "job", "tidelock.dev/a", "kubernetes.io/hostname", "A.b_c", "a" * 63)
_NUMBERS = (0, 1, -1, 2, 100, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30)
_RAW = (
    msgspec.Raw(b'"\\ud800"'),  # half of a character
    msgspec.Raw(b"1e400"),
    msgspec.Raw(b"-0"),
    msgspec.Raw(b"1.0"),
    msgspec.Raw(b"1" * 400),
    msgspec.Raw(b'{"a":1,"a":2}'),
)


def plain(rng: Random, schema: Schema, depth: int = 0) -> Any:
    """Draw an ordinary value, with the required fields and some of the optional ones."""
    if choices := schema.get("enum"):
        return rng.choice(choices)
    value: Any = {}
    match schema.type:
        case "quantity":
            value = rng.choice(("1", "500m", "2", 1))
        case "object":
            value = _plain_object(rng, schema, depth)
        case "array":
            count = max(schema.get("minItems", 0), rng.choice((0, 1, 1, 2)))
            value = [plain(rng, schema.items, depth + 1) for _ in range(count)]
        case "integer" | "number":
            low, high = schema.get("minimum", 0), schema.get("maximum", 2**31 - 1)
            value = rng.choice((low, min(low + 1, high), min(max(60, low), high), high))
        case "boolean":
            value = rng.random() < 1 / 2
        case "string":
            value = _plain_text(rng, schema)
    return value


def _plain_object(rng: Random, schema: Schema, depth: int) -> dict[str, Any]:
    if schema.values is not None:
        count = max(schema.get("minProperties", 0), rng.choice((0, 1, 1)))
        usual = _RESOURCE_NAMES if schema.values.type == "quantity" else _KEYS
        return {name: plain(rng, schema.values, depth + 1) for name in usual[:count]}
    allowed = [name for name in schema.properties if name not in schema.refused]
    wanted = (name for name in allowed if depth < _DEPTH and rng.random() < _OPTIONAL)
    names = dict.fromkeys((*schema.required, *wanted))
    return {
        name: plain(rng, schema.properties[name], depth + 1) for name in names if name in schema.properties
    }


def _plain_text(rng: Random, schema: Schema) -> str:
    if schema.get("format") == "date-time":
        return rng.choice(("2035-01-01T00:00:00Z", "2035-01-01T00:00:00.5Z"))
    words = [each for each in schema.words if isinstance(each, str)]
    candidates = [each for each in _BY_NAME.get(schema.name, (*_LIKELY, *words)) if _matches(schema, each)]
    return rng.choice(candidates) if candidates else "a"


def _matches(schema: Schema, text: str) -> bool:
    long_enough = schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 2**31)
    return long_enough and all(_found(pattern, text) for pattern in schema.patterns)


def _found(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:  # Go knows more classes than Python
        return True


def mutated(
    rng: Random, schema: Schema, value: Any = _MISSING, depth: int = 0, *, beyond: bool = False
) -> Any:
    """Copy a value, with one hostile part. A missing part is added.

    The hostile part is inside the bounds of its schema, as far as this module knows them, unless `beyond`.
    """
    if value is _MISSING:
        value = plain(rng, schema, depth)
    whole = depth > 1 and rng.random() < 1 / (4 + depth)
    if not whole and isinstance(value, dict) and schema.type == "object":
        return _mutated_object(rng, schema, value, depth, beyond=beyond)
    if not whole and isinstance(value, list) and schema.type == "array" and rng.random() < 3 / 4:
        if not value:
            return [mutated(rng, schema.items, depth=depth + 1, beyond=beyond)]
        index = rng.randrange(len(value))
        return [
            mutated(rng, schema.items, each, depth + 1, beyond=beyond) if number == index else each
            for number, each in enumerate(value)
        ]
    return hostile(rng, schema, beyond=beyond)


def _mutated_object(
    rng: Random, schema: Schema, value: dict[str, Any], depth: int, *, beyond: bool
) -> dict[str, Any]:
    if schema.values is not None:
        usual = _RESOURCE_NAMES if schema.values.type == "quantity" else _KEYS
        name = rng.choice([*value, *usual, *((*TEXTS, *_LIKELY) if beyond else ())])
        return value | {
            name: mutated(rng, schema.values, value.get(name, _MISSING), depth + 1, beyond=beyond)
        }
    kept = {"status"} if depth else {"apiVersion", "kind", "metadata", "status"}
    fields = [
        name for name in schema.properties if name not in kept and (beyond or name not in schema.refused)
    ]
    if not fields or (beyond and depth and rng.random() < 1 / _TRIES):
        return value | {rng.choice((*TEXTS, "unknownField")): _anything(rng)}
    # Present fields are changed more often than missing ones, as they are in use.
    name = rng.choice([*fields, *(9 * [each for each in fields if each in value])])
    part = mutated(rng, schema.properties[name], value.get(name, _MISSING), depth + 1, beyond=beyond)
    return value | {name: part}


def hostile(rng: Random, schema: Schema, *, beyond: bool) -> Any:
    """Draw a value at the bounds of a schema, or one beyond them."""
    if beyond and rng.random() < 1 / 2:
        return _anything(rng)
    for _ in range(_TRIES):
        value = _large(rng, schema) if rng.random() < _LARGE else _at_bounds(rng, schema)
        if beyond or _fits(schema, value):
            return value
    return plain(rng, schema)


def _fits(schema: Schema, value: Any) -> bool:
    """Return whether the type and the bounds of a schema allow a value."""
    if isinstance(value, msgspec.Raw):
        return schema.type in {"", "object"}
    if choices := schema.get("enum"):
        return value in choices
    fits = value is not None
    match schema.type:
        case "quantity":
            fits = _is_quantity(value)
        case "integer":
            least = 2**31 if schema.get("format") == "int32" else 2**63
            low, high = schema.get("minimum", -least), schema.get("maximum", least - 1)
            fits = type(value) is int and low <= value <= high
        case "string":
            fits = isinstance(value, str) and _is_text(schema, value)
        case "array":
            fits = isinstance(value, list)
            fits = fits and schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 2**31)
        case "object":
            fits = isinstance(value, dict) and set(schema.required) <= value.keys()
            fits = fits and schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", 2**31)
            fits = fits and all(_found(schema.key_pattern, key) for key in value)
    return fits


def _is_quantity(value: object) -> bool:
    """Return whether a value is an amount above 0 and below 1P, as Tidelock's kinds require."""
    with suppress(QuantityError):
        return isinstance(value, str | int) and 0 < parse_quantity("", value) < 10**15
    return False


def _is_text(schema: Schema, value: str) -> bool:
    if schema.get("format") == "date-time":
        with suppress(ValueError):
            return datetime.fromisoformat(value).year in range(1970, 9999)
        return False
    if schema.name in _BY_NAME and not schema.patterns:
        return value in _BY_NAME[schema.name]
    return _matches(schema, value)


def _at_bounds(rng: Random, schema: Schema) -> Any:
    if schema.words and rng.random() < 1 / 10:
        return rng.choice(schema.words)
    if schema.type == "quantity":
        return rng.choice(QUANTITIES)
    if schema.get("format") == "date-time":
        return rng.choice(INSTANTS)
    if choices := schema.get("enum"):
        return rng.choice((*choices, *TEXTS))
    if schema.name in _BY_NAME and rng.random() < 1 / 2:
        return rng.choice(_BY_NAME[schema.name])
    return _AT_BOUNDS.get(schema.type, _free)(rng, schema)


def _numbers(rng: Random, schema: Schema) -> Any:
    bounds = [schema.plain[name] for name in ("minimum", "maximum") if name in schema.plain]
    return rng.choice([*(bound + step for bound in bounds for step in (-1, 0, 1)), *_NUMBERS, *bounds])


def _texts(rng: Random, schema: Schema) -> Any:
    longest = min(schema.get("maxLength", 253), 2**16)
    ends = ("a" * longest, "a" * (longest + 1), "9" * longest, "a." * (longest // 2) + "a")
    return rng.choice((*TEXTS, *ends, *_LIKELY, *QUANTITIES[:20], *INSTANTS[:4]))


def _lists(rng: Random, schema: Schema) -> Any:
    most = min(schema.get("maxItems", 32), 256)
    count = rng.choice((0, 1, 2, most, most + 1))
    one = plain(rng, schema.items)
    if rng.random() < 1 / 2:
        return [one] * count  # equal items
    return [plain(rng, schema.items) for _ in range(count)]


def _objects(rng: Random, schema: Schema) -> Any:
    if schema.values is None:
        return plain(rng, schema) if schema.properties else _free(rng, schema)
    most = min(schema.get("maxProperties", 32), 256)
    count = rng.choice((0, 1, most, most + 1))
    return {f"example.com/r{number}": hostile(rng, schema.values, beyond=False) for number in range(count)}


def _flags(rng: Random, _: Schema) -> Any:
    return rng.random() < 1 / 2


def _free(rng: Random, _: Schema) -> Any:
    """Draw a value for a field without a type."""
    return rng.choice((deep(rng.choice((10, 100, 900))), {}, [], _anything(rng)))


_AT_BOUNDS: dict[str, Callable[[Random, Schema], Any]] = {
    "integer": _numbers,
    "number": _numbers,
    "string": _texts,
    "array": _lists,
    "object": _objects,
    "boolean": _flags,
}


def _anything(rng: Random) -> Any:
    """Draw a value of any type."""
    drawn = (rng.choice(each) for each in (_NUMBERS, _RAW, TEXTS, INSTANTS, QUANTITIES))
    simple: tuple[Any, ...] = (None, True, [], {}, [None], {"": None}, [[[[]]]], 0.5)
    return rng.choice((*simple, *drawn, deep(rng.choice((50, 1_000)))))


def _large(rng: Random, schema: Schema) -> Any:
    """Draw a value of a megabyte at most, as the API server accepts no more."""
    size = rng.choice((10_000, 200_000, 900_000))
    match schema.type:
        case "array":
            one = plain(rng, schema.items, _DEPTH)
            return [one] * (size // max(len(msgspec.json.encode(one)), 1))
        case "object" if schema.values is not None:
            return dict.fromkeys((f"a-{n}" for n in range(size // 20)), plain(rng, schema.values, _DEPTH))
        case "object":
            return msgspec.Raw(b"{" + b",".join(b'"a%d":1' % n for n in range(size // 12)) + b"}")
        case "integer" | "number":
            return msgspec.Raw(b"1" * size)
        case _:
            return rng.choice(("a", "9", "1.", "\u2603", "a,")) * (size // 3)


def deep(levels: int) -> msgspec.Raw:
    """Return nested objects and lists as raw JSON, as recursive encoders can't write so many levels."""
    return msgspec.Raw(b'{"a":[' * (levels // 2) + b"1" + b"]}" * (levels // 2))
