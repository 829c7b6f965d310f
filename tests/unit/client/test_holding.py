import asyncio
import json
from pathlib import Path

import pytest

from tidelock.client import (
    AlreadyExists,
    Lost,
    NoCapacity,
    TimedOut,
    Unavailable,
    Unreachable,
    hold,
)
from tidelock.client import remote as remote_module
from tidelock.model.answer import ANSWER
from unit.client.fake_api import ACTIVE, SPEC, Manifest, serving, status


async def test_a_watch_brings_the_answer_and_nothing_polls(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        async with hold(cluster, SPEC, name="web-0") as held:
            assert (held.node, held.cluster.name) == ("node-1", "east")
        assert api.requests == [("POST", "web-0"), ("DELETE", "web-0")]
        assert api.objects == {}


async def test_an_answer_in_the_response_is_enough(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):

        def answer(stored: Manifest) -> None:
            answered = {"nonce": "n", "leadership": 1, "at": "x", "namespace": "shop", "status": ACTIVE}
            stored["metadata"]["annotations"] = {ANSWER: json.dumps(answered)}

        api.decide = answer
        async with hold(cluster, SPEC, name="web-0") as held:
            assert held.node == "node-1"
            assert api.objects["web-0"]["status"] == {}


async def test_a_refusal_is_raised_with_its_reason_and_the_object_is_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        api.decide = lambda _: status(False, "DeadlineExceeded", "Rejected")
        with pytest.raises(NoCapacity) as caught:
            async with hold(cluster, SPEC, name="web-0"):
                pytest.fail("there is no capacity")
        assert str(caught.value) == "east: DeadlineExceeded: DeadlineExceeded here"
        assert api.objects == {}


async def test_without_an_operator_the_wait_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "_GRACE", 0.2)
    async with serving(tmp_path) as (api, cluster):
        api.decide = lambda _: None
        with pytest.raises(TimedOut):
            async with hold(cluster, {**SPEC, "pendingDeadlineSeconds": 0}, name="web-0"):
                pytest.fail("there is no answer")
        assert api.objects == {}


async def test_a_creation_without_an_answer_is_undone(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        api.faults = lambda method: 0 if method == "POST" else None
        with pytest.raises(Unreachable):
            async with hold(cluster, SPEC, name="web-0"):
                pytest.fail("there is no answer")
        assert api.requests == [("POST", "web-0"), ("GET", "web-0"), ("DELETE", "web-0")]
        assert api.objects == {}


async def test_another_reservation_of_the_name_is_left_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        api.store("web-0", {**SPEC, "resources": {"cpu": "2"}}, ACTIVE)
        with pytest.raises(AlreadyExists):
            async with hold(cluster, SPEC, name="web-0"):
                pytest.fail("it is another one")
        api.faults = lambda method: 503 if method == "POST" else None
        with pytest.raises(Unavailable):
            async with hold(cluster, SPEC, name="web-0"):
                pytest.fail("there is no answer")
        assert list(api.objects) == ["web-0"]


async def test_a_release_that_fails_does_not_hide_the_error_of_the_block(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        api.faults = lambda method: 503 if method == "DELETE" else None
        with pytest.raises(ZeroDivisionError):
            async with hold(cluster, SPEC, name="web-0"):
                raise ZeroDivisionError
        assert api.requests[-1] == ("DELETE", "web-0")


@pytest.mark.parametrize("reason", ["Preempted", "Overcommitted", "Violated"])
async def test_a_loss_interrupts_the_block(tmp_path: Path, reason: str) -> None:
    async with serving(tmp_path) as (api, cluster):

        async def work() -> None:
            async with hold(cluster, SPEC, name="web-0"):
                api.change("web-0", status(False, reason, "Pending"))
                await asyncio.sleep(10)
                pytest.fail("the loss did not interrupt")

        with pytest.raises(Lost) as caught:
            await work()
        assert caught.value.reason == reason
        assert api.objects == {}


async def test_a_loss_at_the_very_end_of_the_block_is_raised(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):

        async def work() -> None:
            async with hold(cluster, SPEC, name="web-0") as held:
                api.change("web-0", status(False, "Preempted", "Pending"))
                while not held.lost.is_set():
                    try:
                        await asyncio.sleep(0.01)
                    except asyncio.CancelledError:
                        return

        with pytest.raises(Lost):
            await work()
        await asyncio.sleep(0)  # no cancellation is left


async def test_a_cancellation_from_outside_stays_one_beside_a_loss(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        entered = asyncio.Event()

        async def work() -> None:
            async with hold(cluster, SPEC, name="web-0"):
                entered.set()
                await asyncio.sleep(10)

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert api.objects == {}


async def test_a_lease_that_can_not_be_renewed_is_lost(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        api.faults = lambda method: 503 if method == "PATCH" else None

        async def work() -> None:
            lease = {"durationSeconds": 1, "graceSeconds": 0}
            async with hold(cluster, {**SPEC, "lease": lease}, name="web-0"):
                await asyncio.sleep(10)

        with pytest.raises(Lost) as caught:
            await work()
        assert caught.value.reason == "LeaseExpired"


async def test_a_renewal_changes_the_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        lease = {"durationSeconds": 1, "graceSeconds": 0}
        async with hold(cluster, {**SPEC, "lease": lease}, name="web-0") as held:
            before = api.objects["web-0"]["spec"]["lease"]["renewTime"]
            await asyncio.sleep(1.5)
            assert api.objects["web-0"]["spec"]["lease"]["renewTime"] > before
            assert not held.lost.is_set()


async def test_a_deletion_counts_as_taken_only_without_retention(tmp_path: Path) -> None:
    async with serving(tmp_path) as (api, cluster):
        async with hold(cluster, {**SPEC, "retention": "Delete"}, name="web-0") as held:
            api.remove("web-0")
            await asyncio.wait_for(held.taken.wait(), 5)
        async with hold(cluster, SPEC, name="web-0", interrupt=False) as held:
            api.remove("web-0")
            await asyncio.wait_for(held.lost.wait(), 5)
            assert held.loss is not None
            assert held.loss.reason == "Deleted"
