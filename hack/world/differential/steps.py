"""The steps of a sequence: requests with references to versions and uids that each server makes itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from world.differential.sides import Sent

Json = dict[str, Any]

JSON = "application/json"


@dataclass(frozen=True)
class Version:
    """The resourceVersion of an object as it was some answers ago. 0 is the newest that was seen."""

    path: str
    age: int = 0


@dataclass(frozen=True)
class Uid:
    """The uid of the newest object of a path."""

    path: str


@dataclass(frozen=True)
class Token:
    """The token with which the last list of a path goes on."""

    path: str


@dataclass(frozen=True)
class Step:
    """One request.

    With `events` it is a watch, which is read at the end of the sequence. With `user` it is sent in the name
    of that user. With `until` it is repeated until its answer has that status, which the real server's
    caches delay.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    content_type: str = JSON
    events: bool = False
    agent: str = "draw/1"
    user: str = ""
    until: int = 0


class Memory:
    """All that one server has answered in a sequence."""

    def __init__(self) -> None:
        self._versions: dict[str, list[str]] = {}
        self._uids: dict[str, str] = {}
        self._tokens: dict[str, str] = {}

    def learn(self, step: Step, body: Any) -> None:
        """Note the version and the uid of an object, or the token of a list."""
        if not isinstance(body, dict):
            return
        meta = body.get("metadata") or {}
        if body.get("kind", "").endswith("List"):
            self._tokens[step.path] = meta.get("continue", "")
        elif meta.get("uid") and "resourceVersion" in meta:
            path = step.path.removesuffix("/status")
            if step.method == "POST":
                path = f"{path}/{meta['name']}"
            self._uids[path] = meta["uid"]
            versions = self._versions.setdefault(path, [])
            if meta["resourceVersion"] not in versions:
                versions.append(meta["resourceVersion"])

    def resolve(self, value: Any) -> Any:
        """Return a value with its references replaced."""
        match value:
            case dict():
                return {key: self.resolve(each) for key, each in value.items()}
            case list():
                return [self.resolve(each) for each in value]
            case Version(path=path, age=age):
                versions = self._versions.get(path) or ["1"]
                return versions[max(len(versions) - 1 - age, 0)]
            case Uid(path=path):
                return self._uids.get(path, "no-uid")
            case Token(path=path):
                return self._tokens.get(path) or "none"
        return value

    def sent(self, step: Step) -> Sent:
        """Return the request of a step."""
        query = self.resolve(dict(step.query))
        target = step.path + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        body = self.resolve(step.body)
        encoded = (
            body.encode() if isinstance(body, str) else b"" if body is None else msgspec.json.encode(body)
        )
        headers = {"content-type": step.content_type, "user-agent": step.agent}
        if step.user:
            headers["impersonate-user"] = step.user
        return Sent(step.method, target, headers, encoded)
