"""The full example of each API type that Tidelock reads, from the Go module of the API's types.

It needs no API server, but the Go module that the control plane is built from.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
import pytest

from builders import Json, encode
from devcluster.build import MODULE, find_module
from property.foreign import KINDS, READERS, Location, changed, locations, part, structs_in, without
from tidelock.model.instants import parse_instant
from tidelock.model.quotas import decode_resource_quota
from tidelock.scheduler.informers.informers import OPTIONAL, WATCHED

_NAMED = (("metadata",), ("metadata", "name"))
_NEEDED = "Object missing required field"
every_resource = pytest.mark.parametrize("resource", sorted(READERS))


@pytest.fixture(scope="module")
def examples() -> Mapping[str, Json]:
    """Return the newest example of each resource that Tidelock reads and other clients write."""
    folder = find_module(MODULE, "k8s.io/api") / "testdata" / "HEAD"
    return {
        name: json.loads(
            (folder / f"{resource.group or 'core'}.{resource.version}.{resource.kind}.json").read_text()
        )
        for name, (resource, _) in {**WATCHED, **OPTIONAL}.items()
        if not resource.group.endswith("tidelock.dev")
    }


def pairs(decoded: Any, plain: Any) -> Iterator[tuple[object, object]]:
    """Yield each decoded value with the plain value from which it was decoded."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(decoded, msgspec.Struct):
        fields = [each for each in msgspec.structs.fields(type(decoded)) if each.encode_name in plain]
        inside = [(getattr(decoded, each.name), plain[each.encode_name]) for each in fields]
    elif isinstance(decoded, tuple):
        inside = zip(decoded, plain, strict=True)
    elif isinstance(decoded, dict):
        assert decoded.keys() == plain.keys()
        inside = [(value, plain[name]) for name, value in decoded.items()]
    else:
        yield decoded.timestamp() if isinstance(decoded, datetime) else decoded, plain
    for one, other in inside:
        yield from pairs(one, other)


def changeable(plain: Json) -> list[Location]:
    """List the locations of all parts of an object that a reader decodes, except its name."""
    anything = (at for at in locations(plain) if "parameters" in at)  # of a driver, in any type
    left_out = {*_NAMED, *anything}
    return [at for at in locations(plain) if at not in left_out and "disruptedPods" not in at[:-1]]


@every_resource
def test_decoding_an_example_loses_no_value(examples: Mapping[str, Json], resource: str) -> None:
    decoded = READERS[resource](encode(examples[resource]))

    assert decoded.metadata.faults == ()
    for value, plain in pairs(decoded, examples[resource]):
        assert value == (parse_instant(plain) if isinstance(value, float) else plain)


def test_the_example_of_a_resource_quota_is_read(examples: Mapping[str, Json]) -> None:
    plain = examples["resource_quotas"]
    scoped = decode_resource_quota(encode(plain))
    general = decode_resource_quota(
        encode(without(without(plain, ("spec", "scopes")), ("spec", "scopeSelector")))
    )

    assert scoped.meta.faults == general.meta.faults == ()
    assert scoped.limits == ()
    assert [limit.name for limit in general.limits] == sorted(plain["status"]["hard"])


@every_resource
def test_any_part_of_an_example_may_be_null_or_absent(examples: Mapping[str, Json], resource: str) -> None:
    plain, read = examples[resource], READERS[resource]
    parts = list(changeable(plain))
    assert parts
    for at in parts:
        null, absent = read(encode(changed(plain, at, None))), read(encode(without(plain, at)))
        assert null == absent, at
        assert all(fault.problem.startswith(_NEEDED) for fault in absent.metadata.faults), at


@every_resource
def test_any_list_or_map_of_an_example_may_be_empty(examples: Mapping[str, Json], resource: str) -> None:
    plain, read = examples[resource], READERS[resource]
    parts = list(changeable(plain))
    assert parts
    for at in parts:
        value = part(plain, at)
        if isinstance(value, list | dict):
            faults = read(encode(changed(plain, at, type(value)()))).metadata.faults
            assert all(fault.problem.startswith(_NEEDED) for fault in faults), at


@every_resource
def test_any_object_of_an_example_may_have_unknown_fields(
    examples: Mapping[str, Json], resource: str
) -> None:
    plain, read = examples[resource], READERS[resource]
    expected = read(encode(plain))
    structs = list(structs_in(plain, KINDS[resource]))
    assert structs
    for at, _ in structs:
        for new in (None, "text", {"deep": [None]}):
            assert read(encode(changed(plain, (*at, "fieldOfTomorrow"), new))) == expected, at


@every_resource
def test_any_part_of_an_example_may_have_another_type(examples: Mapping[str, Json], resource: str) -> None:
    """Test that the object is kept, and that a wrong part is recorded as a fault if it is read."""
    plain, read = examples[resource], READERS[resource]
    whole = read(encode(plain))
    parts = list(changeable(plain))
    assert parts
    for at in parts:
        odd: object = {"odd": 1} if not isinstance(part(plain, at), dict) else "odd"
        decoded = read(encode(changed(plain, at, odd)))
        assert decoded.metadata.name == whole.metadata.name
        assert decoded.metadata.faults or decoded == whole, at
