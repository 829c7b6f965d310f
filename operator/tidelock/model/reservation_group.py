"""A ReservationGroup, decoded once, and the Reservations that are its members."""

from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec
import pydantic

from tidelock.model.api.reservation_group import ReservationGroupSpec, ReservationGroupStatus
from tidelock.model.api.wire import legible, spec_problems
from tidelock.model.instants import stored_instant
from tidelock.model.lenient import Reader
from tidelock.model.lifetimes import latest_decision, removal_time
from tidelock.model.meta import Key, ObjectMeta, StoredObject, controlled_by

_API_VERSION = "tidelock.dev/v1alpha1"
_OWN = ("name", "count")
_OF_ALL = ("expireAt", "ttlSeconds", "pendingDeadlineSeconds", "priority")


@dataclass(frozen=True, slots=True)
class ReservationGroup:
    """One version of a ReservationGroup.

    For an unreadable spec there is only the `problem`. `members` are the specs of the Reservations by their
    names, and `status` is the stored status, all as plain JSON values.
    """

    meta: ObjectMeta
    spec: ReservationGroupSpec | None = None
    problem: str = ""
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.meta.key

    @property
    def finished_at(self) -> float | None:
        """The instant at which the group ended for good, if its status has one."""
        return stored_instant(self.status.get("finishedAt"))

    @property
    def removable_at(self) -> float | None:
        """The instant from which the object may be deleted, by the rules for a Reservation."""
        finished_at, spec = self.finished_at, self.spec
        if finished_at is None or spec is None:
            return None
        return removal_time(spec, str(self.status.get("phase")), finished_at)

    @property
    def too_late_at(self) -> float:
        """The instant after which it is too late to create members of a group that was never active."""
        if self.spec is None or not self.meta.created:
            return inf
        return latest_decision(self.meta.created, self.spec.pending_deadline_seconds)

    def waited(self, now: float) -> int:
        """Return the whole seconds for which the group has certainly existed."""
        return max(int(now - self.meta.created) - 1, 0) if self.meta.created else 0

    def manifest(self, name: str, waited: int = 0) -> dict[str, Any]:
        """Return the Reservation of a member, which is deleted with its group.

        Args:
            name: the member's name.
            waited: elapsed seconds of the group's deadline, since a member's own deadline counts from
                its creation.

        """
        owner = controlled_by(self.meta, _API_VERSION, "ReservationGroup")
        spec = self.members[name]
        if waited and self.spec is not None:
            left = max(self.spec.pending_deadline_seconds - waited, 0)
            spec = spec | {"pendingDeadlineSeconds": left}
        return {
            "apiVersion": _API_VERSION,
            "kind": "Reservation",
            "metadata": {"name": name, "namespace": self.meta.namespace, "ownerReferences": [owner]},
            "spec": spec,
        }


_READ = Reader(StoredObject)


def decode_group(raw: bytes | msgspec.Raw) -> ReservationGroup:
    """Decode a ReservationGroup from its JSON; a bad spec becomes the result's `problem`."""
    stored = _READ(raw)
    status = legible(ReservationGroupStatus, stored.status)
    try:
        spec = ReservationGroupSpec.model_validate(stored.spec)
    except pydantic.ValidationError as error:
        return ReservationGroup(stored.metadata, problem=spec_problems(error), status=status)
    if stored.problem:
        return ReservationGroup(stored.metadata, problem=stored.problem, status=status)
    members = _members(stored.metadata, spec, stored.spec)
    return ReservationGroup(stored.metadata, spec, "", members, status)


def _members(
    meta: ObjectMeta, spec: ReservationGroupSpec, plain: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the specs of the members. The remains of one show the group until it is deleted."""
    size = sum(kind.count for kind in spec.members)
    membership: dict[str, Any] = {
        "name": meta.name,
        "uid": meta.uid,
        "members": size,
        "minMembers": min(spec.min_members or size, size),
    }
    if "topology" in plain:
        membership["topology"] = plain["topology"]
    of_all = {name: plain[name] for name in _OF_ALL if name in plain}
    return {
        f"{meta.name}-{kind.name}-{number}": {name: asked[name] for name in asked if name not in _OWN}
        | of_all
        | {"retention": "Retain", "group": membership}
        for kind, asked in zip(spec.members, plain["members"], strict=True)
        for number in range(kind.count)
    }
