"""Sets of fields as managedFields list them: `f:name`, `k:{"name":"c"}`, `v:"value"`."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from world.api.decoding import Decoder
from world.api.kinds import Kind
from world.api.schemas import META, BuiltinSchema, definition, resolved, schema_of
from world.api.structural import Structural

Json = dict[str, Any]
Path = tuple[str, ...]

BRANCH = object()
"""The value of a field that has others below."""
EMPTY = object()
"""The value of a field that could have others below, and has none."""
_UNTRACKED_META = frozenset(
    {
        *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generateName"),
    }
)


class _Shape(NamedTuple):
    """How the fields below a value are counted: as `fields`, `entries`, `values`, or `atomic`."""

    kind: str
    keys: tuple[str, ...] = ()


def fields_of(kind: Kind, data: Json) -> dict[Path, Any]:
    """Return the fields of an object with their values. A field with others below has the value BRANCH."""
    found: dict[Path, Any] = {}
    schema: Any = (
        kind.custom.root if kind.custom is not None else schema_of(kind.group, kind.version, kind.kind)
    )
    for name, value in data.items():
        if name == "metadata":
            for key, each in value.items():
                if key not in _UNTRACKED_META:
                    found |= _walk(_below(definition(META), key), each, ("f:metadata", f"f:{key}"))
        elif name not in {"apiVersion", "kind"}:
            found |= _walk(_below(schema, name), value, (f"f:{name}",))
    return found


def empty_fields(kind: Kind) -> dict[Path, Any]:
    """Return the fields that an empty object of a kind already has, as its struct always encodes them."""
    if kind.custom is not None:
        return {}
    return _empty_fields(kind)


_known: dict[str, dict[Path, Any]] = {}


def _empty_fields(kind: Kind) -> dict[Path, Any]:
    known = _known.get(kind.qualified)
    if known is None:
        empty = Decoder().decode(schema_of(kind.group, kind.version, kind.kind), {})
        known = _known[kind.qualified] = fields_of(kind, empty)
    return known


def _walk(schema: Any, value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the fields of a value, and the value itself."""
    shape = _shape(schema, value)
    if shape.kind == "atomic" or not value:
        yield path, value if shape.kind == "atomic" else EMPTY
        return
    yield path, BRANCH
    if shape.kind == "fields":
        for name, each in value.items():
            yield from _walk(_below(schema, name), each, (*path, f"f:{name}"))
        return
    for each in value:
        if shape.kind == "values":
            yield (*path, f"v:{_json(each)}"), each
            continue
        key = _json({name: each[name] for name in shape.keys if name in each})
        entry = (*path, f"k:{key}")
        if _shape(_items(schema), each).kind == "atomic":
            yield entry, each
            continue
        yield entry, BRANCH
        for name, below in each.items():
            yield from _walk(_below(_items(schema), name), below, (*entry, f"f:{name}"))


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _shape(schema: Any, value: Any) -> _Shape:
    plain = resolved(schema) if isinstance(schema, BuiltinSchema) else schema
    if isinstance(value, dict) and plain is not None:
        shown = plain.plain.get("x-kubernetes-map-type") if isinstance(plain, Structural) else plain.map
        atomic = shown == "atomic"
        known = bool(plain.properties) or _values(plain) is not None
        return _Shape("fields" if known and not atomic else "atomic")
    if isinstance(value, list) and isinstance(plain, BuiltinSchema):
        kinds = {"map": "entries", "set": "values"}
        return _Shape(kinds.get(plain.list, "atomic"), plain.keys)
    if isinstance(value, list) and isinstance(plain, Structural):
        kinds = {"map": "entries", "set": "values"}
        kind = kinds.get(plain.plain.get("x-kubernetes-list-type", ""), "atomic")
        return _Shape(kind, tuple(plain.plain.get("x-kubernetes-list-map-keys", ())))
    return _Shape("atomic")


def _values(schema: Any) -> Any:
    return schema.additional_properties if isinstance(schema, BuiltinSchema) else schema.values


def _items(schema: Any) -> Any:
    plain = resolved(schema) if isinstance(schema, BuiltinSchema) else schema
    return plain.items


def _below(schema: Any, name: str) -> Any:
    if schema is None:
        return None
    plain = resolved(schema) if isinstance(schema, BuiltinSchema) else schema
    return plain.properties.get(name) or _values(plain)


def encode(paths: Iterable[Path]) -> Json:
    """Return a set of fields as FieldsV1."""
    tree: Json = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _without_dots(tree)


def _without_dots(tree: Json) -> Json:
    """Return a set in which only fields with others below are marked as members."""
    return {step: {} if below.keys() <= {"."} else _without_dots(below) for step, below in tree.items()}


def decode(tree: Json, path: Path = ()) -> Iterator[Path]:
    """Yield the fields of FieldsV1."""
    for step, below in tree.items():
        if step == ".":
            yield path
        elif not below:
            yield (*path, step)
        else:
            yield from decode(below, (*path, step))
