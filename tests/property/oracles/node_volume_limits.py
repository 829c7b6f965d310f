"""NodeVolumeLimits for one node, with a full count of its volumes."""

from property.disks import World
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.storage import CsiDriver, CsiNode, PersistentVolumeClaim, VolumeAttachment
from tidelock.plugins.node_volume_limits.plugin import DRIVER_MISSING, TOO_MANY_VOLUMES

Handle = tuple[str, str]


def reasons(world: World, wanting: Pod, on: Node) -> tuple[str, ...]:
    for name in names(wanting):
        if world.claim(name) is None:
            return (f"looking up PVC shop/{name}: {claim_not_found(name)}",)
    of_pods = {handle for other in world.pods_on(on) for handle in handles(world, other)}
    attached = {
        (each.spec.attacher, volume.spec.csi.volume_handle)
        for each in world.all(VolumeAttachment)
        if each.spec.node_name == on.name
        and (volume := world.volume(each.spec.source.persistent_volume_name or ""))
        and volume.spec.csi
    }
    csi_node = world.find(CsiNode, on.name)
    installed = {driver.name for driver in csi_node.spec.drivers} if csi_node else set()
    for name in sorted({name for name, _ in handles(world, wanting)}):
        driver = world.find(CsiDriver, name)
        if driver is not None and driver.spec.prevent_pod_scheduling_if_missing and name not in installed:
            return (f"{name} {DRIVER_MISSING}",)
    new = handles(world, wanting) - of_pods
    for entry in csi_node.spec.drivers if csi_node else ():
        if entry.allocatable is None or entry.allocatable.count is None:
            continue
        added = sum(name == entry.name for name, _ in new)
        there = sum(name == entry.name for name, _ in of_pods | attached)
        if added and there + added > entry.allocatable.count:
            return (TOO_MANY_VOLUMES,)
    return ()


def names(of: Pod) -> list[str]:
    return [
        volume.persistent_volume_claim.claim_name
        if volume.persistent_volume_claim
        else f"{of.meta.name}-{volume.name}"
        for volume in of.spec.volumes
        if volume.persistent_volume_claim or volume.ephemeral is not None
    ]


def handles(world: World, of: Pod) -> set[Handle]:
    found = (world.claim(name) for name in names(of))
    return {handle for claim in found if claim and (handle := handle_of(world, claim))}


def handle_of(world: World, claim: PersistentVolumeClaim) -> Handle | None:
    volume = world.volume(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        source = volume.spec.csi
        return (source.driver, source.volume_handle) if source else None
    kind = world.storage_class(claim.spec.storage_class_name or "")
    return (kind.provisioner, f"of claim {claim.meta.name}") if kind else None
