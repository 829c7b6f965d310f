"""Objects that a tenant may create with instants, amounts and names at the limits of the API."""

from collections.abc import Callable, Mapping

from attacks.tenant import Tenant
from cluster.live import Node
from tidelock.model.pods import RUN_SECONDS

Attack = Callable[[Tenant, Node], None]
"""Creates objects on or for a node of four cores, and waits for the operator's reaction to them."""

LAST = "9999-12-31T23:59:59.9999999Z"
"""Rounded to milliseconds it is in the year 10000."""
FIRST = "0001-01-01T00:00:00Z"
"""The first instant that RFC 3339 and the API can express."""
LONG = "x" * 100
"""The end of a pod's name, which has up to 253 characters. A label's value, and a Service's name, has 63."""

_FOR_EVER = 2**63 - 1


def _lease(instant: str) -> Attack:
    def attack(tenant: Tenant, node: Node) -> None:
        lease = {"durationSeconds": 600, "graceSeconds": 31_536_000, "renewTime": instant}
        tenant.active_reservation(f"{node.name}-leased", "1", node, lease=lease)

    return attack


def _expiring(tenant: Tenant, node: Node) -> None:
    tenant.active_reservation(f"{node.name}-expiring", "1", node, expireAt="9998-12-31T23:59:59.9999999Z")


def _runs(seconds: str) -> Attack:
    """Build an attack that asks when capacity is free beside a pod with a declared run time."""

    def attack(tenant: Tenant, node: Node) -> None:
        metadata = {"annotations": {RUN_SECONDS: seconds}}
        tenant.pod(f"{node.name}-runs", "3", metadata=metadata, **_on(node)).until_bound()
        _ask_when(tenant, node)

    return attack


def _ends(grace: int, deadline: int) -> Attack:
    """Build an attack that asks when capacity is free beside a pod with a deadline and a grace period."""

    def attack(tenant: Tenant, node: Node) -> None:
        tenant.pod(
            f"{node.name}-ends",
            "3",
            activeDeadlineSeconds=deadline,
            terminationGracePeriodSeconds=grace,
            **_on(node),
        ).until_bound()
        _ask_when(tenant, node)

    return attack


def _on(node: Node) -> dict[str, dict[str, str]]:
    """Return a selector of the node, which sets it apart from those of other attacks."""
    return {"nodeSelector": {"attacked": node.name}}


def _ask_when(tenant: Tenant, node: Node) -> None:
    """Create a Reservation and a quote for the capacity of a pod, and wait until both are answered."""
    waiting = tenant.reservation(f"{node.name}-waiting", "2", node, pendingDeadlineSeconds=86_400)
    waiting.until_condition("Active", "False", "InsufficientCapacity")
    tenant.quote(f"{node.name}-when", resources={"cpu": "2"}, ttlSeconds=3600, **_on(node)).until(
        lambda found: found.get("status", {}).get("conditions"), "be answered"
    )


def _own_by_long_name(tenant: Tenant, node: Node) -> None:
    name = f"{node.name}-{LONG}"
    tenant.active_reservation(name, "3", node)
    assert tenant.pod(name, "3", **_on(node)).until_bound() == node.name


def _reuse_by_long_name(tenant: Tenant, node: Node) -> None:
    labels = {"app": node.name}
    owners = [{"selector": {"matchLabels": labels}}]
    reservation = tenant.active_reservation(f"{node.name}-reused", "3", node, owners=owners, reuse="Always")
    pod = tenant.pod(f"{node.name}-{LONG}", "2", metadata={"labels": labels}, **_on(node))
    assert pod.until_bound() == node.name
    reservation.until(lambda found: LONG in str(found["status"]), "name the pod that uses it")


ATTACKS: Mapping[str, Attack] = {
    "lease renewed in the last year": _lease(LAST),
    "lease renewed in the first year": _lease(FIRST),
    "expiry in the last year": _expiring,
    "pod that runs for 31,000 years": _runs("999999999999"),
    "pod that runs for 300 digits of seconds": _runs("9" * 300),
    "pod that runs for 20,000 digits of seconds": _runs("9" * 20_000),
    "pod that runs for seconds in Arabic digits": _runs("٣٦٠٠"),
    "pod that runs for seconds in superscript digits": _runs("³"),
    "pod that has for ever to end": _ends(_FOR_EVER, 100),
    "pod with a deadline after all clocks": _ends(30, 2**31 - 1),
    "owner with a long name": _own_by_long_name,
    "long name in a reused reservation": _reuse_by_long_name,
}


def attacked(tenant: Tenant, name: str) -> Node:
    """Create a node of four cores that an attack selects."""
    return tenant.node(name, labels={"attacked": tenant.node_name(name)})
