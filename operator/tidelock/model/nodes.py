"""Nodes as the scheduler sees them."""

from functools import cached_property, lru_cache

import msgspec

from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta
from tidelock.model.quantities import Resources, parse_resources
from tidelock.model.selectors import Taint

NOT_READY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class Image(msgspec.Struct, frozen=True, rename="camel"):
    """A container image on a node: all its names there, and its size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    capacity: dict[str, str | int] = {}
    allocatable: dict[str, str | int] = {}
    conditions: tuple[_Condition, ...] = ()
    images: tuple[Image, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """A node: its capacity for pods, and the marks that keep pods away."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name

    @cached_property
    def allocatable(self) -> Resources:
        """The amounts that all pods together may use, with `pods` as their number."""
        return parse_resources(self.status.allocatable)

    @cached_property
    def capacity(self) -> Resources:
        """The total amounts of the node, of which measured use is a part. The default is its allocatable."""
        return {**self.allocatable, **parse_resources(self.status.capacity)}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints, which keep away pods that do not tolerate them."""
        return self.spec.taints

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return self.spec.unschedulable

    @property
    def images(self) -> tuple[Image, ...]:
        """Container images that are already on the node."""
        return self.status.images

    @property
    def declared_features(self) -> tuple[str, ...]:
        """The features that the kubelet declares, sorted."""
        return self.status.declared_features

    @cached_property
    def ready(self) -> bool:
        """Whether the kubelet reports ready. A node without a report counts as ready unless it is tainted."""
        if any(taint.key in NOT_READY_TAINTS for taint in self.taints):
            return False
        return all(c.status == "True" for c in self.status.conditions if c.type == "Ready")

    @property
    def sound(self) -> bool:
        """Whether pods and reservations can stay on the node."""
        return self.ready and not self.unschedulable

    def hosts_alike(self, other: "Node") -> bool:
        """Return whether every pod fits on both nodes or on neither, as far as the nodes matter."""
        return (
            self.allocatable == other.allocatable
            and self.meta.labels == other.meta.labels
            and self.spec == other.spec
            and self.ready == other.ready
            and self.meta.uid == other.meta.uid
            and self.meta.unreadable == other.meta.unreadable
            and self.declared_features == other.declared_features
        )


# Images and features only make a node more welcome. A resource that can't be read counts as absent.
_READ = Reader(
    Node,
    spare=r"metadata\.(annotations|ownerReferences).*|status\.(images|conditions|declaredFeatures|capacity).*"
    r"|status\.allocatable(\[(?!ephemeral-storage\]).*|\.(?!(cpu|memory|pods)$).*)",
    check=lambda node: node.capacity,
)


def decode_node(raw: bytes | msgspec.Raw) -> Node:
    """Decode a node from its JSON, as far as it can be read, or raise ValueError if it has no name."""
    node = _READ(raw)
    if not node.images:
        return node
    status = msgspec.structs.replace(node.status, images=tuple(map(_shared, node.images)))
    return msgspec.structs.replace(node, status=status)


@lru_cache(maxsize=65_536)
def _shared(image: Image) -> Image:
    """Return one object for equal images, since many nodes have the same images with long names."""
    return image
