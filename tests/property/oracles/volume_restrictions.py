"""VolumeRestrictions for one node: the mounts of its pods, and the use of claims on all nodes."""

from property.disks import World
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.nodes import Node
from tidelock.model.pod_volumes import Volume
from tidelock.model.pods import Pod
from tidelock.plugins.volume_restrictions import CLAIM_IN_USE, DISK_CONFLICT


def refusal(world: World, wanting: Pod) -> str:
    for name in claim_names(wanting):
        if world.claim(name) is None:
            return claim_not_found(name)
    return ""


def reasons(world: World, wanting: Pod, on: Node) -> tuple[str, ...]:
    for other in world.pods_on(on):
        if any(clash(mine, theirs) for mine in wanting.spec.volumes for theirs in other.spec.volumes):
            return (DISK_CONFLICT,)
    there = {each.name for each in world.nodes}
    used = {name for other, node_name in world.placed if node_name in there for name in claim_names(other)}
    for name in claim_names(wanting):
        claim = world.claim(name)
        if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes and name in used:
            return (CLAIM_IN_USE,)
    return ()


def claim_names(of: Pod) -> list[str]:
    volumes = of.spec.volumes
    return [each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim]


def clash(mine: Volume, theirs: Volume) -> bool:
    if mine.gce_persistent_disk and theirs.gce_persistent_disk:
        a, b = mine.gce_persistent_disk, theirs.gce_persistent_disk
        return a.pd_name == b.pd_name and not (a.read_only and b.read_only)
    if mine.aws_elastic_block_store and theirs.aws_elastic_block_store:
        return mine.aws_elastic_block_store.volume_id == theirs.aws_elastic_block_store.volume_id
    if mine.iscsi and theirs.iscsi:
        return mine.iscsi.iqn == theirs.iscsi.iqn and not (mine.iscsi.read_only and theirs.iscsi.read_only)
    if mine.rbd and theirs.rbd:
        shared = set(mine.rbd.monitors) & set(theirs.rbd.monitors)
        same = (mine.rbd.pool, mine.rbd.image) == (theirs.rbd.pool, theirs.rbd.image)
        return bool(shared) and same and not (mine.rbd.read_only and theirs.rbd.read_only)
    return False
