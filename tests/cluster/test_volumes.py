"""Claims that wait for a pod: they are bound on the node that is chosen for the pod, before the pod is.

It needs an API server that keeps claims and volumes, which the test binds as their controller would.
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.disks import Disks, bound_volume, refuse, selected_node, using
from cluster.world import World
from devcluster import wait_for


@pytest.fixture
def disks(world: World) -> Iterator[Disks]:
    """Yield storage that only this test uses."""
    with closing(Disks(world)) as made:
        yield made


def test_a_pod_runs_on_the_node_of_an_available_volume(world: World, disks: Disks) -> None:
    disks.storage_class()
    disks.node("a")
    node = disks.node("b")
    volume = disks.volume("disk", node)
    claim = disks.claim()
    pod = world.pod(**using(claim))

    assert pod.until_bound() == node.name
    assert bound_volume(claim) == volume.name
    owner = volume.until(lambda each: each["status"]["phase"] == "Bound", "be bound")["spec"]["claimRef"]
    assert owner["uid"] == claim.uid


def test_a_pod_without_a_volume_is_refused_until_there_is_one(world: World, disks: Disks) -> None:
    disks.storage_class()
    node = disks.node("a")
    disks.volume("small", node)
    claim = disks.claim(size="2Gi")
    pod = world.pod(**using(claim))
    pod.until_refused("node(s) didn't find available persistent volumes to bind")

    volume = disks.volume("large", node, size="2Gi")
    assert pod.until_bound() == node.name
    assert bound_volume(claim) == volume.name


def test_pods_that_come_at_once_share_no_volume(world: World, disks: Disks) -> None:
    disks.storage_class()
    nodes = [disks.node("a"), disks.node("b")]
    volumes = {disks.volume(f"disk-{index}", nodes[index % 2]).name for index in range(6)}
    claims = [disks.claim(f"data-{index}") for index in range(6)]
    pods = [world.pod(f"web-{index}", "100m", **using(claim)) for index, claim in enumerate(claims)]

    for pod in pods:
        pod.until_bound()
    assert {bound_volume(claim) for claim in claims} == volumes


def test_the_volumes_of_a_pod_are_on_one_node(world: World, disks: Disks) -> None:
    disks.storage_class()
    poor, rich = disks.node("a"), disks.node("b")
    disks.volume("lonely", poor)
    mates = {disks.volume(name, rich).name for name in ("one", "two")}
    claims = [disks.claim("data"), disks.claim("logs")]
    pod = world.pod(**using(*claims))

    assert pod.until_bound() == rich.name
    assert {bound_volume(claim) for claim in claims} == mates


def test_a_volume_is_created_on_the_node_of_the_pod(world: World, disks: Disks) -> None:
    disks.storage_class("fast", ready=False)
    disks.node("a")
    disks.node("b")
    claim = disks.claim(kind="fast")
    pod = world.pod(**using(claim))

    # Autoscalers see the node while the volume is being created.
    nominated = pod.until(lambda seen: seen["status"].get("nominatedNodeName"), "name its node")
    chosen = disks.make(claim)
    assert pod.until_bound() == chosen
    assert nominated["status"]["nominatedNodeName"] == chosen
    assert bound_volume(claim) == world.node_name("made-for-data")


def test_a_volume_that_could_not_be_created_is_requested_again(world: World, disks: Disks) -> None:
    disks.storage_class("fast", ready=False)
    disks.node("a")
    claim = disks.claim(kind="fast")
    pod = world.pod(**using(claim))
    selected_node(claim)

    refuse(claim)
    assert disks.make(claim) == pod.until_bound()
    assert bound_volume(claim) == world.node_name("made-for-data")
    wait_for(lambda: "FailedScheduling" in world.event_reasons(pod), what="the event")


def test_a_bound_claim_keeps_its_pods_on_its_node(world: World, disks: Disks) -> None:
    disks.storage_class()
    node = disks.node("b")
    disks.volume("disk", node)
    claim = disks.claim()
    first = world.pod("first", **using(claim))
    assert first.until_bound() == node.name
    disks.node("a")
    node.cordon()

    second = world.pod("second", **using(claim))
    second.until_refused(
        "node(s) didn't match PersistentVolume's node affinity", "node(s) were unschedulable"
    )
    node.cordon(on=False)
    assert second.until_bound() == node.name
