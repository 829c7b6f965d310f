"""Rules of quotas: reservations hold no more than the quotas have allowed since they became active."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, inf

from faults.history import Change, Json
from faults.reading import Amounts, amounts, room_of, total
from faults.world import SLACK, World
from tidelock.model.instants import parse_instant

_UNLIMITED = Decimal("Infinity")


@dataclass(slots=True)
class _Version:
    """The limits of a quota, and the loop time at which the operator received the next ones."""

    hard: Amounts
    hard_seconds: Amounts
    until: float = inf


class Usage:
    """The rules of quotas."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._versions: defaultdict[str, list[_Version]] = defaultdict(lambda: [_Version({}, {})])
        self._earliest: dict[str, float] = {}  # earliest activation of a reservation, by its uid
        self._told: set[tuple[str, ...]] = set()

    def see(self, each: Change, before: Json | None) -> None:
        """Follow the quotas, and add up the reservations whenever one changes."""
        if each.kind == "reservationquotas":
            self._follow(each, before)
        elif each.kind == "reservations":
            self._note_given(each)
            self._add_up(each)

    def _follow(self, each: Change, before: Json | None) -> None:
        if before is not None and not each.gone and before["spec"] == each.state["spec"]:
            return
        told = self._world.delivered_at(each)
        self._versions[each.name][-1].until = inf if told is None else told + SLACK
        spec = {} if each.gone else each.state["spec"]
        self._versions[each.name].append(
            _Version(amounts(spec.get("hard", {})), amounts(spec.get("hardSeconds", {})))
        )

    def _note_given(self, each: Change) -> None:
        """Note the earliest time of an activation, as its status is written later and clocks jump."""
        activated = each.state.get("status", {}).get("activatedAt")
        if activated is not None and each.uid not in self._earliest:
            ago = each.clock - parse_instant(activated)
            self._earliest[each.uid] = each.at - ago if ago >= 0 else -inf

    def _add_up(self, each: Change) -> None:
        """Compare the amounts that are certainly held with the highest limit since the first activation."""
        reservations = [
            reservation
            for reservation in self._world.reservations.values()
            if self._counts(reservation, each)
        ]
        names = tuple(sorted(reservation["metadata"]["name"] for reservation in reservations))
        if not reservations or not self._versions or names in self._told:
            return
        since = min(self._earliest[reservation["metadata"]["uid"]] for reservation in reservations)
        held = {**total(map(room_of, reservations)), "pods": Decimal(len(reservations))}
        seconds = total(_seconds(reservation) for reservation in reservations)
        for quota, versions in self._versions.items():
            valid = [version for version in versions if version.until >= since]
            over = list(_beyond(held, [version.hard for version in valid]))
            over += [
                f"{text} seconds" for text in _beyond(seconds, [version.hard_seconds for version in valid])
            ]
            if over:
                self._told.add(names)
            self._world.expect(not over, f"I1: {names} hold {over}, more than {quota} allows, at {each}")

    def _counts(self, reservation: Json, each: Change) -> bool:
        known = reservation["metadata"]["uid"] in self._earliest
        return (
            known and self._world.surely_has_room(reservation, each) and not self._is_disturbed(reservation)
        )

    def _is_disturbed(self, reservation: Json) -> bool:
        return reservation["status"]["nodeName"] in self._world.disturbed

    def see_rest(self, now: float) -> None:
        """Check nothing: `rest` compares the quotas' statuses with those of another operator."""

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return whether a reservation has lost its capacity, and is subject to the quota as a new one is."""
        del each
        if reason != "QuotaExceeded" or not self._versions:
            return False
        return before["status"].get("nodeName") in self._world.disturbed


def _beyond(held: Amounts, limits: Iterable[Amounts], unit: str = "") -> Iterator[str]:
    """Yield the amounts that exceed the highest limit."""
    allowed = list(limits)
    for name, units in held.items():
        most = max(limit.get(name, _UNLIMITED) for limit in allowed)
        if units > most:
            yield f"{name} {units}{unit} of {most}"


def _seconds(reservation: Json) -> Amounts:
    """Return the capacity of a reservation times the shortest life that it may have."""
    status, spec = reservation["status"], reservation["spec"]
    life = ceil(round(parse_instant(status["expiresAt"]) - parse_instant(status["activatedAt"]), 3))
    life = min(life, spec.get("ttlSeconds", life))
    return {name: units * life for name, units in room_of(reservation).items()}
