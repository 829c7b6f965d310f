"""The policy by which only the operator writes statuses of Tidelock, except to restore a backup.

A status that was forged while no operator ran took capacity from other tenants at the next start.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import pytest

from attacks.forged import forge, of_reservation
from attacks.tenant import Tenant
from cluster.api import Api, Manifest, RefusedError
from cluster.live import Live
from devcluster import wait_for
from devcluster.tenants import STATUSES, Rule
from tidelock.kube.client import RESERVATIONQUOTAS, WATERLEVELS, ApiResource

_ROLES = ApiResource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
_BINDINGS = ApiResource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ALL: Sequence[Rule] = ({"apiGroups": ["tidelock.dev"], "resources": ["*"], "verbs": ["*"]},)
"""All rights to Tidelock's kinds, as a role of a namespace may have them by mistake."""


@pytest.fixture
def targets(tenant_a: Tenant) -> list[Live]:
    """Create an object of each kind that has a status. No operator is running."""
    admin, namespace = tenant_a.admin, tenant_a.namespace
    node = tenant_a.node(cpu="4")
    quota, level = [
        Live(admin, resource, admin.create(resource.collection(namespace), _manifest(resource, name, spec)))
        for resource, name, spec in (
            (RESERVATIONQUOTAS, "team", {"maxPriority": 1}),
            (WATERLEVELS, namespace, {"source": {"metricsServer": {}}}),
        )
    ]
    quote = tenant_a.quote(resources={"cpu": "1"})
    return [
        tenant_a.reservation("held", "4", node),
        tenant_a.group(),
        tenant_a.schedule(),
        quote,
        quota,
        level,
    ]


def _manifest(resource: ApiResource, name: str, spec: Mapping[str, object]) -> Manifest:
    metadata = {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def answer(api: Api, live: Live) -> str:
    """Try to write a status in a dry run, and return why it is forbidden, or an empty text."""
    try:
        api.merge(f"{live.path}/status?dryRun=All", {"status": {"observedGeneration": 1}})
    except RefusedError as refused:
        if refused.status != HTTPStatus.FORBIDDEN:
            raise
        return str(refused)
    return ""


@pytest.mark.parametrize("rights", [STATUSES, ALL], ids=["statuses", "all"])
def test_rights_to_statuses_in_a_namespace_do_not_allow_a_client_to_write_them(
    tenant_a: Tenant, targets: list[Live], rights: Sequence[Rule]
) -> None:
    forger = tenant_a.account("forger", rights)
    told = "status: the operator alone writes it"
    *of_the_namespace, _level = targets
    for live in of_the_namespace:
        # The API server takes a moment to enforce a new policy.
        wait_for(
            lambda live=live: answer(forger, live),  # type: ignore[misc]
            until=lambda text: told in text,
            what=f"{live.path} to be protected",
        )


def test_a_forged_status_is_not_stored(tenant_a: Tenant, targets: list[Live]) -> None:
    forger, reservation = tenant_a.account("forger", STATUSES), targets[0]
    wait_for(lambda: answer(forger, reservation), what="the policy to be enforced")
    before = tenant_a.api.get(reservation.path)["status"]
    for status in of_reservation(tenant_a.node("b", cpu="4")).values():
        with pytest.raises(RefusedError, match="verb restore on reservations/status"):
            forge(forger, reservation, status)
    assert tenant_a.api.get(reservation.path)["status"] == before


def test_a_backup_can_be_restored_with_the_documented_rights(tenant_a: Tenant, targets: list[Live]) -> None:
    """These are the rights that docs/security.md names, and those of an administrator."""
    name = f"restorer-{tenant_a.namespace}"
    tool = tenant_a.account("tool", ALL)
    wait_for(lambda: answer(tool, targets[0]), what="the policy to be enforced")
    admin = tenant_a.admin
    rule = {"apiGroups": ["tidelock.dev"], "resources": ["*/status"], "verbs": ["update", "patch", "restore"]}
    admin.create(_ROLES.collection(), {"metadata": {"name": name}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"kind": "ServiceAccount", "name": "tool", "namespace": tenant_a.namespace}
    try:
        admin.create(
            _BINDINGS.collection(), {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        )
        assert targets
        for live in targets:
            wait_for(
                lambda live=live: not answer(tool, live),  # type: ignore[misc]
                what=f"{live.path} to be restorable",
            )
            assert not answer(admin, live)
    finally:
        admin.delete(_BINDINGS.item(name))
        admin.delete(_ROLES.item(name))
