"""A ReservationQuote, decoded once into the form that the scheduler answers."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pydantic

from tidelock.model.api.reservation_quote import ReservationQuoteSpec, ReservationQuoteStatus
from tidelock.model.api.wire import legible, spec_problems
from tidelock.model.instants import stored_instant
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta, StoredObject
from tidelock.model.pods import Pod
from tidelock.model.quantities import QuantityError
from tidelock.model.reservation import make_reserve_pod


@dataclass(frozen=True, slots=True)
class Quote:
    """One version of a ReservationQuote.

    For an unreadable spec there is no `pod`, and `problem` describes the error. `status` is the stored status
    as plain JSON values.
    """

    meta: ObjectMeta
    spec: ReservationQuoteSpec = field(default_factory=ReservationQuoteSpec)
    pod: Pod | None = None
    problem: str = ""
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.meta.key

    @property
    def answered_at(self) -> float | None:
        """The instant of the answer, if there is one."""
        if self.status.get("observedGeneration") != self.meta.generation:
            return None
        return stored_instant(self.status.get("answeredAt"))

    @property
    def removable_at(self) -> float | None:
        """The instant from which the object may be deleted, if it is answered."""
        answered = self.answered_at
        return None if answered is None else answered + self.spec.ttl_seconds


_READ = Reader(StoredObject)


def decode_quote(raw: bytes | msgspec.Raw) -> Quote:
    """Decode a ReservationQuote from its JSON; a bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    status = legible(ReservationQuoteStatus, stored.status)
    try:
        spec = ReservationQuoteSpec.model_validate(stored.spec)
    except pydantic.ValidationError as error:
        return Quote(stored.metadata, problem=spec_problems(error), status=status)
    if stored.problem:
        return Quote(stored.metadata, spec, problem=stored.problem, status=status)
    try:
        pod = make_reserve_pod(stored.metadata, spec, stored.spec)
    except (QuantityError, msgspec.ValidationError) as error:
        return Quote(stored.metadata, spec, problem=f"spec: {error}", status=status)
    return Quote(stored.metadata, spec, pod, status=status)
