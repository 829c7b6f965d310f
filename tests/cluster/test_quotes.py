"""Quotes: their answers, and the rules for their specs.

It needs an API server that validates specs of quotes, and stores their answers.
"""

import pytest

from cluster.api import Manifest, RefusedError
from cluster.live import condition
from cluster.world import World


def answered(found: Manifest) -> bool:
    return bool(found["status"]["observedGeneration"] == 1)


def test_a_quote_has_the_number_that_fits_and_the_blocking_reservations(world: World) -> None:
    node = world.node(cpu="4")
    ask = world.quote(resources={"cpu": "2"}).until(answered, "be answered")
    assert (ask["status"]["nodeName"], ask["status"]["count"]) == (node.name, 2)
    assert condition(ask["status"], "Feasible")["status"] == "True"

    world.active_reservation("web-0", "3", node)
    told = world.quote("more", resources={"cpu": "2"}).until(answered, "be answered")
    assert condition(told["status"], "Feasible")["reason"] == "InsufficientCapacity"
    blockers = told["status"]["blockers"]
    assert blockers["shortfall"] == {"cpu": "1"}
    assert [each["name"] for each in blockers["locks"]] == ["web-0"]
    assert told["status"]["fitsAt"] == blockers["locks"][0]["expiresAt"]
    assert told["status"]["earliestStart"] == blockers["locks"][0]["expiresAt"]


def test_a_malformed_quote_is_refused_and_a_valid_one_is_immutable(world: World) -> None:
    with pytest.raises(RefusedError, match="exactly one of resources and template is required"):
        world.quote()
    with pytest.raises(RefusedError, match=r"spec\.ttlSeconds"):
        world.quote(resources={"cpu": "1"}, ttlSeconds=0)
    ask = world.quote(resources={"cpu": "1"})
    with pytest.raises(RefusedError, match="spec of a quote is immutable"):
        ask.merge({"spec": {"priority": 1}})
