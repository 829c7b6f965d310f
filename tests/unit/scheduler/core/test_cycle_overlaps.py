"""Reservations that overlap in time or on a node, and failures of their nodes, as Slurm tests them."""

from typing import Any

import pytest

from builders import NOW, node, pod
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.nodes import Node
from tidelock.model.quantities import CPU
from tidelock.plugins.reservation.plugin import insufficient_beside
from unit.scheduler.machinery import Core

HOUR = 3600
GRACE = 300  # seconds until a reservation for any node leaves one that is not ready


def small(name: str, version: int = 1, **fields: Any) -> Node:
    return node(name, cpu="4", version=version, **fields)


def window(
    core: Core, name: str, begins: float, ends: float, cpu: str = "4", **fields: Any
) -> ReservationInfo:
    """Create a reservation for a window in seconds from now, its pod included, and decide on it."""
    spec = {
        "startAt": format_instant(NOW + begins),
        "expireAt": format_instant(NOW + ends - 600),
        "runSeconds": 300,
        "resources": {"cpu": cpu},
    }
    entry = core.reservation(name, created=core.clock.now(), **spec | fields)
    core.step()
    return entry


def reservation(core: Core, name: str, cpu: str = "4", **fields: Any) -> ReservationInfo:
    """Create a reservation that holds from now on, and decide on it."""
    entry = core.reservation(name, resources={"cpu": cpu}, ttlSeconds=86_400, **fields)
    core.step()
    return entry


@pytest.mark.parametrize(
    ("begins", "ends", "phase"),
    [
        (HOUR, 2 * HOUR, Phase.PENDING),
        (HOUR / 2, 1.5 * HOUR, Phase.PENDING),
        (1.5 * HOUR, 2.5 * HOUR, Phase.PENDING),
        (1.25 * HOUR, 1.75 * HOUR, Phase.PENDING),
        (HOUR / 2, 3 * HOUR, Phase.PENDING),
        (HOUR / 2, HOUR, Phase.PLANNED),
        (2 * HOUR, 3 * HOUR, Phase.PLANNED),
        (7 * 24 * HOUR, 7 * 24 * HOUR + HOUR, Phase.PLANNED),
    ],
    ids=["the same", "its beginning", "its end", "within", "around", "before", "after", "a week later"],
)
def test_a_whole_node_has_one_window_at_a_time(begins: float, ends: float, phase: Phase) -> None:
    core = Core(small("node-a"))
    assert window(core, "first", HOUR, 2 * HOUR).phase is Phase.PLANNED

    assert window(core, "second", begins, ends).phase is phase


def test_windows_of_parts_of_a_node_overlap_as_far_as_they_fit_beside_each_other() -> None:
    core = Core(small("node-a"))
    planned = [window(core, name, HOUR, 2 * HOUR, cpu="2") for name in ("one", "two")]
    third = window(core, "three", 1.5 * HOUR, 2.5 * HOUR, cpu="1")

    assert [each.phase for each in planned] == [Phase.PLANNED] * 2
    assert (third.phase, third.reason) == (Phase.PENDING, reasons.INSUFFICIENT_CAPACITY)


@pytest.mark.parametrize(
    ("begins", "cpu", "phase"),
    [(300, "1", Phase.PLANNED), (300, "2", Phase.PENDING), (HOUR, "4", Phase.PLANNED)],
    ids=["what is free", "more than is free", "all of it once the pod is gone"],
)
def test_a_window_on_a_busy_node_gets_the_capacity_that_is_free_by_then(
    begins: float, cpu: str, phase: Phase
) -> None:
    core = Core(small("node-a"))
    running = pod(requests={"cpu": "3"}, activeDeadlineSeconds=1800)
    core.run(running, pod(requests={"cpu": "3"}, activeDeadlineSeconds=1800, bound_at=NOW))

    assert window(core, "lock", begins, begins + HOUR, cpu, owner="db-0").phase is phase


def test_a_reservation_of_a_whole_node_keeps_others_off_it() -> None:
    core = Core(small("node-a"), small("node-b"))
    upkeep = reservation(core, "upkeep", nodeName="node-a", owner="upkeep")
    others = [reservation(core, name, cpu="2", owner=name) for name in ("one", "two", "three")]

    assert upkeep.node == "node-a"
    assert [each.node for each in others] == ["node-b", "node-b", ""]
    assert others[2].phase is Phase.PENDING


def fail(core: Core, name: str, **fields: Any) -> None:
    """Make a node not ready for so long that reservations leave it."""
    core.event_handlers.nodes.upsert(small(name, **fields), small(name, version=2, ready=False, **fields))
    core.step()
    core.clock.advance(GRACE)
    core.step()


def test_a_reservation_on_a_failing_node_takes_no_capacity_of_another_reservation() -> None:
    core = Core(small("node-a"), small("node-b"), small("node-c"))
    moved = reservation(core, "moved", cpu="3", owner="one")
    home = moved.node
    others = sorted({"node-a", "node-b", "node-c"} - {home})
    held = reservation(core, "held", cpu="3", nodeName=others[0], owner="two")
    fail(core, home)

    assert (moved.phase, moved.node) == (Phase.ACTIVE, others[1])
    assert (held.phase, held.node) == (Phase.ACTIVE, others[0])


def test_a_reservation_on_a_failing_node_takes_no_capacity_of_a_window() -> None:
    core = Core(small("node-a"), small("node-b"))
    moved = reservation(core, "moved", cpu="3", owner="one")
    home = moved.node
    [other] = {"node-a", "node-b"} - {home}
    ahead = window(core, "ahead", HOUR, 2 * HOUR, cpu="3", nodeName=other, owner="two")
    fail(core, home)

    assert ahead.phase is Phase.PLANNED
    assert (moved.phase, moved.node) in {(Phase.PENDING, ""), (Phase.ACTIVE, home)}


def test_a_reservation_that_names_its_node_stays_when_the_node_fails() -> None:
    core = Core(small("node-a"), small("node-b"))
    fixed = reservation(core, "fixed", nodeName="node-a")
    fail(core, "node-a")

    assert (fixed.phase, fixed.node) == (Phase.ACTIVE, "node-a")


def test_a_reservation_on_a_failing_node_moves_to_another_node_with_its_label() -> None:
    gpu = {"gpu": "yes"}
    core = Core(small("node-a", labels=gpu), small("node-b"), small("node-c", labels=gpu))
    moved = reservation(core, "moved", nodeSelector=gpu)
    home = moved.node
    [spare] = {"node-a", "node-c"} - {home}
    fail(core, home, labels=gpu)

    assert (moved.phase, moved.node) == (Phase.ACTIVE, spare)


def test_an_owner_larger_than_its_reservation_uses_free_capacity_too_and_stays_after_its_end() -> None:
    core = Core(small("node-a"))
    entry = reservation(core, "lock", cpu="2")
    core.run(pod(requests={"cpu": "3"}), pod(requests={"cpu": "3"}, bound_at=NOW))
    assert entry.phase is Phase.CONSUMED
    core.clock.advance(2 * 86_400)
    core.step()

    assert core.used() == 3000


def test_a_reservation_is_only_for_its_owner() -> None:
    core = Core(small("node-a"))
    entry = reservation(core, "lock", owner="db-0")
    core.add(pod("web-0", requests={"cpu": "1"}))

    assert f"1 {insufficient_beside(CPU)}" in core.refuse().diagnosis.message
    assert entry.phase is Phase.ACTIVE
