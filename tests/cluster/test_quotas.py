"""Quotas of reservations: totals, which the operator enforces, and limits that the API server enforces.

It needs an API server that limits the number of objects by its own ResourceQuota.
"""

from typing import Any

import pytest

from cluster.api import RefusedError
from cluster.live import condition
from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import RESERVATIONQUOTAS, RESERVATIONS

_DRY_RUN = "?dryRun=All"


def refusal(world: World, **spec: Any) -> str:
    """Create a reservation as a dry run, and return the API server's refusal, or an empty text."""
    try:
        world.api.post(RESERVATIONS.collection(world.namespace) + _DRY_RUN, world.manifest(**spec))
    except RefusedError as refused:
        return str(refused)
    return ""


def test_a_reservation_beyond_its_quota_waits_until_enough_of_the_quota_is_free(world: World) -> None:
    world.node(cpu="8")
    quota = world.quota(hard={"cpu": "2"}, hardSeconds={"cpu": "1200"})
    first = world.active_reservation("web-0", "2", ttlSeconds=600)
    second = world.reservation("web-1", "1", ttlSeconds=600, pendingDeadlineSeconds=600)
    waiting = second.until_condition("Active", "False", "QuotaExceeded")
    assert waiting["message"] == (
        "exceeded quota: team, requested: cpu=1,cpu-seconds=600, used: cpu=2,cpu-seconds=1200, "
        "limited: cpu=2,cpu-seconds=1200"
    )
    quota.until(lambda found: found["status"].get("used") == {"cpu": "2"}, "tell what is used")
    first.delete()
    second.until_phase("Active")
    told = quota.until(lambda found: found["status"].get("used") == {"cpu": "1"}, "tell what is used")
    assert told["status"]["usedSeconds"] == {"cpu": "600"}


def test_the_api_server_checks_the_limits_of_a_single_reservation(world: World) -> None:
    """A reservation that is older than the quota stays active, and its metadata can be edited."""
    world.node(cpu="8")
    older = world.active_reservation("older", "3", ttlSeconds=900)
    world.quota("one", maxLifeSeconds=600, maxAmounts={"cpu": "2", "memory": "1Gi"})
    world.quota("two", maxPriority=0)
    wait_for(
        lambda: refusal(world, ttlSeconds=601),
        until=lambda text: (
            "exceeded quota: one, requested: maxLifeSeconds=601, limited: maxLifeSeconds=600" in text
        ),
        what="a long life to be refused",
    )
    wait_for(
        lambda: refusal(world, priority=1),
        until=lambda text: "exceeded quota: two, requested: maxPriority=1, limited: maxPriority=0" in text,
        what="a high priority to be refused",
    )
    assert "limited: maxAmounts.cpu=2" in refusal(world, cpu="2500m")
    assert "limited: maxLifeSeconds=600" in refusal(world, expireAt="2090-01-01T00:00:00Z")
    assert refusal(world, cpu="2", ttlSeconds=600) == ""

    older.merge({"metadata": {"labels": {"seen": "true"}}})
    with pytest.raises(RefusedError, match="limited: maxLifeSeconds=600"):
        older.merge({"spec": {"ttlSeconds": 1000}})
    assert older.until_phase("Active")


def test_reservations_and_pods_share_a_resource_quota_if_configured(world: World) -> None:
    path = f"/api/v1/namespaces/{world.namespace}/resourcequotas"
    world.api.create(path, {"metadata": {"name": "pods"}, "spec": {"hard": {"requests.cpu": "4"}}})
    node = world.node(cpu="8")
    resident = world.bound_pod(node, cpu="1")
    world.quota(countAgainstResourceQuota=True)
    first = world.active_reservation("web-0", "1", node)
    second = world.reservation("web-1", "4", node, pendingDeadlineSeconds=600)
    text = "exceeded quota: pods, requested: requests.cpu=4, used: requests.cpu=2, limited: requests.cpu=4"
    second.until(lambda found: condition(found["status"], "Active").get("message") == text, "be told why")

    first.delete()
    resident.delete()
    second.until_phase("Active")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, "an empty quota is refused"),
        ({"hard": {"cpu": "-1"}}, "a quantity must not be negative"),
        ({"hard": {"memory": "4"}}, "memory must be at least 1Mi"),
        ({"hard": {"cores": "4"}}, "a resource is cpu, memory"),
        ({"hardSeconds": {"cpu": "1e30"}}, "a quantity must be less than 9E"),
        ({"maxLifeSeconds": 0}, "spec.maxLifeSeconds"),
    ],
)
def test_a_malformed_quota_is_refused_with_the_fields_name(
    world: World, spec: dict[str, Any], text: str
) -> None:
    manifest = {
        "apiVersion": RESERVATIONQUOTAS.api_version,
        "kind": RESERVATIONQUOTAS.kind,
        "metadata": {"name": "team"},
        "spec": spec,
    }
    with pytest.raises(RefusedError, match=text):
        world.api.create(RESERVATIONQUOTAS.collection(world.namespace), manifest)
