"""The objects that wake pods of the volume plugins, mostly by the cases of kube-scheduler's own tests."""

from typing import Any

import pytest

from builders import Json, node, pod
from storage import (
    DRIVER,
    ZONE,
    Stored,
    attachment,
    claim,
    csi_driver,
    csi_node,
    put,
    storage_capacity,
    storage_class,
    using,
    volume,
)
from tidelock.framework.api import Plugin
from tidelock.model.pods import Pod
from tidelock.plugins.node_volume_limits.plugin import NodeVolumeLimits
from tidelock.plugins.volume_binding.plugin import VolumeBinding
from tidelock.plugins.volume_restrictions import VolumeRestrictions
from tidelock.plugins.volume_zone import VolumeZone
from unit.plugins.hinting import change_wakes
from unit.plugins.scene import Scene

SCRATCH: Json = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}
WANTING = pod("web-0", **using("data"))
BETA = "failure-domain.beta.kubernetes.io/zone"
PROVISIONED = storage_class("fast", provisioner=DRIVER)
OF_DRIVER = claim(storage_class="fast")


def woken(kind: type[Plugin], stored: tuple[Stored, ...], old: Any, new: Any, refused: Pod = WANTING) -> bool:
    """Return whether a change wakes a pod that a plugin refused, in a cluster of these objects."""
    scene = Scene()
    put(scene.objects, *stored)
    return change_wakes(kind, refused, old, new, scene)


@pytest.mark.parametrize("kind", [VolumeBinding, NodeVolumeLimits, VolumeRestrictions, VolumeZone])
@pytest.mark.parametrize(
    ("wants", "new", "helps"),
    [
        (using("data"), claim(), True),
        (using("other", "data"), claim(), True),
        (using("other"), claim(), False),
        (using("data"), claim(namespace="elsewhere"), False),
        ({"volumes": [{"name": "data", "emptyDir": {}}]}, claim(), False),
        ({}, claim(), False),
    ],
)
def test_a_new_claim_wakes_only_pods_that_use_it(
    kind: type[Plugin], wants: Json, new: Any, helps: bool
) -> None:
    assert woken(kind, (), None, new, pod("web-0", **wants)) is helps


@pytest.mark.parametrize("kind", [VolumeBinding, NodeVolumeLimits])
def test_an_ephemeral_claim_wakes_its_pod(kind: type[Plugin]) -> None:
    refused = pod("web-0", **SCRATCH)

    assert woken(kind, (), None, claim("web-0-scratch"), refused)
    assert not woken(kind, (), None, claim("web-1-scratch"), refused)


@pytest.mark.parametrize(
    ("kind", "helps"),
    [(VolumeBinding, True), (VolumeZone, True), (NodeVolumeLimits, True), (VolumeRestrictions, False)],
)
def test_a_claim_that_gets_its_volume_wakes_its_pod_but_not_for_its_access_modes(
    kind: type[Plugin], helps: bool
) -> None:
    assert woken(kind, (), claim(), claim(volume="disk")) is helps


@pytest.mark.parametrize(
    ("stored", "old", "new", "helps"),
    [
        (claim(), None, storage_class(), True),
        (claim(), None, storage_class("other"), False),
        (claim(), storage_class(), storage_class(), False),
        (claim(), storage_class(), storage_class(topologies=[{ZONE: ["a"]}]), True),
        (claim(storage_class="other"), storage_class(), storage_class(topologies=[{ZONE: ["a"]}]), False),
    ],
)
def test_volume_binding_waits_for_the_class_of_a_claim_and_its_topology(
    stored: Stored, old: Any, new: Any, helps: bool
) -> None:
    assert woken(VolumeBinding, (stored,), old, new) is helps


@pytest.mark.parametrize(
    ("stored", "old", "new", "helps"),
    [
        (claim(), None, volume(), True),
        (claim(), volume(phase="Released"), volume(), True),
        (claim(), volume(), volume(phase="Released"), False),
        (claim(), None, volume(storage_class="other"), False),
        (claim(), None, volume(modes=["ReadOnlyMany"]), False),
        (claim(), None, volume(claimed_by="data"), True),
        (claim(), None, volume(claimed_by="data", claim_uid="of its predecessor"), False),
        (claim(), volume(), volume(claimed_by="other", phase="Bound"), False),
        (claim(), volume(claimed_by="data"), volume(claimed_by="other", phase="Bound"), True),
        (claim(volume="disk"), None, volume(claimed_by="data", phase="Bound"), True),
        (claim(volume="disk"), None, volume("spare"), False),
        (claim("other"), None, volume(), False),
    ],
)
def test_volume_binding_waits_for_volumes_that_a_claim_has_or_can_get(
    stored: Stored, old: Any, new: Any, helps: bool
) -> None:
    assert woken(VolumeBinding, (stored,), old, new) is helps


_NONE = storage_capacity("cap", None)


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, _NONE, True),
        (_NONE, storage_capacity("cap", "100"), True),
        (_NONE, storage_capacity("cap", None, maximumVolumeSize="100"), True),
        (storage_capacity("cap", "50"), storage_capacity("cap", "100"), True),
        (storage_capacity("cap", "100", maximumVolumeSize="50"), storage_capacity("cap", "100"), True),
        (
            storage_capacity("cap", "100", maximumVolumeSize="50"),
            storage_capacity("cap", "100", maximumVolumeSize="60"),
            True,
        ),
        (
            storage_capacity("cap", "100", maximumVolumeSize="50"),
            storage_capacity("cap", "100", maximumVolumeSize="50"),
            False,
        ),
        (storage_capacity("cap", "100"), storage_capacity("cap", "100"), False),
        (storage_capacity("cap", "100", maximumVolumeSize="50"), storage_capacity("cap", "50"), False),
        (storage_capacity("cap", "100"), storage_capacity("cap", "90"), False),
        (
            storage_capacity("cap", None, maximumVolumeSize="100"),
            storage_capacity("cap", None, maximumVolumeSize="90"),
            False,
        ),
        (None, storage_capacity("cap", "100", storage_class="other"), False),
    ],
)
def test_volume_binding_waits_for_a_larger_limit_of_a_claims_class(old: Any, new: Any, helps: bool) -> None:
    assert woken(VolumeBinding, (OF_DRIVER,), old, new) is helps


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_volume_binding_waits_for_the_driver_of_a_claim_to_report_no_capacity_any_more(
    before: bool, after: bool, helps: bool
) -> None:
    old, new = (csi_driver(storage_capacity=each) for each in (before, after))

    assert woken(VolumeBinding, (PROVISIONED, OF_DRIVER), old, new) is helps
    assert not woken(VolumeBinding, (PROVISIONED, claim()), old, new)


@pytest.mark.parametrize("reports", [True, False])
def test_volume_binding_waits_for_the_end_of_a_driver_that_reports_capacity(reports: bool) -> None:
    old = csi_driver(storage_capacity=reports)

    assert woken(VolumeBinding, (PROVISIONED, OF_DRIVER), old, None) is reports
    assert not woken(VolumeBinding, (PROVISIONED, claim()), old, None)


@pytest.mark.parametrize("new", [csi_node(csi_example_com=2), csi_node(csi_example_com=None)])
def test_volume_binding_does_not_wait_for_csi_nodes(new: Stored) -> None:
    assert not woken(VolumeBinding, (PROVISIONED, OF_DRIVER), csi_node(csi_example_com=1), new)
    assert not woken(VolumeBinding, (PROVISIONED, OF_DRIVER), None, new)


@pytest.mark.parametrize(
    ("stored", "helps"),
    [
        ((claim(), claim("theirs")), True),
        ((claim(),), True),
        ((claim(), claim("theirs", volume="disk")), False),
        ((claim(volume="mine"), claim("theirs")), False),
    ],
)
def test_a_pod_that_goes_before_its_claims_are_bound_gives_its_volumes_back(
    stored: tuple[Stored, ...], helps: bool
) -> None:
    """Check that a failed binding wakes others: no object changes where nothing has been written yet."""
    assert woken(VolumeBinding, stored, pod("other", node_name="node-a", **using("theirs")), None) is helps


def test_a_pod_without_claims_gives_no_volume_back() -> None:
    assert not woken(VolumeBinding, (claim(),), pod("other", node_name="node-a"), None)


def disk(**source: Any) -> Json:
    return {"volumes": [{"name": "disk", **source}]}


def rbd(*monitors: str) -> Json:
    return disk(rbd={"monitors": list(monitors), "pool": "foo", "image": "bar"})


@pytest.mark.parametrize(
    ("wants", "theirs", "helps"),
    [
        (disk(gcePersistentDisk={"pdName": "foo"}), disk(gcePersistentDisk={"pdName": "foo"}), True),
        (disk(gcePersistentDisk={"pdName": "foo"}), disk(gcePersistentDisk={"pdName": "bar"}), False),
        (
            disk(awsElasticBlockStore={"volumeID": "foo"}),
            disk(awsElasticBlockStore={"volumeID": "foo"}),
            True,
        ),
        (
            disk(awsElasticBlockStore={"volumeID": "foo"}),
            disk(awsElasticBlockStore={"volumeID": "bar"}),
            False,
        ),
        (rbd("a", "b"), rbd("a", "b"), True),
        (rbd("a", "b"), rbd("c", "d"), False),
        (disk(iscsi={"iqn": "storage.target01"}), disk(iscsi={"iqn": "storage.target01"}), True),
        (disk(iscsi={"iqn": "storage.target01"}), disk(iscsi={"iqn": "storage.target02"}), False),
        (using("data"), using("data"), True),
        (using("data"), using("other"), False),
    ],
)
def test_volume_restrictions_waits_for_pods_with_a_disk_or_claim_of_the_pod(
    wants: Json, theirs: Json, helps: bool
) -> None:
    refused, gone = pod("web-0", **wants), pod("other", node_name="node-a", **theirs)

    assert woken(VolumeRestrictions, (), gone, None, refused) is helps


@pytest.mark.parametrize(
    ("wants", "helps"), [(disk(gcePersistentDisk={"pdName": "foo"}), True), (using("data"), False)]
)
def test_a_disk_can_be_that_of_a_pod_in_another_namespace_and_a_claim_cannot(
    wants: Json, helps: bool
) -> None:
    gone = pod("other", node_name="node-a", namespace="elsewhere", **wants)

    assert woken(VolumeRestrictions, (), gone, None, pod("web-0", **wants)) is helps


@pytest.mark.parametrize("kind", [VolumeBinding, NodeVolumeLimits, VolumeRestrictions, VolumeZone])
def test_a_new_node_wakes_every_pod_of_a_volume_plugin(kind: type[Plugin]) -> None:
    assert woken(kind, (), None, node("node-b"))


@pytest.mark.parametrize(
    ("stored", "new", "helps"),
    [
        (claim(), storage_class(), True),
        (claim(), storage_class(mode="Immediate"), False),
        (claim(), storage_class("other"), False),
    ],
)
def test_volume_zone_waits_for_a_class_that_leaves_a_claim_to_the_scheduler(
    stored: Stored, new: Stored, helps: bool
) -> None:
    assert woken(VolumeZone, (stored,), None, new) is helps
    assert not woken(VolumeZone, (stored,), new, new)


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, volume(labels={BETA: "a"}), True),
        (volume(labels={BETA: "a"}), volume(labels={BETA: "b"}), True),
        (volume(labels={BETA: "a"}), volume(labels={BETA: "a", ZONE: "a"}), True),
        (volume(labels={BETA: "a", ZONE: "a"}), volume(labels={BETA: "a", ZONE: "a"}), False),
        (volume(labels={BETA: "a"}), volume(labels={BETA: "a", "app": "web"}), False),
        (None, volume("other", labels={BETA: "a"}), False),
    ],
)
def test_volume_zone_waits_for_other_zones_of_a_claims_volume(old: Any, new: Any, helps: bool) -> None:
    assert woken(VolumeZone, (claim(volume="disk"),), old, new) is helps


@pytest.mark.parametrize(
    ("theirs", "helps"),
    [
        (using("unknown"), True),
        (using("theirs"), True),
        (using("local"), False),
        ({}, False),
        (disk(awsElasticBlockStore={"volumeID": "foo"}), False),
    ],
)
def test_volume_limits_wait_for_pods_with_volumes_of_the_pods_drivers(theirs: Json, helps: bool) -> None:
    stored = (PROVISIONED, OF_DRIVER, claim("theirs", storage_class="fast"), claim("local"))

    assert woken(NodeVolumeLimits, stored, pod("other", node_name="node-a", **theirs), None) is helps


@pytest.mark.parametrize(
    ("driver", "wants", "helps"),
    [(DRIVER, using("data"), True), ("other.example.com", using("data"), False), (DRIVER, {}, False)],
)
def test_volume_limits_wait_for_volumes_of_the_pods_drivers_to_be_detached(
    driver: str, wants: Json, helps: bool
) -> None:
    stored = (claim(volume="disk"), volume(handle="disk", claimed_by="data", phase="Bound"))
    detached = attachment("attached", "foreign", "node-a", driver=driver)

    assert woken(NodeVolumeLimits, stored, detached, None, pod("web-0", **wants)) is helps


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (csi_node(csi_example_com=1), csi_node(csi_example_com=2), True),
        (csi_node(csi_example_com=2), csi_node(csi_example_com=1), False),
        (csi_node(csi_example_com=1), csi_node(csi_example_com=1), False),
        (csi_node(csi_example_com=1), csi_node(csi_example_com=None), True),
        (csi_node(csi_example_com=None), csi_node(csi_example_com=1), False),
        (csi_node(), csi_node(csi_example_com=1), True),
        (None, csi_node(csi_example_com=1), True),
        (None, csi_node(other_example_com=1), False),
        (csi_node(other_example_com=1), csi_node(other_example_com=2), False),
    ],
)
def test_volume_limits_wait_for_nodes_that_take_more_of_the_pods_drivers(
    old: Any, new: Any, helps: bool
) -> None:
    assert woken(NodeVolumeLimits, (PROVISIONED, OF_DRIVER), old, new) is helps


@pytest.mark.parametrize(
    ("name", "before", "after", "helps"),
    [
        (DRIVER, True, False, True),
        (DRIVER, False, True, False),
        (DRIVER, True, True, False),
        ("other.example.com", True, False, False),
    ],
)
def test_volume_limits_wait_until_a_driver_is_not_required_on_nodes_any_more(
    name: str, before: bool, after: bool, helps: bool
) -> None:
    old, new = (csi_driver(name, required=each) for each in (before, after))

    assert woken(NodeVolumeLimits, (PROVISIONED, OF_DRIVER), old, new) is helps


@pytest.mark.parametrize(("name", "required"), [(DRIVER, True), (DRIVER, False), ("other.example.com", True)])
def test_volume_limits_wait_for_the_end_of_a_driver_that_nodes_need(name: str, required: bool) -> None:
    old, helps = csi_driver(name, required=required), required and name == DRIVER

    assert woken(NodeVolumeLimits, (PROVISIONED, OF_DRIVER), old, None) is helps
