from typing import Any

import msgspec
import pytest

from builders import NOW, Json, reservation
from tidelock.model.answer import ANSWER, SIGNATURE, UNSEEN_SECONDS, Answer, AnswerKeys
from tidelock.model.instants import format_instant
from tidelock.model.meta import ObjectMeta

STATUS: Json = {"phase": "Active", "nodeName": "node-a"}
SKEW = 60


def answer(**fields: Any) -> Answer:
    given: Json = {
        "nonce": "once",
        "leadership": 7,
        "at": format_instant(NOW),
        "status": STATUS,
        "namespace": "shop",
        "name": "lock",
    }
    return Answer(**given | fields)


def keys(*used: bytes) -> AnswerKeys:
    made = AnswerKeys()
    made.use(*used or (b"key",))
    return made


def meta(annotations: dict[str, str], name: str = "lock", **fields: Any) -> ObjectMeta:
    return reservation(name, annotations=annotations, **fields).meta


def test_an_answer_is_read_as_it_was_signed() -> None:
    annotations = keys().sign(answer())
    assert keys().read(meta(annotations)) == answer()
    assert msgspec.json.decode(annotations[ANSWER])["version"] == 1


def test_the_signature_begins_with_the_leadership_which_the_fence_reads() -> None:
    leadership, _, digest = keys().sign(answer())[SIGNATURE].partition(".")
    assert leadership == "7"
    assert len(digest) == 64


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("nonce", "twice"),
        ("leadership", 8),
        ("at", format_instant(NOW + 1)),
        ("status", STATUS | {"nodeName": "node-b"}),
        ("namespace", "shop"),
        ("name", "lock"),
        ("generateName", "lo"),
        ("version", 1),
        ("unknown", ""),
    ],
)
def test_an_altered_field_is_found(field: str, other: object) -> None:
    before = {"namespace": {"namespace": "bank"}, "name": {"name": "door"}}.get(field, {})
    annotations = keys().sign(answer(**before))
    fields = msgspec.json.decode(annotations[ANSWER])
    text = msgspec.json.encode({**fields, field: other}).decode()
    if field == "version":
        text += " "
    assert keys().read(meta(annotations | {ANSWER: text})) is None


@pytest.mark.parametrize("leadership", ["8", "07", "6", "0", ""])
def test_another_leadership_in_the_signature_is_found(leadership: str) -> None:
    annotations = keys().sign(answer())
    digest = annotations[SIGNATURE].partition(".")[2]
    forged = annotations | {SIGNATURE: f"{leadership}.{digest}"}
    assert (keys().read(meta(forged)) is None) == (leadership != "07")


@pytest.mark.parametrize(
    "change",
    [
        lambda signature: signature[:0],
        lambda signature: signature[:-1],
        lambda signature: signature + "0",
        lambda signature: signature + "\n",
        lambda signature: signature.upper(),
        lambda signature: signature[:-1] + ("0" if signature[-1] != "0" else "1"),
        lambda signature: signature.replace(".", "-"),
        lambda signature: signature[:2] + "é" * 64,
        lambda signature: "\u0667" + signature[1:],  # another digit 7
    ],
)
def test_another_signature_is_found(change: Any) -> None:
    annotations = keys().sign(answer())
    assert keys().read(meta(annotations | {SIGNATURE: change(annotations[SIGNATURE])})) is None


@pytest.mark.parametrize("missing", [ANSWER, SIGNATURE])
def test_an_answer_needs_both_annotations(missing: str) -> None:
    annotations = keys().sign(answer())
    del annotations[missing]
    assert keys().read(meta(annotations)) is None


def test_a_key_that_no_operator_has_signs_nothing() -> None:
    assert keys(b"key").read(meta(keys(b"other").sign(answer()))) is None


@pytest.mark.parametrize("used", [(), (b"",), (b"", b"")])
def test_without_a_key_nothing_is_read(used: tuple[bytes, ...]) -> None:
    without = AnswerKeys()
    without.use(*used)
    assert without.read(meta(keys().sign(answer()))) is None
    assert AnswerKeys().read(meta(keys().sign(answer()))) is None


def test_after_a_rotation_both_keys_are_accepted_and_the_newest_signs() -> None:
    rotated = keys(b"new", b"old")
    assert rotated.read(meta(keys(b"old").sign(answer()))) == answer()
    assert keys(b"new").read(meta(rotated.sign(answer()))) == answer()
    assert keys(b"old").read(meta(rotated.sign(answer()))) is None


@pytest.mark.parametrize(
    ("named", "name", "accepted"),
    [
        ({"name": "lock"}, "lock", True),
        ({"name": "lock"}, "lock-2", False),
        ({"name": "lock", "generate_name": "lo"}, "lo-2", False),
        ({"name": "", "generate_name": "lock-"}, "lock-x7", True),
        ({"name": "", "generate_name": "lock-"}, "lock", False),
        ({"name": "", "generate_name": "lock-"}, "other-lock-x7", False),
    ],
)
def test_an_answer_is_for_one_name_or_one_first_part(named: Json, name: str, *, accepted: bool) -> None:
    read = keys().read(meta(keys().sign(answer(**named)), name))
    assert (read is not None) == accepted


def test_an_answer_is_for_one_namespace() -> None:
    assert keys().read(meta(keys().sign(answer()), namespace="bank")) is None


@pytest.mark.parametrize(
    ("created", "accepted"),
    [
        (NOW, True),
        (NOW - SKEW - 1, True),
        (NOW - SKEW - 2, False),
        (NOW + UNSEEN_SECONDS + SKEW, True),
        (NOW + UNSEEN_SECONDS + SKEW + 1, False),
    ],
)
def test_an_answer_is_for_an_object_of_its_time(created: float, *, accepted: bool) -> None:
    """The clocks of the operator and of the API server differ, and creation times have whole seconds."""
    assert answer().is_timely(meta({}, created=created)) == accepted


def test_an_answer_of_another_version_counts_for_nothing() -> None:
    assert keys().read(meta(keys().sign(answer(version=2)))) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text.replace(b'"Active"', b'"\\ud800"'),
        lambda text: text.replace(b'"once"', b"1"),
        lambda text: text.replace(b'"name":"lock"', b'"status2":{}'),
        lambda text: text.replace(b'"namespace":"shop",', b""),
        lambda text: text.replace(format_instant(NOW).encode(), b"noon"),
        lambda text: text[:0],
    ],
)
def test_a_signed_text_that_this_version_can_not_read_counts_for_nothing(
    change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the operator may sign any text."""
    encode = msgspec.json.encode
    with monkeypatch.context() as patched:
        patched.setattr(msgspec.json, "encode", lambda answer: change(encode(answer)))
        annotations = keys().sign(answer())
    assert keys().read(ObjectMeta(name="lock", namespace="shop", annotations=annotations)) is None


@pytest.mark.parametrize("text", ["", "{", "null", '"\ud800"', "{}"])
def test_a_text_of_a_user_counts_for_nothing(text: str) -> None:
    annotations = keys().sign(answer())
    user = ObjectMeta(name="lock", namespace="shop", annotations=annotations | {ANSWER: text})
    assert keys().read(user) is None
