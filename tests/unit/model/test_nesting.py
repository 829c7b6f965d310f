"""Objects that are nested too deeply for Python's decoders, encoders and copies."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from builders import TOO_DEEP, Json, encode, node_json, reservation_json
from tidelock.kube.errors import MalformedResponse, error_from_response
from tidelock.kube.wire import parse_event, parse_identity, parse_page
from tidelock.model.nesting import DEEPEST, Cut, _cut_by_arrays, _cut_by_runs, cut, decode_plain, is_flat
from tidelock.model.nodes import decode_node
from tidelock.model.quotas import decode_reservation_quota
from tidelock.model.reservation import decode_reservation
from tidelock.model.reservation_group import decode_group
from tidelock.model.reservation_quote import decode_quote
from tidelock.model.reservation_schedule import decode_schedule
from tidelock.model.usage_annotations import Unreadable, decode_node_level

_HERE = "%here%"
Cutter = Callable[[bytes, int], Cut | None]
CUTTERS = pytest.mark.parametrize("cutter", [_cut_by_arrays, _cut_by_runs])
_PROBLEM = f"is nested more than {DEEPEST} levels deep"

# Depths beyond the limit: those that every Python supports, those that only 3.13 supports, and a larger one.
DEPTHS = (DEEPEST, 400, 960, 1500, 5000, TOO_DEEP)


def nested(plain: Json, depth: int) -> bytes:
    """Encode an object, and replace the text `_HERE` with nested lists."""
    return encode(plain).replace(b'"%b"' % _HERE.encode(), b"[" * depth + b"]" * depth)


def deep_reservation(depth: int = TOO_DEEP) -> bytes:
    return nested(
        reservation_json("deep", template={"spec": {"containers": [{"name": "main"}], "unknown": _HERE}}),
        depth,
    )


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_reservation_that_is_nested_too_deeply_has_a_problem_and_keeps_the_rest(depth: int) -> None:
    """Guard against a reservation of 1,500 levels that ends the operator, again after each start."""
    read = decode_reservation(deep_reservation(depth=depth))
    assert read.problem == f"spec.template.spec.unknown: {_PROBLEM}"
    assert read.meta.unreadable == read.problem
    assert read.pod is None
    assert read.spec is not None
    assert read.spec.owners
    json.dumps(read.status)


def test_a_reservation_at_the_limit_is_read_in_full() -> None:
    depth = DEEPEST - 4  # the object, its spec, its template and the pod's spec
    raw = deep_reservation(depth=depth)
    assert cut(raw) is None
    assert decode_reservation(raw).problem == ""
    assert decode_reservation(deep_reservation(depth=depth + 1)).problem


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_status_that_is_nested_too_deeply_never_makes_a_reservation_unreadable(depth: int) -> None:
    read = decode_reservation(nested(reservation_json(status={"phase": "Active", "odd": _HERE}), depth))
    assert (read.problem, read.meta.unreadable) == ("", "")
    assert [str(fault) for fault in read.meta.faults] == [f"status.odd: {_PROBLEM}"]
    assert read.pod is not None


@pytest.mark.parametrize("decode", [decode_group, decode_schedule, decode_quote, decode_reservation_quota])
def test_every_kind_of_tidelock_reports_a_spec_that_is_nested_too_deeply(
    decode: Callable[[bytes], Any],
) -> None:
    read = decode(nested({"metadata": {"name": "x", "namespace": "shop"}, "spec": {"x": _HERE}}, TOO_DEEP))
    assert "spec" in read.problem
    assert read.meta.unreadable == f"spec.x: {_PROBLEM}"


def test_a_template_of_a_group_that_is_nested_too_deeply_makes_no_members() -> None:
    member = {
        "name": "a",
        "count": 1,
        "owners": [{"pod": {"name": "a"}}],
        "template": {"spec": {"containers": [{"name": "main"}], "x": _HERE}},
    }
    spec = {"members": [member], "ttlSeconds": 60}
    shallow = decode_group(nested({"metadata": {"name": "x", "uid": "u"}, "spec": spec}, 1))
    assert shallow.problem == ""
    assert shallow.members
    deep = decode_group(nested({"metadata": {"name": "x", "uid": "u"}, "spec": spec}, 500))
    assert deep.problem == f"spec.members: {_PROBLEM}"
    assert not deep.members


def test_a_node_that_is_nested_too_deeply_is_marked_as_unreadable() -> None:
    plain = node_json()
    plain["spec"]["unknown"] = _HERE
    read = decode_node(nested(plain, TOO_DEEP))
    assert read.name == "node-a"
    assert read.meta.unreadable == f"spec.unknown: {_PROBLEM}"


def test_an_object_that_is_nested_too_deeply_hides_no_other_of_its_list() -> None:
    items = [encode(reservation_json(f"lock-{number}")) for number in range(499)]
    items.insert(250, deep_reservation())
    body = b'{"metadata":{"resourceVersion":"9"},"items":[%b]}' % b",".join(items)
    listed = parse_page(body).items
    assert listed is not None
    read = [decode_reservation(raw) for raw in listed]
    assert [each.key.name for each in read if each.problem] == ["deep"]
    assert len([each for each in read if each.pod is not None]) == 499


def test_an_object_that_is_nested_too_deeply_is_read_from_a_watch_event() -> None:
    event = parse_event(b'{"type":"ADDED","object":%b}' % deep_reservation())
    assert event.type == "ADDED"
    assert parse_identity(event.object).name == "deep"
    assert decode_reservation(event.object).problem


def test_a_frame_that_is_nested_too_deeply_is_a_malformed_answer() -> None:
    with pytest.raises(MalformedResponse):
        parse_page(b"[" * TOO_DEEP + b"]" * TOO_DEEP)
    with pytest.raises(MalformedResponse):
        parse_event(b"[" * TOO_DEEP)


def test_an_annotation_that_is_nested_too_deeply_is_no_measurement() -> None:
    """Check an annotation that every user with write access to a Deployment can set."""
    text = '{"x":' + "[" * TOO_DEEP + "]" * TOO_DEEP + "}"
    assert decode_node_level(text) == Unreadable("is nested too deeply")


def test_an_error_answer_that_is_nested_too_deeply_keeps_its_status() -> None:
    error = error_from_response(500, b"[" * TOO_DEEP, retry_after=None, writing=False)
    assert error.status == 500


def test_plain_json_is_decoded_or_raises_a_value_error() -> None:
    assert decode_plain(b'{"a":[1]}') == {"a": [1]}
    with pytest.raises(ValueError, match="is nested too deeply"):
        decode_plain(b"[" * TOO_DEEP + b"]" * TOO_DEEP)


@pytest.mark.parametrize(
    ("raw", "left"),
    [
        (b"[[[1]]]", b"[[0]]"),
        (b'{"a":{"b":{"c":1},"d":{}},"e":2}', b'{"a":{"b":0,"d":0},"e":2}'),
        (rb'["\"[[[","\\",[[]],"]"]', rb'["\"[[[","\\",[0],"]"]'),
        (b"[[],[]]", None),
        (b'["[[[[[[","{{{{{"]', None),
        (b"[[[", b"[[0"),
        (b"", None),
    ],
)
@CUTTERS
def test_brackets_in_strings_do_not_count(cutter: Cutter, raw: bytes, left: bytes | None) -> None:
    found = cutter(raw, 2)
    assert (found.raw if found is not None else None) == left


def test_the_number_of_brackets_shows_that_an_object_is_flat() -> None:
    assert is_flat(b"[]" * DEEPEST * 3)
    assert is_flat(encode(reservation_json()))
    assert not is_flat(b"[" * DEEPEST * 2 + b"]" * DEEPEST * 2)


@CUTTERS
def test_the_path_ends_where_a_list_begins(cutter: Cutter) -> None:
    found = cutter(b'{"a":{"b":[{"c":[[1]]}]}}', 4)
    assert found is not None
    assert found.path == ("a", "b")
