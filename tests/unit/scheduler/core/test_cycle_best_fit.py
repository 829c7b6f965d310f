"""Reservations for any pod of a workload: a pod takes the best fit on its node, and its binding names it."""

from typing import Any

import pytest

from builders import NAMESPACE, NOW, encode, node, pod, reservation_json
from tidelock.binders.admission_check import AdmissionCheck
from tidelock.binders.unbound_pods import UnboundPods
from tidelock.framework.rejections import shortage_text
from tidelock.kube.errors import AdmissionUnavailable, ApiError, Conflict, Forbidden, Unreachable
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import BORROWS, CLAIMED_RESERVATIONS, Pod
from tidelock.model.reservation import decode_reservation
from unit.scheduler.machinery import HELD, Core, Shell, pod_path, turns

WEB: Any = [{"selector": {"matchLabels": {"app": "web"}}}]
ACTIVE, BOUND, CONSUMED, PENDING = Phase.ACTIVE, Phase.BOUND, Phase.CONSUMED, Phase.PENDING


def web(name: str = "web-0", cpu: str = "1", **fields: Any) -> Pod:
    return pod(name, requests={"cpu": cpu}, labels={"app": "web"}, **fields)


def foreign(name: str = "web-0", **fields: Any) -> Pod:
    """Build a pod that another scheduler has bound just now, after all reservations were created."""
    bound: dict[str, Any] = {"node_name": "node-a", "bound_at": NOW + 1}
    return web(name, scheduler="default-scheduler", **bound | fields)


def borrower(**fields: Any) -> Pod:
    """Build a pod on node-a that borrows."""
    return pod("borrower", node_name="node-a", annotations={BORROWS: "true"}, **fields)


def held(core: Core, *cpus: str, on: str = "node-a", **fields: Any) -> list[ReservationInfo]:
    """Activate reservations for the workload, named `lock-0` and so on."""
    entries = [
        core.reservation(f"lock-{number}", resources={"cpu": cpu}, nodeName=on, **{"owners": WEB} | fields)
        for number, cpu in enumerate(cpus)
    ]
    core.step()
    assert all(entry.phase is ACTIVE for entry in entries)
    return entries


def phases(entries: list[ReservationInfo]) -> list[Phase]:
    return [entry.phase for entry in entries]


def test_a_small_pod_takes_one_of_five_matching_reservations() -> None:
    """Regression: its binding ended all five. The capacity for four more pods was free for any pod."""
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "1", "1", "1", "1", "1")
    core.run(web())
    assert phases(entries) == [CONSUMED, ACTIVE, ACTIVE, ACTIVE, ACTIVE]
    assert (core.used(), core.reserved()) == (1000, 4000)


def test_each_pod_of_the_workload_takes_its_own_reservation() -> None:
    core = Core(node("node-a", cpu="3"))
    entries = held(core, "1", "1", "1")
    for number in range(3):
        core.run(web(f"web-{number}"))
    assert [entry.bound_pod and entry.bound_pod.name for entry in entries] == ["web-0", "web-1", "web-2"]
    assert (core.used(), core.reserved()) == (3000, 0)


def test_of_two_reservations_the_one_that_is_not_needed_stays() -> None:
    """Regression: it ended too, although the other one covered the whole pod."""
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "4", "2")
    core.run(web(cpu="2"))
    assert phases(entries) == [ACTIVE, CONSUMED]


def test_reservations_that_cover_a_pod_together_are_taken_together() -> None:
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "1", "2", "1")
    core.run(web(cpu="3"))
    assert phases(entries) == [CONSUMED, CONSUMED, ACTIVE]


def test_reservations_on_other_nodes_and_waiting_ones_stay() -> None:
    core = Core(node("node-a", cpu="2", labels={"disk": "ssd"}), node("node-b", cpu="2"))
    (elsewhere,) = held(core, "1", on="node-b")
    waiting = core.reservation("waiting", resources={"cpu": "9"}, owners=WEB)
    core.step()
    core.run(web(nodeSelector={"disk": "ssd"}))
    assert (elsewhere.phase, waiting.phase) == (ACTIVE, PENDING)


def test_reservations_that_name_the_pod_are_taken_first_on_any_node() -> None:
    core = Core(node("node-a", cpu="8", labels={"disk": "ssd"}), node("node-b", cpu="8"))
    entries = held(core, "1", "1")
    here = core.reservation("here", resources={"cpu": "1"}, nodeName="node-a")
    there = core.reservation("there", resources={"cpu": "1"}, nodeName="node-b")
    core.step()
    core.run(web(cpu="2", nodeSelector={"disk": "ssd"}))
    assert (here.phase, there.phase) == (CONSUMED, CONSUMED)
    assert phases(entries) == [CONSUMED, ACTIVE]


def test_a_pod_larger_than_all_its_reservations_takes_the_rest_from_free_capacity() -> None:
    core = Core(node("node-a", cpu="4"))
    entries = held(core, "1", "1")
    core.run(web(cpu="4"))
    assert phases(entries) == [CONSUMED, CONSUMED]

    core = Core(node("node-a", cpu="4"))
    held(core, "1", "1")
    core.add(web(cpu="5"))
    assert shortage_text("cpu", "5", "4") in core.refuse().diagnosis.message


def test_a_pod_in_a_reusable_reservation_takes_no_other_one_for_the_same_amount() -> None:
    core = Core(node("node-a", cpu="4"))
    reused = core.reservation("reused", resources={"cpu": "1"}, owners=WEB, reuse="Always")
    entries = held(core, "1")
    core.run(web())
    assert (reused.phase, phases(entries)) == (ACTIVE, [ACTIVE])
    assert (core.used(), core.reserved()) == (1000, 1000)


def test_all_reservations_are_taken_if_fewer_would_not_release_their_lent_capacity() -> None:
    """A reservation holds nothing itself while all of it is lent.

    The lent capacity moves to another reservation when it ends.
    """
    core = Core(node("node-a", cpu="2"))
    (lent,) = held(core, "1", borrowable=True)
    other = core.reservation("other", owner="nobody", nodeName="node-a", borrowable=True)
    core.step()
    core.add(borrower())
    core.run(web())
    assert (lent.phase, other.phase) == (CONSUMED, ACTIVE)
    assert (core.used(), core.reserved()) == (2000, 0)


def test_an_owner_beside_free_capacity_takes_its_fully_lent_reservation() -> None:
    """Regression: it took free capacity, and its reservation stayed for another pod of the workload."""
    core = Core(node("node-a", cpu="3"))
    (lent,) = held(core, "1", borrowable=True)
    core.add(borrower(requests={"cpu": "2"}))
    core.run(web())
    assert lent.phase is CONSUMED
    assert (core.used(), core.reserved()) == (3000, 0)


def test_a_held_reservation_is_taken_before_a_lent_one() -> None:
    core = Core(node("node-a", cpu="4"))
    (lent,) = held(core, "1", borrowable=True)
    core.add(borrower(requests={"cpu": "1"}))
    own = core.reservation("own", resources={"cpu": "1"}, nodeName="node-a", owners=WEB)
    core.step()
    core.run(web())
    assert (lent.phase, own.phase) == (ACTIVE, CONSUMED)


def test_a_failed_binding_returns_the_reservations_that_it_had_taken() -> None:
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "4", "2")
    core.add(web(cpu="2"))
    assumed = core.place()
    assert phases(entries) == [ACTIVE, BOUND]
    core.decider.binding_failed(assumed, NOW)
    assert phases(entries) == [ACTIVE, ACTIVE]
    assert (core.used(), core.reserved()) == (0, 6000)


def test_a_running_pod_does_not_consume_a_reservation_for_the_next_one() -> None:
    """Regression: a reservation for a workload with a running pod ended before it was active."""
    core = Core(node("node-a", cpu="8"))
    core.add(web("earlier", node_name="node-a", bound_at=NOW - 60))
    entries = held(core, "1")
    core.add(web("earlier", node_name="node-a", bound_at=NOW - 60, version=2, phase="Running"))
    assert (phases(entries), core.effects.claims) == ([ACTIVE], [])


async def test_a_binding_names_the_reservations_that_the_pod_took_even_if_there_are_none() -> None:
    shell = Shell(node("node-a", cpu="8"))
    for name, cpu in (("large", "4"), ("fitting", "2")):
        shell.store_reservation(name, resources={"cpu": cpu}, owners=WEB)
    shell.step()
    for name in ("web-0", "db-0"):
        shell.store_pod(name, requests={"cpu": "2"}, labels={"app": name[:-2]})
        shell.binder.bind(shell.place(), NOW)
        await shell.settle()
    annotations = [shell.api.objects[pod_path(name)]["metadata"]["annotations"] for name in ("web-0", "db-0")]
    assert annotations == [{CLAIMED_RESERVATIONS: "uid-fitting"}, {CLAIMED_RESERVATIONS: ""}]


def restarted(
    *pods: Pod, cpus: tuple[str, ...] = ("4", "2"), reservations_first: bool = False
) -> list[ReservationInfo]:
    """Start another process with these pods and with reservations that are stored as Active."""
    core = Core(node("node-a", cpu="8"), listed=False)
    reservations = [
        decode_reservation(
            encode(
                reservation_json(
                    f"lock-{number}",
                    resources={"cpu": cpu},
                    owners=WEB,
                    created=NOW - 60,
                    status={**HELD, "resources": {"cpu": cpu}},
                )
            )
        )
        for number, cpu in enumerate(cpus)
    ]
    for reservation in reservations:
        core.event_handlers.reservations.upsert(None, reservation)
    core.add(*pods)
    core.list_all()
    core.answer()
    return [core.ledger.entries[reservation.key] for reservation in reservations]


def test_after_a_restart_the_reservations_that_a_binding_names_are_consumed() -> None:
    took = web(cpu="2", node_name="node-a", bound_at=NOW, annotations={CLAIMED_RESERVATIONS: "uid-lock-1"})
    assert phases(restarted(took)) == [ACTIVE, CONSUMED]
    odd = web(cpu="2", node_name="node-a", bound_at=NOW, annotations={CLAIMED_RESERVATIONS: "uid-lock-0"})
    assert phases(restarted(odd)) == [CONSUMED, ACTIVE]
    took_what_is_gone = web(node_name="node-a", bound_at=NOW, annotations={CLAIMED_RESERVATIONS: "uid-gone"})
    assert phases(restarted(took_what_is_gone)) == [ACTIVE, ACTIVE]
    took_nothing = web(node_name="node-a", bound_at=NOW, annotations={CLAIMED_RESERVATIONS: ""})
    assert phases(restarted(took_nothing)) == [ACTIVE, ACTIVE]


def test_the_annotation_of_an_unbound_pod_is_no_claim() -> None:
    """The pod may be a copy of another one."""
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "4", "2")
    core.add(web(cpu="2", annotations={CLAIMED_RESERVATIONS: "uid-lock-0"}))
    core.place()
    assert phases(entries) == [ACTIVE, BOUND]


def test_a_pod_that_another_scheduler_bound_while_no_operator_ran_takes_the_best_fit() -> None:
    assert phases(restarted(foreign(cpu="2"))) == [ACTIVE, CONSUMED]


def test_pods_that_another_scheduler_bound_choose_in_the_order_of_their_bindings() -> None:
    first, second = foreign("web-1", bound_at=NOW), foreign("web-0", bound_at=NOW + 1)
    entries = restarted(second, first, cpus=("1", "1"))
    assert [entry.bound_pod and entry.bound_pod.name for entry in entries] == ["web-1", "web-0"]


def test_a_pod_that_another_scheduler_binds_takes_the_best_fit_only_once() -> None:
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "4", "1", "1")
    core.add(foreign())
    core.add(foreign(version=2))
    core.answer()
    core.add(foreign(version=3))
    core.add(foreign(version=4, annotations={CLAIMED_RESERVATIONS: "uid-lock-1"}))
    core.answer()
    assert phases(entries) == [ACTIVE, CONSUMED, ACTIVE]


def test_a_pod_that_another_scheduler_binds_on_another_node_never_takes_a_reservation() -> None:
    core = Core(node("node-a", cpu="8"), node("node-b", cpu="8"))
    entries = held(core, "1")
    core.add(foreign(node_name="node-b"))
    core.answer()
    again = core.reservation("lock-1", resources={"cpu": "1"}, nodeName="node-b", owners=WEB)
    core.step()
    core.add(foreign(node_name="node-b", version=2))
    assert (phases([*entries, again]), core.effects.claims) == ([ACTIVE, ACTIVE], [])


def test_a_pod_that_is_gone_before_its_claim_is_known_leaves_the_reservation_to_the_next_one() -> None:
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "1")
    core.add(foreign())
    assert phases(entries) == [BOUND]
    core.answer(gone=True)
    assert phases(entries) == [ACTIVE]
    core.add(foreign("web-1"))
    core.answer()
    assert entries[0].bound_pod is not None
    assert (phases(entries), entries[0].bound_pod.name) == ([CONSUMED], "web-1")


def test_an_admitted_binding_takes_the_reservations_that_admission_chose() -> None:
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "4", "1")
    check = AdmissionCheck(core.decider)
    unbound_pods = UnboundPods(core.event_handlers.pods, check, core.clock)
    waiting = web(scheduler="default-scheduler")
    unbound_pods.upsert(None, waiting)
    assert check.admit(waiting, "node-a", NOW) == ""
    assert phases(entries) == [ACTIVE, BOUND]
    unbound_pods.upsert(waiting, foreign(version=2))
    (claim,) = core.effects.claims
    assert (claim.unwritten, claim.uids) == (True, ["uid-lock-1"])
    core.answer()
    assert phases(entries) == [ACTIVE, CONSUMED]


# Claims that are written to pods of other schedulers.


async def seen_bound(shell: Shell) -> list[ReservationInfo]:
    """Deliver a pod that another scheduler has bound beside two reservations."""
    for name, cpu in (("large", "4"), ("fitting", "1")):
        shell.store_reservation(name, resources={"cpu": cpu}, owners=WEB)
    shell.step()
    shell.store_pod(labels={"app": "web"}, scheduler="other", node_name="node-a", bound_at=NOW + 1)
    return [shell.ledger.entries[Key(NAMESPACE, name)] for name in ("large", "fitting")]


async def asked(shell: Shell) -> None:
    for claim in shell.take_claims():
        shell.binder.look_up(claim, lambda stored, claim=claim: shell.event_handlers.answered(claim, stored))  # type: ignore[misc]
    await turns(30)


@pytest.mark.usefixtures("sleeps")
async def test_a_claim_is_written_to_the_pod_before_the_reservation_ends() -> None:
    """Otherwise the next process would have the pod take another reservation."""
    shell = Shell(node("node-a", cpu="8"))
    entries = await seen_bound(shell)
    shell.api.refuses["PATCH"] = Unreachable("gone")
    await asked(shell)
    assert phases(entries) == [ACTIVE, BOUND]
    del shell.api.refuses["PATCH"]
    await turns(30)
    assert phases(entries) == [ACTIVE, CONSUMED]
    assert shell.api.objects[pod_path()]["metadata"]["annotations"] == {CLAIMED_RESERVATIONS: "uid-fitting"}


async def test_a_claim_that_the_pod_already_has_takes_precedence() -> None:
    """A former leader wrote it just before its end."""
    shell = Shell(node("node-a", cpu="8"))
    entries = await seen_bound(shell)
    shell.api.edit(pod_path(), {"metadata": {"annotations": {CLAIMED_RESERVATIONS: "uid-large"}}})
    await asked(shell)
    shell.see_pod()
    await asked(shell)
    assert phases(entries) == [CONSUMED, ACTIVE]


@pytest.mark.usefixtures("sleeps")
async def test_a_claim_is_only_written_to_the_version_of_the_pod_that_was_read() -> None:
    shell = Shell(node("node-a", cpu="8"))
    entries = await seen_bound(shell)
    shell.api.refuses["PATCH"] = Conflict("changed", status=409)
    await asked(shell)
    assert phases(entries) == [ACTIVE, BOUND]
    patch = next(each for each in shell.api.asked if each.method == "PATCH")
    assert patch.path == f"{pod_path()}/status"
    assert patch.body["metadata"] == {
        "uid": "uid-web-0",
        "resourceVersion": "1",
        "annotations": {CLAIMED_RESERVATIONS: "uid-fitting"},
    }
    del shell.api.refuses["PATCH"]
    await turns(30)


@pytest.mark.usefixtures("sleeps")
async def test_a_claim_is_written_once_admission_can_judge() -> None:
    """Regression: a policy without its parameters, as after a start of the API server, counted as final."""
    shell = Shell(node("node-a", cpu="8"))
    entries = await seen_bound(shell)
    shell.api.fails(*[AdmissionUnavailable("failed to configure binding", status=422)] * 5)
    await asked(shell)
    await turns(30)
    assert phases(entries) == [ACTIVE, CONSUMED]
    assert shell.api.objects[pod_path()]["metadata"]["annotations"] == {CLAIMED_RESERVATIONS: "uid-fitting"}


@pytest.mark.usefixtures("sleeps")
@pytest.mark.parametrize(
    "error", [Forbidden("no", status=403), AdmissionUnavailable("failed to configure policy", status=422)]
)
async def test_a_reservation_ends_even_if_its_claim_cannot_be_written(error: ApiError) -> None:
    shell = Shell(node("node-a", cpu="8"))
    entries = await seen_bound(shell)
    shell.api.refuses["PATCH"] = error
    await asked(shell)
    await turns(100)
    shell.see_pod()
    await asked(shell)
    assert phases(entries) == [ACTIVE, CONSUMED]


# Cases from the tests of other reservation systems, in which the behaviour here was in doubt.


def test_a_pod_without_requests_takes_a_reservation_too() -> None:
    """In Koordinator it would take none.

    A reservation for pods without requests only holds the count of a pod.
    """
    core = Core(node("node-a", cpu="8"))
    entries = held(core, "4", "2")
    core.run(web(cpu="0"))
    assert phases(entries) == [ACTIVE, CONSUMED]


def test_a_pod_that_only_fits_two_reservations_together_is_placed() -> None:
    """Koordinator judges each reservation separately."""
    core = Core(node("node-a", cpu="4"))
    entries = held(core, "2", "2")
    core.run(web(cpu="4"))
    assert (phases(entries), core.used()) == ([CONSUMED, CONSUMED], 4000)


def test_a_reservation_that_is_deleted_while_it_is_claimed_frees_its_capacity_only_once() -> None:
    core = Core(node("node-a", cpu="2"))
    entries = held(core, "1", "1")
    core.add(web())
    assumed = core.place()
    core.event_handlers.reservations.remove(entries[0].reservation)
    core.decider.binding_failed(assumed, NOW)
    assert (core.used(), core.reserved(), phases(entries[1:])) == (0, 1000, [ACTIVE])


def test_a_pod_that_another_scheduler_bound_while_its_own_binding_failed_keeps_its_reservation() -> None:
    core = Core(node("node-a", cpu="4"))
    entries = held(core, "1", "1")
    core.add(web())
    assumed = core.place()
    bound = foreign(version=2)
    core.add(bound)
    core.decider.binding_failed(assumed, NOW)
    core.answer()
    assert sorted(phases(entries)) == sorted([ACTIVE, CONSUMED])
    assert (core.used(), core.reserved()) == (1000, 1000)
