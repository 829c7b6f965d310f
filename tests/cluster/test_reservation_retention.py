"""Reservations after their end, and the effects of repeated applies, deletions and edits by other clients.

It needs an API server that repeats an apply without a new version.
"""

import time

from cluster.live import condition, in_seconds
from cluster.operator_process import Launch, OperatorProcess
from cluster.world import World
from tidelock.model.instants import parse_instant
from tidelock.model.pods import CLAIMED_RESERVATIONS

FINALIZER = "test.tidelock.dev/stay"


def test_a_retained_reservation_that_is_applied_again_holds_nothing(world: World) -> None:
    node = world.node(cpu="2")
    manifest = world.manifest(cpu="2", node=node, retention="Retain")
    reservation = world.apply(manifest)
    reservation.until_phase("Active")
    pod = world.pod(cpu="2")
    ended = reservation.until_phase("Consumed")
    pod.until_bound()
    pod.delete()

    assert world.apply(manifest).uid == reservation.uid
    assert world.pod("stranger", cpu="2").until_bound() == node.name
    assert reservation.status() == ended


def test_a_deleted_reservation_that_is_applied_again_expires_at_once(world: World) -> None:
    node = world.node(cpu="2")
    manifest = world.manifest(cpu="2", node=node, expireAt=in_seconds(1.5))
    first = world.apply(manifest)
    first.until_gone()

    again = world.apply(manifest)
    again.until_gone()
    assert again.uid != first.uid
    assert again.phases() == ["Expired"]


def test_a_deleted_reservation_that_is_applied_again_is_consumed_by_its_bound_owner(world: World) -> None:
    node = world.node(cpu="4")
    manifest = world.manifest(cpu="2", node=node)
    first = world.apply(manifest)
    first.until_phase("Active")
    pod = world.pod(cpu="2")
    pod.until_bound()
    first.until_gone()
    world.until_known(pod)

    again = world.apply(manifest)
    again.until_gone()
    assert again.uid != first.uid
    assert again.phases() == []


def test_an_expired_reservation_is_deleted_at_its_ttl_after_finished(world: World) -> None:
    reservation = world.reservation(
        node=world.node(), ttlSeconds=1, retention="Retain", ttlSecondsAfterFinished=1
    )
    reservation.until_gone()
    gone_at = time.time()
    _, last = reservation.history()[-1]
    assert last["status"]["phase"] == "Expired"
    assert gone_at >= parse_instant(last["status"]["finishedAt"]) + 1


def test_a_consumed_reservation_is_deleted_at_its_ttl_after_finished(world: World) -> None:
    reservation = world.active_reservation(node=world.node(), retention="Retain", ttlSecondsAfterFinished=5)
    world.pod().until_bound()
    reservation.until_gone()
    assert reservation.phases() == [
        "Active",
        "Consumed",
    ]  # one that is not retained is deleted without this phase


def test_a_rejected_reservation_is_deleted_at_its_ttl_after_finished(world: World) -> None:
    world.node()
    reservation = world.reservation(cpu="64", pendingDeadlineSeconds=0, ttlSecondsAfterFinished=1)
    reservation.until_gone()
    assert reservation.phases()[-1] == "Rejected"


def test_a_reservation_that_is_deleted_by_hand_frees_its_capacity_at_once(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    waiting = world.reservation("waiting", "2", node)
    waiting.until_phase("Pending")
    reservation.delete()
    waiting.until_phase("Active")


def test_a_foreign_finalizer_keeps_the_object_but_not_the_capacity(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    reservation.merge({"metadata": {"finalizers": [FINALIZER]}})
    waiting = world.reservation("waiting", "2", node)
    waiting.until_phase("Pending")
    reservation.delete()
    waiting.until_phase("Active")

    status = reservation.until_phase("Terminating")
    for kind in ("Active", "Ready"):
        told = condition(status, kind)
        assert (told["status"], told["reason"]) == ("False", "Terminating")
    reservation.merge({"metadata": {"finalizers": None}})
    reservation.until_gone()


def test_the_next_operator_marks_a_reservation_that_was_deleted_while_none_ran(
    launch: Launch, private_world: World
) -> None:
    """The reservation had Active=True until its finalizer was removed, although others got its capacity."""
    world, operator = private_world, launch()
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    reservation.merge({"metadata": {"finalizers": [FINALIZER]}})
    operator.kill()
    reservation.delete()
    operator.start()
    assert condition(reservation.until_phase("Terminating"), "Active")["status"] == "False"
    world.active_reservation("next", "2", node)
    reservation.merge({"metadata": {"finalizers": None}})
    reservation.until_gone()


def test_a_reservation_with_a_foreign_finalizer_expires_and_is_deleted_once(world: World) -> None:
    node = world.node(cpu="2")
    manifest = world.manifest(cpu="2", node=node, ttlSeconds=1)
    manifest["metadata"]["finalizers"] = [FINALIZER]
    reservation = world.store(manifest)
    gone = reservation.until(lambda found: "deletionTimestamp" in found["metadata"], "be asked to go")
    assert gone["status"]["phase"] == "Expired"
    world.active_reservation("next", "2", node)

    settled = reservation.read()
    assert settled is not None
    assert settled["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]
    reservation.merge({"metadata": {"finalizers": None}})
    reservation.until_gone()


def test_a_status_that_another_client_edited_is_restored(world: World) -> None:
    node = world.node(cpu="2")
    reservation = world.active_reservation(cpu="2", node=node)
    right = reservation.status()
    reservation.merge(
        {"status": {"phase": "Consumed", "nodeName": "elsewhere", "conditions": [], "epoch": 99}}, "status"
    )
    reservation.until(lambda found: found["status"] == right, "be put right")
    world.pod("stranger").until_refused("reserved by")


def test_a_status_that_another_client_wrote_holds_no_capacity(world: World) -> None:
    node = world.node(cpu="1")
    world.bound_pod(node, cpu="1")
    reservation = world.reservation(cpu="1", node=node)
    reservation.until_condition("Active", "False", "InsufficientCapacity")
    right = reservation.status()
    reservation.merge(
        {"status": {"phase": "Active", "nodeName": node.name, "resources": {"cpu": "1"}}}, "status"
    )
    reservation.until(lambda found: found["status"] == right, "be put right")


def test_a_consumed_reservation_leaves_only_an_annotation_of_the_pod_elsewhere(
    world: World, operator: OperatorProcess
) -> None:
    node = world.node()
    reservation = world.active_reservation(node=node, retention="Retain")
    pod = world.pod()
    pod.until_bound()
    reservation.until_phase("Consumed")
    marks: dict[str, str] = {}
    for touched in (reservation, pod, node):
        metadata = world.api.get(touched.path)["metadata"]
        assert "finalizers" not in metadata
        texts = metadata.get("annotations", {}) | metadata.get("labels", {})
        marks |= {
            key: text for key, text in texts.items() if "kopf" in key or key.startswith("tidelock.dev/")
        }
    assert marks == {CLAIMED_RESERVATIONS: reservation.uid}  # written together with the binding
