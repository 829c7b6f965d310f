"""The forms in which an object is sent: whole, as the item of a list, and in another version of its API."""

from typing import Any

from world.api.kinds import Kind
from world.api.storage import Stored

Json = dict[str, Any]

EVENTS_GROUP = "events.k8s.io"
# Fields of an Event in the core group, by their names in events.k8s.io.
_EVENT_FIELDS = {
    "note": "message",
    "regarding": "involvedObject",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_CORE_FIELDS = {core: other for other, core in _EVENT_FIELDS.items()}
_ALWAYS_IN_CORE = {"involvedObject": {}, "source": {}, "reportingComponent": "", "reportingInstance": ""}


def resource_of(kind: Kind) -> str:
    """Return the name under which objects of a kind are stored. Events are the same in both groups."""
    return "events" if kind.plural == "events" else kind.resource


def as_stored(kind: Kind, data: Json) -> Json:
    """Return a decoded object in the version that is stored."""
    if kind.group != EVENTS_GROUP:
        return data
    renamed = {_EVENT_FIELDS.get(name, name): value for name, value in data.items()}
    renamed |= {"apiVersion": "v1"}
    for name, empty in _ALWAYS_IN_CORE.items():
        renamed.setdefault(name, empty)
    return renamed


def as_served(kind: Kind, data: Json) -> Json:
    """Return a stored object in the version of a kind."""
    if kind.group != EVENTS_GROUP:
        return data
    renamed = {_CORE_FIELDS.get(name, name): value for name, value in data.items()} | {
        "apiVersion": kind.api_version
    }
    for name in ("reportingController", "reportingInstance"):
        if not renamed.get(name):
            renamed.pop(name, None)
    return renamed


def whole(kind: Kind, stored: Stored) -> bytes:
    """Return the JSON of an object."""
    return stored.encoded(kind.group, lambda data: as_served(kind, data))


def item(kind: Kind, stored: Stored) -> bytes:
    """Return the JSON of an object in a list. Kubernetes' own kinds have no kind and version there."""
    if kind.custom is not None:
        return whole(kind, stored)
    return stored.encoded(f"{kind.group} item", lambda data: _nameless(as_served(kind, data)))


def _nameless(data: Json) -> Json:
    return {name: value for name, value in data.items() if name not in {"apiVersion", "kind"}}
