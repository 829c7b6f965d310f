"""Events of watches of pods and Reservations, as far as benchmarks look at them."""

import msgspec


class Meta(msgspec.Struct, rename="camel"):
    """Which object it is, in which version."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""


class Condition(msgspec.Struct):
    """What holds of it, or not."""

    type: str
    status: str
    reason: str = ""


class Spec(msgspec.Struct, rename="camel"):
    """Where a pod is bound to, or a Reservation wants its room."""

    node_name: str = ""


class Status(msgspec.Struct, rename="camel"):
    """What became of it; the phase, the node and the instant are a Reservation's."""

    conditions: tuple[Condition, ...] = ()
    phase: str = ""
    node_name: str = ""
    activated_at: str = ""

    @property
    def active(self) -> bool:
        """Whether a Reservation holds its room."""
        return any(each.type == "Active" and each.status == "True" for each in self.conditions)


class Object(msgspec.Struct):
    """A pod or a Reservation."""

    metadata: Meta
    spec: Spec = msgspec.field(default_factory=Spec)
    status: Status = msgspec.field(default_factory=Status)


class Event(msgspec.Struct):
    """One line of a watch; the type is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: Object


decode_event = msgspec.json.Decoder(Event).decode
