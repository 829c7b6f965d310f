"""A race that is run again, and what its earlier run has left."""

import asyncio
from collections.abc import Callable

import pytest

from tidelock.client import AllRefused, AlreadyExists, Cluster, Conflict, Held, Taken, Unknown, hold, race
from unit.client.fake_api import SPEC, Manifest, Members, committed, status

CREATION = ("POST", "web-0")
LOOK_UP = [("GET", "pods/web-0"), ("GET", "web-0")]
PREPARED = {**SPEC, "commit": {"withinSeconds": 35}}
CONSUMED = status(
    False, "Consumed", "Consumed", nodeName="node-1", boundPod={"name": "web-0", "uid": "uid-pod"}
)


def pod(node: str = "", phase: str = "Pending") -> Manifest:
    metadata = {"name": "web-0", "namespace": "shop", "uid": "uid-pod"}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


async def leave(members: Members, name: str, spec: Manifest = PREPARED) -> Held:
    """Leave a prepared reservation in a cluster, as a manager that crashes before its commit."""
    async with hold(members[name][1], spec, name="web-0") as held:
        held.keep()
    members[name][0].requests.clear()
    return held


async def leave_committed(members: Members, name: str) -> Held:
    async with race([members[name][1]], SPEC, name="web-0") as held:
        held.keep()
    members[name][0].requests.clear()
    return held


async def run_again(members: Members) -> Held:
    async with race([each for _, each in members.values()], SPEC, name="web-0") as held:
        held.keep()
    return held


def creations(members: Members) -> list[str]:
    """Return the clusters in which a reservation was asked for."""
    return [name for name, (api, _) in members.items() if CREATION in api.requests]


async def test_the_look_up_is_two_requests_to_each_cluster_all_at_once(members: Members) -> None:
    """No request of the look-up is answered before all have arrived, so they cost one round trip."""
    apis = [api for api, _ in members.values()]
    complete = asyncio.Event()

    async def wait_for_all() -> None:
        if sum(len(api.requests) for api in apis) == len(LOOK_UP) * len(apis):
            complete.set()
        await complete.wait()

    for api in apis:
        api.before = wait_for_all
    held = await run_again(members)
    assert held.cluster.name == "east"
    assert [sorted(api.requests[:2]) for api in apis] == [LOOK_UP, LOOK_UP]
    assert apis[0].requests[2:] == [CREATION, ("PATCH", "web-0")]
    assert apis[1].requests[2:] == [CREATION, ("GET", "web-0"), ("DELETE", "web-0")]


async def test_a_reservation_that_its_pod_has_taken_is_no_refusal(members: Members) -> None:
    """The race went on to the next cluster, so the pod ran in both. It also deleted the proof."""
    await leave_committed(members, "west")
    members["west"][0].change("web-0", CONSUMED)
    with pytest.raises(Taken) as caught:
        await run_again(members)
    assert (caught.value.cluster, caught.value.pod, caught.value.node) == ("west", "web-0", "node-1")
    assert str(caught.value) == "west: Consumed: Consumed here"
    assert creations(members) == []
    assert list(members["west"][0].objects) == ["web-0"]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (pod(), "west: pod shop/web-0 exists and is not bound"),
        (pod("node-1", "Running"), "west: pod shop/web-0 is on node node-1"),
        (pod("node-1", "Failed"), "west: pod shop/web-0 is on node node-1, Failed"),
    ],
)
async def test_a_pod_counts_when_its_reservation_is_gone(
    members: Members, found: Manifest, text: str
) -> None:
    members["west"][0].pods["web-0"] = found
    with pytest.raises(Taken) as caught:
        await run_again(members)
    assert (str(caught.value), caught.value.node) == (text, found["spec"]["nodeName"])
    assert creations(members) == []


async def test_a_pod_that_is_not_bound_yet_keeps_its_reservation_and_the_others_are_released(
    members: Members,
) -> None:
    await leave(members, "east")
    await leave_committed(members, "west")
    members["west"][0].pods["web-0"] = pod()
    with pytest.raises(Taken):
        await run_again(members)
    assert [list(api.objects) for api, _ in members.values()] == [[], ["web-0"]]


async def test_a_committed_reservation_is_continued_alone(members: Members) -> None:
    await leave(members, "east")
    await leave_committed(members, "west")
    held = await run_again(members)
    assert (held.cluster.name, held.adopted) == ("west", True)
    assert creations(members) == []
    assert members["east"][0].objects == {}


async def test_prepared_reservations_are_continued(members: Members) -> None:
    for name in members:
        await leave(members, name)
    held = await run_again(members)
    assert (held.cluster.name, held.adopted, creations(members)) == ("east", True, [])
    assert members["west"][0].objects == {}


@pytest.mark.parametrize("phase", ["Expired", "Rejected", "Lost"])
async def test_a_reservation_that_ended_without_its_pod_leaves_nothing(members: Members, phase: str) -> None:
    await leave_committed(members, "west")
    members["west"][0].change("web-0", status(False, phase, phase))
    assert (await run_again(members)).cluster.name == "east"
    assert [list(api.objects) for api, _ in members.values()] == [["web-0"], []]


@pytest.mark.parametrize("code", [0, 401, 403, 429, 500])
@pytest.mark.parametrize("left", [None, leave, leave_committed])
async def test_a_cluster_that_can_not_be_asked_may_have_the_pod(
    members: Members, code: int, left: Callable[..., object] | None
) -> None:
    """A commit without an answer leads to the next cluster, so even a committed one may not be the last."""
    if left is not None:
        await left(members, "west")  # type: ignore[misc]
    before = dict(members["west"][0].objects)
    members["east"][0].faults = lambda _: code
    with pytest.raises(Unknown, match="an earlier run may have sent the pod: east: ") as caught:
        await run_again(members)
    assert list(caught.value.failures) == ["east"]
    assert creations(members) == []
    assert members["west"][0].objects == before


async def test_a_right_to_read_pods_is_needed(members: Members) -> None:
    async def wait() -> None:
        pods = members["west"][0].requests[-1][1] == "pods/web-0"
        members["west"][0].faults = lambda _: 403 if pods else None

    members["west"][0].before = wait
    with pytest.raises(Unknown, match="west"):
        await run_again(members)
    assert creations(members) == []


async def test_a_pod_that_is_found_needs_no_answer_of_the_others(members: Members) -> None:
    members["east"][0].faults = lambda _: 500
    members["west"][0].pods["web-0"] = pod("node-1")
    with pytest.raises(Taken):
        await run_again(members)


async def test_a_reservation_that_asks_for_something_else_is_left_alone(members: Members) -> None:
    """An earlier run may have had another spec, so the pod must not go to another cluster."""
    await leave(members, "west", {**PREPARED, "resources": {"cpu": "2"}})
    with pytest.raises(AlreadyExists, match="asks for something else"):
        await run_again(members)
    assert creations(members) == []
    assert list(members["west"][0].objects) == ["web-0"]


async def test_a_pod_that_comes_while_the_race_runs_ends_it(members: Members) -> None:
    """Another manager, or a late creation by an earlier run, sends the pod after the look-up."""
    east, west = (api for api, _ in members.values())
    east.decide = lambda _: None
    west.decide = lambda _: CONSUMED
    with pytest.raises(Taken):
        await run_again(members)
    assert (list(east.objects), list(west.objects)) == ([], ["web-0"])


async def test_a_pod_that_comes_during_the_commit_ends_the_race(members: Members) -> None:
    east, west = (api for api, _ in members.values())

    def taken_in_west(_: Manifest) -> Manifest:
        west.change("web-0", CONSUMED)
        return committed(True, "Committed")

    east.on_patch = taken_in_west
    with pytest.raises(Taken):
        await run_again(members)
    assert (list(east.objects), list(west.objects)) == ([], ["web-0"])


async def test_owners_without_a_name_have_only_their_reservation_as_proof(members: Members) -> None:
    spec = {**SPEC, "owners": [{"selector": {"matchLabels": {"app": "web"}}}]}
    async with race([each for _, each in members.values()], spec, name="web-0") as held:
        held.keep()
    assert [api.requests[0] for api, _ in members.values()] == [("GET", "web-0")] * 2
    members["east"][0].change("web-0", CONSUMED)
    with pytest.raises(Taken):
        async with race([each for _, each in members.values()], spec, name="web-0"):
            pytest.fail("the pod runs")


async def test_a_hold_of_a_taken_reservation_is_no_refusal(members: Members) -> None:
    await leave(members, "east")
    members["east"][0].change("web-0", CONSUMED)
    with pytest.raises(Taken):
        await leave(members, "east")
    assert list(members["east"][0].objects) == ["web-0"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_two_runs_at_the_same_time_never_hold_in_two_clusters(members: Members, at_once: bool) -> None:
    """Each of two runs committed in the cluster that it preferred, and sent the pod there.

    They have their commits stored at once, or one after the other.
    """
    east, west = members.values()
    committing: list[str] = []
    both = asyncio.Event()

    async def wait_for_both() -> None:
        committing[:] = [name for name, (api, _) in members.items() if ("PATCH", "web-0") in api.requests]
        if len(committing) == len(members):
            both.set()
        if committing and at_once:
            await both.wait()

    for api, _ in members.values():
        api.before = wait_for_both
    won: list[str] = []
    done = asyncio.Barrier(2)

    async def run(*clusters: Cluster) -> None:
        try:
            async with race(clusters, SPEC, name="web-0") as held:
                won.append(held.cluster.name)
                await done.wait()
        except (AllRefused, Conflict):
            await done.wait()

    await asyncio.gather(run(east[1], west[1]), run(west[1], east[1]))
    assert len(set(won)) <= 1


async def test_a_commit_that_another_run_began_before_may_count_meanwhile(members: Members) -> None:
    """A race saw the token of another run, but not its confirmation, and committed in the next cluster.

    It then read that both were committed, and released the other run's reservation.
    """
    east, west = (api for api, _ in members.values())
    await leave(members, "east")
    east.objects["web-0"]["spec"]["commit"]["token"] = "uid.1"  # noqa: S105 -- of a hold
    east.change("web-0", {})

    def while_east_is_confirmed(_: Manifest) -> Manifest:
        east.change("web-0", committed(True, "Committed", token="uid.1"))  # noqa: S106 -- of a hold
        return committed(True, "Committed")

    west.on_patch = while_east_is_confirmed
    before = asyncio.all_tasks()
    with pytest.raises(Conflict, match="east: another run has committed"):
        async with race([each for _, each in members.values()], PREPARED, name="web-0", window=0.2):
            pytest.fail("another run may have sent the pod")
    assert (list(east.objects), list(west.objects)) == (["web-0"], [])
    left = [each for each in asyncio.all_tasks() - before if "_prepare" in repr(each)]
    assert left == []
