import asyncio

import pytest

from tidelock.client import AllRefused, ClientError, NoCapacity, Unavailable, race
from tidelock.client import remote as remote_module
from unit.client.fake_api import SPEC, Manifest, Members, committed, prepared, status


async def winner(members: Members, window: float = 5.0) -> str:
    """Run a race, check that only the winner is left while its block runs, and none afterwards."""
    async with race([cluster for _, cluster in members.values()], SPEC, name="web-0", window=window) as held:
        won = held.cluster.name
        async with asyncio.timeout(5):
            while any(api.objects for name, (api, _) in members.items() if name != won):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert members[won][0].objects["web-0"]["spec"]["commit"]["token"] == "uid.1"  # noqa: S105
    assert [api.objects for api, _ in members.values()] == [{}, {}]
    return won


async def test_the_first_is_committed_and_the_others_are_released(members: Members) -> None:
    assert await winner(members) == "east"
    assert ("PATCH", "web-0") not in members["west"][0].requests


async def test_a_commit_of_another_hold_leads_to_the_next(members: Members) -> None:
    members["east"][0].on_patch = lambda _: committed(False, "TokenMismatch", token="uid.2")  # noqa: S106
    assert await winner(members) == "west"


async def test_a_reservation_that_ends_at_its_commit_leads_to_the_next(members: Members) -> None:
    members["east"][0].on_patch = lambda _: status(False, "NotCommitted", "Expired")
    assert await winner(members) == "west"


@pytest.mark.parametrize("code", [403, 404, 422, 429, 500])
async def test_a_commit_that_fails_leads_to_the_next(members: Members, code: int) -> None:
    members["east"][0].faults = lambda method: code if method == "PATCH" else None
    assert await winner(members) == "west"


async def test_a_commit_without_an_answer_leads_to_the_next_and_is_released(members: Members) -> None:
    members["east"][0].faults = lambda method: 0 if method == "PATCH" else None
    assert await winner(members) == "west"


async def test_a_commit_that_the_operator_never_answers_leads_to_the_next(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "_ANSWER", 0.2)
    members["east"][0].on_patch = prepared
    assert await winner(members) == "west"


async def test_a_slow_cluster_is_not_awaited_beyond_the_window(members: Members) -> None:
    members["east"][0].decide = lambda _: None
    assert await winner(members, window=0.3) == "west"


async def test_all_answers_within_the_window_count(members: Members) -> None:
    east = members["east"][0]
    late = prepared({})

    def decide(stored: Manifest) -> None:
        asyncio.get_running_loop().call_later(0.3, east.change, stored["metadata"]["name"], late)

    east.decide = decide
    assert await winner(members) == "east"


async def test_an_earlier_choice_is_continued(members: Members) -> None:
    async with race([members["west"][1]], SPEC, name="web-0", window=5.0) as held:
        held.keep()
    assert await winner(members) == "west"


async def test_a_hold_that_lost_its_capacity_is_out_of_the_race(members: Members) -> None:
    east = members["east"][0]
    members["west"][0].decide = lambda _: None

    def decide(_: Manifest) -> Manifest:
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, east.change, "web-0", status(False, "Preempted", "Pending"))
        loop.call_later(0.2, members["west"][0].change, "web-0", prepared({}))
        return prepared({})

    east.decide = decide
    assert await winner(members) == "west"


async def test_a_race_that_all_lose_has_their_failures_and_leaves_nothing(members: Members) -> None:
    members["east"][0].faults = lambda method: 500 if method == "POST" else None
    members["west"][0].decide = lambda _: status(False, "DeadlineExceeded", "Rejected")
    with pytest.raises(AllRefused) as caught:
        await winner(members)
    failures = {name: type(error) for name, error in caught.value.failures.items()}
    assert failures == {"east": Unavailable, "west": NoCapacity}
    assert [api.objects for api, _ in members.values()] == [{}, {}]


async def test_a_release_that_fails_ends_the_race_all_the_same(members: Members) -> None:
    members["west"][0].faults = lambda method: 500 if method == "DELETE" else None
    async with race([cluster for _, cluster in members.values()], SPEC, name="web-0") as held:
        assert held.cluster.name == "east"
    assert members["east"][0].objects == {}
    assert members["west"][0].objects["web-0"]["spec"]["commit"] == {"withinSeconds": 35}


@pytest.mark.parametrize("steps", range(0, 12, 2))
async def test_a_race_that_is_cancelled_at_any_time_leaves_nothing(members: Members, steps: int) -> None:
    async def run() -> None:
        async with race([cluster for _, cluster in members.values()], SPEC, name="web-0"):
            await asyncio.sleep(10)

    task = asyncio.create_task(run())
    await asyncio.sleep(steps / 200)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [api.objects for api, _ in members.values()] == [{}, {}]


async def test_two_clusters_of_one_name_are_refused(members: Members) -> None:
    east = members["east"][1]
    with pytest.raises(ClientError, match="same name"):
        async with race([east, east], SPEC, name="web-0"):
            pytest.fail("they can't be told apart")
