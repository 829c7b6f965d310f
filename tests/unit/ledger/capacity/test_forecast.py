"""Forecasts of free capacity by known ends."""

from typing import Any

import pytest

from builders import NOW, pod
from tidelock.cluster.placed import Placed
from tidelock.ledger.capacity.forecast import Start
from tidelock.model.instants import format_instant
from tidelock.model.quantities import Resources
from unit.ledger.ledger import LedgerScene


@pytest.fixture
def ledger() -> LedgerScene:
    """Return a ledger with two nodes of 4 cpu, which reservations fill.

    On node-a a reservation of 3 cpu ends after 60 s and one of 1 cpu after 90 s. On node-b one of 4 cpu ends
    after 300 s.
    """
    ledger = LedgerScene()
    ledger.active("a", resources={"cpu": "3"}, ttlSeconds=60)
    ledger.active("b", resources={"cpu": "1"}, ttlSeconds=90)
    ledger.active("c", "node-b", resources={"cpu": "4"}, ttlSeconds=300)
    return ledger


def cpu(cores: int) -> dict[str, int]:
    return {"cpu": 1000 * cores}


def earliest(ledger: LedgerScene, wanted: Resources, node: str = "", at: float = NOW) -> Start | None:
    return ledger.ledger.forecast(at).earliest(wanted, node)


def test_the_first_end_that_frees_enough_capacity_of_one_node_counts(ledger: LedgerScene) -> None:
    assert earliest(ledger, cpu(1)) == (NOW + 60, "node-a")
    assert earliest(ledger, cpu(3)) == (NOW + 60, "node-a")
    assert earliest(ledger, cpu(4)) == (NOW + 90, "node-a")
    assert earliest(ledger, cpu(5)) is None


def test_the_forecast_can_be_limited_to_one_node(ledger: LedgerScene) -> None:
    assert earliest(ledger, cpu(1), "node-b") == (NOW + 300, "node-b")
    assert earliest(ledger, cpu(1), "node-z") is None


def test_every_resource_must_be_free(ledger: LedgerScene) -> None:
    gpu: dict[str, Any] = {"example.com/gpu": "1"}
    ledger.put_node(cpu="4", **gpu)
    ledger.active("d", resources={"example.com/gpu": "1"}, ttlSeconds=75)
    assert earliest(ledger, cpu(1) | {"example.com/gpu": 1}) == (NOW + 75, "node-a")
    assert earliest(ledger, {"example.com/fpga": 1}) is None


def test_free_capacity_is_found_now_on_the_first_node_by_name(ledger: LedgerScene) -> None:
    for name in ("node-d", "node-c"):
        ledger.put_node(name)
    assert earliest(ledger, cpu(4)) == (NOW, "node-c")


def test_a_cordoned_node_is_left_out(ledger: LedgerScene) -> None:
    ledger.put_node("node-a", cordoned=True)
    assert earliest(ledger, cpu(1)) == (NOW + 300, "node-b")


def test_a_reservation_beyond_its_end_counts_as_there_for_ever(ledger: LedgerScene) -> None:
    assert earliest(ledger, cpu(1), at=NOW + 90) == (NOW + 300, "node-b")


def test_a_pod_with_a_deadline_leaves_and_one_without_stays() -> None:
    ledger = LedgerScene("node-a")
    for name, cores, seconds in (("short", "2", 30), ("long", "2", None)):
        there = pod(name, requests={"cpu": cores}, activeDeadlineSeconds=seconds, node_name="node-a")
        placed = Placed(there, "node-a", assumed=False, since=NOW)
        ledger.columns.request("node-a", placed.pod.requests, placed.pod.nonzero, 1)
        ledger.ledger.holdings.count_pod(placed, there=True)
    start = earliest(ledger, cpu(2))
    assert start is not None
    assert NOW + 30 <= start.at < NOW + 200
    assert earliest(ledger, cpu(3)) is None


def test_windows_that_share_capacity_count_as_simultaneous() -> None:
    """Check that capacity is only free after both windows: when the first ends, the second begins."""
    ledger = LedgerScene("node-a")
    for name, after, seconds in (("first", 100, 100), ("second", 200, 100)):
        begins = format_instant(NOW + after)
        ledger.active(name, resources={"cpu": "3"}, ttlSeconds=seconds, startAt=begins)
    start = earliest(ledger, cpu(2))
    assert start is not None
    assert start.at >= NOW + 300


def test_memory_and_cpu_are_forecast_separately(ledger: LedgerScene) -> None:
    ledger.active("d", resources={"memory": "15Gi"}, ttlSeconds=200)
    assert earliest(ledger, cpu(1) | {"memory": 8 * 2**30}) == (NOW + 200, "node-a")
