"""Evaluates the rules between fields (x-kubernetes-validations) of a custom object."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from tidelock.cel.errors import EvaluationError
from tidelock.cel.libraries.times import read_duration, read_timestamp
from world.api.causes import Cause
from world.api.expressions import Rule
from world.api.structural import Structural

Json = dict[str, Any]

_ABSENT: Any = msgspec.UNSET
_READERS = {"date-time": read_timestamp, "duration": read_duration}


def rule_errors(schema: Structural, new: Json, old: Json | None) -> list[Cause]:
    """Return an error for each rule that an object breaks. `old` is the stored object of an update."""
    before = _ABSENT if old is None else cel_value(schema, old)
    return list(_errors(schema, new, cel_value(schema, new), before, ""))


def cel_value(schema: Structural, value: Any) -> Any:
    """Return a value as expressions see it: times are instants."""
    match value:
        case dict():
            below = schema.values
            return {
                key: cel_value(known, each)
                if (known := schema.properties.get(key) or below) is not None
                else each
                for key, each in value.items()
            }
        case list() if schema.items is not None:
            return [cel_value(schema.items, each) for each in value]
        case str() if (reader := _READERS.get(schema.plain.get("format", ""))) is not None:
            with suppress(EvaluationError):  # a day that no month has
                return reader(value)
    return value


def _errors(schema: Structural, raw: Any, new: Any, old: Any, path: str) -> Iterator[Cause]:
    unchanged = old is not _ABSENT and new == old  # then only comparisons can have another result
    if not schema.has_rules or (unchanged and not schema.has_comparisons):
        return
    for rule in schema.rules:
        if (rule.transition and old is _ABSENT) or (unchanged and not rule.compares):
            continue
        if (error := _broken(rule, raw, new, old, path)) is not None:
            yield error
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        for name, each in new.items():
            known = name in schema.properties
            below = schema.properties.get(name) or schema.values
            if below is not None:
                place = (f"{path}.{name}" if path else name) if known else f"{path}[{name}]"
                yield from _errors(below, raw[name], each, before.get(name, _ABSENT), place)
    elif isinstance(new, list) and schema.items is not None:
        entries = _by_keys(schema, old)
        for index, each in enumerate(new):
            before = entries.get(_key(schema, each), _ABSENT)
            yield from _errors(schema.items, raw[index], each, before, f"{path}[{index}]")


def _by_keys(schema: Structural, old: Any) -> dict[tuple[Any, ...] | None, Any]:
    """Return the entries of an old list by the keys of a map list. Other lists have no known entries."""
    if not isinstance(old, list):
        return {}
    found = {_key(schema, each): each for each in old}
    found.pop(None, None)
    return found


def _key(schema: Structural, entry: Any) -> tuple[Any, ...] | None:
    keys = schema.plain.get("x-kubernetes-list-map-keys")
    return tuple(entry.get(key) for key in keys) if keys and isinstance(entry, dict) else None


def _broken(rule: Rule, raw: Any, new: Any, old: Any, path: str) -> Cause | None:
    shown = None if isinstance(raw, dict | list) else raw
    try:
        if rule.holds(new, None if old is _ABSENT else old):
            return None
    except EvaluationError as error:
        return Cause.invalid(path, None, f"rule evaluation error: {error}")
    place = (path + rule.field_path).removeprefix(".")
    match rule.reason:
        case "FieldValueRequired":
            return Cause.required(place, rule.message)
        case "FieldValueForbidden":
            return Cause.forbidden(place, rule.message)
        case "FieldValueDuplicate":
            return Cause.duplicate(place, rule.message)
    return Cause.invalid(place, shown, rule.message)
