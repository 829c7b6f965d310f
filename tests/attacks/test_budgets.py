"""Objects as large as the API server accepts. The operator refuses them and serves all others."""

import secrets

from attacks.tenant import LatencyProbe, Tenant
from cluster.api import Manifest
from cluster.operator_process import OperatorProcess
from devcluster import wait_for

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
POD_TERMS = "terms of spec.affinity.podAffinity and podAntiAffinity"


def asking(tenant: Tenant, count: int) -> Manifest:
    """Build a container that requests this many resources, which no node has."""
    names = [f"{secrets.token_hex(4)}.example.com/r-{number}" for number in range(count)]
    resources = dict.fromkeys(names, "1")
    container: Manifest = dict(tenant.pod_spec("1")["containers"][0])
    return container | {"resources": {"requests": resources, "limits": resources}}


def shunning(count: int) -> Manifest:
    """Build an anti-affinity with this many terms, each of which matches nearly all pods of the cluster."""
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "namespaceSelector": {},
            "labelSelector": {
                "matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"none-{number}"]}]
            },
        }
        for number in range(count)
    ]
    return {"podAntiAffinity": {REQUIRED: terms}}


def test_a_pod_that_asks_for_thousands_of_resources_is_refused(
    operator: OperatorProcess, tenant_a: Tenant, latency_probe: LatencyProbe
) -> None:
    """Such a pod blocked the event loop for half a minute, and left thousands of columns behind."""
    tenant_a.node()
    greedy = tenant_a.pod("greedy", containers=[asking(tenant_a, 4_000)])
    latency_probe.check()
    greedy.until_refused("pod is too large: resources that its containers request: 4001, at most 64")

    modest = tenant_a.pod("modest", containers=[asking(tenant_a, 3)])
    modest.until_refused("Insufficient")
    latency_probe.check()


def test_a_pod_with_thousands_of_affinity_terms_is_refused_and_counted_if_bound(
    operator: OperatorProcess, tenant_a: Tenant, tenant_b: Tenant, latency_probe: LatencyProbe
) -> None:
    """Each term was compared with all pods. The terms of a bound pod added a second to each decision."""
    node = tenant_a.node(cpu="4")
    node.merge({"metadata": {"labels": {"kubernetes.io/hostname": node.name}}})
    tenant_a.pod("large", affinity=shunning(2_000)).until_refused(
        f"pod is too large: {POD_TERMS}: 2000, at most 100"
    )

    tenant_a.api = tenant_a.admin  # a client that names a node is a scheduler
    tenant_a.bound_pod(node, "placed", cpu="3", affinity=shunning(2_000))
    latency_probe.check()
    mine = {"nodeSelector": tenant_a.selector}
    tenant_b.pod("shunned", "1", **mine).until_refused(
        "node(s) didn't satisfy existing pods anti-affinity rules"
    )
    tenant_b.pod("too-large", "2", **mine).until_refused("Insufficient cpu")
    latency_probe.check()


def test_a_template_that_requests_hundreds_of_resources_is_rejected_with_the_limit(
    operator: OperatorProcess, tenant_a: Tenant, latency_probe: LatencyProbe
) -> None:
    """Sixteen such reservations took ten seconds of one step."""
    tenant_a.node()
    containers = [asking(tenant_a, 16) | {"name": f"c-{number}"} for number in range(32)]
    template = {"spec": {"containers": containers}}
    manifests = [tenant_a.manifest(f"large-{number}", template=template) for number in range(16)]
    for manifest in manifests:
        del manifest["spec"]["nodeSelector"]  # it belongs in the template
    reservations = [tenant_a.store(manifest) for manifest in manifests]
    latency_probe.check()
    for reservation in reservations:
        reservation.until_phase("Rejected")
    stored = wait_for(reservations[0].read, what="the lock to be read")
    assert stored is not None
    messages = [each["message"] for each in stored["status"]["conditions"]]
    assert any(
        "resources that its containers request: 513, at most 64 are supported" in each for each in messages
    )
