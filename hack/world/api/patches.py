"""The patches of the API: JSON merge patch, JSON patch and strategic merge patch."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from world.api.schemas import BuiltinSchema, resolved

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


class PatchError(ValueError):
    """A patch that does not apply to the object."""


class MergeKeyError(PatchError):
    """An entry of a strategic merge patch without the key of its list."""


def merged(target: Any, patch: Any) -> Any:
    """Return a value with a JSON merge patch applied, by RFC 7386."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def edited(target: Json, operations: list[Json]) -> Json:
    """Return an object with a JSON patch applied, by RFC 6902. Raises PatchError."""
    document: Json = {"": deepcopy(target)}
    for operation in operations:
        try:
            _edit(document, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PatchError(str(error)) from error
    result = document[""]
    if not isinstance(result, dict):
        raise PatchError("the result is no object")
    return result


def _edit(document: Json, operation: Mapping[str, Any]) -> None:
    path = operation["path"]
    match operation["op"]:
        case "add":
            _add(document, path, deepcopy(operation["value"]))
        case "remove":
            _take(document, path)
        case "replace":
            _take(document, path)
            _add(document, path, deepcopy(operation["value"]))
        case "move":
            _add(document, path, _take(document, operation["from"]))
        case "copy":
            _add(document, path, deepcopy(_find(document, operation["from"])))
        case "test":
            if not _same(_find(document, path), operation["value"]):
                raise PatchError(f"testing value {path} failed")
        case unknown:
            raise PatchError(f"unexpected kind: {unknown}")


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise PatchError(f"no path: {path}")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]


def _find(document: Any, path: str) -> Any:
    for step in _steps(path):
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    *steps, last = _steps(path)
    for step in steps:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document, last


def _add(document: Json, path: str, value: Any) -> None:
    parent, last = _parent(document, path)
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if not 0 <= index <= len(parent):
            raise IndexError(path)
        parent.insert(index, value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise PatchError(f"add operation does not apply: {path}")


def _take(document: Json, path: str) -> Any:
    parent, last = _parent(document, path)
    return parent.pop(int(last) if isinstance(parent, list) else last)


def strategic(schema: BuiltinSchema, target: Any, patch: Any) -> Any:
    """Return a value with a strategic merge patch applied: lists with a merge key are merged.

    Raises:
        MergeKeyError: an entry of such a list lacks the key.

    """
    schema = resolved(schema)
    if not isinstance(patch, dict):
        return deepcopy(patch)
    match patch.get(_DIRECTIVE):
        case "replace":
            return {name: deepcopy(value) for name, value in patch.items() if name != _DIRECTIVE}
        case "delete":
            return {}
    result = dict(target) if isinstance(target, dict) else {}
    if (retained := patch.get(_RETAIN)) is not None:
        result = {name: value for name, value in result.items() if name in retained}
    for name, value in patch.items():
        if name in {_DIRECTIVE, _RETAIN} or name.startswith(_ORDER):
            continue
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            if field in result:
                result[field] = [each for each in result[field] if each not in value]
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = _strategic_field(schema, name, result.get(name), value)
    return result


def _strategic_field(schema: BuiltinSchema, name: str, target: Any, value: Any) -> Any:
    below = schema.properties.get(name) or schema.additional_properties
    if below is None:
        return merged(target, value)
    if isinstance(value, list) and "merge" in below.strategy.split(","):
        if below.merge_key and below.items is not None:
            return _strategic_list(below, target or [], value)
        order = list(target or [])
        changed = list(dict.fromkeys(value))
        return _interleaved([each for each in order if each not in changed], changed, order)
    if "replace" in below.strategy.split(","):
        return deepcopy(value)
    return strategic(below, target, value)


def _strategic_list(schema: BuiltinSchema, target: list[Json], patch: list[Json]) -> list[Json]:
    if any(each.get(_DIRECTIVE) == "replace" for each in patch):
        return [deepcopy(each) for each in patch if each.get(_DIRECTIVE) != "replace"]
    key, items = schema.merge_key, schema.items or schema
    known = {each.get(key): each for each in target}
    changed: dict[Any, Json] = {}
    for each in patch:
        if key not in each:
            raise MergeKeyError(f"map: {each} does not contain declared merge key: {key}")
        if each.get(_DIRECTIVE) == "delete":
            known.pop(each[key], None)
        else:
            changed[each[key]] = strategic(items, known.get(each[key], {}), each)
    kept = [name for name in known if name not in changed]
    names = _interleaved(kept, list(changed), [each.get(key) for each in target])
    return [changed[name] if name in changed else known[name] for name in names]


def _interleaved(kept: list[Any], changed: list[Any], order: list[Any]) -> list[Any]:
    """Merge the entries that a patch does not mention with the others: new ones come first."""
    result: list[Any] = []
    while kept and changed:
        before = changed[0] in order and order.index(kept[0]) < order.index(changed[0])
        result.append(kept.pop(0) if before else changed.pop(0))
    return [*result, *kept, *changed]
