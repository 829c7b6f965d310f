"""Statuses that were emptied or edited by hand, which the operator restores.

It needs an API server that lets users write statuses of custom resources.
"""

from collections.abc import Callable

import pytest

from cluster.api import Manifest
from cluster.live import Live
from cluster.world import World


def granted(world: World) -> Live:
    return world.active_reservation(node=world.node())


def over(world: World) -> Live:
    """Create a reservation that has ended and is retained."""
    reservation = world.reservation("over", node=world.node(), ttlSeconds=1, retention="Retain")
    reservation.until_phase("Expired")
    return reservation


def group(world: World) -> Live:
    world.node()
    made = world.group()
    made.until(lambda found: found["status"].get("phase") == "Active", "be given")
    return made


def schedule(world: World) -> Live:
    world.node()
    made = world.schedule()
    made.until(
        lambda found: phases(found) == ["Planned"], "be planned"
    )  # a window that is Pending counts, too
    return made


def phases(schedule: Manifest) -> list[str]:
    return [window["phase"] for window in schedule["status"].get("windows", ())]


def quota(world: World) -> Live:
    return world.quota(hard={"cpu": "10"})


def without_times(found: Manifest) -> Manifest:
    """Return a status without the times of its conditions, which an emptied status loses."""
    status: Manifest = found.get("status", {})
    conditions = [
        {name: value for name, value in each.items() if name != "lastTransitionTime"}
        for each in status.get("conditions", ())
    ]
    return status | {"conditions": conditions}


@pytest.mark.parametrize("kind", [granted, over, group, schedule, quota], ids=lambda kind: kind.__name__)
def test_a_status_that_was_edited_is_restored(world: World, kind: Callable[[World], Live]) -> None:
    """The operator's own watches restore it. Kopf once checked a second time, and found no work."""
    made = kind(world)
    found = made.api.get(made.path)
    stored, known = found["status"], without_times(found)
    emptied = dict.fromkeys(stored)
    edited = {name: 7 for name, value in stored.items() if type(value) is int} | {
        "conditions": [each | {"reason": "Edited"} for each in stored.get("conditions", ())]
    }
    for patch in (emptied, edited):
        made.merge({"status": patch}, "status")
        made.until(lambda found: without_times(found) == known, "be as it was")
