"""Which of the pods that wait an event is compared with. An event of a claim concerns only its pods."""

from collections.abc import Iterable

import pytest

from builders import SCHEDULER, node, pod
from devices import allocated, claiming, claiming_from, device_class, device_slice, put, resource_claim
from isolating import Isolating
from storage import claim, using
from tidelock.framework.events import Action, ClusterEvent, Registration, Resource
from tidelock.model.pod_limits import LIMITS, VOLUMES
from tidelock.model.pods import Pod
from tidelock.model.resource_claims import ResourceClaim
from tidelock.model.storage import PersistentVolumeClaim
from tidelock.plugins.dynamic_resources.plugin import DynamicResources
from tidelock.scheduler.core.queued_pod import PluginKey, QueuedPodInfo, QueueName
from tidelock.scheduler.core.queueing_hints import QueueEvent, QueueingHint
from tidelock.scheduler.informers.event_handlers import ObjectEventHandler
from unit.scheduler.machinery import Core

MANY = 40


class Claims(Core):
    """One node with devices, and the handlers of claims."""

    def __init__(self, isolation: Isolating | None = None) -> None:
        if isolation is None:
            super().__init__(node("node-a", cpu="64"))
        else:
            super().__init__(node("node-a", cpu="64"), on_failure=isolation.failed)
        self.objects = self.decider.objects
        put(self.objects, device_class(), device_slice("a", *(f"d{each}" for each in range(MANY))))
        self.of_devices = ObjectEventHandler(
            self.event_handlers, "resource_claims", self.objects.resource_claims
        )
        self.of_volumes = ObjectEventHandler(
            self.event_handlers, "persistent_volume_claims", self.objects.persistent_volume_claims
        )

    def part(self, name: str) -> QueueName:
        """Return the part of the queue in which a pod is."""
        waiting = self.queue.get(f"uid-{name}")
        assert waiting is not None
        return waiting.queue


@pytest.fixture
def core() -> Claims:
    return Claims()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the pods with which changes of claims for devices were compared."""
    names: list[str] = []
    hint = DynamicResources._claim_helps

    def noted(
        self: DynamicResources, each: Pod, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> bool:
        names.append(each.meta.name)
        return hint(self, each, old, new)

    monkeypatch.setattr(DynamicResources, "_claim_helps", noted)
    return names


def test_a_claim_that_comes_is_compared_with_its_pods_alone(asked: list[str]) -> None:
    """Regression: 2,000 pods were compared with 2,000 claims each, which took 10 s."""
    core = Claims()
    core.add(*(pod(f"web-{each}", **claiming(f"claim-{each}")) for each in range(MANY)))
    core.add(pod("late", **claiming("claim-0", "none")))
    for each in range(MANY):
        core.of_devices.upsert(None, resource_claim(f"claim-{each}"))
    assert sorted(asked) == sorted([*(f"web-{each}" for each in range(MANY)), "late"])
    assert {core.part(f"web-{each}") for each in range(MANY)} == {QueueName.ACTIVE}
    assert core.part("late") is QueueName.GATED


def test_devices_that_come_free_concern_all_pods(asked: list[str]) -> None:
    core = Claims()
    core.add(*(pod(f"web-{each}", **claiming(f"claim-{each}")) for each in range(3)))
    taken = resource_claim("other", status=allocated("d0"))
    core.of_devices.upsert(None, taken)
    assert asked == []
    core.of_devices.upsert(taken, resource_claim("other", version=2))
    core.of_devices.upsert(None, taken)
    core.of_devices.remove(taken)
    assert asked == 2 * ["web-0", "web-1", "web-2"]


def test_a_claim_that_its_pod_names_later_wakes_it(core: Claims) -> None:
    spec = claiming_from("gpus")
    core.add(pod(resourceClaims=spec["resourceClaims"]))
    core.add(pod(**spec))
    assert core.part("web-0") is QueueName.GATED
    core.of_devices.upsert(None, resource_claim("web-0-gpus", owner="web-0"))
    assert core.part("web-0") is QueueName.ACTIVE


def test_a_claim_that_a_pod_does_not_name_any_more_leaves_it_asleep(asked: list[str]) -> None:
    core = Claims()
    first, second = claiming_from("gpus"), claiming_from("gpus", pod="web-0-again")
    core.add(pod(**first), pod(**second))
    core.of_devices.upsert(None, resource_claim("web-0-gpus", owner="web-0"))
    assert asked == []
    core.of_devices.upsert(None, resource_claim("web-0-again-gpus", owner="web-0"))
    assert core.part("web-0") is QueueName.ACTIVE


def test_the_end_of_a_claim_for_extended_resources_concerns_its_pod(asked: list[str]) -> None:
    core = Claims()
    core.add(*(pod(f"web-{each}", **claiming("none")) for each in range(2)))
    made = resource_claim("made", owner="web-0")
    made.meta.annotations["resource.kubernetes.io/extended-resource-claim"] = "true"
    core.of_devices.upsert(None, made)
    core.of_devices.remove(made)
    assert asked == ["web-0", "web-1"]
    assert core.part("web-0") is QueueName.GATED


def test_a_claim_of_a_volume_is_compared_with_its_pods_alone(
    core: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    hint = core.queue.hints.hint

    def noted(each: QueuedPodInfo, plugins: Iterable[PluginKey], event: QueueEvent) -> QueueingHint:
        names.append(each.pod.meta.name)
        return hint(each, plugins, event)

    monkeypatch.setattr(core.queue.hints, "hint", noted)
    core.add(*(pod(f"web-{each}", **using(f"claim-{each}")) for each in range(3)))
    core.decide()
    assert {core.part(f"web-{each}") for each in range(3)} == {QueueName.UNSCHEDULABLE}
    names.clear()
    new: PersistentVolumeClaim = claim("claim-1")
    core.of_volumes.upsert(None, new)
    assert names == ["web-1"]
    assert core.part("web-1") is not QueueName.UNSCHEDULABLE


def test_a_pod_that_is_too_large_waits_for_no_claim(core: Claims) -> None:
    many = [f"claim-{each}" for each in range(LIMITS[VOLUMES] + 1)]
    core.add(pod(**using(*many)))
    assert core.queue._queued._users == {}


def test_pods_that_are_gone_leave_nothing(core: Claims) -> None:
    waiting = [pod("web-0", **claiming("one", "two")), pod("web-1", **claiming("one"), **using("disk"))]
    core.add(*waiting)
    for each in waiting:
        core.event_handlers.pods.remove(each)
    assert not core.queue.rejected
    assert core.queue._queued._users == {}


def test_all_pods_are_compared_if_a_plugin_can_not_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    isolation = Isolating()
    core = Claims(isolation)
    core.add(pod(**claiming("gpu")))

    def fails(*_: object) -> bool:
        raise LookupError("a plugin's bug")

    added = ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD)
    listeners = {(SCHEDULER, "DynamicResources"): (Registration(added, only_users=fails),)}
    monkeypatch.setattr(core.queue.hints, "listeners", lambda _event: listeners)
    put(core.objects, resource_claim("gpu"))
    core.of_devices.upsert(None, resource_claim("other"))
    assert core.part("web-0") is QueueName.ACTIVE
    assert isolation.faults[-1] == "hint: a plugin's bug"
