"""The Lease of a process with a blocked event loop, against the real API server.

It needs an API server that stores the renewals of a Lease with its time.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from devcluster import Cluster
from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import NotLeading
from tidelock.kube.lease import Lease, LeaseLostError, LeaseTimes
from tidelock.kube.lease_thread import LeaseThread
from tidelock.kube.second_loop import LoopThread

TIMES = LeaseTimes(duration=4.0, renew_deadline=3.0, retry_period=0.2)
STALL = 1.25 * TIMES.duration
PATIENCE = 60.0


@asynccontextmanager
async def elected(controlplane: Cluster, namespace: str, *, patience: float) -> AsyncIterator[LeaseThread]:
    client = KubeClient(load_connection(controlplane.kubeconfig), user_agent="tidelock-test")
    rng = Random(1)  # noqa: S311 -- for jitter
    lease = Lease(client, name="tidelock", namespace=namespace, identity="first", rng=rng, times=TIMES)
    thread = LeaseThread(lease, client, LoopThread("lease"), patience=patience)
    async with thread.running(), asyncio.timeout(PATIENCE):
        await thread.acquire()
        yield thread
        await thread.release()


async def test_a_decision_that_takes_longer_than_the_lease_does_not_lose_it(
    controlplane: Cluster, namespace: str
) -> None:
    """A pod with 8,000 resources blocked the event loop for 36 s.

    The leader lost its Lease and ended, and so did each leader after it.
    """
    async with elected(controlplane, namespace, patience=PATIENCE) as leadership:
        known = leadership.epoch
        keeping = asyncio.create_task(leadership.keep())
        await asyncio.sleep(0)
        time.sleep(STALL)  # noqa: ASYNC251 -- this is the stall
        leadership.check()
        await asyncio.wait((keeping,), timeout=1)
        assert not keeping.done()
        assert leadership.epoch == known
        keeping.cancel()


async def test_an_event_loop_that_is_blocked_for_too_long_loses_the_lease(
    controlplane: Cluster, namespace: str
) -> None:
    async with elected(controlplane, namespace, patience=0.5) as leadership:
        keeping = asyncio.create_task(leadership.keep())
        await asyncio.sleep(0)
        time.sleep(STALL)  # noqa: ASYNC251 -- this is the stall
        with pytest.raises(NotLeading):
            leadership.check()
        with pytest.raises(LeaseLostError, match="was not renewed in time"):
            await keeping
