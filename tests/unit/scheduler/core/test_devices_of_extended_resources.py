"""Reservations of extended resources hold devices on nodes that have none of the resource themselves."""

from typing import Any

import pytest

from builders import NAMESPACE, NOW, Json, encode, node, node_json, pod, quota
from devices import DRIVER, allocated, device_class, pod_template, put, resource_claim
from tidelock.ledger.messages import holding_text, overcommitted_text, taken_text
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod
from tidelock.plugins.dynamic_resources.node_allocations import CANNOT_ALLOCATE
from unit.scheduler.device_core import DeviceCore, held

GPU, GPUS = "example.com/gpu", "gpu.deviceclass.resource.k8s.io/devices"


class GpuCore(DeviceCore):
    """Nodes with devices that provide GPUs."""

    def __init__(self, *names: str, devices: int = 2) -> None:
        super().__init__(*names, devices=devices)
        self.classes = self.event_handlers.others["device_classes"]
        self.classes.upsert(None, device_class("gpu", resource=GPU))

    def gpus(self, count: int, name: str = "lock", **fields: Any) -> ReservationInfo:
        """Deliver a reservation of a core and some GPUs, and decide."""
        entry = self.reservation(name, **{"resources": {"cpu": "1", GPU: str(count)}} | fields)
        self.decide()
        return entry

    def wanting(self, name: str, count: int = 1, **fields: Any) -> Pod:
        """Deliver a pod that wants some GPUs."""
        arrived = pod(name, requests={"cpu": "1", GPU: str(count)}, **fields)
        self.add(arrived)
        return arrived

    def in_flight(self, wanting: Pod) -> set[str]:
        """Return the devices that are in flight for the extended resources of a pod."""
        claims = self.objects.resource_claims
        name = f"<extended-resources> of {wanting.uid}"
        allocation = claims.in_flight.get(resource_claim(name).key)
        return set() if allocation is None else {each.device for each in allocation.devices.results}


def test_a_reservation_holds_devices_and_names_the_resource_that_they_provide() -> None:
    core = GpuCore()

    entry = core.gpus(1)

    assert entry.message == holding_text(f"cpu 1, {GPU} 1 and device {DRIVER}/a/a-0", "node-a")
    assert core.status()["resources"] == {"cpu": "1", GPU: "1"}
    assert core.status()["devices"] == [
        {
            "resourceName": GPU,
            "request": "container-0-request-1",
            "deviceClassName": "gpu",
            "driver": DRIVER,
            "pool": "a",
            "device": "a-0",
        }
    ]


@pytest.mark.parametrize("by_claim", [False, True])
def test_strangers_get_other_devices_and_the_owner_exactly_the_held_one(by_claim: bool) -> None:
    core = GpuCore(devices=3)
    first = core.placed("before") if by_claim else core.wanting("before")
    if not by_claim:
        core.place()
    core.gpus(1)

    stranger = core.placed("stranger-0").pod if by_claim else core.wanting("stranger-0")
    if not by_claim:
        core.place()
    core.wanting("stranger-1")
    assert CANNOT_ALLOCATE in core.refuse().diagnosis.message

    owner = core.wanting("web-0")
    core.place()
    assert first is not None
    assert core.in_flight(owner) == {"a-1"}
    assert (core.devices_of(stranger) if by_claim else core.in_flight(stranger)) == {"a-2"}


def test_several_containers_of_the_owner_share_the_held_devices() -> None:
    core = GpuCore(devices=3)
    core.gpus(2)
    container: Json = {"image": "x", "resources": {"requests": {GPU: "1"}}}
    owner = pod(containers=[container | {"name": "a"}, container | {"name": "b"}])
    core.add(owner)
    core.place()
    assert core.in_flight(owner) == {"a-0", "a-1"}


def test_claims_and_extended_resources_of_a_template_hold_different_devices() -> None:
    core = GpuCore(devices=3)
    template = pod_template("gpus")
    template["spec"]["containers"][0]["resources"]["requests"][GPU] = "2"
    entry = core.lock(template=template)
    found = {each.device: each.claim or each.resource_name for each in entry.devices}
    assert found == {"a-0": "gpus", "a-1": GPU, "a-2": GPU}
    assert core.gpus(1, "other").phase is Phase.PENDING


def test_a_pod_of_the_same_name_gets_other_devices_than_its_predecessor_in_binding() -> None:
    core = GpuCore(devices=3)
    first = core.wanting("web-0", uid="first")
    core.place()
    core.event_handlers.pods.remove(first)
    second = core.wanting("web-0", uid="second")
    core.place()
    third = core.wanting("web-1")
    core.place()
    assert [core.in_flight(each) for each in (first, second, third)] == [{"a-0"}, {"a-1"}, {"a-2"}]


def test_a_failed_binding_gives_the_devices_back() -> None:
    core = GpuCore(devices=1)
    entry = core.gpus(1)
    core.wanting("web-0")
    assumed = core.place()
    assert entry.phase is Phase.BOUND

    core.decider.binding_failed(assumed, NOW)

    assert (entry.phase, held(entry), entry.reserved[GPU]) == (Phase.ACTIVE, {"a-0"}, 1)
    core.wanting("stranger-0")
    core.wake()
    core.decide()
    assert [each.pod.meta.name for each in core.cache.pods_in(NAMESPACE)] == ["web-0"]


def test_devices_are_free_for_those_that_wait_after_the_end() -> None:
    core = GpuCore(devices=1)
    core.gpus(1, ttlSeconds=10)
    stranger = core.wanting("stranger-0")
    core.refuse()
    core.clock.advance(10)
    core.decide()
    core.clock.advance(30)  # the pod's backoff
    core.decide()
    assert core.in_flight(stranger) == {"a-0"}


def test_a_node_with_the_resource_itself_holds_amounts_alone() -> None:
    core = GpuCore(devices=0)
    core.event_handlers.nodes.upsert(None, node("node-b", cpu="64", **{GPU: "2"}))
    entry = core.gpus(2)
    assert (entry.node, entry.devices, core.reserved("node-b", GPU)) == ("node-b", (), 2)
    core.wanting("stranger-0")
    core.refuse()


def test_a_restart_restores_the_devices() -> None:
    core = GpuCore()
    core.gpus(1)
    status = core.status()
    later = GpuCore()
    entry = later.gpus(1, status=status, version=3)
    assert (entry.phase, held(entry), entry.reserved) == (
        Phase.ACTIVE,
        {"a-0"},
        {"cpu": 1000, GPU: 1, "pods": 1},
    )
    later.wanting("stranger-0", 2)
    later.refuse()


@pytest.mark.parametrize(("count", "devices"), [(1, {"a-0"}), (2, {"a-0", "a-1"}), (3, {"a-0", "a-1"})])
def test_an_edit_while_no_operator_ran_keeps_the_devices(count: int, devices: set[str]) -> None:
    core = GpuCore()
    core.gpus(2)
    status = core.status()
    later = GpuCore()
    entry = later.gpus(count, status=status, version=3, generation=2, priority=1)
    assert (entry.phase, held(entry), entry.reserved[GPU]) == (Phase.ACTIVE, devices, len(devices))


def test_a_smaller_amount_frees_devices_at_once() -> None:
    core = GpuCore()
    entry = core.gpus(2)
    core.store()
    waiting = core.wanting("stranger")
    core.refuse()

    core.reservation(resources={"cpu": "1", GPU: "1"}, version=9, generation=2)
    assert (entry.phase, held(entry), entry.reserved[GPU]) == (Phase.ACTIVE, {"a-0"}, 1)
    core.place()
    assert core.in_flight(waiting) == {"a-1"}


@pytest.mark.parametrize("edited", [{"cpu": "1"}, {"cpu": "1", GPU: "0"}])
def test_a_resource_that_is_no_longer_asked_for_frees_its_devices(edited: dict[str, str]) -> None:
    core = GpuCore()
    entry = core.gpus(2)
    core.reservation(resources=edited, version=9, generation=2)
    core.decide()
    assert (entry.phase, entry.devices, entry.reserved.get(GPU, 0)) == (Phase.ACTIVE, (), 0)


def test_a_larger_amount_waits_beside_the_devices_until_there_are_more() -> None:
    core = GpuCore(devices=3)
    other = core.gpus(1, "other", owner="other")
    entry = core.gpus(1)
    core.store()
    core.gpus(3, version=9, generation=2)
    assert (entry.phase, held(entry), entry.reserved[GPU]) == (Phase.ACTIVE, {"a-1"}, 1)
    assert CANNOT_ALLOCATE in entry.resize_problem

    core.event_handlers.reservations.remove(other.reservation)
    core.wake()
    core.decide()
    assert (entry.phase, held(entry), entry.reserved[GPU]) == (Phase.ACTIVE, {"a-0", "a-1", "a-2"}, 3)
    assert entry.resize_problem == ""


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("count", "devices"), [(1, {"a-0"}), (3, {"a-0", "a-1"})])
def test_an_edit_while_the_owner_is_bound_leaves_the_devices_that_are_still_asked_for(
    count: int, devices: set[str], restarts: bool
) -> None:
    core = GpuCore(devices=3)
    entry = core.gpus(2)
    core.wanting("web-0", 2)
    assumed = core.place()
    edited: Json = {"resources": {"cpu": "1", GPU: str(count)}, "version": 9, "generation": 2}
    core.reservation(**edited)
    if restarts:
        status = core.status()
        core = GpuCore(devices=3)
        entry = core.reservation(**edited, status=status)
    else:
        core.decider.binding_failed(assumed, NOW)
    assert (entry.phase, held(entry), entry.reserved[GPU]) == (Phase.ACTIVE, devices, len(devices))


def test_a_former_owner_in_binding_takes_its_device_from_a_reusable_reservation() -> None:
    core = GpuCore()
    entry = core.gpus(1, reuse="Always", owner="web-0")
    former = core.wanting("web-0")
    assumed = core.place()

    core.gpus(1, reuse="Always", owner="web-1", version=9, generation=2)
    assert (held(entry), core.in_flight(former)) == ({"a-0"}, {"a-0"})
    assert core.decider.taken_devices.unsettled

    core.bind(assumed)
    core.decide()
    assert (entry.phase, held(entry)) == (Phase.ACTIVE, {"a-1"})


def test_another_amount_grows_beside_the_same_devices() -> None:
    core = GpuCore()
    core.gpus(1, "first", owner="other")
    entry = core.gpus(1)
    core.event_handlers.reservations.remove(core.entry("first").reservation)
    core.reservation(resources={"cpu": "2", GPU: "1"}, version=9, generation=2)
    core.decide()
    assert (entry.reserved["cpu"], held(entry)) == (2000, {"a-1"})


def test_a_reservation_leaves_a_node_that_no_longer_has_the_resource_itself() -> None:
    core = GpuCore("node-a", "node-b", devices=0)
    have = node("node-b", cpu="64", **{GPU: "2"})
    core.event_handlers.nodes.upsert(None, have)
    entry = core.gpus(1)
    assert entry.node == "node-b"

    core.event_handlers.nodes.upsert(have, node("node-b", cpu="64", version=2))

    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.OVERCOMMITTED)
    assert entry.message == overcommitted_text("node-b", f"{GPU} 1")


def test_a_reservation_of_no_devices_lacks_none() -> None:
    core = GpuCore(devices=0)
    entry = core.gpus(0)
    core.event_handlers.settle(entry.node)
    assert (entry.phase, entry.node, entry.devices) == (Phase.ACTIVE, "node-a", ())


def test_a_reservation_keeps_its_amounts_while_its_node_can_not_be_read() -> None:
    core = GpuCore(devices=0)
    have, bad = node("node-b", **{GPU: "2"}), node_json("node-b", version=2)
    core.event_handlers.nodes.upsert(None, have)
    entry = core.gpus(1)
    bad["status"]["allocatable"] = "none"
    unreadable = decode_node(encode(bad))
    assert unreadable.meta.unreadable

    core.event_handlers.nodes.upsert(have, unreadable)

    assert (entry.phase, entry.node, entry.reserved[GPU]) == (Phase.ACTIVE, "node-b", 1)


def test_a_reservation_loses_devices_that_no_longer_provide_the_resource() -> None:
    core = GpuCore()
    entry = core.gpus(1)
    claimed = core.lock("claimed", owner="other")

    core.classes.upsert(device_class("gpu", resource=GPU), device_class("gpu"))

    assert (entry.phase, entry.reason, held(entry)) == (Phase.PENDING, reasons.OVERCOMMITTED, set())
    assert held(claimed) == {"a-1"}
    core.decide()
    assert entry.phase is Phase.PENDING
    core.classes.upsert(device_class("gpu"), device_class("gpu", resource=GPU))
    core.decide()
    assert (entry.phase, held(entry)) == (Phase.ACTIVE, {"a-0"})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_reservation_loses_devices_of_a_class_that_no_longer_provides_the_resource(restarts: bool) -> None:
    core = GpuCore()
    entry = core.gpus(1)
    status = core.status()
    newer = device_class("new", "device.driver == 'none'", resource=GPU, created="2027-01-15T08:00:00Z")

    if restarts:
        core = GpuCore()
        core.classes.upsert(None, newer)
        entry = core.reservation(resources={"cpu": "1", GPU: "1"}, status=status, version=3)
    else:
        core.classes.upsert(None, newer)
    core.decide()
    assert (entry.phase, held(entry)) == (Phase.PENDING, set())

    core.classes.remove(newer)
    core.decide()
    assert (entry.phase, held(entry)) == (Phase.ACTIVE, {"a-0"})


def test_a_claim_of_others_takes_a_held_device() -> None:
    core = GpuCore(devices=1)
    entry = core.gpus(1)
    core.pod("thief")
    put(core.objects, resource_claim("thief-gpus", owner="thief", status=allocated("a-0", users=["thief"])))
    core.decide()
    assert entry.violation == taken_text("claim shop/thief-gpus", f"device {DRIVER}/a/a-0", "node-a")
    assert (entry.phase, held(entry)) == (Phase.PENDING, set())


def test_a_window_holds_its_devices_from_the_decision_on() -> None:
    core = GpuCore()
    entry = core.gpus(1, startAt="2027-01-15T09:00:00Z", pendingDeadlineSeconds=7200)
    assert (entry.phase, held(entry)) == (Phase.PLANNED, {"a-0"})
    core.wanting("stranger-0", 2)
    core.refuse()
    core.clock.advance(3600)
    core.decide()
    assert (entry.phase, held(entry)) == (Phase.ACTIVE, {"a-0"})


@pytest.mark.parametrize(("devices", "expected"), [(2, ["a-0", "a-1"]), (1, [])])
def test_the_members_of_a_group_hold_different_devices_or_none(devices: int, expected: list[str]) -> None:
    core = GpuCore(devices=devices)
    group = {"name": "train", "uid": "uid-train", "members": 2, "minMembers": 2}
    entries = [core.gpus(1, f"train-{number}", owner=f"web-{number}", group=group) for number in range(2)]
    assert sorted(name for each in entries for name in held(each)) == expected


def test_a_reusable_reservation_keeps_its_devices_for_the_next_owner() -> None:
    core = GpuCore(devices=1)
    entry = core.gpus(1, reuse="Always")
    owner = core.wanting("web-0")
    core.place()
    core.wanting("stranger-0")
    core.refuse()
    assert (entry.phase, held(entry), core.in_flight(owner)) == (Phase.ACTIVE, {"a-0"}, {"a-0"})


def test_quotas_count_the_devices_before_and_after_the_decision() -> None:
    core = GpuCore()
    quotas = core.objects.reservation_quotas
    quotas.upsert(None, quota("devices", devices={"gpu": 1}))
    entry = core.gpus(2)
    assert (entry.reason, entry.devices) == (reasons.QUOTA_EXCEEDED, ())
    assert f"requested: {GPUS}=2" in entry.message
    core.gpus(1, "small")
    assert core.ledger.quotas.used(NAMESPACE).reserved[GPUS] == 1
