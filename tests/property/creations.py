"""Requests that create Reservations and ask for an answer, on their way through the API server."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from builders import Json
from tidelock.model.answer import ANSWER, SIGNATURE, Answer
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key

REQUEST_SECONDS = 60.0
"""Seconds after which the API server gives up a request."""

Fate = Literal["stored", "refused", "dry run"]


@dataclass(eq=False)
class Creation:
    """A request to create a Reservation.

    Attributes:
        plain: the object as it will be stored. It has its final name already.
        generated_from: the first part of its name if the API server generates the name, or empty.
        fate: whether another admission plugin refuses it at last, or it is a dry run.
        at: when it came.
        slow: whether another admission plugin takes long.
        nonce: identifies the creation for the operator that was asked.
        asked_at: when that was.
        passed: whether the webhook has answered, or has failed.
        answer: the answer of an operator that is in the annotations.

    """

    plain: Json
    generated_from: str
    fate: Fate
    at: float
    slow: bool = False
    nonce: str = ""
    asked_at: float = 0.0
    passed: bool = False
    answer: Answer | None = None

    @property
    def uid(self) -> str:
        uid: str = self.plain["metadata"]["uid"]
        return uid

    @property
    def key(self) -> Key:
        return Key(self.plain["metadata"]["namespace"], self.plain["metadata"]["name"])

    @property
    def over(self) -> float:
        """The instant from which on it can't be stored."""
        return self.at + REQUEST_SECONDS

    @property
    def granted(self) -> bool:
        """Whether the answer says that the reservation has capacity."""
        return self.answer is not None and self.answer.status["phase"] == Phase.ACTIVE

    def review(self) -> bytes:
        """Return the AdmissionReview with which the API server calls the webhook."""
        metadata = {name: self.plain["metadata"][name] for name in ("namespace", "annotations")}
        named = {"generateName": self.generated_from} if self.generated_from else {"name": self.key.name}
        request = {
            "uid": self.uid,
            "resource": {"group": "tidelock.dev", "resource": "reservations"},
            "operation": "CREATE",
            "namespace": self.key.namespace,
            "object": {"metadata": metadata | named, "spec": self.plain["spec"]},
            "dryRun": self.fate == "dry run",
        }
        return msgspec.json.encode({"request": request})

    def annotate(self, annotations: Mapping[str, str]) -> None:
        self.plain["metadata"] |= {"annotations": self.plain["metadata"]["annotations"] | annotations}


def answer_in(plain: Json) -> dict[str, str]:
    """Return the annotations of an object that belong to an answer."""
    annotations: dict[str, str] = plain["metadata"]["annotations"]
    return {name: annotations[name] for name in (ANSWER, SIGNATURE) if name in annotations}


def nonce_in(plain: Json) -> str:
    """Return the nonce of an answer, as far as it can be read."""
    text = answer_in(plain).get(ANSWER)
    return "" if text is None else str(msgspec.json.decode(text).get("nonce", ""))
