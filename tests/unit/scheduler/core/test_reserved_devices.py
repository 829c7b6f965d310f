"""Held devices after restarts and in groups, and what users are told about them."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import NOW, Json, pod, reservation
from devices import DRIVER, claim_template, pod_template, put, request, wanting
from tidelock.ledger.messages import holding_text
from tidelock.model.api.reservation import Phase, ReservationSpec
from tidelock.plugins.dynamic_resources.pod_claims import template_not_found
from unit.scheduler.device_core import DeviceCore, held
from unit.scheduler.machinery import HELD

FIRST: Json = {
    "claim": "gpus",
    "resourceClaimTemplateName": "gpus",
    "request": "gpu",
    "deviceClassName": "gpu",
    "driver": DRIVER,
    "pool": "a",
    "device": "a-0",
}


def holding(*devices: str, **status: Any) -> Json:
    """Build the status of a reservation that an earlier process has given devices of node-a."""
    return HELD | {"devices": [FIRST | {"device": each} for each in devices]} | status


def restarted(core: DeviceCore, *names: str, **status: Any) -> None:
    """List reservations with these statuses, and everything else."""
    for name in names:
        made = status.get(name.replace("-", "_"), holding("a-1"))
        core.reservation(name, resources=None, template=pod_template("gpus"), status=made, owner=name)
    core.list_all()
    core.decide()


@pytest.mark.parametrize("phase", ["Active", "Bound"])
def test_a_restart_restores_the_held_devices_before_the_first_decision(phase: str) -> None:
    core = DeviceCore(listed=False)
    core.pod("stranger-0")
    core.pod("stranger-1")

    restarted(core, "lock", lock=holding("a-0", phase=phase))

    assert held(core.entry()) == {"a-0"}
    strangers = [core.cache.get(f"uid-stranger-{number}") for number in (0, 1)]
    assert [each is not None for each in strangers] == [True, False]
    assert core.status()["devices"] == [FIRST]


def test_a_restored_owner_gets_the_device_of_the_status() -> None:
    core = DeviceCore(devices=3, listed=False)
    restarted(core, "web-0", web_0=holding("a-2"))

    assert core.devices_of(core.placed("web-0").pod) == {"a-2"}


@pytest.mark.parametrize(
    ("claims", "phase"), [(["gpus"], Phase.ACTIVE), (["more"], Phase.PENDING), ([], Phase.PENDING)]
)
def test_a_reservation_with_other_claims_since_waits_again_after_a_restart(
    claims: list[str], phase: Phase
) -> None:
    core = DeviceCore(listed=False)
    core.reservation(
        resources=None, template=pod_template(*claims), status=holding("a-0"), generation=2, version=2
    )

    assert core.entry().phase is phase
    assert held(core.entry()) == ({"a-0"} if phase is Phase.ACTIVE else set())


@pytest.mark.parametrize(
    ("of_status", "of_spec", "phase"),
    [
        ("gpus", "gpus", Phase.ACTIVE),
        ("gpus", "more", Phase.PENDING),
        (None, "more", Phase.ACTIVE),  # an earlier version has written the status
    ],
)
@pytest.mark.parametrize("generation", [1, 2])
def test_a_claim_with_another_template_since_waits_again_after_a_restart(
    of_status: str | None, of_spec: str, phase: Phase, generation: int
) -> None:
    core = DeviceCore(listed=False)
    template = pod_template("gpus")
    template["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] = of_spec
    devices = [FIRST | {"resourceClaimTemplateName": of_status}]
    status = holding() | {"devices": devices, "observedGeneration": 1}

    core.reservation(resources=None, template=template, status=status, generation=generation, version=2)

    assert core.entry().phase is phase


def test_of_two_reservations_with_one_device_the_newer_one_waits() -> None:
    core = DeviceCore(devices=1, listed=False)
    later = holding("a-0", activatedAt="2027-01-15T07:59:30Z")

    restarted(core, "first", "second", first=holding("a-0"), second=later)

    first, second = core.entry("first"), core.entry("second")
    assert (held(first), first.phase) == ({"a-0"}, Phase.ACTIVE)
    assert (held(second), second.phase) == (set(), Phase.PENDING)


@pytest.mark.parametrize("amount", ["x", "1.2.3"])
def test_a_status_with_a_bad_amount_is_not_trusted(amount: str) -> None:
    core = DeviceCore(devices=1, listed=False)
    devices = [FIRST | {"shareID": "x", "consumedCapacity": {"memory": amount}}]

    restarted(core, "lock", lock=HELD | {"devices": devices})

    assert held(core.entry()) == {"a-0"}  # decided again


def member(core: DeviceCore, number: int, members: int, **fields: Any) -> None:
    group = {"name": "train", "uid": "uid-train", "members": members, "minMembers": members}
    fields = {"resources": None, "template": pod_template("gpus"), "group": group} | fields
    core.reservation(f"train-{number}", owner=f"web-{number}", **fields)


def test_the_members_of_a_group_hold_different_devices_or_none() -> None:
    core = DeviceCore("node-a", "node-b")
    for number in range(4):
        member(core, number, 4)
    core.decide()
    entries = [core.entry(f"train-{number}") for number in range(4)]
    assert sorted(name for each in entries for name in held(each)) == ["a-0", "a-1", "b-0", "b-1"]


def test_a_group_that_lacks_one_device_holds_none() -> None:
    core = DeviceCore()
    for number in range(3):
        member(core, number, 3)
    core.decide()

    entries = [core.entry(f"train-{number}") for number in range(3)]
    assert [held(each) for each in entries] == [set()] * 3
    assert not core.objects.resource_claims.reserved
    assert "2 fit" in entries[0].message
    core.bind(core.placed("stranger-0"))  # trials left nothing behind
    core.bind(core.placed("stranger-1"))


def test_a_refused_pod_is_told_which_reservations_hold_the_devices() -> None:
    core = DeviceCore(devices=1)
    core.lock()
    core.pod("stranger-0")

    message = core.refuse().diagnosis.message

    assert f"node-a: device {DRIVER}/a/a-0 reserved by shop/lock" in message


def test_a_reservation_names_the_first_devices_of_many() -> None:
    core = DeviceCore(devices=5)
    put(core.objects, claim_template("gpus", request("gpu", wanting(count=5))))

    message = core.lock().message

    names = ", ".join(f"{DRIVER}/a/a-{number}" for number in range(3))
    assert message == holding_text(f"cpu 1 and devices {names} and 2 more", "node-a")


def test_equal_reservations_of_other_namespaces_are_decided_by_their_own_templates() -> None:
    core = DeviceCore()
    template = pod_template("gpus")
    refused = core.reservation("other", namespace="mall", resources=None, template=template)
    entry = core.lock()
    assert template_not_found("mall", "gpus") in refused.message
    assert entry.phase is Phase.ACTIVE


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"startAt": "2027-02-01T00:00:00Z"}, "spec.startAt is refused beside resourceClaims"),
        ({}, ""),
    ],
)
def test_a_window_holds_no_devices(fields: Json, problem: str) -> None:
    made = reservation(resources=None, template=pod_template("gpus"), **fields)
    assert made.problem.startswith(problem)
    assert bool(made.problem) is bool(problem)


def test_the_members_of_a_group_share_no_claim() -> None:
    group = {"name": "train", "uid": "uid-train", "members": 1, "minMembers": 1}
    made = reservation(resources=None, template=pod_template(named=["one"]), group=group)
    assert made.problem.startswith("spec.template.spec.resourceClaims: resourceClaimName is refused")


def test_the_claims_of_a_template_are_validated() -> None:
    template = pod_template("gpus")
    template["spec"]["resourceClaims"] *= 17
    with pytest.raises(ValueError, match="at most 16"):
        ReservationSpec.model_validate(
            {"template": template, "owners": [{"pod": {"name": "web-0"}}], "ttlSeconds": 1}
        )


def test_an_answered_creation_passes_its_devices_on() -> None:
    core = DeviceCore(devices=1)
    proposed = reservation("?", uid="nonce", resources=None, template=pod_template("gpus"))
    entry = core.ledger.propose(proposed, NOW)
    core.decide()
    assert held(entry) == {"a-0"}

    status = core.ledger.answers.conclude("nonce", NOW, stored=True)

    assert status is not None
    assert status["devices"] == [FIRST]
    core.ledger.answers.withdraw("nonce")
    assert not core.objects.resource_claims.reserved


def edited(core: DeviceCore, owner: str, **fields: Any) -> None:
    """Name another owner in the reservation, and decide."""
    fields = {"resources": None, "template": pod_template("gpus"), "generation": 2, "version": 9} | fields
    core.reservation(owner=owner, status=core.status(), **fields)
    core.decide()


def test_a_device_in_use_by_a_former_owner_is_not_held_for_the_new_one() -> None:
    """Guard against a promise that is empty: the reservation stayed active with a device in use."""
    core = DeviceCore()
    core.lock(reuse="Always")
    core.bind(core.placed())
    assert held(core.entry()) == {"a-0"}

    edited(core, "web-9", reuse="Always")

    assert held(core.entry()) == {"a-1"}


@pytest.mark.parametrize(("devices", "left"), [(2, {"a-1"}), (1, set())])
def test_a_reservation_that_returns_from_a_former_owner_leaves_the_device_to_its_claim(
    devices: int, left: set[str]
) -> None:
    """Guard against two users of a device: its owner changed during a binding, which failed later."""
    core = DeviceCore(devices=devices)
    core.lock()
    assumed = core.placed()
    core.write(assumed)
    edited(core, "web-9")
    assert core.entry().phase is Phase.BOUND

    core.decider.binding_failed(assumed, core.clock.now())
    core.decide()

    assert core.devices_of(assumed.pod) == {"a-0"}
    assert held(core.entry()) == left
    assert core.entry().violation == ""


def test_the_claim_of_a_former_owner_that_is_gone_keeps_no_device() -> None:
    core = DeviceCore()
    core.lock(reuse="Always")
    assumed = core.placed()
    core.bind(assumed)
    bound = core.cache.get(assumed.pod.uid)
    assert bound is not None
    core.event_handlers.pods.remove(bound.pod)

    edited(core, "web-9", reuse="Always")

    assert held(core.entry()) == {"a-0"}


def test_a_reservation_that_is_deleted_during_the_binding_of_a_former_owner_is_forgotten() -> None:
    core = DeviceCore()
    core.lock()
    assumed = core.placed()
    edited(core, "web-9")
    core.event_handlers.reservations.remove(core.entry().reservation)
    core.decide()
    core.bind(assumed)
    assert not core.ledger.holdings.former_owners


@pytest.mark.parametrize("owners", [["web-0"], ["web-0", "web-9"]])
def test_an_edit_that_keeps_the_owner_keeps_the_device(owners: list[str]) -> None:
    core = DeviceCore()
    core.lock(reuse="Always")
    core.bind(core.placed())

    edited(core, "", owners=[{"pod": {"name": each}} for each in owners], reuse="Always", ttlSeconds=700)

    assert (held(core.entry()), core.entry().phase) == ({"a-0"}, Phase.ACTIVE)


def test_a_pod_that_is_no_longer_an_owner_by_its_labels_keeps_its_device() -> None:
    core = DeviceCore()
    core.lock(reuse="Always", owners=[{"selector": {"matchLabels": {"app": "web"}}}])
    assumed = core.placed(labels={"app": "web"})
    core.bind(assumed)
    bound = core.cache.get(assumed.pod.uid)
    assert bound is not None

    meta = replace(bound.pod.meta, labels={"app": "db"}, resource_version="9")
    core.event_handlers.pods.upsert(bound.pod, replace(bound.pod, metadata=meta))
    core.decide()

    assert held(core.entry()) == {"a-1"}


@pytest.mark.parametrize(("plain", "gpu"), [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("cpu", ["1", "2"])
@pytest.mark.parametrize("claims", [True, False])
def test_of_reservations_for_any_pod_the_one_with_the_device_is_for_the_pod_with_a_claim(
    plain: str, gpu: str, cpu: str, claims: bool
) -> None:
    """Guard against a pod that waits for the device of its own reservation, because another one fits, too."""
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    core = DeviceCore(devices=1)
    core.reservation(plain, owners=owners, resources={"cpu": cpu})
    core.decide()
    core.lock(gpu, owners=owners)

    if claims:
        assert core.devices_of(core.placed(labels={"app": "web"}).pod) == {"a-0"}
    else:
        core.run(pod(labels={"app": "web"}))

    taken = {name: core.entry(name).phase is not Phase.ACTIVE for name in (plain, gpu)}
    assert taken == {plain: not claims, gpu: claims}


def test_a_pod_with_a_named_reservation_of_a_device_takes_no_other_one() -> None:
    owners = [{"selector": {"matchLabels": {"app": "web"}}}]
    core = DeviceCore()
    core.lock("any", owners=owners)
    core.lock("named")

    core.placed(labels={"app": "web"})

    assert (core.entry("any").phase, core.entry("named").phase) == (Phase.ACTIVE, Phase.BOUND)
