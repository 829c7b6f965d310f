"""Tenants have the rights of their roles in their own namespace only. Other tests rely on it."""

from http import HTTPStatus

from attacks.tenant import LatencyProbe, Tenant
from cluster.api import Api, RefusedError
from cluster.operator_process import OperatorProcess
from devcluster.tenants import STATUSES
from tidelock.kube.client import NODES, PODS, RESERVATIONS, WATERLEVELS, ApiResource

LEASES = ApiResource("coordination.k8s.io", "v1", "leases", "Lease")


def refused(api: Api, method: str, resource: ApiResource, namespace: str) -> bool:
    """Return whether RBAC refuses a request, regardless of its body."""
    collection, item = resource.collection(namespace), resource.item("web-0", namespace)
    try:
        match method:
            case "list":
                api.get(collection)
            case "create":
                api.create(collection, {})
            case "status":
                api.merge(f"{item}/status", {})
            case _:
                api.delete(item)
    except RefusedError as refusal:
        return refusal.status == HTTPStatus.FORBIDDEN
    return False


def test_a_tenant_is_served(operator: OperatorProcess, tenant_a: Tenant, latency_probe: LatencyProbe) -> None:
    node = tenant_a.node()
    tenant_a.active_reservation("web-0", "3", node)
    assert tenant_a.pod("web-0", "3").until_bound() == node.name
    latency_probe.check()


def test_a_tenant_has_no_rights_beside_its_roles(tenant_a: Tenant, tenant_b: Tenant) -> None:
    own, other = tenant_a.namespace, tenant_b.namespace
    assert not refused(tenant_a.manager, "list", RESERVATIONS, own)
    assert not refused(tenant_a.author, "list", PODS, own)
    assert not refused(tenant_a.author, "list", LEASES, own)
    assert refused(tenant_a.manager, "list", PODS, own)
    assert refused(tenant_a.author, "list", RESERVATIONS, own)
    for resource in (RESERVATIONS, PODS, LEASES):
        for method in ("list", "create", "delete"):
            assert refused(tenant_a.api, method, resource, other), (method, resource)
    for resource in (NODES, WATERLEVELS):
        assert refused(tenant_a.api, "create", resource, own)
    for resource in (RESERVATIONS, PODS):
        assert refused(tenant_a.api, "status", resource, own)


def test_rights_to_statuses_are_given_by_a_role_of_their_own(tenant_a: Tenant) -> None:
    forger = tenant_a.account("forger", STATUSES)
    for resource in (RESERVATIONS, PODS):
        assert not refused(forger, "status", resource, tenant_a.namespace)
    assert refused(forger, "list", RESERVATIONS, tenant_a.namespace)
