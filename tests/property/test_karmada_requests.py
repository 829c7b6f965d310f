"""Requests of Karmada: any bytes are read or refused, and amounts arrive as they were sent."""

from collections.abc import Callable
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from devcluster.karmada import (
    assumed,
    component,
    data,
    entries,
    number,
    replica,
    replicas_request,
    sets_request,
    unschedulable_request,
)
from tidelock.integrations.karmada.protobuf import FieldError, Message, encode_count
from tidelock.integrations.karmada.requests import read_replicas, read_sets, read_unschedulable

READERS: tuple[Callable[[bytes], object], ...] = (read_replicas, read_sets, read_unschedulable)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
CORES = st.integers(0, 10**6)
TERM = data(1, data(1, "zone") + data(2, "In") + data(3, "a"))
CLAIM = entries(2, {"disk": "ssd"}) + data(4, data(1, TERM)) + data(5, data(1, "gpu") + data(2, "Exists"))
VALID = st.sampled_from(
    [
        replicas_request(
            replica({"cpu": "1"}, CLAIM, "shop"), assumed(component("a", 2, {"cpu": "2"}, CLAIM))
        ),
        sets_request([component("a", 1, {"memory": "1Gi"}, CLAIM)], assumed(component("b", 3, {}))),
        unschedulable_request("Deployment", "shop", "web", 30),
    ]
)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """Draw a valid request with some bytes replaced, cut out or put in."""
    request = bytearray(draw(VALID))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(request)))
        request[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(request)


@given(st.binary(max_size=200) | spoilt())
def test_any_bytes_are_read_or_refused_with_a_field(sent: bytes) -> None:
    for read in READERS:
        with suppress(FieldError):
            read(sent)


@given(st.dictionaries(NAMES, CORES, max_size=4), st.binary(max_size=9))
def test_amounts_arrive_beside_unknown_fields(amounts: dict[str, int], unknown: bytes) -> None:
    quantities = {name: str(units) for name, units in amounts.items()}
    request = replicas_request(replica(quantities) + data(77, unknown)) + data(78, unknown) + number(79, 5)
    expected = {name: units * (1000 if name == "cpu" else 1) for name, units in amounts.items()}
    expected["pods"] = max(expected.get("pods", 0), 1)
    assert read_replicas(request).pod.requests == expected


@given(st.integers(0, 2**31 - 1))
def test_a_count_is_read_as_it_was_encoded(count: int) -> None:
    assert Message(encode_count(count)).count(1, "answer") == count
