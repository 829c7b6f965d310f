"""Objects at the limits of the API that exist before an operator starts or takes over."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from attacks.hostile import ATTACKS, attacked
from attacks.operators import Replica, until_led
from attacks.tenant import LatencyProbe, Tenant
from cluster.api import Manifest
from tidelock.model.pods import REQUIRE_RESERVATION

_SELECTORS = 2_000
_PODS = 800
_GATED = 300
_AT_A_TIME = 8


def shunning(number: int) -> list[Manifest]:
    """Build owners that do not match pods with `app=web`, because of the last expression of each term."""
    return [
        {
            "selector": {
                "matchExpressions": [
                    *({"key": f"k-{number}-{term}-{n}", "operator": "DoesNotExist"} for n in range(15)),
                    {"key": "app", "operator": "NotIn", "values": ["web"]},
                ]
            }
        }
        for term in range(4)
    ]


def test_other_tenants_are_served_after_a_start_and_a_takeover_beside_all_hostile_objects(
    replica: Replica, tenant_a: Tenant, latency_probe: LatencyProbe
) -> None:
    """An object that ended the operator also ended each later start, and each standby that took over."""
    first, second = replica("first"), replica("second")
    until_led(first)
    for number, attack in enumerate(ATTACKS.values()):
        attack(tenant_a, attacked(tenant_a, str(number)))
    latency_probe.check()

    assert first.stop() == 0
    until_led(second)
    latency_probe.check()

    assert second.stop() == 0
    first.start()
    first.ready()
    latency_probe.check()
    assert first.running


@pytest.mark.nightly  # unit tests of gates and of owners compare as many selectors in slices
def test_other_tenants_are_served_after_a_start_beside_many_selectors_and_pods(
    tenant_a: Tenant, latency_probe: LatencyProbe, replica: Replica
) -> None:
    """The operator was considered stuck and was ended at each start.

    Before its first decision it compared each bound pod with each selector, in one step of minutes. It also
    compared up to 1,000 pods that require a Reservation in one step.
    """
    node = tenant_a.node(cpu="1")
    web = {"labels": {"app": "web"}}
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        reservations = pool.map(
            lambda number: tenant_a.reservation(f"lock-{number}", "2", node, owners=shunning(number)),
            range(_SELECTORS),
        )
        assert len(list(reservations)) == _SELECTORS
        pods = pool.map(
            lambda number: tenant_a.pod(f"web-{number}", "0", metadata=web, nodeName=node.name), range(_PODS)
        )
        assert len(list(pods)) == _PODS

    first = replica("first")
    until_led(first)
    latency_probe.check()
    begun = first.pid
    first.ready()
    gated = web | {"annotations": {REQUIRE_RESERVATION: "true"}}
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        pods = pool.map(lambda number: tenant_a.pod(f"gated-{number}", "1", metadata=gated), range(_GATED))
        assert len(list(pods)) == _GATED
    for _ in range(3):
        latency_probe.check()
    assert first.running
    assert first.pid == begun
