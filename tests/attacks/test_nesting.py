"""Reservations nested too deeply for Python's decoders. Each is refused, and all others are served."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from attacks.operators import Replica
from attacks.tenant import LatencyProbe, Tenant
from cluster.operator_process import OperatorProcess

DEEP = 1500
_UNUSABLE = 'tidelock_unreadable_objects{consequence="unusable",resource="reservations"}'


@pytest.fixture(autouse=True)
def _recursive() -> Iterator[None]:
    """Raise the recursion limit, so that the test's own JSON codec can write and read such objects."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * DEEP)
    yield
    sys.setrecursionlimit(before)


def nested(depth: int = DEEP) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def deep_template(tenant: Tenant) -> dict[str, Any]:
    return {"spec": {**tenant.pod_spec("1"), "unknown": nested()}}


def test_a_reservation_that_is_nested_too_deeply_is_stalled_and_others_are_served(
    operator: OperatorProcess, tenant_a: Tenant, latency_probe: LatencyProbe
) -> None:
    """A Reservation of 9 kB ended the operator.

    The first operator hung for 40 s while it reported ready. Each next one ended within a second.
    """
    bad = tenant_a.reservation("bad", node=tenant_a.node(), resources=None, template=deep_template(tenant_a))
    told = bad.until_condition("Stalled", "True", "InvalidSpec")
    assert "spec.template.spec.unknown: is nested more than 100 levels deep" in told["message"]
    latency_probe.check()
    assert operator.metrics()[_UNUSABLE] == 1
    assert "Traceback" not in operator.log
    bad.delete()
    latency_probe.check()


def test_a_restarted_operator_keeps_a_reservation_that_was_edited_to_nest_too_deeply(
    replica: Replica, tenant_a: Tenant, latency_probe: LatencyProbe
) -> None:
    node = tenant_a.node()
    first = replica("first")
    held = tenant_a.active_reservation("held", "1", node)
    bad = tenant_a.reservation("bad", node=node, resources=None, template=deep_template(tenant_a))
    bad.until_condition("Stalled", "True", "InvalidSpec")
    held.edit(resources=None, template=deep_template(tenant_a))
    held.until_condition("Stalled", "True", "InvalidSpec")
    assert held.status()["phase"] == "Active"  # its capacity is kept

    first.kill()
    first.start()
    first.ready()
    latency_probe.check()
    assert held.status()["phase"] == "Active"
    assert "Traceback" not in first.log
