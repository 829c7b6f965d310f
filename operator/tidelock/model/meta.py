"""The part of an object's metadata that Tidelock reads, and the common part of its own objects."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec


class Key(NamedTuple):
    """The name of an object of one kind: its namespace (empty if cluster-scoped) and name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Fault(NamedTuple):
    """A part of an object that can't be read, and was left out."""

    path: str
    problem: str
    needed: bool
    """Whether decisions need that part, so the object can't be used without it."""

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


def field_path(location: Iterable[int | str]) -> str:
    """Return the path of a field: `status.images[0].names`, `status.capacity[nvidia.com/gpu]`."""
    parts = (
        f".{part}" if isinstance(part, str) and part.isidentifier() else f"[{part}]" for part in location
    )
    return "".join(parts).removeprefix(".")


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """A link from an object to its owner."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """Identity, version and labels of any Kubernetes object, and the faults of its unreadable parts."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    faults: tuple[Fault, ...] = msgspec.field(default=(), name="tidelock.dev/faults")  # never on the wire

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The reference marked as the managing controller, if there is one."""
        return next((ref for ref in self.owner_references if ref.controller), None)

    @property
    def version(self) -> int:
        """The resource version as a number, which grows with every change, or 0 if it was never stored."""
        return int(self.resource_version or 0)

    @property
    def unreadable(self) -> str:
        """The faults of the parts that decisions need, or empty for an object that can be used."""
        return "; ".join(str(fault) for fault in self.faults if fault.needed) if self.faults else ""

    def is_other(self, uid: str) -> bool:
        """Whether another object has this uid. It is False if the own uid can't be read."""
        if self.uid == uid:
            return False
        return bool(self.uid) and all(fault.path != "metadata.uid" for fault in self.faults)

    @property
    def created(self) -> float:
        """Creation time in seconds since the epoch, or 0 for an object that was never stored."""
        return self.creation_timestamp.timestamp() if self.creation_timestamp else 0.0


class StoredObject(msgspec.Struct, frozen=True):
    """An object of a Tidelock kind: its spec and its status as plain JSON values."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    @property
    def problem(self) -> str:
        """The error of a spec that can't be read in full, or empty otherwise."""
        faults = (fault for fault in self.metadata.faults if fault.path.partition(".")[0] == "spec")
        return "; ".join(map(str, faults)) if self.metadata.faults else ""


class ForeignObject(msgspec.Struct, frozen=True, dict=True):
    """An object of a kind that others define. Subclasses have the parts that are read."""

    metadata: ObjectMeta

    @property
    def meta(self) -> ObjectMeta:
        """Identity and labels."""
        return self.metadata

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.key


def controlled_by(meta: ObjectMeta, api_version: str, kind: str) -> dict[str, Any]:
    """Return the reference of an object to its controller, with which it is deleted."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
    }
