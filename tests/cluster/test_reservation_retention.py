"""What stays of a lock after its end, and what repeated applies, deletions and foreign hands do to it."""

import time

from cluster.live import condition, in_seconds
from cluster.operator_process import Launch, OperatorProcess
from cluster.world import World
from tidelock.model.instants import parse_instant
from tidelock.model.pods import CLAIMED_LOCKS

FINALIZER = "test.tidelock.dev/stay"


def test_a_retained_lock_that_is_applied_again_locks_nothing(world: World) -> None:
    node = world.node(cpu="2")
    manifest = world.reservation(cpu="2", node=node, retention="Retain")
    lock = world.apply(manifest)
    lock.until_phase("Active")
    pod = world.pod(cpu="2")
    ended = lock.until_phase("Consumed")
    pod.until_bound()
    pod.delete()

    assert world.apply(manifest).uid == lock.uid
    assert world.pod("stranger", cpu="2").until_bound() == node.name
    assert lock.status() == ended


def test_a_deleted_lock_that_is_applied_again_expires_at_once(world: World) -> None:
    node = world.node(cpu="2")
    manifest = world.reservation(cpu="2", node=node, expireAt=in_seconds(1.5))
    first = world.apply(manifest)
    first.until_gone()

    again = world.apply(manifest)
    again.until_gone()
    assert again.uid != first.uid
    assert again.phases() == ["Expired"]


def test_a_deleted_lock_that_is_applied_again_is_consumed_at_once_by_its_bound_owner(world: World) -> None:
    node = world.node(cpu="4")
    manifest = world.reservation(cpu="2", node=node)
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


def test_a_tombstone_goes_after_its_time(world: World) -> None:
    lock = world.lock(node=world.node(), ttlSeconds=1, retention="Retain", ttlSecondsAfterFinished=1)
    lock.until_gone()
    gone_at = time.time()
    _, last = lock.history()[-1]
    assert last["status"]["phase"] == "Expired"
    assert gone_at >= parse_instant(last["status"]["finishedAt"]) + 1


def test_a_consumed_tombstone_goes_after_its_time_too(world: World) -> None:
    lock = world.active_lock(node=world.node(), retention="Retain", ttlSecondsAfterFinished=5)
    world.pod().until_bound()
    lock.until_gone()
    assert lock.phases() == ["Active", "Consumed"]  # without the time it would go with no such word


def test_a_rejected_lock_goes_after_its_time(world: World) -> None:
    world.node()
    lock = world.lock(cpu="64", pendingDeadlineSeconds=0, ttlSecondsAfterFinished=1)
    lock.until_gone()
    assert lock.phases()[-1] == "Rejected"


def test_a_lock_that_is_deleted_by_hand_frees_its_room_at_once(world: World) -> None:
    node = world.node(cpu="2")
    lock = world.active_lock(cpu="2", node=node)
    waiting = world.lock("waiting", "2", node)
    waiting.until_phase("Pending")
    lock.delete()
    waiting.until_phase("Active")


def test_somebodys_finalizer_keeps_the_object_but_not_the_room(world: World) -> None:
    node = world.node(cpu="2")
    lock = world.active_lock(cpu="2", node=node)
    lock.merge({"metadata": {"finalizers": [FINALIZER]}})
    waiting = world.lock("waiting", "2", node)
    waiting.until_phase("Pending")
    lock.delete()
    waiting.until_phase("Active")

    status = lock.until_phase("Terminating")
    for kind in ("Active", "Ready"):
        told = condition(status, kind)
        assert (told["status"], told["reason"]) == ("False", "Terminating")
    lock.merge({"metadata": {"finalizers": None}})
    lock.until_gone()


def test_a_lock_that_was_deleted_while_no_operator_ran_says_so_by_the_next(
    launch: Launch, private_world: World
) -> None:
    """It went on saying Active=True for as long as its finalizer kept it, though its room was given away."""
    world, operator = private_world, launch()
    node = world.node(cpu="2")
    lock = world.active_lock(cpu="2", node=node)
    lock.merge({"metadata": {"finalizers": [FINALIZER]}})
    operator.kill()
    lock.delete()
    operator.start()
    assert condition(lock.until_phase("Terminating"), "Active")["status"] == "False"
    world.active_lock("next", "2", node)
    lock.merge({"metadata": {"finalizers": None}})
    lock.until_gone()


def test_a_lock_with_somebodys_finalizer_expires_and_is_asked_to_go_once(world: World) -> None:
    node = world.node(cpu="2")
    manifest = world.reservation(cpu="2", node=node, ttlSeconds=1)
    manifest["metadata"]["finalizers"] = [FINALIZER]
    lock = world.store(manifest)
    gone = lock.until(lambda found: "deletionTimestamp" in found["metadata"], "be asked to go")
    assert gone["status"]["phase"] == "Expired"
    world.active_lock("next", "2", node)

    settled = lock.read()
    assert settled is not None
    assert settled["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]
    lock.merge({"metadata": {"finalizers": None}})
    lock.until_gone()


def test_a_status_edited_by_somebody_else_is_put_right(world: World) -> None:
    node = world.node(cpu="2")
    lock = world.active_lock(cpu="2", node=node)
    right = lock.status()
    lock.merge(
        {"status": {"phase": "Consumed", "nodeName": "elsewhere", "conditions": [], "epoch": 99}}, "status"
    )
    lock.until(lambda found: found["status"] == right, "be put right")
    world.pod("stranger").until_refused("locked by")


def test_a_status_written_by_somebody_else_gives_no_room(world: World) -> None:
    node = world.node(cpu="1")
    world.bound_pod(node, cpu="1")
    lock = world.lock(cpu="1", node=node)
    lock.until_condition("Active", "False", "InsufficientCapacity")
    right = lock.status()
    lock.merge({"status": {"phase": "Active", "nodeName": node.name, "resources": {"cpu": "1"}}}, "status")
    lock.until(lambda found: found["status"] == right, "be put right")


def test_nothing_but_its_binding_is_left_of_a_lock_elsewhere(world: World, operator: OperatorProcess) -> None:
    node = world.node()
    lock = world.active_lock(node=node, retention="Retain")
    pod = world.pod()
    pod.until_bound()
    lock.until_phase("Consumed")
    marks: dict[str, str] = {}
    for touched in (lock, pod, node):
        metadata = world.api.get(touched.path)["metadata"]
        assert "finalizers" not in metadata
        texts = metadata.get("annotations", {}) | metadata.get("labels", {})
        marks |= {
            key: text for key, text in texts.items() if "kopf" in key or key.startswith("tidelock.dev/")
        }
    assert marks == {CLAIMED_LOCKS: lock.uid}  # with the binding itself, in the same write
