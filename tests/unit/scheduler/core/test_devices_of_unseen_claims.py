"""Devices of claims come free even if no event has shown the allocation."""

from collections.abc import Callable

import pytest

from builders import NAMESPACE
from devices import allocated, resource_claim
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import Key
from tidelock.model.pods import assigned_to
from tidelock.scheduler.informers.event_handlers import ObjectEventHandler
from unit.scheduler.device_core import DeviceCore

KEY = Key(NAMESPACE, "web-0-gpus")


class Scene(DeviceCore):
    """One device, which the claim of a bound pod has. The allocation is written in version 7."""

    def __init__(self) -> None:
        super().__init__(devices=1)
        self.claims = ObjectEventHandler(self.event_handlers, "resource_claims", self.objects.resource_claims)
        assumed = self.placed("web-0")
        self.owner = assumed.pod
        self.objects.resource_claims.in_flight.wrote(KEY, 7)
        self.decider.bound(assumed, self.clock.now())
        self.event_handlers.pods.upsert(self.owner, assigned_to(self.owner, assumed.node_name))

    def forget_claim(self) -> None:
        """Let the claim be one that no event has shown, as one that was created here."""
        allocation = self.objects.resource_claims.in_flight.get(KEY)
        assert allocation is not None
        self.objects.resource_claims.remove(resource_claim(KEY.name))
        self.objects.resource_claims.in_flight.make(KEY, allocation, self.owner.uid)
        self.objects.resource_claims.in_flight.wrote(KEY, 7)

    def freed(self) -> None:
        self.claims.upsert(None, resource_claim(KEY.name, version=9))

    def exchanged(self) -> None:
        self.claims.upsert(None, resource_claim(KEY.name, version=9, status=allocated("other")))

    def deleted(self) -> None:
        self.claims.remove(resource_claim(KEY.name))


CHANGES = (Scene.freed, Scene.exchanged, Scene.deleted)


@pytest.mark.parametrize("change", CHANGES)
def test_a_waiting_pod_gets_the_device(change: Callable[[Scene], None]) -> None:
    scene = Scene()
    scene.event_handlers.pods.remove(scene.owner)
    scene.pod("web-1")
    scene.refuse()
    change(scene)
    scene.clock.advance(2.0)  # the pod's backoff
    assert scene.place().pod.meta.name == "web-1"


@pytest.mark.parametrize("change", CHANGES)
def test_a_waiting_reservation_gets_the_device(change: Callable[[Scene], None]) -> None:
    scene = Scene()
    scene.event_handlers.pods.remove(scene.owner)
    assert scene.lock().phase is Phase.PENDING
    change(scene)
    scene.decide()
    assert scene.entry().phase is Phase.ACTIVE


def remove_unseen(scene: Scene, version: int) -> None:
    """Remove the claims that a list of this version lacks."""
    for gone in scene.claims.listed(version):
        scene.claims.remove(gone)


@pytest.mark.parametrize("change", [Scene.freed, lambda scene: remove_unseen(scene, 8)])
def test_a_claim_that_no_event_has_shown_gives_its_device_back(change: Callable[[Scene], None]) -> None:
    scene = Scene()
    scene.event_handlers.pods.remove(scene.owner)
    scene.forget_claim()
    assert scene.lock().phase is Phase.PENDING
    change(scene)
    scene.decide()
    assert scene.entry().phase is Phase.ACTIVE
    assert dict(scene.objects.resource_claims.in_flight.items()) == {}


def test_a_list_from_before_the_write_says_nothing_about_the_claim() -> None:
    scene = Scene()
    scene.event_handlers.pods.remove(scene.owner)
    scene.forget_claim()
    remove_unseen(scene, 6)
    assert scene.objects.resource_claims.in_flight.get(KEY) is not None
    assert scene.lock().phase is Phase.PENDING
