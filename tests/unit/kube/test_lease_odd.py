"""A Lease with invalid contents from another client neither ends nor stalls the election."""

import asyncio
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.lease import Lease, LeaseTimes
from unit.kube.scripted import ScriptedServer, answers, fails, page

PATIENCE = 30.0
NOW = 1_800_000_000.0
FIRST = 222_163_200  # seconds since 2020
TIMES = LeaseTimes(duration=0.4, renew_deadline=20.0, retry_period=0.05)
ODD_METADATA: dict[str, Any] = {
    "labels": None,
    "annotations": {"a": None, "b": 1},
    "ownerReferences": [{}],
    "managedFields": 7,
}


def lease_json(version: int, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    identity = {"name": "tidelock", "namespace": "shop", "uid": "1", "resourceVersion": str(version)}
    return {"metadata": {**(metadata or {}), **identity}, "spec": spec}


def candidate(client: KubeClient) -> Lease:
    return Lease(
        client,
        name="tidelock",
        namespace="shop",
        identity="me",
        rng=Random(1),  # noqa: S311 -- for jitter
        times=TIMES,
        wall=lambda: NOW,
    )


async def taken(server: ScriptedServer, client: KubeClient, found: dict[str, Any]) -> tuple[Lease, float]:
    """Acquire the existing Lease, and return the seconds of that, too."""
    lease = candidate(client)
    server.replays(page(found, version=7), server.quiet_watch(), answers(lease_json(8, holderIdentity="me")))
    begin = asyncio.get_running_loop().time()
    async with asyncio.timeout(PATIENCE):
        await lease.acquire()
    lease.check()
    return lease, asyncio.get_running_loop().time() - begin


async def test_a_lease_without_a_namespace_is_reported_with_an_advice(
    server: ScriptedServer, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    """Outside of a pod the namespace of the installation may not exist yet."""
    missing = fails(404, "NotFound", 'namespaces "shop" not found')
    made = answers(lease_json(8, holderIdentity="me"))
    server.replays(page(version=7), server.quiet_watch(), missing, made)
    async with asyncio.timeout(PATIENCE):
        await candidate(client).acquire()
    (warning,) = (record.__dict__ for record in caplog.records if record.levelname == "WARNING")
    assert warning["lease"] == "shop/tidelock"
    assert warning["error"].endswith('namespaces "shop" not found')
    assert "--lease-namespace" in warning["advice"]


@pytest.mark.parametrize(
    ("spec", "epoch"),
    [
        ({}, FIRST),
        ({"holderIdentity": None, "leaseTransitions": None, "leaseDurationSeconds": None}, FIRST),
        ({"leaseTransitions": "7", "leaseDurationSeconds": [], "acquireTime": 5}, FIRST),
        ({"holderIdentity": "", "leaseTransitions": 7, "strategy": "OldestEmulationVersion"}, 8),
        ({"preferredHolder": {"any": 1}, "renewTime": "yesterday", "leaseTransitions": 7}, 8),
    ],
    ids=["empty", "null", "mistyped", "of a coordinated election", "unknown"],
)
async def test_a_lease_without_holder_is_acquired(
    server: ScriptedServer, client: KubeClient, spec: dict[str, Any], epoch: int
) -> None:
    """A field of a wrong type once hid the Lease, which then could neither be acquired nor created."""
    lease, _ = await taken(server, client, lease_json(5, ODD_METADATA, **spec))
    assert lease.epoch == epoch
    assert server.asked[-1].method == "PUT"
    assert server.asked[-1].json["metadata"]["resourceVersion"] == "5"


@pytest.mark.parametrize("spec", [None, "text"])
async def test_a_lease_without_a_spec_is_acquired(
    server: ScriptedServer, client: KubeClient, spec: object
) -> None:
    lease, _ = await taken(server, client, {**lease_json(5), "spec": spec})
    assert lease.epoch == FIRST


@pytest.mark.parametrize(
    "spec",
    [{"holderIdentity": "other"}, {"holderIdentity": "other", "leaseDurationSeconds": None}]
    + [{"holderIdentity": odd, "leaseDurationSeconds": None} for odd in (7, ["other"])],
)
async def test_a_holder_without_a_duration_has_the_duration_of_this_process(
    server: ScriptedServer, client: KubeClient, spec: dict[str, Any]
) -> None:
    """Such a Lease was once acquired at once, although its holder may lead. So may an unreadable holder."""
    lease, seconds = await taken(server, client, lease_json(5, **spec, leaseTransitions=3))
    assert lease.epoch == 4
    assert seconds >= TIMES.duration


@pytest.mark.parametrize("transitions", [999_999_999, 2**31 - 1, -5])
async def test_the_epoch_starts_again_if_no_greater_number_of_transitions_is_valid(
    server: ScriptedServer, client: KubeClient, transitions: int
) -> None:
    """The API server once refused the next number, or the fence all writes of that leadership."""
    lease, _ = await taken(server, client, lease_json(5, leaseTransitions=transitions))
    assert lease.epoch == FIRST


async def test_invalid_answers_do_not_end_the_leadership(server: ScriptedServer, client: KubeClient) -> None:
    """An answer with a field of a wrong type once ended the leading process."""
    odd = {**ODD_METADATA, "generation": "many"}
    lease, _ = await taken(server, client, lease_json(5))
    server.replays(
        answers(lease_json(9, odd, holderIdentity="me", leaseTransitions=None)),
        fails(409, "Conflict"),
        answers(lease_json(11, odd, holderIdentity="me", leaseDurationSeconds="long")),
        answers(lease_json(12, odd, holderIdentity="me")),
        answers("<html>a proxy is being restarted</html>"),
        fails(409, "Conflict"),
        answers(lease_json(14, odd, holderIdentity="me")),
        answers(lease_json(15, odd, holderIdentity="me")),
    )
    keeping = asyncio.create_task(lease.keep())
    async with asyncio.timeout(PATIENCE):
        await server.finished.wait()
    assert not keeping.done()
    lease.check()
    assert [each.json["metadata"]["resourceVersion"] for each in server.asked if each.method == "PUT"] == [
        "5",
        "8",
        "9",
        "11",
        "12",
        "12",
        "14",
        "15",
    ]
    keeping.cancel()
    with suppress(asyncio.CancelledError):
        await keeping


async def test_a_lease_that_has_changed_without_an_event_is_read(
    server: ScriptedServer, client: KubeClient
) -> None:
    """A standby with a silent watch once tried to replace an old version until the watch counted as dead."""
    conflict, newer = fails(409, "Conflict", "it has changed"), answers(lease_json(9, leaseTransitions=7))
    mine = answers(lease_json(10, holderIdentity="me"))
    server.replays(page(lease_json(5), version=7), server.quiet_watch(), conflict, newer, mine)
    lease = candidate(client)
    async with asyncio.timeout(PATIENCE):
        await lease.acquire()
    assert [asked.method for asked in server.asked[-3:]] == ["PUT", "GET", "PUT"]
    assert server.asked[-1].json["metadata"]["resourceVersion"] == "9"
    assert lease.epoch == 8


@pytest.mark.parametrize(
    "answer", [fails(500, "InternalError", "no"), answers(lease_json(4, leaseTransitions=3))]
)
async def test_a_look_at_the_lease_that_shows_nothing_newer_changes_nothing(
    server: ScriptedServer, client: KubeClient, answer: Any
) -> None:
    conflict, mine = fails(409, "Conflict", "it has changed"), answers(lease_json(10, holderIdentity="me"))
    server.replays(
        page(lease_json(5, leaseTransitions=6), version=7), server.quiet_watch(), conflict, answer, mine
    )
    lease = candidate(client)
    async with asyncio.timeout(PATIENCE):
        await lease.acquire()
    assert server.asked[-1].json["metadata"]["resourceVersion"] == "5"
    assert lease.epoch == 7


async def test_a_lease_that_was_deleted_without_an_event_is_created(
    server: ScriptedServer, client: KubeClient
) -> None:
    conflict, gone = fails(409, "Conflict", "it has gone"), fails(404, "NotFound", "it has gone")
    mine = answers(lease_json(10, holderIdentity="me"))
    server.replays(page(lease_json(5), version=7), server.quiet_watch(), conflict, gone, mine)
    async with asyncio.timeout(PATIENCE):
        await candidate(client).acquire()
    assert [asked.method for asked in server.asked[-3:]] == ["PUT", "GET", "POST"]
