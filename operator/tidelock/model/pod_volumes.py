"""The volumes of pods, as far as they decide on nodes."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec


class ClaimReference(msgspec.Struct, frozen=True, rename="camel"):
    """The claim of a volume."""

    claim_name: str = ""
    read_only: bool = False


class ImageVolume(msgspec.Struct, frozen=True):
    """The image that a volume contains."""

    reference: str = ""


class GcePersistentDisk(msgspec.Struct, frozen=True, rename="camel"):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(msgspec.Struct, frozen=True):
    """A disk of Amazon's cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class IscsiDisk(msgspec.Struct, frozen=True, rename="camel"):
    """A disk behind iSCSI."""

    iqn: str = ""
    read_only: bool = False


class RbdImage(msgspec.Struct, frozen=True, rename="camel"):
    """An image of Ceph."""

    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    read_only: bool = False


class CsiVolume(msgspec.Struct, frozen=True):
    """A volume that a CSI driver creates for the pod alone."""

    driver: str = ""


class EphemeralVolume(msgspec.Struct, frozen=True):
    """A volume with a claim that is created for the pod, from a template that scheduling need not read."""


class Volume(msgspec.Struct, frozen=True, rename="camel"):
    """A volume. A generic ephemeral one has a claim named after the pod and the volume."""

    name: str = ""
    image: ImageVolume | None = None
    persistent_volume_claim: ClaimReference | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CsiVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: IscsiDisk | None = None
    rbd: RbdImage | None = None

    @property
    def plain(self) -> bool:
        """Whether the volume has no effect on the choice of a node."""
        return self == Volume(self.name)


class ClaimUse(NamedTuple):
    """A claim that a pod needs. An ephemeral claim is created for the pod."""

    name: str
    ephemeral: bool


class Disk(NamedTuple):
    """A disk that a pod mounts without a claim, and whether it only reads."""

    identity: tuple[str, ...]
    read_only: bool

    def conflicts(self, other: "Disk") -> bool:
        """Return whether two pods on one node can't both mount these disks."""
        return self.identity == other.identity and not (self.read_only and other.read_only)


def claims_of(pod_name: str, volumes: tuple[Volume, ...]) -> Iterator[ClaimUse]:
    """Yield the claims that the volumes of a pod need."""
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, ephemeral=False)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod_name}-{volume.name}", ephemeral=True)


def disks_of(volume: Volume) -> Iterator[Disk]:
    """Yield the disks that a volume mounts without a claim: for an image of Ceph, one at each monitor."""
    if (gce := volume.gce_persistent_disk) is not None:
        yield Disk(("gce", gce.pd_name), gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        yield Disk(("aws", aws.volume_id), read_only=False)  # one pod a node, even if all only read
    if (iscsi := volume.iscsi) is not None:
        yield Disk(("iscsi", iscsi.iqn), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors:
            yield Disk(("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)
