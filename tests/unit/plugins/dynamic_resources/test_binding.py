import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from builders import NOW, pod
from devices import DRIVER, allocated, claiming, device, device_slice, put
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import SKIP, Code, FilterResult, PatchKind, Status
from tidelock.kube.errors import ApiError, Conflict, Forbidden, ServerError
from tidelock.model.instants import format_instant
from tidelock.model.pods import Pod
from tidelock.plugins.dynamic_resources import claim_writer
from tidelock.plugins.dynamic_resources.claim_words import (
    being_allocated,
    being_deallocated,
    deallocated_elsewhere,
)
from unit.plugins.dynamic_resources.cluster import Cluster
from unit.plugins.scene import Judgement

_TURNS = 200  # of the event loop, which writes take that are answered at once


def wanting(name: str, *claims: str) -> Pod:
    return pod(name, **claiming(*claims))


def with_devices(*devices: Any, **args: Any) -> Cluster:
    cluster = Cluster(**args)
    put(cluster.objects, device_slice("a", *devices))
    return cluster


def bind(cluster: Cluster, judged: Judgement) -> Status:
    return asyncio.run(cluster.plugin.pre_bind(judged.state, judged.pod, "node-a"))


def test_pods_decided_in_a_row_never_get_the_same_device() -> None:
    cluster = with_devices("d0", "d1")
    for name in ("one", "two", "three"):
        cluster.claim(name)
    first = cluster.reserve(wanting("p", "one"))
    cluster.reserve(wanting("q", "two"))
    assert [cluster.device_of(name) for name in ("one", "two")] == ["d0", "d1"]
    assert cluster.judge(wanting("r", "three")).fitting == set()
    for _ in range(2):
        cluster.unreserve(first)
    assert cluster.judge(wanting("r", "three")).fitting == {"node-a"}


def test_a_claim_in_flight_is_not_allocated_again() -> None:
    cluster = with_devices("d0", "d1")
    cluster.claim("shared")
    cluster.reserve(wanting("p", "shared"))
    status = cluster.judge(wanting("q", "shared")).status
    assert status.reasons == (being_allocated("shop/shared"),)


def test_a_binding_writes_the_finalizer_the_devices_and_the_pod() -> None:
    cluster = with_devices("d0")
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    assert bind(cluster, judged).ok
    stored = cluster.api.claims["gpu"]
    assert stored["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert stored["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    allocation = stored["status"]["allocation"]
    assert allocation["allocationTimestamp"] == "2027-01-15T08:00:00Z"
    assert allocation["devices"]["results"] == [
        {"request": "gpu", "driver": DRIVER, "pool": "a", "device": "d0"}
    ]
    assert cluster.api.asked == ["PATCH gpu", "PATCH gpu/status"]

    cluster.unreserve(judged)  # the binding of the pod fails: the API server has the devices allocated
    assert cluster.device_of() == "d0"
    cluster.show()
    assert dict(cluster.objects.resource_claims.in_flight.items()) == {}
    cluster.claim("other")
    assert cluster.judge(wanting("q", "other")).fitting == set()
    again = cluster.reserve(wanting("p", "gpu"))
    assert bind(cluster, again).ok
    assert len(cluster.api.asked) == 2


def test_a_second_pod_uses_the_devices_of_a_shared_claim() -> None:
    cluster = with_devices("d0")
    cluster.claim("shared", status=allocated("d0", node_name="node-a", users=["p"]))
    judged = cluster.reserve(wanting("q", "shared"))
    assert bind(cluster, judged).ok
    assert [each["name"] for each in cluster.api.claims["shared"]["status"]["reservedFor"]] == ["p", "q"]
    assert cluster.api.asked == ["PATCH shared/status"]


async def test_pods_that_share_a_claim_write_it_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = with_devices("d0")
    cluster.claim("shared", status=allocated("d0", node_name="node-a", users=["p"]))
    names = [f"q{number}" for number in range(20)]
    bindings = [cluster.reserve(wanting(name, "shared")) for name in names]
    patch = cluster.api.patch

    async def slow(path: str, body: Any, *, kind: PatchKind = "merge") -> bytes:
        await asyncio.sleep(0)
        return await patch(path, body, kind=kind)

    monkeypatch.setattr(cluster.api, "patch", slow)
    outcomes = await asyncio.gather(
        *(cluster.plugin.pre_bind(each.state, each.pod, "node-a") for each in bindings)
    )
    assert all(outcome.ok for outcome in outcomes)
    users = [each["name"] for each in cluster.api.claims["shared"]["status"]["reservedFor"]]
    assert users == ["p", *names]
    assert cluster.api.asked == ["PATCH shared/status"] * len(names)


def test_a_write_is_repeated_after_a_conflict() -> None:
    cluster = with_devices("d0")
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    cluster.change(devices=[])
    assert bind(cluster, judged).ok
    assert cluster.api.asked == ["PATCH gpu", "GET gpu", "PATCH gpu", "PATCH gpu/status"]


def test_a_write_without_an_answer_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_writer, "_LONGEST_PAUSE", 0.0)
    cluster = with_devices("d0")
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    cluster.api.fails(ServerError("gone", status=500))
    cluster.api.fails(ServerError("lost", status=504), carried_out=True)
    assert bind(cluster, judged).ok
    assert cluster.api.claims["gpu"]["status"]["reservedFor"][0]["name"] == "p"


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_write_under_way_keeps_its_devices_when_the_binding_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, carried_out: bool
) -> None:
    """Regression: a preemptor cancelled a binding, and another pod got the devices of a write under way."""
    cluster = with_devices("d0")
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    cluster.claim("other")
    answer, patch = asyncio.Event(), cluster.api.patch

    async def slow(path: str, body: Any, *, kind: PatchKind = "merge") -> bytes:
        if path.endswith("/status"):
            await answer.wait()
            if not carried_out:
                raise Forbidden("not allowed", status=403)
        return await patch(path, body, kind=kind)

    monkeypatch.setattr(cluster.api, "patch", slow)
    binding = asyncio.ensure_future(cluster.plugin.pre_bind(judged.state, judged.pod, "node-a"))
    await asyncio.sleep(0.01)
    binding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await binding
    cluster.unreserve(judged)
    assert cluster.judge(wanting("q", "other")).fitting == set()

    answer.set()
    await asyncio.sleep(0.01)

    assert ("allocation" in cluster.api.claims["gpu"]["status"]) is carried_out
    assert cluster.judge(wanting("q", "other")).fitting == (set() if carried_out else {"node-a"})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda cluster: cluster.change(**allocated("d1")), "got allocated elsewhere in the meantime"),
        (
            lambda cluster: cluster.api.claims["gpu"]["metadata"].update(
                deletionTimestamp="2027-01-15T08:00:00Z", resourceVersion="9"
            ),
            "got deleted in the meantime",
        ),
    ],
)
def test_a_claim_that_others_have_changed_is_left_alone(
    change: Callable[[Cluster], None], problem: str
) -> None:
    cluster = with_devices("d0", "d1")
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    change(cluster)
    status = bind(cluster, judged)
    assert (status.code, status.reasons) == (Code.ERROR, (f"claim shop/gpu {problem}",))
    cluster.unreserve(judged)
    assert dict(cluster.objects.resource_claims.in_flight.items()) == {}


def test_a_shared_claim_that_has_lost_its_devices_is_no_use() -> None:
    cluster = with_devices("d0")
    cluster.claim("shared", status=allocated("d0", node_name="node-a"))
    judged = cluster.reserve(wanting("q", "shared"))
    cluster.change("shared", allocation=None)
    status = bind(cluster, judged)
    assert status.reasons == (deallocated_elsewhere("shop/shared"),)


@pytest.mark.parametrize(
    "error", [Forbidden("no", status=403), Conflict("x", status=409), ServerError("y", status=500)]
)
def test_a_write_is_given_up_in_the_end(error: ApiError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_writer, "_LONGEST_PAUSE", 0.0)
    cluster = with_devices("d0")
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    for _ in range(40):
        cluster.api.fails(error)
    with pytest.raises(type(error)):
        bind(cluster, judged)


def test_a_trial_writes_nothing() -> None:
    cluster = with_devices("d0")
    cluster.claim()
    trial = Cluster()
    trial.plugin = type(cluster.plugin)(cluster.scene.handle, {})
    trial.objects, trial.scene = cluster.objects, cluster.scene
    judged = trial.reserve(wanting("p", "gpu"))
    with pytest.raises(RuntimeError, match="only tried out"):
        bind(trial, judged)


# Conditions.

CONDITIONAL = device("d0", bindingConditions=["Ready"], bindingFailureConditions=["Broken"])


def report(kind: str) -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True", "reason": "Seen", "message": 'it is "so"'}]
    return {"devices": [{"driver": DRIVER, "pool": "a", "device": "d0", "conditions": conditions}]}


async def bind_while(
    cluster: Cluster, judged: Judgement, *reports: dict[str, Any], writes: int = 2
) -> Status:
    """Bind a pod, and let the driver report while it waits. None of it depends on the time."""
    task = asyncio.create_task(cluster.plugin.pre_bind(judged.state, judged.pod, "node-a"))
    while len(cluster.api.asked) < writes:  # noqa: ASYNC110 -- the API has no event for it
        await asyncio.sleep(0)
    for each in reports:
        assert not task.done()
        cluster.change(**each)
        cluster.show()
        await asyncio.sleep(0)
    return await task


def test_a_pod_is_bound_once_its_devices_are_ready() -> None:
    cluster = with_devices(CONDITIONAL)
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    assert asyncio.run(bind_while(cluster, judged, report("Other"), report("Ready"))).ok
    assert cluster.reports.texts == ["p waits on node-a", "p waited for ['gpu']: success"]


@pytest.mark.parametrize(
    ("timeout", "reports", "problem", "outcome"),
    [
        (
            *("10m", [report("Broken")]),
            r'device binding failed: claim=gpu, reason=Seen, message="it is \"so\""',
            "failure",
        ),
        ("1s", [], "device binding timeout: claim=gpu", "timeout"),
        ("10m", [{"allocation": None}], deallocated_elsewhere("shop/gpu"), "error"),
    ],
)
def test_a_pod_is_not_bound_if_its_devices_fail(
    timeout: str, reports: list[dict[str, Any]], problem: str, outcome: str
) -> None:
    cluster = with_devices(CONDITIONAL, bindingTimeout=timeout)
    cluster.claim()
    judged = cluster.reserve(wanting("p", "gpu"))
    status = asyncio.run(bind_while(cluster, judged, *reports))
    assert (status.code, status.reasons) == (Code.ERROR, (problem,))
    assert cluster.reports.texts[1:] == [f"p waited for ['gpu']: {outcome}"]


def test_devices_that_were_allocated_earlier_have_only_the_rest_of_the_time() -> None:
    """kube-scheduler counts from the allocation, too, so a second pod does not wait for all of it again."""
    cluster = with_devices(CONDITIONAL)
    conditions = {key: CONDITIONAL[key] for key in ("bindingConditions", "bindingFailureConditions")}
    status = allocated("d0", users=["other"], **conditions)
    status["allocation"]["allocationTimestamp"] = format_instant(NOW - 600)
    cluster.claim(status=status)
    judged = cluster.reserve(wanting("p", "gpu"))

    bound = asyncio.run(asyncio.wait_for(bind_while(cluster, judged, {}, writes=1), 10))
    assert bound.reasons == ("device binding timeout: claim=gpu",)


# Deallocation.


def post_filter(cluster: Cluster, judged: Judgement) -> tuple[str, ...]:
    mask = judged.mask
    snapshot = Snapshot.of(cluster.scene.columns)
    result = cluster.plugin.post_filter(
        judged.state, judged.pod, snapshot, FilterResult(mask, (), (cluster.plugin,))
    )
    assert result.status.code is Code.UNSCHEDULABLE
    return result.status.reasons


async def run_post_filter(cluster: Cluster, judged: Judgement) -> tuple[str, ...]:
    reasons = post_filter(cluster, judged)
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    return reasons


@pytest.mark.parametrize(("users", "freed"), [([], True), (["p"], True), (["q"], False), (["p", "q"], False)])
def test_devices_out_of_reach_are_freed_unless_another_pod_uses_them(users: list[str], freed: bool) -> None:
    cluster = with_devices("d0")
    cluster.claim(status=allocated("d0", node_name="gone", users=users))
    judged = cluster.judge(wanting("p", "gpu"))
    assert judged.fitting == set()
    reasons = asyncio.run(run_post_filter(cluster, judged))
    assert reasons == (("deallocation of ResourceClaim completed",) if freed else ())
    assert ("allocation" in cluster.api.claims["gpu"]["status"]) is not freed
    if freed:
        waits = cluster.judge(wanting("p", "gpu")).status
        assert waits.reasons == (being_deallocated("shop/gpu"),)
        cluster.show()
        assert cluster.judge(wanting("p", "gpu")).fitting == {"node-a"}


def test_a_deallocation_that_fails_is_tried_again() -> None:
    cluster = with_devices("d0")
    cluster.claim(status=allocated("d0", node_name="gone"))
    cluster.api.fails(Forbidden("no", status=403))
    for _ in range(2):
        judged = cluster.judge(wanting("p", "gpu"))
        assert judged.fitting == set()
        asyncio.run(run_post_filter(cluster, judged))
    assert "allocation" not in cluster.api.claims["gpu"]["status"]


def test_a_deallocation_is_repeated_after_a_failure_that_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: the pod waited five minutes for the event of this write, although it fitted at once."""
    monkeypatch.setattr(claim_writer, "_LONGEST_PAUSE", 0.0)
    cluster = with_devices("d0")
    cluster.claim(status=allocated("d0", node_name="gone"))
    for _ in range(20):
        cluster.api.fails(ServerError("down", status=503))
    asyncio.run(run_post_filter(cluster, cluster.judge(wanting("p", "gpu"))))
    assert "allocation" not in cluster.api.claims["gpu"]["status"]


def test_pods_without_claims_need_no_deallocation() -> None:
    cluster = Cluster()
    judged = cluster.judge(pod())
    assert post_filter(cluster, judged) == ()
    cluster.plugin.unreserve(judged.state, judged.pod, "node-a", NOW)
    assert cluster.plugin.reserve(judged.state, judged.pod, "node-a", NOW).ok
    assert cluster.plugin.pre_bind_pre_flight(judged.state, judged.pod, "node-a") is SKIP
