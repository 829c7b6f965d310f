"""Events of watches of pods and Reservations, with the fields that benchmarks read."""

import msgspec


class Meta(msgspec.Struct, rename="camel"):
    """The identity of an object, and its version."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Condition(msgspec.Struct):
    """A condition of an object."""

    type: str
    status: str
    reason: str = ""


class Spec(msgspec.Struct, rename="camel"):
    """The node of a pod, or the node that a Reservation wants."""

    node_name: str = ""


class Status(msgspec.Struct, rename="camel"):
    """The status of an object. The phase, the node and the instant are a Reservation's."""

    conditions: tuple[Condition, ...] = ()
    phase: str = ""
    node_name: str = ""
    activated_at: str = ""

    @property
    def active(self) -> bool:
        """Whether a Reservation holds its capacity."""
        return any(each.type == "Active" and each.status == "True" for each in self.conditions)


class Object(msgspec.Struct):
    """A pod or a Reservation."""

    metadata: Meta
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


class Event(msgspec.Struct):
    """One event of a watch. The type is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


decode_event = msgspec.json.Decoder(Event).decode
