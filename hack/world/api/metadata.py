"""The metadata that the server sets: uid, times, generation, and the fields that no update changes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from world.api.amounts import seconds_text
from world.api.causes import Cause
from world.api.kinds import Kind
from world.api.names import common_errors

Json = dict[str, Any]

_SUFFIX_LENGTH = 5
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_BASE = 58
_IMMUTABLE = {
    "name": "",
    "namespace": "",
    "uid": "",
    "deletionTimestamp": None,
    "deletionGracePeriodSeconds": None,
}


@dataclass(frozen=True)
class Stamps:
    """The source of times and uids.

    Attributes:
        clock: returns seconds since 1970.
        uids: returns a new uid, also the source of generated names.

    """

    clock: Callable[[], float]
    uids: Callable[[], str]

    @property
    def now(self) -> str:
        """The time as objects carry it."""
        return seconds_text(self.clock())

    def suffix(self) -> str:
        """Return the end of a generated name."""
        number, letters = hash_of(self.uids()), ""
        for _ in range(_SUFFIX_LENGTH):
            number, rest = divmod(number, len(_SUFFIX_LETTERS))
            letters += _SUFFIX_LETTERS[rest]
        return letters


def hash_of(text: str) -> int:
    """Return a number that depends only on a text."""
    return int.from_bytes(text.encode(), "big") % (2**61 - 1)


def stamp_new(kind: Kind, meta: Json, stamps: Stamps) -> None:
    """Set the metadata of a new object in place."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        meta.pop(name, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:_LONGEST_BASE] + stamps.suffix()
    meta["uid"] = stamps.uids()
    meta["creationTimestamp"] = stamps.now
    if kind.generation or kind.custom is not None:
        meta["generation"] = 1


def keep_fixed(meta: Json, old: Json) -> None:
    """Set what no update changes in place: uid if absent, creation, deletion."""
    for name in ("generation",):
        meta.pop(name, None)
        if name in old:
            meta[name] = old[name]
    meta["uid"] = meta.get("uid") or old["uid"]
    meta["creationTimestamp"] = old["creationTimestamp"]
    if "deletionTimestamp" in old:
        meta["deletionTimestamp"] = old["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in old:
        meta.setdefault("deletionGracePeriodSeconds", old["deletionGracePeriodSeconds"])
    if "selfLink" in meta:
        del meta["selfLink"]


def update_errors(meta: Json, old: Json) -> list[Cause]:
    """Return the errors of an update of metadata, as ValidateObjectMetaUpdate finds them."""
    found = []
    if "deletionTimestamp" in old:
        new = [each for each in meta.get("finalizers") or () if each not in (old.get("finalizers") or ())]
        if new:
            shown = "[]string{" + ", ".join(f'"{each}"' for each in new) + "}"
            detail = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
            )
            found.append(Cause.forbidden("metadata.finalizers", detail))
    found += [
        Cause.invalid(f"metadata.{name}", meta.get(name, absent), "field is immutable")
        for name, absent in _IMMUTABLE.items()
        if meta.get(name, absent) != old.get(name, absent)
    ]
    return [*found, *common_errors(meta)]
