"""The answer to a reservation in the response to its own creation: its first status, signed, as annotations.

The object has no uid when it is answered, and perhaps no name. So a nonce identifies the creation. The
signature is an HMAC with a key that only operators have: a client can read an answer, and make none.
"""

import hmac
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tidelock.model.instants import parse_instant
from tidelock.model.meta import ObjectMeta

ANSWER = "tidelock.dev/answer"
"""Annotation with the answer as JSON."""
SIGNATURE = "tidelock.dev/answer-signature"
"""Annotation with the number of the leadership, which the fence checks, and the signature."""
UNSEEN_SECONDS = 65.0
"""How long an answered object may stay unseen. The API server gives up a creation after 60 s, so the object
can't be stored later. The rest is for the watch."""

_VERSION = 1
_FORM = re.compile(r"([0-9]{1,9})\.([0-9a-f]{64})")
# Seconds by which the clocks of the operator and of the API server may differ.
_SKEW = 60.0


class Answer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to one creation.

    Attributes:
        nonce: identifies the creation.
        leadership: number of the leadership that has answered.
        at: instant of the answer.
        status: the first status of the reservation.
        namespace: namespace of the object.
        name: name of the object, or empty if the API server generates one.
        generate_name: then its first part.
        version: version of this format.

    """

    nonce: str
    leadership: int
    at: str
    status: dict[str, Any]
    namespace: str
    name: str = ""
    generate_name: str = ""
    version: int = msgspec.field(default_factory=lambda: _VERSION)  # always on the wire

    def is_for(self, meta: ObjectMeta) -> bool:
        """Return whether an object has the name and the namespace in the answer."""
        generated = bool(self.generate_name) and meta.name.startswith(self.generate_name)
        named = meta.name == self.name if self.name else generated
        return named and meta.namespace == self.namespace

    def is_timely(self, meta: ObjectMeta) -> bool:
        """Return whether an object can have been created with this answer, by its time."""
        return -_SKEW - 1 <= meta.created - parse_instant(self.at) <= UNSEEN_SECONDS + _SKEW


_DECODE = msgspec.json.Decoder(Answer).decode


class AnswerKeys:
    """The keys of signatures. The first signs, and each of them is accepted."""

    def __init__(self) -> None:
        self._keys: tuple[bytes, ...] = ()

    @property
    def newest(self) -> bytes:
        """The key that signs, or nothing as long as there is none."""
        return self._keys[0] if self._keys else b""

    def use(self, *keys: bytes) -> None:
        """Use these keys from now on, the newest first."""
        self._keys = tuple(filter(None, keys))

    def sign(self, answer: Answer) -> dict[str, str]:
        """Return the annotations of an answer."""
        text = msgspec.json.encode(answer)
        signature = f"{answer.leadership}.{_digest(self._keys[0], text)}"
        return {ANSWER: text.decode(), SIGNATURE: signature}

    def read(self, meta: ObjectMeta, *, at_any_time: bool = False) -> Answer | None:
        """Return the answer in the annotations of an object, or None if it has none of an operator.

        The object must have been created at the time of the answer, unless the caller knows the answer.
        """
        found = _FORM.fullmatch(meta.annotations.get(SIGNATURE, ""))
        if found is None:
            return None
        text = meta.annotations.get(ANSWER, "").encode(errors="surrogatepass")
        if not any(hmac.compare_digest(found[2], each) for each in self._digests(text)):
            return None
        try:
            answer = _DECODE(text)
            valid = answer.version == _VERSION and answer.leadership == int(found[1])
            valid = valid and answer.is_for(meta)
            return answer if valid and (answer.is_timely(meta) or at_any_time) else None
        except ValueError:
            return None  # another version of the operator has signed it

    def _digests(self, text: bytes) -> Iterator[str]:
        return (_digest(key, text) for key in self._keys)


def answered_status(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the first status in the answer to a client's own creation, or an empty one without an answer.

    Only the operator can verify the signature. A client trusts the response to its own request.
    """
    try:
        return _DECODE(annotations.get(ANSWER, "")).status
    except msgspec.DecodeError:
        return {}


def _digest(key: bytes, text: bytes) -> str:
    return hmac.digest(key, text, "sha256").hex()
