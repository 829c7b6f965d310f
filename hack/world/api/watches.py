"""Watches: the events of a resource from a version on, bookmarks, and the error after a compaction."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from world.api import forms
from world.api.causes import Cause
from world.api.errors import expired, invalid_options
from world.api.kinds import Kind
from world.api.lists import requested_version
from world.api.selectors import Predicate, selection
from world.api.storage import Change, Storage, Stored

Json = dict[str, Any]

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """One open watch, a queue of encoded lines.

    Attributes:
        kind: kind of the watched objects.
        seconds: time after which the server ends the watch, or 0 without a limit.
        lines: events that were not taken yet, each a line of JSON.
        closed: whether no event follows.
        wake: called after each new event and at the end.

    """

    def __init__(self, storage: Storage, kind: Kind, namespace: str, query: Mapping[str, str]) -> None:
        self._storage = storage
        self.kind = kind
        self._prefix = f"{namespace}/" if namespace else ""
        self._chosen: Predicate = selection(kind, query)
        self._bookmarks = query.get("allowWatchBookmarks") in {"true", "1"}
        self.seconds = int(query.get("timeoutSeconds") or 0)
        self.lines: deque[bytes] = deque()
        self.closed = False
        self.wake: Callable[[], None] = lambda: None
        self._stop: Callable[[], None] = lambda: None
        self._start(query)

    def _start(self, query: Mapping[str, str]) -> None:
        asked, initial = requested_version(query), _initial_events(query)
        if asked and initial is not True:
            if asked < self._storage.compacted:
                self.refuse(f"too old resource version: {asked} ({self._storage.compacted})")
                return
            for change in self._storage.since(forms.resource_of(self.kind), asked):
                self.notify(change)
        elif initial is not False:
            table = self._storage.table(forms.resource_of(self.kind))
            for key in sorted(table):
                if key.startswith(self._prefix) and self._chosen(table[key].data):
                    self._send("ADDED", table[key])
            if self._bookmarks:
                self.bookmark(initial_end=True)
        self._stop = self._storage.follow(forms.resource_of(self.kind), self)

    def notify(self, change: Change) -> None:
        """Take a change, and send it if it concerns a selected object."""
        if not change.key.startswith(self._prefix):
            return
        before = change.before is not None and self._chosen(change.before.data)
        after = not change.deleted and self._chosen(change.after.data)
        if before and after:
            self._send("MODIFIED", change.after)
        elif after:
            self._send("ADDED", change.after)
        elif before and change.before is not None:
            last = change.after if change.deleted else _under(change.before, change.revision)
            self._send("DELETED", last)

    def _send(self, kind: str, stored: Stored) -> None:
        self.push(b'{"type":"%s","object":%s}\n' % (kind.encode(), forms.whole(self.kind, stored)))

    def push(self, line: bytes) -> None:
        """Append a line as it is."""
        self.lines.append(line)
        self.wake()

    def bookmark(self, *, initial_end: bool = False) -> None:
        """Send a bookmark of the newest revision, if the client allows bookmarks."""
        if not self._bookmarks or self.closed:
            return
        meta: Json = {"resourceVersion": str(self._storage.revision)}
        if initial_end:
            meta["annotations"] = {INITIAL_EVENTS_END: "true"}
        shown = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": meta}
        self.push(msgspec.json.encode({"type": "BOOKMARK", "object": shown}) + b"\n")

    def refuse(self, message: str) -> None:
        """Send an ERROR event with status 410, and end the watch."""
        self.push(msgspec.json.encode({"type": "ERROR", "object": expired(message).status}) + b"\n")
        self.close()

    def close(self) -> None:
        """End the watch."""
        self._stop()
        self.closed = True
        self.wake()


def _under(stored: Stored, revision: int) -> Stored:
    meta = stored.meta | {"resourceVersion": str(revision)}
    return Stored(stored.data | {"metadata": meta}, revision)


def _initial_events(query: Mapping[str, str]) -> bool | None:
    """Return sendInitialEvents, or None without it. Raises RefusedRequestError."""
    text = query.get("sendInitialEvents")
    match = query.get("resourceVersionMatch")
    if text is None:
        if match is not None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise invalid_options("ListOptions", [Cause.forbidden("resourceVersionMatch", detail)])
        return None
    if match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise invalid_options("ListOptions", [Cause.forbidden("resourceVersionMatch", detail)])
    return text in {"true", "1"}
