"""Parts of the scheduler that fail for single objects."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from builders import NAMESPACE, encode, reservation_json
from isolating import Isolating
from tidelock.kube.client import RESERVATIONS
from tidelock.ledger.owners.claim import Claim
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.quantities import plus
from tidelock.model.reservation import decode_reservation
from tidelock.model.unusable import unusable
from unit.scheduler.machinery import Core

BAD = Key(NAMESPACE, "bad")


class Fed(Core):
    """A core with events as from watches: an object with a failing handler is delivered again as unusable."""

    def __init__(self, *nodes: Any) -> None:
        self.isolation = Isolating()
        super().__init__(*nodes, on_failure=self.isolation.failed)

    def deliver(self, name: str, **fields: Any) -> None:
        new = decode_reservation(encode(reservation_json(name, **fields)))
        known = self.ledger.records.find(new.key)
        old = known.reservation if known is not None else None
        for version in (new, unusable(new, "the operator failed")):
            with self.isolation.attempt("event", RESERVATIONS, new.meta) as attempt:
                self.event_handlers.reservations.upsert(old, version)
            if attempt.error is None:
                return

    def steps(self, count: int = 5) -> None:
        for _ in range(count):
            self.step()
            self.check()

    def check(self) -> None:
        """Compare all sums with the ledger, entry by entry."""
        columns = self.decider.columns
        for name, row in columns.row_of.items():
            held: dict[str, int] = {}
            for entry in self.ledger.entries.values():
                if entry.node == name:
                    held = dict(plus(held, entry.held))
            assert columns.named(columns.reserved[row]) == {
                key: units for key, units in held.items() if units
            }
            listed = {entry.key for entry in self.ledger.holdings.held_on(name)}
            assert listed == {
                entry.key for entry in self.ledger.entries.values() if entry.node == name and entry.reserved
            }
        for key, entry in self.ledger.waiting_reservations.waiting.items():
            assert self.ledger.entries[key] is entry

    def phases(self) -> dict[str, Phase]:
        return {key.name: entry.phase for key, entry in self.ledger.entries.items()}


@contextmanager
def planted(owner: Any, path: str, *, name: str = "bad", times: int = 10**6) -> Iterator[list[int]]:
    """Make a method fail after its work for the object of a name, so many times."""
    *parents, method = path.split(".")
    part = attrgetter(".".join(parents))(owner) if parents else owner
    original: Callable[..., Any] = getattr(part, method)
    failed: list[int] = []

    def fails(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        if name in map(_name_of, arguments) and len(failed) < times:
            failed.append(1)
            raise LookupError(f"planted in {path}")
        return result

    setattr(part, method, fails)
    try:
        yield failed
    finally:
        setattr(part, method, original)


def _name_of(argument: Any) -> str:
    if isinstance(argument, str):
        return argument
    if isinstance(argument, ReservationInfo):
        return argument.key.name
    if isinstance(argument, Claim):
        return argument.pod.meta.name
    return str(getattr(getattr(argument, "meta", None), "name", ""))
