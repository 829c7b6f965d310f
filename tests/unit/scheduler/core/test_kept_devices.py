"""A pod that could not be bound keeps written devices of its reservation, which then is for that pod alone.

Regression: another owner took the reservation without its device, or the pod took another reservation. Then a
device was both in use and reserved.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from builders import NOW, pod
from devices import (
    claim_template,
    claiming,
    device,
    device_slice,
    pod_template,
    put,
    request,
    resource_claim,
    wanting,
)
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.device_core import DeviceCore, held
from unit.scheduler.gang import Gang

WEB, JOB = {"app": "web"}, {"job": "train"}


class Workload(DeviceCore):
    """Pods and reservations of one workload."""

    def lock(self, name: str = "lock", *templates: str, **fields: Any) -> ReservationInfo:
        owners = {"owners": [{"selector": {"matchLabels": WEB}}]}
        return super().lock(name, *templates, **(owners | fields))

    def owner(self, name: str = "web-0") -> AssumedPod:
        return self.placed(name, labels=WEB)

    def fail(self, name: str = "web-0") -> AssumedPod:
        """Place an owner and let its binding fail after its claims are written."""
        owner = self.owner(name)
        self.write(owner)
        self.decide()
        self.decider.binding_failed(owner, NOW)
        return owner


def test_another_owner_takes_a_reservation_whose_device_is_free() -> None:
    core = Workload(devices=3)
    first, second = core.lock("first"), core.lock("second")
    failed = core.fail()
    assert (held(first), held(second), core.devices_of(failed.pod)) == ({"a-0"}, {"a-1"}, {"a-0"})

    other = core.owner("web-1")

    assert (first.phase, second.phase) == (Phase.ACTIVE, Phase.BOUND)
    assert core.devices_of(other.pod) == {"a-1"}


def test_the_only_reservation_is_for_the_pod_with_its_device() -> None:
    core = Workload(devices=2)
    entry = core.lock()
    failed = core.fail()

    other = core.owner("web-1")
    assert (entry.phase, core.devices_of(other.pod)) == (Phase.ACTIVE, {"a-1"})

    core.wake()
    core.bind(core.place())
    assert (entry.phase, core.devices_of(failed.pod)) == (Phase.CONSUMED, {"a-0"})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pod_takes_the_reservation_whose_device_it_has(restarts: bool) -> None:
    core = Workload(devices=2)
    entry = core.lock("second")
    failed = core.fail()
    better = core.lock("first")
    assert (held(better), held(entry)) == ({"a-1"}, {"a-0"})
    if restarts:
        stored = [core.status(name) for name in ("first", "second")]
        claims = core.claims_of(failed.pod)
        core = Workload(devices=2, listed=False)
        put(core.objects, *claims)
        core.add(failed.pod)
        owners = [{"selector": {"matchLabels": WEB}}]
        for name, status in zip(("first", "second"), stored, strict=True):
            fields = {"template": pod_template("gpus"), "owners": owners, "status": status}
            core.reservation(name, resources=None, **fields)
        core.list_all()
        better, entry = core.entry("first"), core.entry("second")

    core.wake()
    core.bind(core.place())

    assert (better.phase, entry.phase) == (Phase.ACTIVE, Phase.CONSUMED)
    assert (held(better), core.devices_of(failed.pod)) == ({"a-1"}, {"a-0"})


def test_a_pod_takes_the_member_of_a_group_whose_device_it_has() -> None:
    core = Workload(devices=2)
    gang = Gang(core)
    for number, cpu in enumerate(("2", "1")):
        gang.member(number, resources=None, template=pod_template("gpus", cpu=cpu))
    gang.give()
    assert (held(gang[0]), held(gang[1])) == ({"a-0"}, {"a-1"})
    failed = core.placed("web-0", labels=JOB)
    core.write(failed)
    core.decider.binding_failed(failed, NOW)
    gang.member(0, resources=None, template=pod_template("gpus", cpu="1"))
    gang.settle()

    core.wake()
    core.bind(core.place())

    assert gang.phases == [Phase.ACTIVE, Phase.CONSUMED]
    assert (held(gang[0]), core.devices_of(failed.pod)) == ({"a-0"}, {"a-1"})


def test_another_pod_takes_another_member_of_a_group() -> None:
    core = Workload(devices=2)
    gang = Gang(core).come(resources=None, template=pod_template("gpus"))
    gang.give()
    failed = core.placed("web-0", labels=JOB)
    core.write(failed)
    core.decider.binding_failed(failed, NOW)

    other = core.placed("web-1", labels=JOB)

    assert gang.phases == [Phase.ACTIVE, Phase.BOUND]
    assert (core.devices_of(failed.pod), core.devices_of(other.pod)) == ({"a-0"}, {"a-1"})


@pytest.mark.parametrize(("memory", "phase"), [("3", Phase.CONSUMED), ("5", Phase.ACTIVE)])
def test_a_share_is_kept_if_there_is_not_enough_for_two(memory: str, phase: Phase) -> None:
    core = Workload(devices=0)
    for name in ("first", "second"):
        shared = device(name, amounts={"memory": "8"}, allowMultipleAllocations=True)
        put(core.objects, device_slice(name, shared, node_name="node-a"))
    part = request("gpu", wanting(capacity={"requests": {"memory": memory}}))
    put(core.objects, claim_template("gpus", part))
    entry = core.lock()
    core.fail()  # as much is in use and held

    core.bind(core.owner("web-1"))

    assert entry.phase is phase


def test_a_reusable_reservation_stays_open_to_all_owners() -> None:
    core = Workload(devices=2)
    entry = core.lock(reuse="Always", template=pod_template("gpus", cpu="2"))
    first = core.fail()

    second = core.owner("web-1")

    assert (core.devices_of(first.pod), core.devices_of(second.pod)) == ({"a-0"}, {"a-1"})
    assert set(entry.occupants) == {second.pod.uid}


def test_the_other_devices_of_its_reservation_are_for_the_pod_too() -> None:
    core = Workload(devices=4)
    put(core.objects, claim_template("gpus-too"))
    entry = core.lock("lock", "gpus", "gpus-too")
    owner = core.placed("web-0", "gpus", "gpus-too", labels=WEB)
    first, _ = core.claims_of(owner.pod)
    allocation = core.objects.resource_claims.in_flight.get(first.key)
    put(core.objects, replace(first, status=replace(first.status, allocation=allocation)))
    core.decider.binding_failed(owner, NOW)

    core.wake()
    core.bind(core.place())

    assert (entry.phase, core.devices_of(owner.pod)) == (Phase.CONSUMED, {"a-0", "a-1"})


@pytest.mark.parametrize("end", ["the pod goes", "its claim is freed"])
def test_the_reservation_is_for_all_owners_again_once_its_device_is_free(end: str) -> None:
    core = Workload(devices=1)
    entry = core.lock()
    failed = core.fail()
    other = core.pod("web-1", labels=WEB)
    core.refuse()

    if end == "the pod goes":
        core.end(failed.pod)
    else:
        (claim,) = core.claims_of(failed.pod)
        core.event_handlers.pods.remove(failed.pod)
        put(core.objects, replace(claim, status=replace(claim.status, allocation=None)))
    core.decide()
    core.clock.advance(30)  # the pod's backoff
    core.decide()

    assert (entry.phase, core.devices_of(other)) == (Phase.BOUND, {"a-0"})


@pytest.mark.parametrize("asked", [False, True])
def test_a_pod_that_is_no_longer_an_owner_by_its_labels_keeps_its_device(asked: bool) -> None:
    core = Workload(devices=2)
    entry = core.lock()
    failed = core.fail()
    core.decide()
    assert not asked or not core.ledger.ownership.of(pod("web-1", labels=WEB))

    meta = replace(failed.pod.meta, labels={"app": "db"}, resource_version="9")
    core.event_handlers.pods.upsert(failed.pod, replace(failed.pod, metadata=meta))
    core.decide()

    assert (entry.phase, held(entry), core.devices_of(failed.pod)) == (Phase.ACTIVE, {"a-1"}, {"a-0"})


@pytest.mark.parametrize(("name", "devices"), [("web-0", {"a-0"}), ("web-1", {"a-1"})])
def test_an_edit_of_the_owners_leaves_the_device_to_the_pod_that_keeps_it(
    name: str, devices: set[str]
) -> None:
    core = Workload(devices=2)
    entry = core.lock()
    failed = core.fail()

    core.lock(owners=[{"pod": {"name": name}}], generation=2)

    assert (entry.phase, held(entry), core.devices_of(failed.pod)) == (Phase.ACTIVE, devices, {"a-0"})


def test_a_claim_that_is_being_deleted_keeps_nothing() -> None:
    core = Workload(devices=2)
    entry = core.lock()
    failed = core.fail()
    (claim,) = core.claims_of(failed.pod)
    gone = replace(claim.meta, deletion_timestamp=datetime(2027, 1, 15, 8, tzinfo=UTC))
    put(core.objects, replace(claim, metadata=gone))

    core.owner("web-1")

    assert entry.phase is Phase.BOUND


def test_the_next_pod_of_a_name_does_not_wait_for_the_claim_of_the_last_one() -> None:
    core = Workload(devices=2)
    entry = core.lock(owners=[{"pod": {"name": "web-0"}}])
    failed = core.fail()
    core.event_handlers.pods.remove(failed.pod)
    next_one = pod("web-0", uid="uid-next", **claiming("next"))
    put(core.objects, resource_claim("next"))

    core.add(next_one)
    core.place()

    assert entry.phase is Phase.BOUND


def test_a_reservation_that_ends_is_kept_for_no_one() -> None:
    core = Workload(devices=1)
    entry = core.lock(ttlSeconds=10)
    core.fail()
    core.pod("web-1", labels=WEB)
    core.refuse()
    assert list(core.ledger.holdings.kept.values()) == [entry]

    core.clock.advance(10)
    core.decide()

    assert entry.phase is Phase.EXPIRED
    assert not core.ledger.holdings.kept


def test_a_stranger_that_names_the_claim_keeps_nothing() -> None:
    core = Workload(devices=2)
    entry = core.lock()
    failed = core.fail()
    core.event_handlers.pods.remove(failed.pod)
    core.add(pod("other", requests={"cpu": "1"}, **claiming("web-0-gpus")))

    assert core.ledger.ownership.of(core.pod("web-1", labels=WEB)) == [entry]
