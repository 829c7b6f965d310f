"""Rules of reservations that are answered in the response to their creation.

The checker takes the status in the answer for the stored one, until there is one. So all rules of stored
reservations hold from the response on. The rules here are about the answers themselves.
"""

from collections.abc import Collection
from dataclasses import replace

from faults.history import Change, Json
from faults.reading import answer_of, holds, phase_of
from faults.world import World


class Answering:
    """The rules of answers."""

    def __init__(self, world: World) -> None:
        self._world = world

    def see(self, each: Change, before: Json | None) -> None:
        """Check that an answer is kept, belongs to one object, and stays as it is."""
        if each.kind != "reservations" or each.gone or (answer := answer_of(each.state)) is None:
            return
        expect = self._world.expect
        if before is not None:
            expect(answer == answer_of(before), f"I2: {each}: its answer was added or changed")
        if not holds(each.state) or answer.get("phase") != "Active":
            return
        status = each.state["status"]
        given = (status.get("nodeName"), status.get("nodeUID"), status.get("activatedAt"))
        promised = (answer["nodeName"], answer["nodeUID"], answer["activatedAt"])
        if each.uid in self._world.answered:
            moved = answer["nodeName"] in self._world.disturbed | self._world.unsound
            expect(moved or given == promised, f"I2: {each}: given {given}, and the answer was {promised}")
        elif each.uid not in self._world.doubtful:
            expect(given != promised, f"I2: {each}: it took an answer that is not its own")

    def see_rest(self, now: float) -> None:
        """Check nothing: at rest every reservation has a status."""

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return False: an answer ends nothing."""
        del reason, before, each
        return False


def answered(each: Change, uids: Collection[str]) -> Change:
    """Return a version of a reservation with the status of its answer, if it has none of its own."""
    if each.kind != "reservations" or each.uid not in uids or phase_of(each.state):
        return each
    answer = answer_of(each.state)
    return each if answer is None else replace(each, state={**each.state, "status": answer})
