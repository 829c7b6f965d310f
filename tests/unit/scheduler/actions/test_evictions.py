"""Evictions for preemption: the requests, their order, and their failures."""

from typing import Any

import pytest

from builders import NOW, node, pod, pod_json
from tidelock.framework.rejections import nodes_by_reason
from tidelock.kube.errors import (
    AdmissionUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
)
from tidelock.model.instants import format_instant
from tidelock.model.pods import BORROWS
from tidelock.model.quantities import CPU
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.scheduler.actions.binding import pod_reference
from unit.scheduler.machinery import Shell, pod_path

NOTE = "Preempted by pod uid-web-0 on node node-a"
AGAIN = 5.0


def crowded(*names: str) -> Shell:
    """Build a node full of pods of priority 0, and a pod of priority 10 that has chosen its victims."""
    shell = Shell(node("node-a", cpu="4"))
    for name in names or ("low",):
        cpu = {"cpu": str(4 // len(names or ("low",)))}
        shell.store_pod(name, requests=cpu, node_name="node-a")
    shell.store_pod(requests={"cpu": "4"}, priority=10)
    shell.binder.report(shell.refuse())
    return shell


async def evict(shell: Shell) -> None:
    shell.evict()
    await shell.settle()


def asked(shell: Shell, name: str) -> list[tuple[str, str, Any]]:
    """Return the requests about a pod: method, subresource and body."""
    return [
        (each.method, each.path.removeprefix(pod_path(name)), each.body)
        for each in shell.api.asked
        if each.path.startswith(pod_path(name))
    ]


async def test_a_victim_gets_a_condition_and_an_event_and_is_deleted() -> None:
    shell = crowded()
    await evict(shell)

    (patched, deleted) = asked(shell, "low")
    assert patched[:2] == ("PATCH", "/status")
    assert patched[2] == {
        "metadata": {"uid": "uid-low"},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "tidelock-scheduler: preempting to accommodate a higher priority pod",
                    "lastTransitionTime": "2027-01-15T08:00:00Z",
                    "observedGeneration": 0,
                }
            ]
        },
    }
    assert deleted[:2] == ("DELETE", "")
    # The version with the condition: if the deletion is delayed for long, the version differs.
    assert deleted[2]["preconditions"] == {"uid": "uid-low", "resourceVersion": "2"}
    (told,) = [told for told in shell.recorder if told.reason == "Preempted"]
    assert (told.regarding.name, told.type, told.action, told.note) == ("low", "Normal", "Preempting", NOTE)
    assert told.controller == shell.decider.profile.scheduler_name
    assert told.related == pod_reference(shell.see_pod())
    assert shell.metric("scheduler_preemption_attempts_total") == 1
    assert shell.metric("scheduler_preemption_victims_sum") == 1


async def test_the_nominated_node_is_written_with_the_condition() -> None:
    shell = crowded()
    await evict(shell)

    status = shell.api.objects[pod_path()]["status"]
    assert status["nominatedNodeName"] == "node-a"
    assert status["conditions"][0]["message"].startswith(nodes_by_reason(1, {insufficient(CPU): 1}))


async def test_a_nomination_that_has_ended_is_removed_from_the_status() -> None:
    shell = Shell(node("node-a", cpu="1"))
    shell.store_pod(requests={"cpu": "2"}, status={"nominatedNodeName": "node-a"})
    shell.binder.report(shell.refuse())
    await shell.settle()

    assert shell.api.asked[0].body["status"]["nominatedNodeName"] is None


async def test_a_changed_nomination_is_written_even_if_the_message_is_the_same() -> None:
    shell = crowded()
    await evict(shell)
    shell.api.asked.clear()
    waiting = shell.queue.get("uid-web-0")
    assert waiting is not None
    shell.decider.eviction_failed("uid-low", "uid-web-0", shell.clock.now())
    shell.clock.advance(10)
    shell.binder.report(shell.refuse())  # the watch has not delivered the nomination yet
    await shell.settle()

    assert [body["status"]["nominatedNodeName"] for _, _, body in asked(shell, "web-0")] == ["node-a"]


@pytest.mark.parametrize("told", [True, False])
async def test_a_nomination_is_removed_when_the_binding_fails(told: bool) -> None:
    """Regression: the nomination was removed in memory only, and stayed in the API until the next refusal.

    Until then the next event of the pod decided whether capacity was kept for it.
    """
    shell = Shell(node("node-a"))
    shell.store_pod(status={"nominatedNodeName": "node-a"})
    shell.api.fails(ServerError("etcd is down", status=500))
    shell.binder.bind(shell.place(), shell.clock.monotonic())
    await shell.settle()

    assert "nominatedNodeName" not in shell.api.objects[pod_path()]["status"]
    shell.add(pod(status={"nominatedNodeName": "" if told else "node-a"}, labels={"new": "yes"}))
    assert shell.cache.nominator.node_of("uid-web-0") == ""


async def test_a_pod_loses_its_written_nomination_to_a_pod_of_higher_priority() -> None:
    shell = crowded()
    await evict(shell)
    shell.see_pod()
    shell.store_pod("web-1", requests={"cpu": "4"}, priority=11)
    shell.refuse()
    await evict(shell)

    assert "nominatedNodeName" not in shell.api.objects[pod_path()]["status"]
    assert shell.api.verbs.count("DELETE") == 1, "the victim is terminating already"
    assert shell.metric("scheduler_preemption_attempts_total") == 2
    assert shell.metric("scheduler_preemption_victims_count") == 1


async def test_a_nomination_that_cannot_be_removed_stays() -> None:
    shell = crowded()
    await evict(shell)
    shell.store_pod("web-1", requests={"cpu": "4"}, priority=11)
    shell.refuse()
    shell.api.fails(Forbidden("no", status=403))
    await evict(shell)
    assert shell.api.objects[pod_path()]["status"]["nominatedNodeName"] == "node-a"


@pytest.mark.usefixtures("sleeps")
async def test_a_victim_that_is_gone_gets_no_event() -> None:
    shell = crowded()
    del shell.api.objects[pod_path("low")]
    await evict(shell)

    assert asked(shell, "low")[-1][0] == "PATCH"
    assert "Preempted" not in shell.recorder.reasons
    assert shell.metric("tidelock_api_write_errors_total", write="eviction", reason="NotFound") is None


@pytest.mark.usefixtures("sleeps")
async def test_another_pod_with_the_name_of_a_victim_is_not_deleted() -> None:
    shell = crowded()
    shell.api.objects[pod_path("low")]["metadata"]["uid"] = "another"
    await evict(shell)

    assert pod_path("low") in shell.api.objects
    assert "Preempted" not in shell.recorder.reasons


async def test_a_failed_eviction_is_retried(sleeps: list[float]) -> None:
    shell = crowded()
    await shell.settle()
    shell.api.fails(ServerError("etcd is down", status=500), AdmissionUnavailable("not ready", status=403))
    await evict(shell)

    assert pod_path("low") not in shell.api.objects
    assert shell.recorder.reasons.count("Preempted") == 1
    assert len(sleeps) == 2


@pytest.mark.parametrize(
    ("errors", "verbs"),
    [
        ([Forbidden("no", status=403)], ["PATCH"]),
        ([ServerError("etcd is down", status=500)] * 5, ["PATCH"] * 5),
    ],
    ids=["refused", "in vain"],
)
async def test_a_pod_chooses_victims_again_after_an_eviction_has_failed_for_good(
    sleeps: list[float], errors: list[Any], verbs: list[str]
) -> None:
    shell = crowded()
    await shell.settle()
    shell.api.asked.clear()
    shell.api.fails(*errors)
    await evict(shell)

    assert shell.api.verbs == verbs
    assert sleeps[-1] == AGAIN
    assert len(sleeps) == len(verbs)
    assert "Preempted" not in shell.recorder.reasons
    assert shell.cache.evicting == set()
    shell.clock.advance(10)
    shell.refuse()
    await evict(shell)
    assert pod_path("low") not in shell.api.objects


async def crowded_by_a_reservation() -> Shell:
    """Build a node that a pod fills, and a reservation that has chosen this pod as its victim."""
    shell = Shell(node("node-a", cpu="4"))
    shell.store_pod("low", requests={"cpu": "4"}, node_name="node-a")
    wait: dict[str, Any] = {"preemptionPolicy": "PreemptLowerPriority", "pendingDeadlineSeconds": 3600}
    shell.store_reservation(resources={"cpu": "4"}, priority=10, **wait)
    shell.step()
    return shell


@pytest.mark.parametrize(
    "errors",
    [
        [Conflict("the object has been modified", status=409)] * 5,
        [NotFound("not there yet", status=404)] * 5,
        [Forbidden("no", status=403)],
        [TooManyRequests("slow down", status=429)] * 5,
        [AdmissionUnavailable("not yet ready", status=403)] * 5,
    ],
    ids=["conflict", "not found", "forbidden", "too many requests", "not judged"],
)
async def test_a_reservation_chooses_victims_again_after_a_pause_if_an_eviction_has_failed_for_good(
    sleeps: list[float], errors: list[Any]
) -> None:
    """Regression: after a conflict the reservation stayed nominated for ever.

    A forbidden eviction was repeated at once.
    """
    shell = await crowded_by_a_reservation()
    shell.api.fails(*errors)
    await evict(shell)
    assert shell.cache.evicting == set()
    assert sleeps[-1] == AGAIN

    shell.step()
    await evict(shell)
    assert pod_path("low") not in shell.api.objects


async def test_an_eviction_that_conflicts_with_another_write_is_retried(sleeps: list[float]) -> None:
    shell = await crowded_by_a_reservation()
    shell.api.fails(Conflict("the object has been modified", status=409))
    await evict(shell)

    assert pod_path("low") not in shell.api.objects
    assert AGAIN not in sleeps


async def test_a_victim_that_terminates_after_a_conflict_is_not_deleted_again(sleeps: list[float]) -> None:
    shell = await crowded_by_a_reservation()
    shell.api.fails(Conflict("the object has been modified", status=409))
    shell.evict()
    shell.api.objects[pod_path("low")]["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    shell.see_pod("low")
    await shell.settle()

    assert [method for method, _, _ in asked(shell, "low")] == ["PATCH"]
    assert AGAIN not in sleeps


async def test_a_victim_that_waits_for_its_permit_is_rejected_and_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = crowded()
    monkeypatch.setattr(shell.decider, "reject_waiting", lambda uid: uid == "uid-low")
    await evict(shell)

    assert asked(shell, "low") == []
    (told,) = [told for told in shell.recorder if told.reason == "Preempted"]
    assert told.note == f"{NOTE} (in kube-scheduler memory)."
    assert shell.cache.evicting == set()


async def test_the_loop_carries_out_preemptions() -> None:
    shell = crowded()
    shell.loop._work()
    shell.evict()
    await shell.settle()
    assert pod_path("low") not in shell.api.objects


async def lent(**fields: Any) -> Shell:
    """Build a node with borrowed capacity, and an owner that has chosen the borrowers to evict."""
    shell = Shell(node("node-a", cpu="4"))
    shell.store_reservation(borrowable=True, resources={"cpu": "4"})
    shell.step()
    borrows: dict[str, Any] = {"node_name": "node-a", "annotations": {BORROWS: "true"}}
    shell.store_pod("low", requests={"cpu": "4"}, **borrows, **fields)
    shell.store_pod(requests={"cpu": "4"})
    shell.binder.report(shell.refuse())
    await shell.settle()
    return shell


@pytest.mark.parametrize(("own", "given"), [(3600, 30), (10, 10), (0, 1)])
async def test_a_borrower_gets_its_grace_period_up_to_a_limit(own: int, given: int) -> None:
    """Regression: a borrower with a grace period of hours delayed an owner for as long."""
    shell = await lent(terminationGracePeriodSeconds=own)
    shell.api.fails(TooManyRequests("Cannot evict pod as it would violate its budget.", status=429))
    await evict(shell)
    (_, _, eviction), _, (_, _, deletion) = asked(shell, "low")
    assert eviction["deleteOptions"]["gracePeriodSeconds"] == deletion["gracePeriodSeconds"] == given


@pytest.mark.parametrize(("ends_in", "evicted"), [(29, 0), (3600, 1)])
async def test_a_terminating_borrower_is_evicted_if_it_takes_longer_than_the_limit(
    ends_in: int, evicted: int
) -> None:
    shell = Shell(node("node-a", cpu="4"))
    shell.store_reservation(borrowable=True, resources={"cpu": "4"})
    shell.step()
    borrows: dict[str, Any] = {"node_name": "node-a", "annotations": {BORROWS: "true"}}
    plain = pod_json("low", requests={"cpu": "4"}, **borrows)
    plain["metadata"]["deletionTimestamp"] = format_instant(NOW + ends_in)
    shell.api.objects[pod_path("low")] = plain
    shell.see_pod("low")
    shell.store_pod(requests={"cpu": "4"})
    shell.binder.report(shell.refuse())
    await evict(shell)
    assert len(asked(shell, "low")) == evicted


async def test_a_borrower_is_evicted_through_the_eviction_api_and_gets_an_event() -> None:
    shell = await lent()
    await evict(shell)

    ((method, subresource, body),) = asked(shell, "low")
    assert (method, subresource) == ("POST", "/eviction")
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-low"}, "gracePeriodSeconds": 30}
    (told,) = [told for told in shell.recorder if told.regarding.name == "low"]
    assert (told.reason, told.action) == ("Reclaimed", "Reclaiming")
    assert told.note == "Reclaimed by pod uid-web-0 on node node-a"


async def test_a_borrower_is_deleted_if_a_budget_forbids_its_eviction() -> None:
    shell = await lent()
    shell.api.fails(TooManyRequests("Cannot evict pod as it would violate its budget.", status=429))
    await evict(shell)

    told = [(method, subresource) for method, subresource, _ in asked(shell, "low")]
    assert told == [("POST", "/eviction"), ("PATCH", "/status"), ("DELETE", "")]
    (mark,) = asked(shell, "low")[1][2]["status"]["conditions"]
    assert mark["message"] == (
        "tidelock-scheduler: preempting to accommodate an owner of the capacity that it borrows"
    )
