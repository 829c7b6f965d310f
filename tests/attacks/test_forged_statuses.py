"""A forged status, from any account, neither takes capacity nor ends the operator."""

from attacks.forged import attack
from attacks.tenant import LatencyProbe, Tenant
from cluster.operator_process import OperatorProcess


def test_a_forged_status_takes_no_capacity_and_is_corrected(
    operator: OperatorProcess, tenant_a: Tenant, tenant_b: Tenant, latency_probe: LatencyProbe
) -> None:
    """A group ended the operator if its status had an instant with a lower-case t."""
    node = tenant_b.node(cpu="4")
    held = tenant_b.active_reservation("web-0", "3", node)
    reservations = attack(tenant_a, node)

    for reservation in reservations:
        reservation.until_condition("Active", "False", "InsufficientCapacity")
        assert reservation.status()["phase"] == "Pending"
    assert tenant_b.pod("web-1", "1").until_bound() == node.name
    assert held.status()["phase"] == "Active"
    assert tenant_b.pod("web-0", "3").until_bound() == node.name
    latency_probe.check()
