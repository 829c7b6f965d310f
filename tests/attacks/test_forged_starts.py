"""Forged statuses that an operator finds at its start, as no operator leads when they are written."""

from attacks.forged import forge, of_reservation
from attacks.operators import Replica, until_led
from attacks.tenant import LatencyProbe, Tenant


def test_an_operator_that_starts_beside_forged_statuses_serves_other_tenants(
    replica: Replica, tenant_a: Tenant, tenant_b: Tenant, latency_probe: LatencyProbe
) -> None:
    first = replica("first")
    until_led(first)
    node = tenant_b.node(cpu="4")
    tenant_b.active_reservation("web-0", "3", node)
    assert first.stop() == 0

    for number, status in enumerate(of_reservation(node).values()):
        reservation = tenant_a.reservation(
            f"forged-{number}", "4", node, pendingDeadlineSeconds=3600, retention="Retain"
        )
        forge(tenant_a.admin, reservation, status)
    second = replica("second")
    until_led(second)
    latency_probe.check()
