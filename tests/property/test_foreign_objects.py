"""Objects of other authors are read despite missing and malformed parts."""

import inspect
from functools import cached_property
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders import Json, encode
from property.foreign import (
    KINDS,
    READERS,
    RESOURCES,
    Location,
    changed,
    locations,
    objects,
    part,
    structs_in,
    without,
)
from sampling import sample
from tidelock.model.meta import ObjectMeta, field_path

every_resource = pytest.mark.parametrize("resource", RESOURCES)


def read(resource: str, plain: Json) -> Any:
    return READERS[resource](encode(plain))


def unnamed(plain: Json) -> list[Location]:
    """Return the locations of all parts that are decoded, except the name."""
    named = ("metadata",), ("metadata", "name")
    anything = (at for at in locations(plain) if "parameters" in at)  # of a driver, in any type
    left_out = {*named, *anything}
    return [at for at in locations(plain) if at not in left_out and "disruptedPods" not in at[:-1]]


def faultless(decoded: Any) -> Any:
    """Return the object without its notes about unreadable parts."""
    metadata = msgspec.structs.replace(decoded.metadata, faults=())
    return msgspec.structs.replace(decoded, metadata=metadata)


@every_resource
@given(data=st.data())
@settings(deadline=None, max_examples=sample(10, 25))
def test_null_counts_as_missing(resource: str, data: st.DataObject) -> None:
    """Check fields, items of lists, and entries of maps."""
    plain = data.draw(objects(resource))
    at = data.draw(st.sampled_from(unnamed(plain)))

    assert read(resource, changed(plain, at, None)) == read(resource, without(plain, at))


@every_resource
@given(data=st.data())
@settings(deadline=None, max_examples=sample(10, 25))
def test_unknown_fields_are_ignored(resource: str, data: st.DataObject) -> None:
    plain = data.draw(objects(resource))
    at = data.draw(st.sampled_from([at for at, _ in structs_in(plain, KINDS[resource])]))
    new: object = data.draw(st.sampled_from([None, 1, "text", [], {}, {"deep": [{}]}]))

    assert read(resource, changed(plain, (*at, "fieldOfTomorrow"), new)) == read(resource, plain)


@every_resource
@given(data=st.data())
@settings(deadline=None, max_examples=sample(10, 25))
def test_only_the_malformed_part_is_left_out(resource: str, data: st.DataObject) -> None:
    """Check that the rest is read as if the part were missing, and that the part is noted."""
    plain = data.draw(objects(resource))
    at = data.draw(st.sampled_from(unnamed(plain)))
    new: object = data.draw(st.sampled_from([[[]], {"odd": {}}, 1.5, "\N{SNOWMAN}", True]))
    assume(type(new) is not type(part(plain, at)))
    assume(at != ("metadata", "uid"))  # the name is used instead

    decoded = read(resource, changed(plain, at, new))
    paths = [fault.path for fault in decoded.metadata.faults]
    assume(paths)  # otherwise the part accepts any value
    assert field_path(at) in paths
    assert all(field_path(at).startswith(path) for path in paths)
    assert faultless(decoded) == faultless(read(resource, without(plain, at)))


@pytest.mark.parametrize("amount", ["1E", "many", "1e999"])
@pytest.mark.parametrize("resource", ["nodes", "pods", "persistent_volume_claims", "persistent_volumes"])
@given(data=st.data())
@settings(deadline=None, max_examples=sample(10, 25))
def test_no_property_of_a_decoded_object_fails_on_a_bad_amount(
    resource: str, amount: str, data: st.DataObject
) -> None:
    """Guard against 1E cores, which the API server accepts, and which failed the first decision to use it."""
    plain = data.draw(objects(resource))
    amounts = [at for at in locations(plain) if set(at) & {"requests", "limits", "capacity", "allocatable"}]
    assume(amounts)
    decoded = read(resource, changed(plain, data.draw(st.sampled_from(amounts)), amount))

    for name, member in inspect.getmembers(type(decoded)):
        if isinstance(member, property | cached_property) and name != "version":
            getattr(decoded, name)


@every_resource
@given(data=st.data())
@settings(deadline=None, max_examples=sample(10, 25))
def test_anything_with_a_name_is_read(resource: str, data: st.DataObject) -> None:
    junk = st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=10,
    )
    plain = data.draw(objects(resource))
    for at in data.draw(st.lists(st.sampled_from(unnamed(plain)), max_size=4)):
        with_junk = data.draw(junk)
        if at in unnamed(plain):
            plain = changed(plain, at, with_junk)

    decoded = read(resource, plain)
    assert decoded.metadata.name == "a"
    assert isinstance(decoded.metadata, ObjectMeta)
