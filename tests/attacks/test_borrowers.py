"""Borrowers that try to keep borrowed capacity: grace periods of hours, finalizers, foreign namespaces."""

from typing import Any

import pytest

from attacks.tenant import Tenant
from cluster.api import Manifest
from cluster.live import Lock, Node, Pod, condition
from cluster.operator_process import OperatorProcess
from tidelock.model.pods import BORROWS

HOURS = 36_000  # seconds
MOST = 30  # seconds that a borrower gets to end


@pytest.fixture
def node(tenant_a: Tenant, operator: OperatorProcess) -> Node:
    """Create a node of the lender, which its reservation fills."""
    del operator
    return tenant_a.node(cpu="2")


def lent(lender: Tenant, node: Node, **spec: Any) -> Lock:
    return lender.active_reservation("web-0", "2", node, borrowable=True, **spec)


def borrower(tenant: Tenant, lender: Tenant, **metadata: Any) -> Pod:
    """Create a pod with a grace period of hours that may run on the lender's nodes."""
    return tenant.pod(
        "batch",
        "2",
        metadata={"name": "batch", "annotations": {BORROWS: "true"}, **metadata},
        nodeSelector=lender.selector,
        terminationGracePeriodSeconds=HOURS,
    )


def until_it_ends_soon(pod: Pod) -> None:
    def soon(found: Manifest) -> bool:
        grace = found["metadata"].get("deletionGracePeriodSeconds")
        return grace is not None and grace <= MOST

    pod.until(soon, "be asked to end soon")


def not_ready(reservation: Lock, pod: Pod) -> None:
    """Wait until a reservation reports that a borrower is ending."""
    told = reservation.until_condition("Ready", "False", "BorrowersEnding")
    assert f"{pod.namespace}/batch, whose grace period ends at 20" in told["message"]
    assert (condition(reservation.status(), "Active") or {})["status"] == "True"


def test_an_eviction_limits_the_grace_period_of_a_borrower(
    tenant_a: Tenant, tenant_b: Tenant, node: Node
) -> None:
    reservation = lent(tenant_a, node)
    batch = borrower(tenant_b, tenant_a)
    assert batch.until_bound() == node.name
    tenant_a.pod("web-0", "2")
    until_it_ends_soon(batch)
    not_ready(reservation, batch)


def test_a_borrower_that_deletes_itself_with_a_grace_period_of_hours_is_cut_short(
    tenant_a: Tenant, tenant_b: Tenant, node: Node
) -> None:
    """The operator did not evict a borrower that was ending already, so its own grace period applied."""
    reservation = lent(tenant_a, node)
    batch = borrower(tenant_b, tenant_a)
    assert batch.until_bound() == node.name
    tenant_b.api.delete(batch.path, grace=HOURS)
    not_ready(reservation, batch)
    tenant_a.pod("web-0", "2")
    until_it_ends_soon(batch)


def test_a_borrower_with_a_finalizer_frees_its_capacity_when_its_containers_have_ended(
    tenant_a: Tenant, tenant_b: Tenant, node: Node
) -> None:
    reservation = lent(tenant_a, node)
    batch = borrower(tenant_b, tenant_a, finalizers=["example.com/stay"])
    assert batch.until_bound() == node.name
    owner = tenant_a.pod("web-0", "2")
    until_it_ends_soon(batch)
    not_ready(reservation, batch)
    tenant_b.admin.merge(
        f"{batch.path}/status", {"status": {"phase": "Failed"}}
    )  # as kubelets do when its containers have ended
    assert owner.until_bound() == node.name
    batch.merge({"metadata": {"finalizers": None}})


def test_a_lender_limits_the_namespaces_of_its_borrowers(
    tenant_a: Tenant, tenant_b: Tenant, node: Node
) -> None:
    reservation = lent(tenant_a, node, borrowerNamespaces=[tenant_a.namespace])
    borrower(tenant_b, tenant_a).until_refused("Insufficient cpu beside reservations")
    assert borrower(tenant_a, tenant_a).until_bound() == node.name
    reservation.until_condition("Lent", "True", "Lent")
