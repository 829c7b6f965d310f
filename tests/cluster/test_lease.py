"""Leader election against the real API server. The failover of whole operators is in test_failover.

It needs an API server that lets one of several writers of a Lease win.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from random import Random

import pytest

from devcluster import Cluster
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import NotLeading
from tidelock.kube.lease import LEASES, Lease, LeaseLostError, LeaseTimes

# Long enough for a machine that stalls. A holder that cannot renew for so long loses the Lease rightly.
TIMES = LeaseTimes(duration=8.0, renew_deadline=6.5, retry_period=0.5)
PATIENCE = 90.0
LONGER = 1.25 * TIMES.duration


class Clock:
    """The monotonic clock, plus the time for which a process was suspended."""

    def __init__(self) -> None:
        self.slept = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.slept


@pytest.fixture
async def client(controlplane: Cluster) -> AsyncIterator[KubeClient]:
    async with KubeClient(load_connection(controlplane.kubeconfig), user_agent="tidelock-test") as opened:
        yield opened


def candidate(
    client: KubeClient, namespace: str, identity: str, clock: Clock | None = None, times: LeaseTimes = TIMES
) -> Lease:
    return Lease(
        client,
        name="tidelock",
        namespace=namespace,
        identity=identity,
        rng=Random(1),  # noqa: S311 -- for jitter
        times=times,
        clock=clock or Clock(),
    )


async def renewed_at(client: KubeClient, namespace: str) -> str:
    """Return the time of the last renewal that is stored."""
    stored = json.loads(await client.get(LEASES.item("tidelock", namespace)))
    return str(stored["spec"]["renewTime"])


async def acquire(lease: Lease) -> None:
    async with asyncio.timeout(PATIENCE):
        await lease.acquire()


async def test_one_leads_and_writes_and_the_other_stands_by(client: KubeClient, namespace: str) -> None:
    first, second = (candidate(client, namespace, name) for name in ("first", "second"))
    with pytest.raises(NotLeading, match=f"{namespace}/tidelock"):
        first.check()
    await acquire(first)
    first.check()
    assert (first.manager, first.holder) == (f"tidelock-{first.epoch}", "first")

    standby = asyncio.create_task(second.acquire())
    keeping = asyncio.create_task(first.keep())
    await asyncio.wait((standby, keeping), timeout=LONGER)  # longer than the first acquired period
    assert not standby.done()
    assert not keeping.done()
    assert second.waiting
    assert second.holder == "first"
    with pytest.raises(NotLeading):
        second.check()

    keeping.cancel()
    await first.release()
    async with asyncio.timeout(PATIENCE):
        await standby
    assert second.epoch == first.epoch + 1
    second.check()
    with pytest.raises(NotLeading):
        first.check()


async def test_a_released_lease_is_acquired_without_waiting_for_its_end(
    client: KubeClient, namespace: str
) -> None:
    for_an_hour = LeaseTimes(duration=3600.0, renew_deadline=3000.0, retry_period=600.0)
    first, second = (candidate(client, namespace, name, times=for_an_hour) for name in ("first", "second"))
    await acquire(first)
    standby = asyncio.create_task(second.acquire())
    while not second.waiting:  # noqa: ASYNC110 -- no event signals it
        await asyncio.sleep(0.01)
    await first.release()
    async with asyncio.timeout(PATIENCE):
        await standby
    assert second.epoch == first.epoch + 1


async def test_a_leader_may_not_write_after_its_renew_deadline(client: KubeClient, namespace: str) -> None:
    clock = Clock()
    first, second = candidate(client, namespace, "first", clock), candidate(client, namespace, "second")
    await acquire(first)
    clock.slept += TIMES.renew_deadline
    with pytest.raises(NotLeading):
        first.check()
    await acquire(second)
    with pytest.raises(LeaseLostError, match="was not renewed in time"):
        await first.keep()
    # The release also takes nothing from the new leader.
    await first.release()
    found = json.loads(await client.get(LEASES.item("tidelock", namespace)))
    assert found["spec"]["holderIdentity"] == "second"
    second.check()


async def test_a_leader_stops_when_another_holder_has_its_lease(client: KubeClient, namespace: str) -> None:
    first = candidate(client, namespace, "first")
    await acquire(first)
    await client.patch(LEASES.item("tidelock", namespace), {"spec": {"holderIdentity": "thief"}})
    with pytest.raises(LeaseLostError, match="is thief's"):
        async with asyncio.timeout(PATIENCE):
            await first.keep()
    with pytest.raises(NotLeading):
        first.check()


async def test_a_conflict_with_an_own_renewal_does_not_lose_the_lease(
    client: KubeClient, namespace: str
) -> None:
    """A conflict with an own write looks at first like a write of another holder, if the answer was lost."""
    first = candidate(client, namespace, "first")
    await acquire(first)
    await client.patch(LEASES.item("tidelock", namespace), {"metadata": {"labels": {"changed": "unseen"}}})
    before = await renewed_at(client, namespace)
    keeping = asyncio.create_task(first.keep())
    async with asyncio.timeout(PATIENCE):
        while await renewed_at(client, namespace) == before:
            await asyncio.wait((keeping,), timeout=0.1)
            assert not keeping.done()
    first.check()
    keeping.cancel()


async def test_a_leader_releases_the_lease_after_a_renewal_with_a_lost_answer(
    client: KubeClient, namespace: str
) -> None:
    """A leader that ended during a renewal did not release the Lease, because it did not know the version."""
    first, second = candidate(client, namespace, "first"), candidate(client, namespace, "second")
    await acquire(first)
    await client.patch(LEASES.item("tidelock", namespace), {"metadata": {"labels": {"changed": "unseen"}}})
    await first.release()
    found = json.loads(await client.get(LEASES.item("tidelock", namespace)))
    assert found["spec"]["holderIdentity"] == ""
    await acquire(second)
    assert second.epoch == first.epoch + 1


async def test_a_client_sends_no_write_without_the_lease(controlplane: Cluster, namespace: str) -> None:
    connection = load_connection(controlplane.kubeconfig)
    async with KubeClient(connection, user_agent="tidelock-test") as own:
        lease = candidate(own, namespace, "first")
        async with KubeClient(connection, user_agent="tidelock-test", may_write=lease.check) as client:
            await client.get(PODS.collection(namespace))
            config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
            with pytest.raises(NotLeading):
                await client.create(config_maps, {"metadata": {"name": "a"}})
            with pytest.raises(NotLeading):
                await client.delete(f"{config_maps}/a")
            await acquire(lease)
            await client.create(config_maps, {"metadata": {"name": "a"}})
