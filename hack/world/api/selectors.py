"""Selectors of lists and watches: labels and fields."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from world.api.errors import bad_request
from world.api.kinds import Kind

Json = dict[str, Any]
Predicate = Callable[[Json], bool]

_SET = re.compile(r"(?P<key>[^\s!=(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s!=(),<>]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=(),]*)")
_ORDER = re.compile(r"(?P<key>[^\s!=(),<>]+)\s*(?P<operator><|>)\s*(?P<value>-?\d+)")
_EXISTS = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=(),]+)")
_COMMAS = re.compile(r",(?![^(]*\))")


def everything(_: Json) -> bool:
    """Select all objects."""
    return True


def selection(kind: Kind, query: Mapping[str, str]) -> Predicate:
    """Return whether an object is selected by a request. Raises RefusedRequestError for a wrong selector."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return everything
    tests = [*map(label_test, _split(labels)), *(_field_test(kind, part) for part in _split(fields))]
    return lambda data: all(test(data) for test in tests)


def _split(text: str) -> list[str]:
    return [part.strip() for part in _COMMAS.split(text) if part.strip()]


def _labels(data: Json) -> Json:
    found: Json = data["metadata"].get("labels") or {}
    return found


def label_test(part: str) -> Predicate:
    """Return the test of one requirement on labels. Raises RefusedRequestError."""
    if (found := _SET.fullmatch(part)) is not None:
        key = found["key"]
        values = {value.strip() for value in found["values"].split(",")}
        if found["operator"] == "in":
            return lambda data: key in _labels(data) and _labels(data)[key] in values
        return lambda data: _labels(data).get(key) not in values
    if (found := _EQUAL.fullmatch(part)) is not None:
        key, value = found["key"], found["value"]
        if found["operator"] == "!=":
            return lambda data: _labels(data).get(key) != value
        return lambda data: _labels(data).get(key) == value
    if (found := _ORDER.fullmatch(part)) is not None:
        key, number, less = found["key"], int(found["value"]), found["operator"] == "<"
        return lambda data: _compares(_labels(data).get(key), number, less=less)
    if (found := _EXISTS.fullmatch(part)) is not None:
        key, absent = found["key"], bool(found["absent"])
        return lambda data: (key in _labels(data)) is not absent
    raise bad_request(f"unable to parse requirement: {part}")


def _compares(value: str | None, number: int, *, less: bool) -> bool:
    if value is None or not re.fullmatch(r"-?\d+", value):
        return False
    return int(value) < number if less else int(value) > number


def _field_test(kind: Kind, part: str) -> Predicate:
    field, operator, value = re.split(r"(!=|==|=)", part, maxsplit=1) if "=" in part else (part, "", "")
    if not operator:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path = field_path(kind, field.strip())
    wanted = value.strip() if operator != "!=" else None
    unwanted = value.strip()
    if wanted is not None:
        return lambda data: field_text(data, path) == wanted
    return lambda data: field_text(data, path) != unwanted


def field_path(kind: Kind, field: str) -> str:
    """Return the path of a field that lists can be selected by. Raises RefusedRequestError."""
    if (
        field == "metadata.name"
        or (field == "metadata.namespace" and kind.namespaced)
        or field in kind.selectable
    ):
        return kind.selectable.get(field, field)
    if field == "metadata.namespace" and kind.custom is None:
        return field
    if kind.custom is not None:
        raise bad_request(f"field label not supported: {field}")
    if kind.selectable:
        raise bad_request(f"field label not supported: {field}")
    raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def field_text(data: Json, path: str) -> str:
    """Return the text by which a field is compared. An absent field is empty."""
    value: Any = data
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in {"spec.unschedulable", "spec.hostNetwork"} else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Return whether a LabelSelector matches labels. None matches nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression_holds(each, labels) for each in selector.get("matchExpressions") or ())


def _expression_holds(expression: Json, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
    return key not in labels
