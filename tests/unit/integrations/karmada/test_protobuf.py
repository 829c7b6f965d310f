"""Protocol Buffers on the wire: fields, unknown parts, and bytes that are no message."""

import pytest

from devcluster.karmada import data, entries, number
from tidelock.integrations.karmada.protobuf import MOST_FIELDS, FieldError, Message, encode_count


def test_the_last_of_several_values_counts_and_absent_ones_are_empty() -> None:
    message = Message(number(1, 5) + number(1, 300) + data(2, "a") + data(2, "ä"))
    assert message.integer(1, "one") == 300
    assert message.text(2, "two") == "ä"
    assert message.texts(2, "two") == ("a", "ä")
    assert (message.integer(3, "three"), message.text(3, "three"), message.texts(3, "three")) == (0, "", ())
    assert message.message(3, "three") is None


def test_numbers_are_signed() -> None:
    assert Message(number(1, -1)).integer(1, "one") == -1
    assert Message(number(1, 2**63 - 1)).integer(1, "one") == 2**63 - 1


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    unknown = number(90, 7) + data(91, "new") + b"\xe1\x05" + bytes(8) + b"\xe5\x05" + bytes(4)
    assert Message(unknown + number(1, 4) + unknown).integer(1, "one") == 4


def test_a_message_in_parts_is_joined() -> None:
    whole = Message(data(1, number(1, 5)) + data(1, number(2, 6))).message(1, "part")
    assert whole is not None
    assert (whole.integer(1, "a"), whole.integer(2, "b")) == (5, 6)


def test_the_entries_of_a_map_have_their_keys() -> None:
    found = Message(entries(4, {"cpu": "a", "memory": "b"})).entries(4, "amounts")
    assert {key: entry.text(2, "value") for key, entry in found} == {"cpu": "a", "memory": "b"}


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (b"\x08", "request: a number ends early or is too long"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "request: a number ends early or is too long"),
        (b"\x12\x05abc", "request: field 2 ends early"),
        (b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "request: field 2 ends early"),
        (b"\x09abc", "request: field 1 ends early"),
        (b"\x00\x00", "request: a field without a number"),
        (b"\x0b\x0c", "request: field 1 has the unknown wire type 3"),
        (number(1, 1) * (MOST_FIELDS + 1), f"request: more than {MOST_FIELDS} fields"),
    ],
)
def test_bytes_that_are_no_message_are_refused(broken: bytes, problem: str) -> None:
    with pytest.raises(FieldError) as caught:
        Message(broken)
    assert str(caught.value) == problem


def test_a_field_of_another_type_is_refused_by_its_path() -> None:
    outer = Message(data(1, number(3, 5) + data(4, b"\xff")))
    inner = outer.message(1, "outer")
    assert inner is not None
    with pytest.raises(FieldError, match=r"^outer\.name: expected bytes$"):
        inner.text(3, "name")
    with pytest.raises(FieldError, match=r"^outer\.name: is not UTF-8: invalid start byte$"):
        inner.text(4, "name")
    with pytest.raises(FieldError, match=r"^outer\.size: expected a whole number$"):
        inner.integer(4, "size")
    with pytest.raises(FieldError, match=r"^outer\.part\[0\]: expected bytes$"):
        list(inner.messages(3, "part"))
    with pytest.raises(FieldError, match=r"^outer\.part: expected bytes$"):
        inner.message(3, "part")


@pytest.mark.parametrize("value", [-1, 2**31])
def test_a_count_is_an_int32_that_is_not_negative(value: int) -> None:
    with pytest.raises(FieldError, match=rf"^replicas: {value} is not between 0 and 2147483647$"):
        Message(number(3, value)).count(3, "replicas")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 1_000_000, 2**31 - 1])
def test_a_count_is_encoded_as_it_is_read(value: int) -> None:
    assert Message(encode_count(value)).count(1, "answer") == value
    assert encode_count(value) == number(1, value)
