"""VolumeZone for one node: its labels against the labels of the pod's volumes."""

from property.disks import BETA_ZONE, REGION, World
from property.oracles.volume_restrictions import claim_names
from storage import ZONE
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.plugins.volume_zone import NO_CLASS_NAME, NO_VOLUME_NAME, ZONE_CONFLICT

LABELS = {BETA_ZONE: ZONE, ZONE: ZONE, REGION: REGION}


def refusal(world: World, wanting: Pod) -> str:
    for name in claim_names(wanting):
        claim = world.claim(name)
        if claim is None:
            return claim_not_found(name)
        if claim.spec.volume_name:
            if world.volume(claim.spec.volume_name) is None:
                return f'persistentvolume "{claim.spec.volume_name}" not found'
            continue
        if not claim.spec.storage_class_name:
            return NO_CLASS_NAME
        kind = world.storage_class(claim.spec.storage_class_name)
        if kind is None:
            return f'storageclass.storage.k8s.io "{claim.spec.storage_class_name}" not found'
        if kind.volume_binding_mode != "WaitForFirstConsumer":
            return NO_VOLUME_NAME
    return ""


def reasons(world: World, wanting: Pod, on: Node) -> tuple[str, ...]:
    mine = on.meta.labels
    if not any(label in mine for label in LABELS):
        return ()
    for name in claim_names(wanting):
        claim = world.claim(name)
        volume = world.volume(claim.spec.volume_name) if claim else None
        for label, modern in LABELS.items() if volume else ():
            assert volume is not None
            value = volume.meta.labels.get(label, "")
            if not value or value.endswith("__"):
                continue
            if mine.get(label, mine.get(modern)) not in value.split("__"):
                return (ZONE_CONFLICT,)
    return ()
