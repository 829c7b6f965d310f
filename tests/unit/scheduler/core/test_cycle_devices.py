"""Reservations hold devices for the claims of their pods."""

from typing import Any

import pytest

from builders import NOW, pod
from devices import (
    DRIVER,
    allocated,
    claim_template,
    claiming,
    device,
    device_class,
    device_slice,
    pod_template,
    put,
    request,
    resource_claim,
    wanting,
    wanting_all,
)
from tidelock.framework.events import Action, ClusterEvent, Resource
from tidelock.ledger.messages import holding_text
from tidelock.model.api.reservation import Phase
from tidelock.plugins.dynamic_resources.node_allocations import CANNOT_ALLOCATE
from tidelock.plugins.dynamic_resources.pod_claims import template_not_found
from tidelock.scheduler.core.outcomes import Unschedulable
from unit.scheduler.device_core import DeviceCore, held

GPU = "example.com/gpu"


def test_a_reservation_holds_a_device_and_names_it_in_its_status() -> None:
    core = DeviceCore()

    entry = core.lock()

    assert entry.phase is Phase.ACTIVE
    assert entry.message == holding_text(f"cpu 1 and device {DRIVER}/a/a-0", "node-a")
    assert core.status()["devices"] == [
        {
            "claim": "gpus",
            "resourceClaimTemplateName": "gpus",
            "request": "gpu",
            "deviceClassName": "gpu",
            "driver": DRIVER,
            "pool": "a",
            "device": "a-0",
        }
    ]


def test_a_stranger_gets_another_device_and_the_next_one_waits() -> None:
    core = DeviceCore()
    core.lock()

    first = core.placed("stranger-0")
    core.pod("stranger-1")

    assert core.devices_of(first.pod) == {"a-1"}
    assert CANNOT_ALLOCATE in core.refuse().diagnosis.message


def test_two_reservations_hold_two_devices_and_a_third_waits_until_one_ends() -> None:
    core = DeviceCore()
    entries = [core.lock(f"lock-{number}", owner=f"web-{number}") for number in range(3)]

    assert [held(entry) for entry in entries] == [{"a-0"}, {"a-1"}, set()]
    assert entries[2].phase is Phase.PENDING
    assert CANNOT_ALLOCATE in entries[2].message

    core.event_handlers.reservations.remove(entries[0].reservation)
    core.decide()

    assert held(entries[2]) == {"a-0"}


def test_the_owner_gets_exactly_the_held_device() -> None:
    core = DeviceCore(devices=3)
    core.bind(stranger := core.placed("stranger-0"))
    entry = core.lock()
    core.end(stranger.pod)
    assert held(entry) == {"a-1"}  # though a-0 is free now, and comes first

    owner = core.placed()
    assert entry.phase is Phase.BOUND
    core.bind(owner)

    assert core.devices_of(owner.pod) == {"a-1"}
    assert (entry.phase, held(entry)) == (Phase.CONSUMED, set())
    assert not core.objects.resource_claims.reserved
    assert "devices" not in core.status()


def test_the_devices_stay_held_until_the_owner_is_bound_and_are_back_if_that_fails() -> None:
    core = DeviceCore(devices=1)
    entry = core.lock()
    owner = core.placed()
    core.pod("stranger-0")
    assert isinstance(core.step(), Unschedulable)
    assert (entry.phase, held(entry)) == (Phase.BOUND, {"a-0"})

    core.decider.binding_failed(owner, NOW)

    assert (entry.phase, held(entry)) == (Phase.ACTIVE, {"a-0"})
    assert core.status()["devices"][0]["device"] == "a-0"


def test_devices_in_flight_that_come_back_wake_the_pods_that_lacked_them() -> None:
    """Bug: no claim shows devices in flight, so their return was no event for a pod that waited for some."""
    core = DeviceCore(devices=1)
    first = core.placed("web-0")
    core.pod("web-1")
    core.refuse()

    core.decider.binding_failed(first, NOW)

    assert core.place().pod.meta.name == "web-1"


def test_a_pod_gets_devices_of_an_older_class_once_the_newest_of_its_resource_is_gone() -> None:
    """Bug: the newest of several classes provides a resource, and its end was no event for pods."""
    core = DeviceCore()
    resource = "example.com/gpu"
    newest = device_class("newest", "false", resource=resource, created="2027-01-15T08:00:00Z")
    put(core.objects, device_class("older", resource=resource, created="2027-01-14T08:00:00Z"), newest)
    core.add(pod(requests={"cpu": "1", resource: "1"}))
    core.refuse()

    core.objects.device_classes.remove(newest)
    core.event_handlers.notify(ClusterEvent(Resource.DEVICE_CLASS, Action.DELETE), newest, None)

    assert core.place().node_name == "node-a"


def test_an_owner_keeps_its_written_devices_for_its_next_attempt() -> None:
    core = DeviceCore(devices=1)
    entry = core.lock()
    owner = core.placed()
    core.write(owner)
    core.decider.binding_failed(owner, NOW)
    core.wake()

    core.bind(core.place())

    assert core.devices_of(owner.pod) == {"a-0"}
    assert entry.phase is Phase.CONSUMED


def test_an_expired_reservation_frees_its_devices_for_those_that_wait() -> None:
    core = DeviceCore(devices=1)
    entry = core.lock(ttlSeconds=10)
    stranger = core.pod("stranger-0")
    core.refuse()

    core.clock.advance(10)
    core.decide()

    assert (entry.phase, held(entry)) == (Phase.EXPIRED, set())
    core.wake()
    core.decide()
    assert core.devices_of(stranger) == {"a-0"}


def test_an_owner_that_was_refused_is_tried_again_once_its_reservation_is_active() -> None:
    core = DeviceCore(devices=1)
    core.bind(stranger := core.placed("stranger-0"))
    entry = core.lock()
    owner = core.pod()
    core.refuse()
    assert entry.phase is Phase.PENDING

    core.end(stranger.pod)
    core.decide()
    core.clock.advance(30)  # the pod's backoff
    core.decide()

    assert core.devices_of(owner) == {"a-0"}


@pytest.mark.parametrize("template", ["gpus", "none"])
def test_a_reservation_waits_for_a_missing_template(template: str) -> None:
    core = DeviceCore()
    entry = core.lock("lock", template)
    if template == "none":
        assert template_not_found("shop", "none") in entry.message
        put(core.objects, claim_template("none"))
        core.decider.columns.freed += 1  # as the handler of the template does by its hint
        core.decide()
    assert entry.phase is Phase.ACTIVE


def test_a_reservation_for_an_existing_claim_holds_devices_for_it() -> None:
    core = DeviceCore()
    put(core.objects, resource_claim("shared"))
    entry = core.lock(template=pod_template(named=["shared"]))
    assert [(each.claim, each.device) for each in entry.devices] == [("shared", "a-0")]

    core.add(pod(**claiming("shared")))
    core.place()

    allocation = core.objects.resource_claims.in_flight.get(resource_claim("shared").key)
    assert allocation is not None
    assert [each.device for each in allocation.devices.results] == ["a-0"]


def test_a_reservation_for_an_allocated_claim_goes_to_its_node_and_holds_nothing() -> None:
    core = DeviceCore("node-a", "node-b")
    status = allocated("b-0", pool="b", node_name="node-b")
    put(core.objects, resource_claim("shared", status=status))

    entry = core.lock(template=pod_template(named=["shared"]))

    assert (entry.node, entry.devices) == ("node-b", ())


@pytest.mark.parametrize(
    ("wanted", "devices"),
    [
        ([request("gpu", wanting(count=2))], {"a-0", "a-1"}),
        ([request("gpu", wanting_all())], {"a-0", "a-1", "a-2"}),
        ([request("one"), request("two")], {"a-0", "a-1"}),
        ([request("gpu", wanting(adminAccess=True))], set()),
    ],
)
def test_all_devices_of_a_claim_are_held_but_not_those_with_admin_access(
    wanted: list[Any], devices: set[str]
) -> None:
    core = DeviceCore(devices=3)
    put(core.objects, claim_template("gpus", *wanted))

    entry = core.lock()
    assert held(entry) == devices

    owner = core.placed()
    core.bind(owner)
    assert core.devices_of(owner.pod) >= devices


def test_each_claim_of_the_owner_gets_the_devices_that_are_held_for_it() -> None:
    core = DeviceCore(devices=2)
    put(core.objects, claim_template("gpus-too"))
    entry = core.lock("lock", "gpus", "gpus-too")
    assert {each.claim: each.device for each in entry.devices} == {"gpus": "a-0", "gpus-too": "a-1"}

    owner = core.placed("web-0", "gpus-too", "gpus").pod

    claims = {claim.meta.name: claim.key for claim in core.claims_of(owner)}
    in_flight = core.objects.resource_claims.in_flight
    got = {name: in_flight.get(key) for name, key in claims.items()}
    assert {name: each.devices.results[0].device for name, each in got.items() if each is not None} == {
        "web-0-gpus": "a-0",
        "web-0-gpus-too": "a-1",
    }


def test_an_owner_that_claims_more_than_is_held_gets_free_devices_beside() -> None:
    core = DeviceCore(devices=3)
    core.lock()
    core.bind(core.placed("stranger-0"))
    put(core.objects, claim_template("more"))

    owner = core.placed("web-0", "more", "gpus").pod

    assert core.devices_of(owner) == {"a-0", "a-2"}


def test_a_share_of_a_device_is_held() -> None:
    core = DeviceCore(devices=0)
    shared = device("big", amounts={"memory": "8"}, allowMultipleAllocations=True)
    put(core.objects, device_slice("a", shared, node_name="node-a", version=2))
    part = request("gpu", wanting(capacity={"requests": {"memory": "5"}}))
    put(core.objects, claim_template("gpus", part))
    core.lock()
    (status,) = core.status()["devices"]
    assert status["consumedCapacity"] == {"memory": "5"}
    assert status["shareID"]

    core.pod("stranger-0")
    core.refuse()

    owner = core.placed().pod
    assert core.devices_of(owner) == {"big"}


def test_the_counters_of_a_held_partition_are_in_use() -> None:
    core = DeviceCore(devices=0)
    counters = [{"name": "card", "counters": {"memory": {"value": "8"}}}]
    parts = [
        device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "5"}}}])
        for name in ("left", "right")
    ]
    put(
        core.objects,
        device_slice("a", *parts, node_name="node-a", slices=2, version=2),
        device_slice("a-counters", pool="a", slices=2, node_name="node-a", sharedCounters=counters),
    )
    assert held(core.lock()) == {"left"}

    core.pod("stranger-0")
    core.refuse()

    assert core.devices_of(core.placed().pod) == {"left"}


def test_a_reusable_reservation_keeps_its_device_for_the_next_owner() -> None:
    core = DeviceCore(devices=1)
    entry = core.lock(reuse="Always")
    first = core.placed()
    core.bind(first)
    core.pod("stranger-0")
    core.refuse()
    assert (entry.phase, held(entry), core.devices_of(first.pod)) == (Phase.ACTIVE, {"a-0"}, {"a-0"})

    core.end(first.pod)
    core.decide()
    core.wake()
    core.decide()
    assert core.cache.get("uid-stranger-0") is None

    second = core.placed()
    assert core.devices_of(second.pod) == {"a-0"}


def test_an_edit_of_the_claims_lets_the_reservation_wait_again() -> None:
    core = DeviceCore(devices=1)
    put(core.objects, claim_template("more", request("gpu", wanting(count=2))))
    entry = core.lock()
    core.store()

    core.reservation(resources=None, template=pod_template("more"), version=9, generation=2)
    core.decide()

    assert (entry.phase, held(entry)) == (Phase.PENDING, set())
    assert CANNOT_ALLOCATE in entry.message


@pytest.mark.parametrize("named", [{"more": "more"}, {"gpus": "more"}, {"gpus": "gpus", "more": "more"}])
def test_an_edit_of_the_claims_while_the_owner_is_bound_lets_the_reservation_wait_again(
    named: dict[str, str],
) -> None:
    core = DeviceCore(devices=2)
    put(core.objects, claim_template("more", request("gpu", wanting(count=2))))
    entry = core.lock()
    assumed = core.placed()

    template = pod_template()
    template["spec"]["resourceClaims"] = [
        {"name": name, "resourceClaimTemplateName": of} for name, of in named.items()
    ]
    core.reservation(resources=None, template=template, version=9, generation=2)
    core.decider.binding_failed(assumed, NOW)

    assert (entry.phase, held(entry)) == (Phase.PENDING, set())
    assert "and the spec was edited" in entry.message


def test_a_growing_reservation_keeps_its_device() -> None:
    core = DeviceCore(devices=2)
    core.lock("first", owner="other")
    entry = core.lock()
    core.event_handlers.reservations.remove(core.entry("first").reservation)
    template = pod_template("gpus", cpu="2")

    core.reservation(resources=None, template=template, version=9, generation=2)
    core.decide()

    assert (entry.reserved["cpu"], held(entry)) == (2000, {"a-1"})


def test_a_reservation_that_leaves_its_node_holds_a_device_of_the_other() -> None:
    core = DeviceCore("node-a", "node-b")
    entry = core.lock()
    assert held(entry) == {"a-0"}
    (gone,) = [each for each in core.decider.columns.nodes if each.name == "node-a"]

    core.event_handlers.nodes.remove(gone)
    core.decide()

    assert (entry.node, held(entry)) == ("node-b", {"b-0"})


def test_one_of_several_reservations_for_a_workload_gives_its_own_device() -> None:
    core = DeviceCore(devices=2)
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    small = core.lock("small", owners=owners, template=pod_template("gpus", cpu="1"))
    large = core.lock("large", owners=owners, template=pod_template("gpus", cpu="4"))
    assert (held(small), held(large)) == ({"a-0"}, {"a-1"})

    core.pod("web-7", labels={"app": "web"}, requests={"cpu": "4"})
    placed = core.place()

    assert (small.phase, large.phase) == (Phase.ACTIVE, Phase.BOUND)
    assert core.devices_of(placed.pod) == {"a-1"}


def test_a_borrower_gets_no_device_of_a_reservation() -> None:
    core = DeviceCore(devices=1)
    core.lock(borrowable=True)

    core.pod("stranger-0", annotations={"tidelock.dev/borrows": "true"})

    assert CANNOT_ALLOCATE in core.refuse().diagnosis.message


def test_an_owner_goes_elsewhere_if_only_a_reservation_that_it_leaves_to_others_has_devices() -> None:
    core = DeviceCore("node-a", "node-b", devices=1)
    core.reservation("mine", nodeName="node-a")
    entry = core.lock(nodeName="node-a", owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    put(core.objects, device_class("gpu", resource=GPU))

    core.add(pod(requests={"cpu": "1", GPU: "1"}, labels={"app": "web"}))

    assert core.place().node_name == "node-b"
    assert held(entry) == {"a-0"}


def test_an_attempt_that_was_undone_wakes_no_pod_that_waits_for_devices() -> None:
    core = DeviceCore(devices=1)
    core.lock(borrowable=True)
    core.pod("stranger-0")
    core.refuse()
    core.decide()
    before = list(core.enqueued)

    borrower = pod("stranger-1", annotations={"tidelock.dev/borrows": "true"})
    core.cache.assume(borrower, "node-a")
    core.cache.forget(borrower.uid)
    core.decide()

    assert core.enqueued == before
