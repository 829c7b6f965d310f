"""Rules of quotes: each gets one answer that can be true, and is deleted when its time is over."""

from faults.history import Change, Json
from faults.reading import amounts, says, total
from faults.world import World
from tidelock.model.instants import parse_instant


class Quoting:
    """The rules of quotes."""

    def __init__(self, world: World) -> None:
        self._world = world

    def see(self, each: Change, before: Json | None) -> None:
        """Check that an answer does not change, and promises no more than the capacity of the nodes."""
        if each.kind != "reservationquotes" or each.gone:
            return
        status, earlier = each.state.get("status", {}), (before or {}).get("status", {})
        kept = "answeredAt" not in earlier or status == earlier
        self._world.expect(kept, f"I2: {each}: it was answered otherwise before")
        if says(each.state, "Feasible") and not self._world.disturbed:
            asked = each.state["spec"]
            nodes = self._world.nodes.items()
            there = (node for name, node in nodes if asked.get("nodeName", name) == name)
            has = total(amounts(node["status"]["allocatable"]) for node in there)
            fits = all(
                units * status["count"] <= has[name] for name, units in amounts(asked["resources"]).items()
            )
            self._world.expect(fits, f"I2: {each}: {status['count']} times that is more than there is")

    def see_rest(self, now: float) -> None:
        """Check that all quotes are answered, and that those past their time are gone."""
        for name, quote in self._world.objects["reservationquotes"].items():
            answered = quote.get("status", {}).get("answeredAt")
            self._world.expect(answered is not None, f"I5: {name} is not answered")
            if answered is not None:
                until = parse_instant(answered) + quote["spec"]["ttlSeconds"]
                self._world.expect(until > now, f"I5: {name} was to go at {until}")

    def explains(self, reason: str, before: Json, each: Change) -> bool:
        """Return False: quotes have no effect on reservations."""
        del reason, before, each
        return False
