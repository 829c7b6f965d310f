"""The schemas of CustomResourceDefinitions: pruning, defaults, values, and the rules between fields."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import msgspec

from world.api.causes import Cause
from world.api.expressions import Rule

Json = dict[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
_NAMES: Mapping[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_DATE_TIME = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-][0-2]\d:[0-5]\d)",
    re.ASCII,
)


@dataclass
class Structural:
    """One schema of a CustomResourceDefinition with those below it.

    `has_rules` says whether any has a rule, and `has_comparisons` whether one compares with the old value.
    """

    plain: Json
    properties: "Mapping[str, Structural]"
    items: "Structural | None"
    values: "Structural | None"
    rules: tuple[Rule, ...]
    pattern: re.Pattern[str] | None
    has_rules: bool = False
    has_comparisons: bool = False

    @classmethod
    def read(cls, plain: Json) -> Self:
        """Return a schema from its JSON."""
        properties = {name: cls.read(each) for name, each in plain.get("properties", {}).items()}
        items = cls.read(plain["items"]) if "items" in plain else None
        additional = plain.get("additionalProperties")
        values = cls.read(additional) if isinstance(additional, dict) else None
        rules = tuple(map(Rule.read, plain.get("x-kubernetes-validations", ())))
        pattern = re.compile(plain["pattern"]) if "pattern" in plain else None
        made = cls(plain, properties, items, values, rules, pattern)
        below = [*properties.values(), *filter(None, (items, values))]
        made.has_rules = bool(rules) or any(each.has_rules for each in below)
        made.has_comparisons = any(rule.compares for rule in rules) or any(
            each.has_comparisons for each in below
        )
        return made

    @cached_property
    def any_fields(self) -> bool:
        """Whether unknown fields are kept."""
        return bool(self.plain.get("x-kubernetes-preserve-unknown-fields")) or (
            self.plain.get("additionalProperties") is True
        )

    @cached_property
    def int_or_string(self) -> bool:
        """Whether a number and a text are both allowed."""
        return bool(self.plain.get("x-kubernetes-int-or-string"))


def prune(schema: Structural, value: Any, path: str, unknown: list[str]) -> Any:
    """Return a copy of a value without the fields that its schema does not have."""
    if isinstance(value, dict):
        if schema.values is not None:
            return {key: prune(schema.values, each, f"{path}.{key}", unknown) for key, each in value.items()}
        kept: Json = {}
        for name, each in value.items():
            place = f"{path}.{name}" if path else name
            below = schema.properties.get(name)
            if below is not None:
                kept[name] = prune(below, each, place, unknown)
            elif schema.any_fields:
                kept[name] = each
            else:
                unknown.append(place)
        return kept
    if isinstance(value, list) and schema.items is not None:
        items = schema.items
        return [prune(items, each, f"{path}[{index}]", unknown) for index, each in enumerate(value)]
    return value


def fill(schema: Structural, value: Any) -> None:
    """Set the defaults of absent fields in place. A null counts as absent, unless a list has it."""
    if isinstance(value, dict):
        _fill_object(schema, value)
    elif isinstance(value, list) and schema.items is not None:
        for each in value:
            fill(schema.items, each)


def _fill_object(schema: Structural, value: Json) -> None:
    for name in [name for name, each in value.items() if each is None]:
        below = schema.properties.get(name) or schema.values
        if below is not None and not below.plain.get("nullable"):
            del value[name]
    for name, below in schema.properties.items():
        if name not in value and "default" in below.plain:
            value[name] = deepcopy(below.plain["default"])
        if name in value:
            fill(below, value[name])
    if schema.values is not None:
        for each in value.values():
            fill(schema.values, each)


def value_errors(schema: Structural, value: Any, path: str) -> Iterator[Cause]:
    """Yield the errors of a value that its schema alone shows, in the words of kube-openapi."""
    if value is None and schema.plain.get("nullable"):
        return
    allowed = schema.plain.get("enum")
    mismatch = _type_error(schema, value, path)
    if mismatch is not None:
        yield mismatch
        if isinstance(value, float) and schema.plain.get("type") == "integer":
            detail = f"Checked value must be of type integer (default format) in {path}"
            yield Cause.invalid("<nil>", "", detail)
    if allowed is not None and (mismatch is not None or value not in allowed):
        yield Cause.unsupported(path, value, [str(each) for each in allowed])
    if mismatch is None:
        yield from _content_errors(schema, value, path)


def _content_errors(schema: Structural, value: Any, path: str) -> Iterator[Cause]:
    match value:
        case bool():
            return
        case dict():
            yield from _object_errors(schema, value, path)
        case list():
            yield from _list_errors(schema, value, path)
        case str():
            yield from _text_errors(schema, value, path)
        case int() | float():
            yield from _number_errors(schema.plain, value, path)


def _type_error(schema: Structural, value: Any, path: str) -> Cause | None:
    wanted = schema.plain.get("type", "")
    if schema.int_or_string:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return None
        wanted = "integer,string"
    elif (
        not wanted
        or (type(value) in _TYPES[wanted])
        or (wanted == "integer" and isinstance(value, float) and value.is_integer())
    ):
        return None
    found = _NAMES[type(value)]
    if schema.plain.get("format") == "date-time" and type(value) is int:
        wanted, found = "date-time", "int64"
    detail = f'{path} in body must be of type {wanted}: "{found}"'
    return Cause("FieldValueTypeInvalid", path, f'Invalid value: "{found}": {detail}')


def _object_errors(schema: Structural, value: Json, path: str) -> Iterator[Cause]:
    for name in schema.plain.get("required", ()):
        if name not in value:
            yield Cause.required(f"{path}.{name}" if path else name)
    most, least = schema.plain.get("maxProperties"), schema.plain.get("minProperties")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {most} items")
    if least is not None and len(value) < least:
        yield Cause.invalid(path, len(value), f"{path} in body should have at least {least} properties")
    for name, below in schema.properties.items():
        if name in value:
            yield from value_errors(below, value[name], f"{path}.{name}" if path else name)
    if schema.values is not None:
        for key, each in value.items():
            yield from value_errors(schema.values, each, f"{path}.{key}")


def _list_errors(schema: Structural, value: list[Any], path: str) -> Iterator[Cause]:
    most, least = schema.plain.get("maxItems"), schema.plain.get("minItems")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooMany", path, f"Too many: {len(value)}: must have at most {most} items")
    if least is not None and len(value) < least:
        yield Cause.invalid(path, len(value), f"{path} in body should have at least {least} items")
    if schema.items is not None:
        for index, each in enumerate(value):
            yield from value_errors(schema.items, each, f"{path}[{index}]")
    yield from _duplicates(schema.plain, value, path)


def _duplicates(plain: Json, value: list[Any], path: str) -> Iterator[Cause]:
    kind = plain.get("x-kubernetes-list-type")
    if kind not in {"set", "map"}:
        return
    seen: set[bytes] = set()
    for index, each in enumerate(value):
        shown = each
        if kind == "map" and isinstance(each, dict):
            shown = {key: each.get(key) for key in plain.get("x-kubernetes-list-map-keys", ())}
        encoded = msgspec.json.encode(shown, order="sorted")
        if encoded in seen:
            printed = shown if kind == "set" else _Map(shown)
            yield Cause.duplicate(f"{path}[{index}]", printed)
        seen.add(encoded)


class _Map(dict[str, Any]):
    """A map that is printed as Go prints one in an error."""

    def __str__(self) -> str:
        return msgspec.json.encode(dict(self), order="sorted").decode()


def _text_errors(schema: Structural, value: str, path: str) -> Iterator[Cause]:
    plain = schema.plain
    most, least = plain.get("maxLength"), plain.get("minLength")
    if most is not None and len(value) > most:
        yield Cause("FieldValueTooLong", path, f"Too long: may not be more than {most} bytes")
    if least is not None and len(value) < least:
        yield Cause.invalid(path, value, f"{path} in body should be at least {least} chars long")
    if schema.pattern is not None and not schema.pattern.search(value):
        yield Cause.invalid(path, value, f"{path} in body should match '{plain['pattern']}'")
    if plain.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
        detail = f'{path} in body must be of type date-time: "{value}"'
        yield Cause("FieldValueTypeInvalid", path, Cause.invalid(path, value, detail).message)


def _number_errors(plain: Json, value: float, path: str) -> Iterator[Cause]:
    if (least := plain.get("minimum")) is not None and value < least:
        yield Cause.invalid(path, value, f"{path} in body should be greater than or equal to {least}")
    if (most := plain.get("maximum")) is not None and value > most:
        yield Cause.invalid(path, value, f"{path} in body should be less than or equal to {most}")
