"""JSON objects of every kind that Tidelock reads, drawn from their structs, and changes of them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from builders import Json
from tidelock.model.lenient import Reader
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.quotas import decode_resource_quota
from tidelock.scheduler.informers.informers import OPTIONAL, OTHERS

Location = tuple[int | str, ...]

READERS: Mapping[str, Any] = {
    "nodes": decode_node,
    "pods": decode_pod,
    **{name: decode for name, (_, decode) in {**OTHERS, **OPTIONAL}.items()},
}
"""Decoders of objects of other authors, by resource."""

KINDS: Mapping[str, type[msgspec.Struct]] = {
    name: decode.kind if isinstance(decode, Reader) else Node for name, decode in READERS.items()
}
"""The struct to which an object is decoded, by resource."""

RESOURCES = sorted(READERS)

assert decode_resource_quota not in READERS.values()  # it is decoded to another type, and has its own tests

_NAMES = st.sampled_from(["cpu", "memory", "storage", "a", "example.com/b"])
_QUANTITIES = st.sampled_from(["0", "1", "500m", "4Gi", "1e3", 7])
_TEXTS = st.sampled_from(["", "a", "Always", "NoSchedule", "In", "an unknown word"])
_SCALARS: Mapping[Any, st.SearchStrategy[Any]] = {
    str: _TEXTS,
    int: st.integers(-5, 2**40),
    bool: st.booleans(),
    datetime: st.sampled_from(["2026-11-23T04:35:15Z", "2026-11-23T04:35:15.123456Z"]),
    Any: st.just({"any": [1, None]}),
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Draw JSON that decodes to a type."""
    alternatives = get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,)
    if {str, int} <= set(alternatives):
        return _QUANTITIES
    [given] = [each for each in alternatives if each is not type(None)]
    if isinstance(given, type) and issubclass(given, msgspec.Struct):
        return structs(given)
    if get_origin(given) is tuple:
        return st.lists(values(get_args(given)[0]), max_size=2)
    if get_origin(given) is dict:
        return st.dictionaries(_NAMES, values(get_args(given)[1]), max_size=2)
    return _SCALARS[given]


@st.composite
def structs(draw: st.DrawFn, kind: type[msgspec.Struct]) -> Json:
    """Draw a JSON object for a struct, with the required fields and some of the others."""
    fields = [
        field for field in msgspec.structs.fields(kind) if not field.encode_name.startswith("tidelock.dev")
    ]
    return {
        field.encode_name: draw(values(field.type))
        for field in fields
        if field.required or draw(st.integers(0, 2))
    }


@st.composite
def objects(draw: st.DrawFn, resource: str) -> Json:
    """Draw an object with a name."""
    plain = draw(structs(KINDS[resource]))
    metadata = {"name": "a", "namespace": "shop", "uid": "1", "resourceVersion": "1"}
    return {**plain, "metadata": {**plain["metadata"], **metadata}}


def locations(value: object, at: Location = ()) -> Iterator[Location]:
    """Yield the locations of the parts of a JSON value, without the value itself."""
    inside: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for name, part in inside:
        yield (*at, name)
        yield from locations(part, (*at, name))


def structs_in(value: Any, hint: Any, at: Location = ()) -> Iterator[tuple[Location, Any]]:
    """Yield the location and the struct of each object with fields in a JSON value."""
    for kind in get_args(hint) if get_origin(hint) in (UnionType, Union) else (hint,):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield at, kind
            for field in msgspec.structs.fields(kind):
                if field.encode_name in value:
                    yield from structs_in(value[field.encode_name], field.type, (*at, field.encode_name))
        elif get_origin(kind) is tuple:
            for index, item in enumerate(value):
                yield from structs_in(item, get_args(kind)[0], (*at, index))


def part(value: Any, at: Location) -> Any:
    """Return the part of a JSON value at a location."""
    for name in at:
        value = value[name]
    return value


def without(plain: Json, at: Location) -> Json:
    """Copy a JSON value without one of its parts."""
    copy: Json = msgspec.json.decode(msgspec.json.encode(plain))
    del part(copy, at[:-1])[at[-1]]
    return copy


def changed(plain: Json, at: Location, new: object) -> Json:
    """Copy a JSON value with one part replaced."""
    copy: Json = msgspec.json.decode(msgspec.json.encode(plain))
    part(copy, at[:-1])[at[-1]] = new
    return copy
