"""Every screen counts reserved amounts as the scheduler does."""

from math import inf
from typing import Any

import pytest

from builders import NOW, Json, encode, node_json, pod_json
from tidelock.cli.cluster_state import configuration_of
from tidelock.cli.reservations import ListedReservation, by_node
from tidelock.cli.top import Requested
from tidelock.cli.top_tables import TopState, node_lines
from tidelock.cli.watch import ChangeSignal
from tidelock.cli.why import node_capacity
from tidelock.model.nodes import decode_node
from tidelock.model.pods import decode_pod
from unit.cli.clouds import planned_json
from unit.cli.scenes import active_json, consumed_json, lock, pending_json, world

HOUR = 3600.0


def ends_soon(name: str, cpu: str) -> Json:
    """Return a bound pod that ends in half an hour."""
    pod = pod_json(name, requests={"cpu": cpu}, node_name="node-a")
    pod["spec"]["activeDeadlineSeconds"] = 1800
    pod["status"]["startTime"] = "2027-01-15T08:00:00Z"
    return pod


def used_json(name: str) -> Json:
    """Return a reservation for reuse with an owner that uses a part of it."""
    plain = active_json(name, owner="inside", cpu="3", reuse="Always")
    plain["status"]["used"] = {"cpu": "1"}
    return plain


INSIDE = pod_json("inside", requests={"cpu": "1"}, node_name="node-a")
FIRST = planned_json("first", "node-a", NOW + HOUR, NOW + 2 * HOUR, cpu="2")
LATER = planned_json("later", "node-a", NOW + 5 * HOUR, NOW + 6 * HOUR, cpu="3")


@pytest.mark.parametrize(
    ("reservations", "pods", "cpu"),
    [
        ([active_json("a")], [], 2000),
        ([active_json("a"), pending_json(), consumed_json()], [], 2000),
        ([active_json("a"), FIRST], [], 4000),
        ([FIRST, LATER | {"spec": LATER["spec"] | {"runSeconds": 60}}], [], 5000),
        (
            [
                FIRST | {"spec": FIRST["spec"] | {"runSeconds": 60}},
                LATER | {"spec": LATER["spec"] | {"runSeconds": 60}},
            ],
            [],
            3000,
        ),
        ([FIRST], [ends_soon("job", "2")], 0),
        ([used_json("a")], [INSIDE], 2000),
    ],
)
def test_top_and_why_and_the_scheduler_agree(reservations: list[Json], pods: list[Json], cpu: int) -> None:
    node = node_json("node-a", cpu="16")
    picture = world(nodes=(node,), pods=tuple(pods), reservations=tuple(reservations)).picture(
        configuration_of(""), NOW
    )
    snapshot = picture.decider.cache.snapshot()
    assert node_capacity(picture.decider, snapshot, decode_node(encode(node))).reserved["cpu"] == cpu

    requested = Requested(ChangeSignal())
    for pod in pods:
        requested.upsert(None, decode_pod(encode(pod)))
    one = decode_node(encode(node))
    known = {each.key: each for each in map(lock, reservations)}
    state = TopState({one.meta.key: one}, requested.by_node, known, {}, requested.leaving)
    (line,) = node_lines(state, "cpu", NOW)
    assert line.share.reserved == cpu


def test_a_pod_that_is_gone_no_longer_ends() -> None:
    requested = Requested(ChangeSignal())
    pod = decode_pod(encode(ends_soon("job", "2")))
    requested.upsert(None, pod)
    (span,) = requested.leaving["node-a"].values()
    assert (span.start, span.amounts["cpu"]) == (-inf, 2000)
    requested.remove(pod)
    assert not requested.leaving["node-a"]


def test_a_reservation_without_a_node_holds_nothing() -> None:
    plain: dict[str, Any] = pending_json(nodeName="node-a")
    assert ListedReservation(lock(plain)).node == "node-a"
    assert by_node([ListedReservation(lock(plain))]) == {}
