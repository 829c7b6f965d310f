"""Former bugs of the decision loop, each with its description."""

import pytest

from builders import NOW, encode, node, pod, pod_json
from storage import claim, put, volume
from tidelock.framework.config import MAX_BACKOFF
from tidelock.model import reasons
from tidelock.model.api.reservation import BoundPod, Phase
from tidelock.model.pods import CLAIMED_RESERVATIONS, decode_pod
from tidelock.model.quantities import MEMORY
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.scheduler.core.queued_pod import QueueName
from tidelock.scheduler.core.reservation_scheduler import RESERVATIONS_A_STEP
from tidelock.scheduler.informers.event_handlers import ObjectEventHandler
from unit.scheduler.machinery import HELD, Core


def test_a_bound_pod_is_not_scheduled_again_after_a_late_event() -> None:
    """An older version of a pod, still unbound, came after the response to its binding.

    The pod was placed on another node, and its capacity on the first one was given to others.
    """
    core = Core(node("node-a"), node("node-b"))
    core.add(pod())
    core.decider.bound(core.place(), NOW)
    core.event_handlers.pods.upsert(pod(), pod(labels={"just": "labelled"}))
    assert core.queue.get("uid-web-0") is None
    assert core.used("node-a") == 1000


def test_a_claim_ends_when_another_scheduler_has_bound_the_pod_and_it_is_terminating() -> None:
    """A pod that another scheduler bound and a user deleted at once is no owner.

    As it was bound, the failed binding did not return its reservation, which stayed Bound for ever.
    """
    core = Core(node("node-a"))
    entry = core.reservation()
    core.step()
    core.add(pod())
    assumed = core.place()
    core.event_handlers.pods.upsert(pod(), pod(node_name="node-a", deleted=True))
    core.decider.binding_failed(assumed, NOW)
    assert entry.phase is Phase.ACTIVE


def test_a_terminating_pod_that_takes_reserved_capacity_violates_the_reservation() -> None:
    """Only pods that stay were checked, although a terminating pod uses capacity too."""
    core = Core(node("node-a", cpu="2"))
    entry = core.reservation(resources={"cpu": "2"})
    core.step()
    core.add(pod("intruder", node_name="node-a", deleted=True))
    assert (entry.phase, entry.reason) == (Phase.ACTIVE, reasons.VIOLATED)


def test_a_reservation_moves_to_another_node_or_not_at_all() -> None:
    """A reservation on a node that was not ready but had no taint found its own capacity as the best again.

    It counted as moved then, and was never tried again.
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


def test_a_higher_priority_overtakes_the_rest_of_a_long_queue() -> None:
    """Reservations that arrived while a long queue was being processed were put at its end."""
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


def test_a_pod_that_is_gated_again_is_not_woken() -> None:
    """It stayed among the unschedulable pods, which are all tried when capacity comes free."""
    core = Core(node("node-a"))
    core.add(pod(requests={"cpu": "5"}))
    core.refuse()
    core.event_handlers.pods.upsert(None, pod(requests={"cpu": "1"}, schedulingGates=[{"name": "hold"}]))
    core.wake()
    assert core.step() is None
    assert core.queue.counts()[QueueName.GATED] == 1


def test_a_pod_with_requests_of_more_than_64_bits_fits_no_node() -> None:
    """Two requests that are valid quantities add up to one that no column can hold. The loop ended."""
    huge = {"name": "huge", "resources": {"requests": {"memory": "5Ei"}}}
    core = Core(node("node-a"))
    core.add(pod(containers=[huge, huge | {"name": "other"}]))
    assert f"1 {insufficient(MEMORY)}" in core.refuse().diagnosis.message


def test_huge_pods_of_other_schedulers_neither_end_the_event_handlers_nor_overflow_a_sum() -> None:
    """As above for a pod that was bound directly, and for the sum of many pods.

    The sum became negative, so the node seemed to be empty.
    """
    huge = {"name": "huge", "resources": {"requests": {"memory": "5Ei", "cpu": "9P"}}}
    core = Core(node("node-a"))
    core.add(*(pod(f"huge-{n}", node_name="node-a", containers=[huge, huge]) for n in range(8)))
    core.add(pod())
    core.refuse()
    assert core.used(resource="memory") > 0


def test_a_resize_that_only_affects_scoring_is_counted() -> None:
    """A container that keeps its old size while it shrinks has the same requests, but counts less in scoring.

    The difference stayed on the node when the pod was gone.
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


def test_annotations_for_pods_do_not_apply_to_a_reservation() -> None:
    """The reserve pod took over the annotations of its Reservation.

    A Reservation with the annotation require-reservation required one itself.
    """
    core = Core(node("node-a"))
    entry = core.reservation(annotations={"tidelock.dev/require-reservation": "true"})
    core.step()
    assert entry.phase is Phase.ACTIVE


def test_an_earlier_pod_that_is_gone_does_not_end_a_reservation() -> None:
    """A pod was deleted and a reservation for the next one of its name created, but the watch was behind.

    The owner seemed to be bound already, so the reservation ended and its object was deleted.
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
def test_a_late_binding_of_an_earlier_pod_does_not_end_a_reservation(leaving: bool) -> None:
    """As above, with a watch so far behind that it also reports the binding of the earlier pod."""
    core = Core(node("node-a", cpu="2"))
    entry = core.reservation()
    core.step()
    core.add(pod(uid="uid-1", node_name="node-a"))

    core.answer(pod(uid="uid-1", node_name="node-a", deleted=True), gone=not leaving)

    assert (entry.phase, core.reserved(), core.used()) == (Phase.ACTIVE, 1000, 1000 if leaving else 0)


@pytest.mark.parametrize("claims", ["uid-lock", "uid-other,uid-lock"])
def test_an_owner_that_was_bound_right_before_a_crash_and_deleted_consumes_its_reservation(
    claims: str,
) -> None:
    """The operator bound the owner and crashed, and the owner was deleted before the next process started.

    As it was terminating, it counted as an earlier pod of that name that took capacity from its own
    reservation. The reservation was Violated until the pod ended, and then held capacity without an owner.
    """
    leaving = pod(node_name="node-a", annotations={CLAIMED_RESERVATIONS: claims}, deleted=True)
    core = Core(node("node-a", cpu="1"), listed=False)
    core.add(leaving)
    entry = core.reservation(status=HELD)
    core.list_all()
    assert (entry.phase, core.reserved()) == (Phase.BOUND, 0)

    core.answer(leaving)
    assert (entry.phase, entry.violation) == (Phase.CONSUMED, "")


def test_an_owner_consumes_its_reservation_if_its_deletion_arrives_before_its_binding() -> None:
    """As above, with a watch that had a gap in which the pod was bound and deleted."""
    leaving = pod(node_name="node-a", annotations={CLAIMED_RESERVATIONS: "uid-lock"}, deleted=True)
    core = Core(node("node-a", cpu="1"))
    entry = core.reservation()
    core.step()
    core.add(leaving)
    core.answer(leaving)
    assert (entry.phase, core.reserved(), core.used()) == (Phase.CONSUMED, 0, 1000)


@pytest.mark.parametrize("claims", ["", "uid-lock-before"])
def test_a_terminating_earlier_pod_of_the_name_leaves_the_reservation_to_the_next_one(claims: str) -> None:
    """The earlier pod of a StatefulSet ends slowly, and may have had a reservation of this name too."""
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


def test_an_answer_does_not_restore_a_pod_that_is_gone() -> None:
    """The API server reported the owner as terminating, but the watch reported its end before that answer.

    The answer put the pod on its node again, where it used capacity for ever.
    """
    core = Core(node("node-a"))
    core.reservation()
    core.add(pod(node_name="node-a"))
    core.event_handlers.pods.remove(pod(node_name="node-a"))
    core.answer(pod(node_name="node-a", deleted=True))
    assert core.used() == 0


def test_a_late_event_does_not_restore_a_pod_that_is_gone() -> None:
    """The API server reported the owner as gone, and its capacity was given to a reservation.

    Then the watch reported the pod as terminating. The reservation was violated by it, and its capacity went
    to others until the watch reported the end too.
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


def test_a_reservation_is_consumed_by_the_next_of_its_owners_if_the_first_is_gone() -> None:
    core = Core(node("node-a"))
    core.add(*(pod(name, node_name="node-a") for name in ("web-0", "web-1")))
    entry = core.reservation(owners=[{"pod": {"name": "web-0"}}, {"pod": {"name": "web-1"}}])
    core.answer(gone=True)
    assert entry.phase is Phase.BOUND
    core.answer()
    assert (entry.phase, entry.bound_pod) == (Phase.CONSUMED, BoundPod(name="web-1", uid="uid-web-1"))


def test_a_pod_that_becomes_the_owner_of_an_active_reservation_is_woken() -> None:
    """Owners may be edited until Active is written.

    No event woke the new owners. A pod that had been refused, or gated until a reservation is active, waited
    on beside its own reservation.
    """
    core = Core(node("node-a", cpu="1"))
    core.reservation(owner="web-1")
    core.step()
    core.add(pod("web-0"))
    core.refuse()
    core.reservation(owner="web-0", version=2, generation=2)
    assert core.place().pod.meta.name == "web-0"


def test_a_pod_that_yielded_to_a_nominated_reservation_is_woken_when_that_is_removed() -> None:
    """A nominated reservation kept its capacity as a pod would, so NodeResourcesFit refused another pod.

    The pod got no event when the reservation held the capacity. When the reservation returned it, only pods
    that the Reservation plugin had refused were woken. The pod waited on beside an empty node.
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


def test_a_pod_is_woken_when_the_owner_of_two_reservations_uses_less_than_both() -> None:
    """Each reservation was compared with the owner alone, which was as large as one of them.

    The capacity of the other one came free without an event, and a pod that fits in it waited on.
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


def test_a_reservation_that_waits_for_a_volume_claim_is_tried_when_the_claim_appears() -> None:
    """Reservations were only retried when capacity came free.

    A reservation with a template that names a claim waited until its deadline, although the claim had
    appeared.
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


def test_two_pods_of_one_name_can_be_removed_in_any_order() -> None:
    """The removal of the second of two pods with one name ended the event handlers."""
    core = Core(node("node-a"))
    older, newer = (pod(uid=uid, node_name="node-a") for uid in ("uid-1", "uid-2"))
    core.add(older, newer)
    core.event_handlers.pods.remove(newer)
    core.event_handlers.pods.remove(older)
    assert core.used() == 0


def test_nothing_is_reserved_beside_an_owner_on_a_node_that_is_gone() -> None:
    """An operator started while the owner of a reservation was bound to a node that had gone.

    It kept the rest of the reserved amounts there until the API server had answered. The node came back in
    the meantime without the rest, which was then returned. The node had -2 CPU reserved, so 2 CPU were
    granted twice.
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


def test_a_reservation_that_could_not_grow_is_retried_when_it_may_move() -> None:
    """A reservation that grew beyond its node was refused, as a growing reservation stays on its node.

    Then its node was not ready for long, so it was free to move. It was in the queue already, and waited
    there until capacity came free.
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
