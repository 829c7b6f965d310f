"""The pods that use the capacity of a reservation: owners of a reusable one, and borrowers."""

from functools import reduce
from math import inf

from tidelock.ledger.capacity.usage import Occupant
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.quantities import NOTHING, Resources, plus


def bound_occupants(entry: ReservationInfo) -> list[Occupant]:
    """Return the occupants that were seen bound on the reservation's node, by name."""
    bound = (each for each in entry.occupants.values() if not each.assumed)
    return sorted(bound, key=lambda each: (each.key, each.uid))


def ending_occupants(entry: ReservationInfo) -> list[Occupant]:
    """Return the bound occupants that are being deleted, the last to go first."""
    ending = (each for each in bound_occupants(entry) if each.ends_at < inf)
    return sorted(ending, key=lambda each: -each.ends_at)


def used(entry: ReservationInfo) -> Resources:
    """Return the amounts that bound occupants use."""
    return reduce(plus, (each.uses for each in bound_occupants(entry)), NOTHING)


def occupied_seconds(entry: ReservationInfo, now: float) -> float:
    """Return the number of seconds for which there have been occupants."""
    occupied, since = entry.transition_times.get("Occupied", ("False", now))
    return entry.occupied_seconds + (max(now - since, 0.0) if occupied == "True" else 0.0)


def count_use(entry: ReservationInfo, now: float, *, occupied: bool) -> None:
    """Start or stop counting the seconds for which there are occupants."""
    was, _ = entry.transition_times.get("Occupied", ("False", now))
    if was != str(occupied):
        entry.occupied_seconds = round(occupied_seconds(entry, now))
        entry.transition_times["Occupied"] = (str(occupied), now)
