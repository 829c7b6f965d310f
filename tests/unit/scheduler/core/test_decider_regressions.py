"""Bugs of the decision loop that were found once, each with its story."""

import pytest

from builders import NOW, encode, node, pod, pod_json
from storage import claim, put, volume
from tidelock.framework.config import MAX_BACKOFF
from tidelock.ledger import reasons
from tidelock.model.api.reservation import BoundPod, Phase
from tidelock.model.pods import CLAIMED_RESERVATIONS, decode_pod
from tidelock.scheduler.core.queued_pod import QueueName
from tidelock.scheduler.core.reservation_scheduler import RESERVATIONS_A_STEP
from tidelock.scheduler.informers.event_handlers import ObjectEventHandler
from unit.scheduler.machinery import HELD, Core


def test_a_pod_that_was_just_bound_is_not_scheduled_again() -> None:
    """An older version of a pod, still unbound, came after the answer to its binding: the pod was placed anew
    on another node, and its room on the first one given to others.
    """
    core = Core(node("node-a"), node("node-b"))
    core.add(pod())
    core.decider.bound(core.place(), NOW)
    core.event_handlers.pods.upsert(pod(), pod(labels={"just": "labelled"}))
    assert core.queue.get("uid-web-0") is None
    assert core.used("node-a") == 1000


def test_a_claim_ends_when_another_has_bound_the_pod_and_it_is_leaving() -> None:
    """A pod that was bound by another scheduler and deleted at once is no owner; as it was bound, the failed
    binding gave its lock back to nobody: the lock stayed Bound for ever.
    """
    core = Core(node("node-a"))
    entry = core.reservation()
    core.step()
    core.add(pod())
    assumed = core.place()
    core.event_handlers.pods.upsert(pod(), pod(node_name="node-a", deleted=True))
    core.decider.binding_failed(assumed, NOW)
    assert entry.phase is Phase.ACTIVE


def test_a_leaving_pod_that_takes_a_locks_room_violates_it() -> None:
    """Only pods that stay were looked at, though the room of a leaving one is taken as well."""
    core = Core(node("node-a", cpu="2"))
    entry = core.reservation(resources={"cpu": "2"})
    core.step()
    core.add(pod("intruder", node_name="node-a", deleted=True))
    assert (entry.phase, entry.reason) == (Phase.ACTIVE, reasons.VIOLATED)


def test_a_lock_moves_to_another_node_or_not_at_all() -> None:
    """On a node that was not ready but bore no taint the lock found its own room again, as the best of all:
    it had "moved", and never tried again.
    """
    core = Core(node("node-a"))
    entry = core.reservation()
    core.step()
    core.event_handlers.nodes.upsert(node("node-a"), node("node-a", ready=False))
    core.clock.advance(300)
    core.step()
    assert (entry.node, entry.moving) == ("node-a", True)
    core.event_handlers.nodes.upsert(None, node("node-b", ready=False))
    core.step()
    assert entry.node == "node-a"
    core.event_handlers.nodes.upsert(node("node-b", ready=False), node("node-b", ready=True))
    core.step()
    assert (entry.node, entry.reason, entry.moving) == ("node-b", reasons.MOVED, False)


def test_a_higher_priority_overtakes_the_rest_of_a_long_line() -> None:
    """Locks that came while a line was being worked off were put at its end."""
    core = Core(node("node-a", cpu=str(RESERVATIONS_A_STEP + 1)))
    *_, last = [
        core.reservation(f"lock-{number:02}", owner="nobody") for number in range(RESERVATIONS_A_STEP + 1)
    ]
    core.step()
    urgent = core.reservation("urgent", owner="nobody", priority=5)
    core.step()
    assert (urgent.phase, last.phase) == (Phase.ACTIVE, Phase.PENDING)


def test_a_pod_that_waits_for_hours_does_not_end_the_loop() -> None:
    """Two to the power of its 1,025th attempt is too large for a float."""
    core = Core(node("node-a"))
    core.add(pod(requests={"cpu": "5"}))
    waiting = core.refuse().waiting
    waiting.diagnoses = 5000
    core.wake()
    core.refuse()
    assert waiting.due == core.clock.now() + MAX_BACKOFF


def test_a_pod_that_is_gated_anew_is_not_woken() -> None:
    """It stayed among the unschedulable ones, which are all tried when room comes free."""
    core = Core(node("node-a"))
    core.add(pod(requests={"cpu": "5"}))
    core.refuse()
    core.event_handlers.pods.upsert(None, pod(requests={"cpu": "1"}, schedulingGates=[{"name": "hold"}]))
    core.wake()
    assert core.step() is None
    assert core.queue.counts()[QueueName.GATED] == 1


def test_a_pod_that_asks_for_more_than_64_bits_hold_fits_nowhere() -> None:
    """Two requests that are quantities add up to one that no column holds: the loop ended."""
    huge = {"name": "huge", "resources": {"requests": {"memory": "5Ei"}}}
    core = Core(node("node-a"))
    core.add(pod(containers=[huge, huge | {"name": "other"}]))
    assert "1 Insufficient memory" in core.refuse().diagnosis.message


def test_pods_of_any_size_bound_by_others_do_not_end_the_feed_or_wrap_around() -> None:
    """The same for a pod that was bound directly, and for the sum of many: it turned negative, so that the
    node looked empty.
    """
    huge = {"name": "huge", "resources": {"requests": {"memory": "5Ei", "cpu": "9P"}}}
    core = Core(node("node-a"))
    core.add(*(pod(f"huge-{n}", node_name="node-a", containers=[huge, huge]) for n in range(8)))
    core.add(pod())
    core.refuse()
    assert core.used(resource="memory") > 0


def test_a_resize_that_scoring_alone_sees_is_counted() -> None:
    """A container that keeps its old size while it shrinks requests as much as before, but weighs less in
    scoring: the difference stayed on the node when the pod was gone.
    """
    before = pod(node_name="node-a", requests={"cpu": "2"})
    shrinking = pod_json(node_name="node-a", requests={"cpu": "1"})
    shrinking["status"]["containerStatuses"] = [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]
    after = decode_pod(encode(shrinking))
    core = Core(node("node-a"))
    core.add(before)
    core.event_handlers.pods.upsert(before, after)
    assert core.used() == 2000
    core.event_handlers.pods.remove(after)
    assert core.decider.columns.nonzero[0].tolist() == [0, 0]


def test_an_annotation_for_pods_does_not_keep_a_lock_from_its_room() -> None:
    """The pod that stands in for a lock took over its annotations: a Reservation that was annotated with
    require-reservation required one itself.
    """
    core = Core(node("node-a"))
    entry = core.reservation(annotations={"tidelock.dev/require-reservation": "true"})
    core.step()
    assert entry.phase is Phase.ACTIVE


def test_a_lock_is_not_ended_by_an_earlier_pod_that_is_gone() -> None:
    """A pod had been deleted and a lock for the next of its name created, but the watch of pods was behind:
    the lock was taken for one whose owner is bound, and its object deleted.
    """
    core = Core(node("node-a", cpu="1"))
    earlier = pod(uid="uid-1", node_name="node-a")
    core.add(earlier)
    entry = core.reservation()
    core.step()
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 0)

    core.answer(gone=True)
    core.step()
    assert (entry.phase, core.reserved()) == (Phase.ACTIVE, 1000)

    core.event_handlers.pods.remove(earlier)
    core.add(pod(uid="uid-2"))
    core.decider.bound(core.place(), NOW)
    assert (entry.phase, core.reserved()) == (Phase.CONSUMED, 0)


@pytest.mark.parametrize("leaving", [True, False])
def test_a_lock_is_not_ended_by_an_earlier_pod_whose_binding_is_told_late(leaving: bool) -> None:
    """The same with a watch that was so far behind that it told of the earlier pod's binding too."""
    core = Core(node("node-a", cpu="2"))
    entry = core.reservation()
    core.step()
    core.add(pod(uid="uid-1", node_name="node-a"))

    core.answer(pod(uid="uid-1", node_name="node-a", deleted=True), gone=not leaving)

    assert (entry.phase, core.reserved(), core.used()) == (Phase.ACTIVE, 1000, 1000 if leaving else 0)


@pytest.mark.parametrize("claims", ["uid-lock", "uid-other,uid-lock"])
def test_an_owner_that_was_bound_right_before_a_crash_and_deleted_consumes_its_lock(claims: str) -> None:
    """The operator bound the owner and crashed, and the owner was deleted before the next one was there. As
    it was leaving by then it counted as an earlier pod of that name, which took room from its own lock: that
    said Violated until the pod ended, and then held the room for nobody.
    """
    leaving = pod(node_name="node-a", annotations={CLAIMED_RESERVATIONS: claims}, deleted=True)
    core = Core(node("node-a", cpu="1"), listed=False)
    core.add(leaving)
    entry = core.reservation(status=HELD)
    core.list_all()
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 0)

    core.answer(leaving)
    assert (entry.phase, entry.violation) == (Phase.CONSUMED, "")


def test_an_owner_whose_end_is_told_before_its_binding_consumes_its_lock() -> None:
    """The same with a watch that had a gap, in which the pod was bound and deleted."""
    leaving = pod(node_name="node-a", annotations={CLAIMED_RESERVATIONS: "uid-lock"}, deleted=True)
    core = Core(node("node-a", cpu="1"))
    entry = core.reservation()
    core.step()
    core.add(leaving)
    core.answer(leaving)
    assert (entry.phase, core.reserved(), core.used()) == (Phase.CONSUMED, 0, 1000)


@pytest.mark.parametrize("claims", ["", "uid-lock-before"])
def test_an_earlier_pod_of_the_name_that_is_leaving_leaves_the_lock_to_the_next(claims: str) -> None:
    """The earlier pod of a StatefulSet takes its time, and maybe had a lock of this name too."""
    leaving = pod(uid="uid-1", node_name="node-a", annotations={CLAIMED_RESERVATIONS: claims}, deleted=True)
    core = Core(node("node-a", cpu="2"), listed=False)
    core.add(leaving)
    entry = core.reservation(status=HELD)
    core.list_all()
    core.event_handlers.pods.upsert(leaving, leaving)
    core.answer()
    assert (entry.phase, core.reserved()) == (Phase.ACTIVE, 1000)

    core.event_handlers.pods.remove(leaving)
    core.add(pod(uid="uid-2"))
    core.decider.bound(core.place(), NOW)
    assert entry.phase is Phase.CONSUMED


def test_an_answer_does_not_bring_a_pod_back_that_is_gone() -> None:
    """The API server, asked whether the owner of a lock is bound, said that it is leaving; before that answer
    came, the watch told that it is gone. The answer put it on its node again, whose room it took for ever.
    """
    core = Core(node("node-a"))
    core.reservation()
    core.add(pod(node_name="node-a"))
    core.event_handlers.pods.remove(pod(node_name="node-a"))
    core.answer(pod(node_name="node-a", deleted=True))
    assert core.used() == 0


def test_a_watch_that_is_behind_does_not_bring_a_pod_back_that_is_gone() -> None:
    """The API server, asked whether the owner of a lock is bound, said that it is gone, and its room was
    given to a lock. Then the watch told how the pod was asked to end: the lock was violated by it, and the
    room went to others until the watch told of the end as well.
    """
    core = Core(node("node-a", cpu="1"))
    core.add(pod(node_name="node-a"))
    entry = core.reservation()
    core.answer(gone=True)
    core.step()
    assert entry.phase is Phase.ACTIVE

    leaving = pod(node_name="node-a", deleted=True, version=2)
    core.add(leaving)
    assert (entry.phase, entry.violation, core.used(), core.reserved()) == (Phase.ACTIVE, "", 0, 1000)
    core.event_handlers.pods.remove(leaving)
    assert core.event_handlers.gone == set()


def test_a_lock_ends_by_the_next_of_its_owners_if_the_first_is_gone() -> None:
    core = Core(node("node-a"))
    core.add(*(pod(name, node_name="node-a") for name in ("web-0", "web-1")))
    entry = core.reservation(owners=[{"pod": {"name": "web-0"}}, {"pod": {"name": "web-1"}}])
    core.answer(gone=True)
    assert entry.phase is Phase.BOUND
    core.answer()
    assert (entry.phase, entry.bound_pod) == (Phase.CONSUMED, BoundPod(name="web-1", uid="uid-web-1"))


def test_a_pod_that_becomes_the_owner_of_a_held_lock_is_woken() -> None:
    """Owners may be edited until Active is written. Nothing told those that they were changed to: a pod that
    had been refused for the lock, or gated until one is active, waited on beside its own lock.
    """
    core = Core(node("node-a", cpu="1"))
    core.reservation(owner="web-1")
    core.step()
    core.add(pod("web-0"))
    core.refuse()
    core.reservation(owner="web-0", version=2, generation=2)
    assert core.place().pod.meta.name == "web-0"


def test_a_pod_that_left_its_room_to_a_lock_is_woken_when_that_goes() -> None:
    """A nominated lock kept its room as a pod would, so NodeResourcesFit refused another. Nobody told it when
    the lock came to hold the room, and when it gave that back, only those were woken whom Reservation had
    refused: the pod waited on beside an empty node.
    """
    core = Core(node("node-a", cpu="2"))
    weak = core.reservation("weak", owner="nobody", resources={"cpu": "2"})
    core.step()
    urgent = core.reservation("urgent", owner="nobody", priority=5, preemptionPolicy="PreemptLowerPriority")
    core.add(pod(requests={"cpu": "2"}))
    assert core.refuse().diagnosis.plugins == {"NodeResourcesFit"}
    core.step()
    assert core.reserved() == 1000

    for entry in (weak, urgent):
        core.event_handlers.reservations.remove(entry.reservation)
    assert core.place().node_name == "node-a"


def test_a_pod_is_woken_when_the_owner_of_two_locks_takes_less_than_both_held() -> None:
    """Each lock was compared with the owner alone, which was as large as one of them: that the other's room
    came free was told to nobody, and a pod that it was enough for waited on.
    """
    core = Core(node("node-a", cpu="3"))
    for name in ("first", "second"):
        core.reservation(name)
        core.step()
    core.add(pod("large", requests={"cpu": "2"}))
    core.refuse()
    core.add(pod("web-0", requests={"cpu": "1"}))
    owner = core.place()
    assert owner.pod.meta.name == "web-0"
    core.decider.bound(owner, NOW)
    assert core.place().pod.meta.name == "large"


def test_a_lock_that_waits_for_a_claim_is_tried_when_that_appears() -> None:
    """Only room that came free had a lock be tried again: one whose template names a claim that appeared
    later waited until its deadline.
    """
    core = Core(node("node-a"))
    claims = ObjectEventHandler(
        core.event_handlers, "persistent_volume_claims", core.decider.objects.persistent_volume_claims
    )
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    entry = core.reservation(
        resources=None, template={"spec": {"containers": [{"name": "main"}], "volumes": volumes}}
    )
    core.step()
    core.step()
    assert (entry.phase, core.decider.next_due()) == (Phase.PENDING, NOW + 60)

    put(core.decider.objects, volume("disk", claimed_by="data"))
    claims.upsert(None, claim("data", volume="disk"))
    core.step()
    assert entry.phase is Phase.ACTIVE


def test_a_pod_whose_older_namesake_is_removed_late_is_still_found() -> None:
    """The removal of the second of two pods with one name ended the feed."""
    core = Core(node("node-a"))
    older, newer = (pod(uid=uid, node_name="node-a") for uid in ("uid-1", "uid-2"))
    core.add(older, newer)
    core.event_handlers.pods.remove(newer)
    core.event_handlers.pods.remove(older)
    assert core.used() == 0


def test_nothing_is_kept_beside_an_owner_on_a_node_that_is_gone() -> None:
    """An operator started while the owner of a lock was bound to a node that had gone. It kept the rest of
    the lock's amounts there until the API server had answered. The node came back meanwhile, without the
    rest, and gave it back: it had -2 CPU reserved, so 2 CPU were promised twice.
    """
    core = Core(node("node-a"), listed=False)
    elsewhere = HELD | {"nodeName": "node-b", "nodeUID": "uid-node-b", "resources": {"cpu": "3"}}
    core.reservation(resources={"cpu": "3"}, status=elsewhere)
    owner = pod(node_name="node-b")
    core.add(owner)
    core.list_all()
    core.event_handlers.nodes.upsert(None, node("node-b"))
    core.answer(owner)
    columns = core.cache.columns
    assert columns.named(columns.reserved[columns.row_of["node-b"]]) == {}


def test_a_lock_that_was_refused_more_amounts_is_tried_again_when_it_may_move() -> None:
    """A lock that grew beyond its node was refused, as one that grows stays where it is. Then its node was
    not ready for long, so it might move; but it was in line already, and waited until something was freed.
    """
    core = Core(node("node-a", cpu="2"))
    entry = core.reservation()
    core.step()
    core.reservation(resources={"cpu": "3"}, generation=2, version=2)
    core.step()
    core.event_handlers.nodes.upsert(None, node("node-b"))
    core.event_handlers.nodes.upsert(node("node-a", cpu="2"), node("node-a", cpu="2", ready=False))
    core.step()
    assert (entry.node, entry.growing) == ("node-a", True)
    core.clock.advance(300)
    core.step()
    assert (entry.node, entry.reserved["cpu"], entry.reason) == ("node-b", 3000, reasons.MOVED)
