"""Deletions: preconditions, grace periods, finalizers and owners."""

from dataclasses import dataclass
from typing import Any, Self

from world.api.amounts import seconds_of, seconds_text
from world.api.causes import Cause
from world.api.decoding import DecodingError
from world.api.errors import bad_request, conflict, invalid_options
from world.api.kinds import Kind
from world.api.metadata import Stamps
from world.api.storage import Stored

Json = dict[str, Any]

_POLICIES = ("Foreground", "Background", "Orphan")
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class DeleteOptions:
    """The options of a deletion.

    Attributes:
        uid: required uid, or empty.
        version: required resourceVersion, or empty.
        grace: seconds that a pod gets to end, or None for its own.
        policy: propagationPolicy, or empty.
        dry_run: whether nothing is stored.

    """

    uid: str = ""
    version: str = ""
    grace: int | None = None
    policy: str = ""
    dry_run: bool = False

    @classmethod
    def read(cls, body: Json, query: dict[str, str]) -> Self:
        """Return the options of a request, from its body and its query. Raises RefusedRequestError."""
        plain = dict(body)
        for name in ("propagationPolicy", "dryRun"):
            if name in query:
                plain[name] = query[name]
        if "gracePeriodSeconds" in query:
            plain["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
        try:
            preconditions = plain.get("preconditions") or {}
            policy = plain.get("propagationPolicy") or ""
            grace = plain.get("gracePeriodSeconds")
            if not isinstance(policy, str) or not isinstance(grace, int | None) or isinstance(grace, bool):
                raise DecodingError("json: cannot unmarshal DeleteOptions")  # noqa: TRY301
            made = cls(
                preconditions.get("uid") or "",
                preconditions.get("resourceVersion") or "",
                grace,
                policy,
                bool(plain.get("dryRun")),
            )
        except (DecodingError, AttributeError) as error:
            raise bad_request(str(error)) from None
        if policy and policy not in _POLICIES:
            cause = Cause.unsupported("propagationPolicy", policy, (*_POLICIES, "nil"))
            raise invalid_options("DeleteOptions", [cause])
        return made


def check_preconditions(kind: Kind, stored: Stored, options: DeleteOptions) -> None:
    """Refuse a deletion of another object than the expected one. Raises RefusedRequestError."""
    meta = stored.meta
    if options.uid and options.uid != meta["uid"]:
        detail = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind, meta["name"], detail, by_kind=True)
    if options.version and options.version != meta["resourceVersion"]:
        detail = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion "
            f"in record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise conflict(kind, meta["name"], detail, by_kind=True)


@dataclass(frozen=True)
class Verdict:
    """The steps of a deletion: `marked` is the object to store first, and `removed` whether it goes then."""

    marked: Json | None
    removed: bool


def decide(kind: Kind, stored: Stored, options: DeleteOptions, stamps: Stamps) -> Verdict:
    """Return the steps of a deletion after its preconditions were checked."""
    data = stored.data | {"metadata": dict(stored.meta)}
    meta: Json = data["metadata"]
    graceful, pending = (False, False) if kind.kind != "Pod" else _grace(data, options, stamps)
    if kind.kind != "Pod" and "deletionTimestamp" in meta and not meta.get("finalizers"):
        return Verdict(None, removed=True)
    if pending:
        return Verdict(None, removed=False)
    policy = "" if kind.kind == "Event" else options.policy  # which no garbage collector looks at
    finalizers = _finalizers(meta.get("finalizers") or [], policy)
    changed = finalizers != (meta.get("finalizers") or [])
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if graceful:
        return Verdict(data, removed=not finalizers and not meta["deletionGracePeriodSeconds"])
    if not finalizers:
        return Verdict(None, removed=True)
    if "deletionTimestamp" in meta:
        if not changed and meta.get("deletionGracePeriodSeconds") == 0:
            return Verdict(None, removed=False)
    else:
        if "generation" in meta:
            meta["generation"] += 1
        meta["deletionTimestamp"] = stamps.now
    meta["deletionGracePeriodSeconds"] = 0
    return Verdict(data, removed=False)


def _finalizers(known: list[str], policy: str) -> list[str]:
    """Return the finalizers that a propagation policy leaves, which a garbage collector takes off."""
    if not policy:
        return known
    wanted = {"Foreground": _FOREGROUND, "Orphan": _ORPHAN}.get(policy)
    kept = [each for each in known if each not in {_FOREGROUND, _ORPHAN} or each == wanted]
    return [*kept, wanted] if wanted is not None and wanted not in kept else kept


def _grace(data: Json, options: DeleteOptions, stamps: Stamps) -> tuple[bool, bool]:
    """Set the time of a pod's deletion in place. Return whether that was done, and whether it was before."""
    meta, spec = data["metadata"], data["spec"]
    asked = options.grace if options.grace is None or options.grace >= 0 else 1
    if "deletionTimestamp" in meta:
        if "deletionGracePeriodSeconds" not in meta:
            return False, False
        before = meta["deletionGracePeriodSeconds"]
        if asked is None or asked >= before:
            return False, True
        began = seconds_of(meta["deletionTimestamp"]) - before
        meta["deletionTimestamp"] = seconds_text(began + asked)
        meta["deletionGracePeriodSeconds"] = asked
        return True, False
    period = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 0)
    if not spec.get("nodeName") or (data.get("status") or {}).get("phase") in _ENDED:
        period = 0
    period = 1 if period < 0 else period
    meta["deletionTimestamp"] = seconds_text(int(stamps.clock()) + period)
    meta["deletionGracePeriodSeconds"] = period
    meta["generation"] = meta.get("generation", 0) + 1
    return True, False


def ends_with(kind: Kind, data: Json) -> bool:
    """Return whether an update has removed the last reason to keep a deleted object."""
    meta = data["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    if kind.kind == "Namespace" and data["spec"].get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")
