"""A client of a server in memory without a connection, for tests and scripts."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from world.api.operations import ADMINISTRATOR, Answer, User, WebhookCall
from world.api.patches import MERGE
from world.api.server import ApiServer, Request
from world.api.watches import Watch

Json = dict[str, Any]

_START = 1_800_000_000.0  # seconds since 1970, in 2027


class Reply(NamedTuple):
    """A response with its JSON."""

    code: int
    body: Any

    @property
    def message(self) -> str:
        """The message of a refusal."""
        return str(self.body["message"])


class LocalClient:
    """Sends requests to a server in memory, and returns at once.

    Attributes:
        server: the server.
        now: the server's clock, in seconds since 1970.
        ask: calls webhooks, or None if there are none.

    """

    def __init__(self, *, user: User = ADMINISTRATOR) -> None:
        numbers = itertools.count(1)
        self.now = _START
        self.ask: Callable[[WebhookCall], Answer] | None = None
        self.server = ApiServer(lambda: self.now, lambda: f"00000000-0000-4000-8000-{next(numbers):012d}")
        self._user = user

    def acting(self, name: str) -> "LocalClient":
        """Return a client of the same server with another user."""
        other = LocalClient.__new__(LocalClient)
        other.__dict__ |= self.__dict__ | {"_user": User(name, ("system:authenticated",))}
        return other

    def send(
        self, method: str, target: str, body: Any = None, content_type: str = "application/json"
    ) -> Reply:
        """Send a request. The body is JSON, or bytes as they are."""
        encoded = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        request = Request(method, target, {"content-type": content_type}, encoded, self._user)
        response = self.server.handle(request, self.ask)
        return Reply(response.code, msgspec.json.decode(response.body))

    def get(self, target: str) -> Reply:
        """Read an object or a list."""
        return self.send("GET", target)

    def create(self, target: str, body: Any) -> Reply:
        """Create an object, or post to a subresource."""
        return self.send("POST", target, body)

    def replace(self, target: str, body: Any) -> Reply:
        """Replace an object."""
        return self.send("PUT", target, body)

    def patch(self, target: str, body: Any, content_type: str = MERGE) -> Reply:
        """Patch an object."""
        return self.send("PATCH", target, body, content_type)

    def delete(self, target: str, options: Json | None = None) -> Reply:
        """Delete an object."""
        return self.send("DELETE", target, options)

    def watch(self, target: str) -> Watch:
        """Open a watch. Raises LookupError if it is refused."""
        response = self.server.handle(Request("GET", target, user=self._user))
        if response.watch is None:
            raise LookupError(response.body.decode())
        return response.watch


def events_of(watch: Watch) -> list[Json]:
    """Take the events off a watch."""
    found = [msgspec.json.decode(line) for line in watch.lines]
    watch.lines.clear()
    return found
