"""VolumeBinding for one node, claim and volume at a time, and the effect of a decision on the next one."""

from dataclasses import dataclass, field

import msgspec

from property.disks import World
from property.oracles.node_volume_limits import names
from tidelock.framework.pod_claims import claim_not_found
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.quantities import parse_quantity
from tidelock.model.storage import (
    SELECTED_NODE,
    CsiDriver,
    CsiStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from tidelock.plugins.volume_binding.plugin import (
    NO_FREE_STORAGE,
    NO_VOLUME_TO_BIND,
    UNBOUND_IMMEDIATE,
    VOLUME_GONE,
    VOLUME_NODE_CONFLICT,
    claim_awaited,
    claim_deleted,
    claim_lost,
    claim_not_owned,
)


@dataclass
class Plan:
    """The bindings and provisions of a pod's claims on a node, and the reasons that rule out the node."""

    reasons: list[str] = field(default_factory=list)
    bindings: dict[str, str] = field(default_factory=dict)  # volumes by claim
    provisions: list[str] = field(default_factory=list)


def refusal(world: World, wanting: Pod) -> str:
    claims = []
    for name in dict.fromkeys(names(wanting)):
        ephemeral = name == f"{wanting.meta.name}-scratch"
        claim = world.claim(name)
        if claim is None:
            return claim_awaited(name) if ephemeral else claim_not_found(name)
        if claim.status.phase == "Lost":
            return claim_lost(name, claim.spec.volume_name)
        if claim.meta.deletion_timestamp:
            return claim_deleted(name)
        if ephemeral and wanting.uid not in [reference.uid for reference in claim.meta.owner_references]:
            return claim_not_owned(f"shop/{name}", f"shop/{wanting.meta.name}")
        claims.append(claim)
    for claim in claims:
        kind = world.storage_class(claim.spec.storage_class_name or "")
        waits = kind is not None and kind.volume_binding_mode == "WaitForFirstConsumer"
        if not claim.spec.volume_name and not waits:
            return UNBOUND_IMMEDIATE
    return ""


def plan(world: World, wanting: Pod, on: Node) -> Plan:
    """Plan the claims of a pod on a node, if no refusal holds for all nodes."""
    made = Plan()
    found = (world.claim(name) for name in dict.fromkeys(names(wanting)))
    claims = [claim for claim in found if claim is not None]
    conflict, gone = check_bound(world, [claim for claim in claims if claim.spec.volume_name], on)
    unmet, no_space = check_waiting(
        world, [claim for claim in claims if not claim.spec.volume_name], on, made
    )
    told = (
        (conflict, VOLUME_NODE_CONFLICT),
        (unmet, NO_VOLUME_TO_BIND),
        (no_space, NO_FREE_STORAGE),
        (gone, VOLUME_GONE),
    )
    made.reasons = [text for true, text in told if true]
    return made


def check_bound(world: World, claims: list[PersistentVolumeClaim], on: Node) -> tuple[bool, bool]:
    for claim in claims:
        volume = world.volume(claim.spec.volume_name)
        if volume is None:
            return False, True
        if not reaches(volume, on):
            return True, False
    return False, False


def check_waiting(
    world: World, claims: list[PersistentVolumeClaim], on: Node, made: Plan
) -> tuple[bool, bool]:
    to_provide, to_match = [], []
    for claim in claims:
        selected = claim.meta.annotations.get(SELECTED_NODE)
        if selected is None:
            to_match.append(claim)
        elif selected == on.name:
            to_provide.append(claim)
        else:
            return True, False
    for claim in sorted(to_match, key=size):
        volume = smallest(world, claim, on, set(made.bindings.values()))
        if volume is None:
            to_provide.append(claim)
        else:
            made.bindings[claim.meta.name] = volume.meta.name
    for claim in to_provide:
        kind = world.storage_class(claim.spec.storage_class_name or "")
        assert kind is not None
        if kind.provisioner == "kubernetes.io/no-provisioner":
            return True, False
        labels = on.meta.labels
        terms = [term.match_label_expressions for term in kind.allowed_topologies]
        if terms and not any(
            term and all(labels.get(each.key) in each.values for each in term) for term in terms
        ):
            return True, False
        if not room(world, claim, kind.provisioner, on):
            return False, True
        made.provisions.append(claim.meta.name)
    return False, False


def smallest(
    world: World, claim: PersistentVolumeClaim, on: Node, taken: set[str]
) -> PersistentVolume | None:
    """Return the volume that names the claim in its claimRef, or otherwise the smallest that suits it."""
    best = None
    for volume in sorted(world.all(PersistentVolume), key=lambda each: (capacity(each), each.meta.name)):
        mine, wanted, owner = volume.spec, claim.spec, volume.spec.claim_ref
        ours = owner is not None and owner.name == claim.meta.name and owner.uid in ("", claim.meta.uid)
        if (
            volume.meta.name in taken
            or mine.storage_class_name != wanted.storage_class_name
            or (owner is not None and not ours)
            or capacity(volume) < size(claim)
            or (mine.volume_mode or "Filesystem") != (wanted.volume_mode or "Filesystem")
            or volume.meta.deletion_timestamp
        ):
            continue
        if ours:
            return volume if reaches(volume, on) else None
        if (
            volume.status.phase == "Available"
            and (wanted.selector is None or wanted.selector.matches(volume.meta.labels))
            and reaches(volume, on)
            and all(mode in mine.access_modes for mode in wanted.access_modes)
        ):
            best = best or volume
    return best


def score(world: World, wanting: Pod, on: Node) -> int:
    """Return 100 less the used percentage, as the mean of the classes, for a node without reasons."""
    made = plan(world, wanting, on)
    used: dict[str, tuple[int, int]] = {}
    for name, volume_name in made.bindings.items():
        claim, volume = world.claim(name), world.volume(volume_name)
        assert claim is not None
        assert volume is not None
        requested, there = used.get(claim.spec.storage_class_name or "", (0, 0))
        used[claim.spec.storage_class_name or ""] = (requested + size(claim), there + capacity(volume))
    for name in made.provisions if not made.bindings else ():
        claim = world.claim(name)
        assert claim is not None
        kind = world.storage_class(claim.spec.storage_class_name or "")
        assert kind is not None
        report = reported(world, claim, on) if reports(world, claim, kind.provisioner) else None
        if report is not None:
            requested, _ = used.get(kind.meta.name, (0, 0))
            left = 0 if report.capacity is None else parse_quantity("storage", report.capacity)
            used[kind.meta.name] = (requested + size(claim), left)
    points = [
        0 if requested > there or not there else 100 - requested * 100 // there
        for requested, there in used.values()
    ]
    return int(sum(points) / len(points) + 0.5) if points else 0


def room(world: World, claim: PersistentVolumeClaim, provisioner: str, on: Node) -> bool:
    return not reports(world, claim, provisioner) or reported(world, claim, on) is not None


def reports(world: World, claim: PersistentVolumeClaim, provisioner: str) -> bool:
    driver = world.find(CsiDriver, provisioner)
    sized = "storage" in claim.spec.resources.requests
    return sized and driver is not None and driver.spec.storage_capacity


def reported(world: World, claim: PersistentVolumeClaim, on: Node) -> CsiStorageCapacity | None:
    for each in world.all(CsiStorageCapacity):
        limit = each.capacity if each.maximum_volume_size is None else each.maximum_volume_size
        if (
            each.storage_class_name == claim.spec.storage_class_name
            and limit is not None
            and parse_quantity("storage", limit) >= size(claim)
            and each.node_topology is not None
            and each.node_topology.matches(on.meta.labels)
        ):
            return each
    return None


def assume(world: World, wanting: Pod, on: Node) -> World:
    """Return the world as later decisions see it."""
    made = plan(world, wanting, on)
    owners = {volume: name for name, volume in made.bindings.items()}

    def changed(each: object) -> object:
        if isinstance(each, PersistentVolume) and each.meta.name in owners:
            name = owners[each.meta.name]
            owner = ObjectReference(name, wanting.meta.namespace, f"uid-{name}")
            return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, claim_ref=owner))
        if isinstance(each, PersistentVolumeClaim) and each.meta.name in made.provisions:
            annotations = each.meta.annotations | {SELECTED_NODE: on.name}
            meta = msgspec.structs.replace(each.meta, annotations=annotations)
            return msgspec.structs.replace(each, metadata=meta)
        return each

    return World(world.nodes, world.placed, [changed(each) for each in world.stored])  # type: ignore[misc]


def reaches(volume: PersistentVolume, on: Node) -> bool:
    affinity = volume.spec.node_affinity
    return affinity is None or affinity.required is None or affinity.required.matches("", on.meta.labels)


def size(claim: PersistentVolumeClaim) -> int:
    return parse_quantity("storage", claim.spec.resources.requests.get("storage", 0))


def capacity(volume: PersistentVolume) -> int:
    return parse_quantity("storage", volume.spec.capacity["storage"])
