"""Objects at the limits of the API, with an operator that is running."""

import pytest

from attacks.hostile import ATTACKS, attacked
from attacks.tenant import LatencyProbe, Tenant
from cluster.api import RefusedError
from cluster.operator_process import OperatorProcess


@pytest.mark.nightly  # test_hostile_starts.py makes the same attacks together
@pytest.mark.parametrize("attack", ATTACKS)
def test_other_tenants_are_served_beside_a_hostile_object(
    operator: OperatorProcess, tenant_a: Tenant, latency_probe: LatencyProbe, attack: str
) -> None:
    """An instant beyond the year 9999 ended the operator, whether it was written down or computed."""
    ATTACKS[attack](tenant_a, attacked(tenant_a, "a"))
    latency_probe.check()


@pytest.mark.parametrize(
    ("field", "instant"),
    [
        ("expireAt", "9999-12-31T23:59:59.9999999Z"),
        ("expireAt", "0001-01-01T00:00:00+14:00"),
        ("startAt", "9999-12-31T23:59:59.9999999Z"),
    ],
)
def test_the_api_server_refuses_an_instant_that_no_clock_reaches(
    operator: OperatorProcess, tenant_a: Tenant, field: str, instant: str
) -> None:
    with pytest.raises(RefusedError, match=f"spec.{field}"):
        tenant_a.reservation("never", "1", **{field: instant})
