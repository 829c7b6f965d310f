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
    """A container image on a node: all names that it has there, and its size in bytes."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    capacity: dict[str, str | int] = {}
    allocatable: dict[str, str | int] = {}
    conditions: tuple[_Condition, ...] = ()
    images: tuple[Image, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(msgspec.Struct, frozen=True, rename="camel", dict=True):
    """A node: its capacity for pods and what keeps pods away."""

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
        """What pods may use in all, `pods` being the count of them."""
        return parse_resources(self.status.allocatable)

    @cached_property
    def capacity(self) -> Resources:
        """What the node has in all, of which measured use is a part; by default what is allocatable."""
        return {**self.allocatable, **parse_resources(self.status.capacity)}

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Marks that keep away pods which do not tolerate them."""
        return self.spec.taints

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return self.spec.unschedulable

    @property
    def images(self) -> tuple[Image, ...]:
        """Container images that are there already."""
        return self.status.images

    @property
    def declared_features(self) -> tuple[str, ...]:
        """The features that the kubelet declares, sorted."""
        return self.status.declared_features

    @cached_property
    def ready(self) -> bool:
        """Whether the kubelet reports ready; a node that reports nothing counts as ready unless tainted."""
        if any(taint.key in NOT_READY_TAINTS for taint in self.taints):
            return False
        return all(c.status == "True" for c in self.status.conditions if c.type == "Ready")

    @property
    def sound(self) -> bool:
        """Whether nothing speaks against leaving pods and locks where they are."""
        return self.ready and not self.unschedulable

    def hosts_alike(self, other: "Node") -> bool:
        """Whether every pod fits both or neither, as far as the nodes themselves go."""
        return (
            self.allocatable == other.allocatable
            and self.meta.labels == other.meta.labels
            and self.spec == other.spec
            and self.ready == other.ready
            and self.meta.uid == other.meta.uid
            and self.meta.unreadable == other.meta.unreadable
            and self.declared_features == other.declared_features
        )


# Images and features only add to what a node is chosen for; a resource that can't be read is not there.
_READ = Reader(
    Node,
    spare=r"metadata\.(annotations|ownerReferences).*|status\.(images|conditions|declaredFeatures|capacity).*"
    r"|status\.allocatable(\[(?!ephemeral-storage\]).*|\.(?!(cpu|memory|pods)$).*)",
    check=lambda node: node.capacity,
)


def decode_node(raw: bytes | msgspec.Raw) -> Node:
    """Decode a node from its JSON, as far as it can be read; raises ValueError if it has no name."""
    node = _READ(raw)
    if not node.images:
        return node
    status = msgspec.structs.replace(node.status, images=tuple(map(_shared, node.images)))
    return msgspec.structs.replace(node, status=status)


@lru_cache(maxsize=65_536)
def _shared(image: Image) -> Image:
    """Give one object for equal images: many nodes have the same ones, and their names are long."""
    return image
