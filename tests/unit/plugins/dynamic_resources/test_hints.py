"""The events that may help pods whose claims have no devices."""

from typing import Any

import pytest

from builders import NAMESPACE, pod
from devices import allocated, claiming, device_class, device_slice, put, resource_claim, taint_rule
from tidelock.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, Resource, pod_changes
from tidelock.model.pods import Pod
from tidelock.model.resource_claims import ResourceClaim
from unit.plugins.dynamic_resources.cluster import Cluster
from unit.plugins.hinting import woken_by

WANTING = pod(**claiming("gpu"))
MINE, OTHERS = resource_claim(), resource_claim("other")
TAKEN = resource_claim("other", status=allocated("d0"))
ALLOCATED = resource_claim(status=allocated("d0"))


def helps(event: ClusterEvent, old: Any, new: Any, cluster: Cluster | None = None) -> bool:
    if cluster is None:
        cluster = Cluster()
        cluster.claim()
    return woken_by(cluster.plugin, WANTING, [event], old, new)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, MINE, True),
        (None, OTHERS, False),
        (MINE, ALLOCATED, True),
        (MINE, MINE, False),
        (OTHERS, TAKEN, False),
        (TAKEN, OTHERS, True),
        (TAKEN, resource_claim("other", status=allocated("d1")), True),
        (TAKEN, resource_claim("other", status=allocated("d0", users=["web-1"])), False),
        (TAKEN, None, True),
        (OTHERS, None, False),
    ],
)
def test_news_of_own_claims_and_freed_devices_help(
    old: ResourceClaim | None, new: ResourceClaim | None, expected: bool
) -> None:
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    assert helps(ClusterEvent(Resource.RESOURCE_CLAIM, action), old, new) is expected


def test_freed_devices_do_not_help_a_pod_that_waits_for_a_claim() -> None:
    assert not helps(ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE), TAKEN, OTHERS, Cluster())


def test_the_name_of_a_created_claim_helps_its_pod() -> None:
    spec = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}
    old, new = pod(resourceClaims=spec), pod(resourceClaims=spec, status=status)
    (event,) = pod_changes(old, new)
    assert event == ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    cluster = Cluster()
    assert not helps(event, old, new, cluster)
    cluster.claim("made", owner="web-0")
    assert helps(event, old, new, cluster)


@pytest.mark.parametrize(
    ("resource", "action", "thing"),
    [
        (Resource.DEVICE_CLASS, Action.ADD, device_class()),
        (Resource.RESOURCE_SLICE, Action.ADD, device_slice("a", "d0")),
        (Resource.DEVICE_TAINT_RULE, Action.DELETE, taint_rule("drain", pool="a")),
    ],
)
def test_devices_and_classes_help(resource: Resource, action: Action, thing: Any) -> None:
    assert helps(ClusterEvent(resource, action), None, thing)


def test_claims_are_known_by_namespace() -> None:
    cluster = Cluster()
    cluster.claim()
    assert cluster.objects.resource_claims.get("gpu", NAMESPACE) is not None
    assert cluster.objects.resource_claims.get("gpu", "other") is None


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (pod("gone", **claiming("gpu")), True),
        (pod("gone", **claiming("missing")), True),
        (pod("gone", **claiming("written")), False),
        (pod("gone", requests={"example.com/gpu": "1"}), True),
        (pod("gone", requests={"example.com/fpga": "1"}), False),
        (pod("gone"), False),
    ],
)
def test_a_pod_that_goes_helps_if_it_may_have_had_devices_in_flight(gone: Pod, expected: bool) -> None:
    cluster = Cluster()
    cluster.claim()
    put(cluster.objects, resource_claim("written", status=allocated("d0")))
    put(cluster.objects, device_class("large", resource="example.com/gpu"))

    assert helps(ASSIGNED_POD_DELETE, gone, None, cluster) is expected


@pytest.mark.parametrize(("resource", "expected"), [("example.com/gpu", True), ("example.com/fpga", False)])
def test_a_class_that_goes_helps_pods_that_request_its_resource(resource: str, expected: bool) -> None:
    event = ClusterEvent(Resource.DEVICE_CLASS, Action.DELETE)
    gone = device_class("newest", resource="example.com/gpu")

    assert woken_by(Cluster().plugin, pod(requests={resource: "1"}), [event], gone, None) is expected
