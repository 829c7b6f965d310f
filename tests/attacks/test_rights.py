"""A manager of one namespace tries to get the capacity of others by a priority and by preemption."""

from collections.abc import Callable
from typing import Any

import pytest

from attacks.tenant import Tenant
from cluster.api import RefusedError
from cluster.live import Lock, Node, Pod, condition
from cluster.operator_process import OperatorProcess
from devcluster import wait_for
from tidelock.kube.client import RESERVATIONQUOTAS, RESERVATIONS

HIGHEST = 1_000_000_000
BOLD: dict[str, Any] = {"priority": HIGHEST, "preemptionPolicy": "PreemptLowerPriority"}


@pytest.fixture
def victim(tenant_b: Tenant, operator: OperatorProcess) -> tuple[Node, Pod]:
    """Create a full node, with a pod of another tenant."""
    del operator
    node = tenant_b.node(cpu="2")
    return node, tenant_b.bound_pod(node, "resident", "2")


def stays(pod: Pod) -> None:
    """Assert that no client has asked the pod to end."""
    found = pod.read()
    assert found is not None
    assert "deletionTimestamp" not in found["metadata"]
    kinds = {each["type"] for each in found["status"].get("conditions", [])}
    assert "DisruptionTarget" not in kinds


def refused(reservation: Lock) -> str:
    """Wait until a reservation reports that it needs a quota, and return the message."""
    message: str = reservation.until_condition("Active", "False", "QuotaExceeded")["message"]
    return message


def bold_at_once(tenant: Tenant, node: Node) -> Lock:
    return tenant.reservation("bold", "2", node, pendingDeadlineSeconds=600, **BOLD)


def preempting_without_priority(tenant: Tenant, node: Node) -> Lock:
    policy = BOLD["preemptionPolicy"]
    return tenant.reservation("bold", "2", node, pendingDeadlineSeconds=600, preemptionPolicy=policy)


def edited_into_it(tenant: Tenant, node: Node) -> Lock:
    reservation = tenant.reservation("bold", "2", node, pendingDeadlineSeconds=600)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    reservation.merge({"spec": BOLD})
    return reservation


def grown_from_an_active_one(tenant: Tenant, node: Node) -> Lock:
    """Build a reservation that is active on another node, and edit it to move to the victim's node."""
    del node
    own = tenant.node("own", cpu="1")
    reservation = tenant.active_reservation("bold", "1", own, pendingDeadlineSeconds=600)
    reservation.merge({"spec": BOLD | {"resources": {"cpu": "2"}}})
    return reservation


def alternative(tenant: Tenant, node: Node) -> Lock:
    return tenant.reservation("bold", "2", node, pendingDeadlineSeconds=600, anyOf="either", **BOLD)


def by_its_template(tenant: Tenant, node: Node) -> Lock:
    """Build a reservation with a system priority class in its template, which has no effect."""
    template = {
        "spec": {
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
        }
    }
    spec: dict[str, Any] = {"template": template, "preemptionPolicy": BOLD["preemptionPolicy"]}
    return tenant.reservation("bold", node=node, pendingDeadlineSeconds=600, **spec)


Attack = Callable[[Tenant, Node], Lock]


@pytest.mark.parametrize(
    "attack",
    [
        bold_at_once,
        edited_into_it,
        # unit/ledger/queue/test_quotas.py has the rule for the parts of a spec that each of these sets.
        pytest.param(preempting_without_priority, marks=pytest.mark.nightly),
        pytest.param(alternative, marks=pytest.mark.nightly),
        pytest.param(by_its_template, marks=pytest.mark.nightly),
    ],
)
def test_a_manager_without_a_quota_cannot_evict_pods(
    attack: Attack, victim: tuple[Node, Pod], tenant_a: Tenant
) -> None:
    """A reservation with priority 1,000,000,000 and preemption evicted another tenant's pod."""
    node, resident = victim
    assert "needs a ReservationQuota with preemptionPolicy" in refused(attack(tenant_a, node))
    stays(resident)


def test_an_active_reservation_does_not_grow_beyond_the_rights_of_its_namespace(
    tenant_a: Tenant, victim: tuple[Node, Pod]
) -> None:
    node, resident = victim
    reservation = grown_from_an_active_one(tenant_a, node)
    waits = reservation.until_condition("Reconciling", "True", "ResizePending")
    assert "needs a ReservationQuota with maxPriority" in waits["message"]
    stays(resident)


def test_members_of_a_group_have_no_more_rights_than_its_author(
    tenant_a: Tenant, victim: tuple[Node, Pod]
) -> None:
    """The operator creates the members in the namespace of the group, and its quotas apply."""
    node, resident = victim
    member = {
        "name": "part",
        "nodeName": node.name,
        "resources": {"cpu": "2"},
        "owners": [{"pod": {"name": "web"}}],
    }
    group = tenant_a.group("train", members=[member], priority=HIGHEST, pendingDeadlineSeconds=600)
    told = group.until(
        lambda found: "QuotaExceeded" in str(condition(found["status"], "Active")), "be refused"
    )
    assert "needs a ReservationQuota with maxPriority" in str(condition(told["status"], "Active"))
    stays(resident)


def test_a_manager_cannot_create_a_quota(tenant_a: Tenant) -> None:
    manifest = {"metadata": {"name": "mine"}, "spec": {"maxPriority": HIGHEST}}
    with pytest.raises(RefusedError, match="forbidden"):
        tenant_a.manager.create(RESERVATIONQUOTAS.collection(tenant_a.namespace), manifest)


def test_a_high_priority_does_not_preempt_a_reservation_of_another_tenant(
    tenant_a: Tenant, tenant_b: Tenant, operator: OperatorProcess
) -> None:
    del operator
    node = tenant_b.node(cpu="2")
    held = tenant_b.active_reservation("held", "2", node)
    refused(tenant_a.reservation("bold", "2", node, pendingDeadlineSeconds=600, **BOLD))
    assert held.status()["phase"] == "Active"


def test_a_quota_of_the_administrator_allows_preemption(tenant_a: Tenant, victim: tuple[Node, Pod]) -> None:
    node, resident = victim
    reservation = bold_at_once(tenant_a, node)
    refused(reservation)
    allowing(tenant_a)
    resident.until_gone()
    reservation.until_phase("Active")


def allowing(tenant: Tenant) -> None:
    """Create a quota, as an administrator of the cluster, that allows priorities and preemption."""
    tenant.quota("ranks")


def test_the_api_server_refuses_preemption_under_a_quota_with_policy_never(
    tenant_a: Tenant, operator: OperatorProcess
) -> None:
    del operator
    tenant_a.quota("strict", preemptionPolicy="Never")

    def refusal() -> str:
        path = f"{RESERVATIONS.collection(tenant_a.namespace)}?dryRun=All"
        try:
            tenant_a.api.post(path, tenant_a.manifest(preemptionPolicy=BOLD["preemptionPolicy"]))
        except RefusedError as error:
            return str(error)
        return ""

    wait_for(
        refusal,
        until=lambda text: (
            "requested: preemptionPolicy=PreemptLowerPriority, limited: preemptionPolicy=Never" in text
        ),
        what="preemption to be refused",
    )
