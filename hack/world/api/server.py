"""The API server in memory: a request in, a response out, without I/O, wall clock or randomness."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import yaml

from world.api import discovery, reviews
from world.api.admission import Admission
from world.api.custom import CustomSchema
from world.api.errors import RefusedRequestError, method_not_allowed, no_such_page, no_such_path, not_found
from world.api.kinds import BUILTIN, REVIEWS, Kind
from world.api.metadata import Stamps
from world.api.operations import ADMINISTRATOR, Answer, Steps, User, WebhookCall, WebhookFailedError
from world.api.requests import Endpoint, Handlers
from world.api.storage import Storage
from world.api.watches import Watch
from world.api.writes import Writes

Json = dict[str, Any]

_CRDS = Path(__file__).parents[3] / "crds"
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


@dataclass(frozen=True)
class Request:
    """One request of a client.

    Attributes:
        method: HTTP method in capitals.
        target: path with its query, as in the request line.
        headers: headers by lower-case name.
        body: the body, may be empty.
        user: the user, as authentication has found it.

    """

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    user: User = ADMINISTRATOR


@dataclass
class Response:
    """The response. With a `watch`, the body is endless and consists of its lines."""

    code: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    watch: Watch | None = None


@cache
def own_kinds() -> tuple[Kind, ...]:
    """Return Tidelock's kinds, which all servers of a process share."""
    files = sorted(_CRDS.glob("*.yaml"))
    return tuple(kind_of_definition(yaml.load(each.read_bytes(), yaml.CSafeLoader)) for each in files)


def kind_of_definition(definition: Json) -> Kind:
    """Return the kind of a CustomResourceDefinition, with its stored version."""
    spec = definition["spec"]
    version = next(each for each in spec["versions"] if each["storage"])
    selectable = [each["jsonPath"].removeprefix(".") for each in version.get("selectableFields", ())]
    return Kind(
        spec["group"],
        version["name"],
        spec["names"]["plural"],
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
        frozenset(version.get("subresources", {})),
        generation=True,
        unconditional=False,
        selectable={path: path for path in selectable},
        custom=CustomSchema.read(version),
        short=next(iter(spec["names"].get("shortNames", ())), ""),
    )


class ApiServer:
    """An API server.

    Attributes:
        storage: its objects.
        stamps: the source of times and uids.
        kinds: the kinds by group, version and plural.

    """

    def __init__(
        self,
        clock: Callable[[], float],
        uids: Callable[[], str],
        *,
        custom: Iterable[Kind] | None = None,
        bootstrap: bool = True,
    ) -> None:
        """Make an empty server.

        Args:
            clock: returns seconds since 1970.
            uids: returns a new uid each time.
            custom: kinds beside those of Kubernetes. They are Tidelock's own if None.
            bootstrap: whether the namespaces and PriorityClasses of each cluster exist from the start.

        """
        self.storage = Storage()
        self.stamps = Stamps(clock, uids)
        kinds = (*BUILTIN, *(own_kinds() if custom is None else custom))
        self.kinds = {(each.group, each.version, each.plural): each for each in kinds}
        writes = Writes(self.storage, Admission(self.storage, self.kinds, self.stamps), self.stamps)
        self._handlers = Handlers(self.storage, writes, self.kinds)
        if bootstrap:
            self._bootstrap()

    def _bootstrap(self) -> None:
        for name in _NAMESPACES:
            self._seed("/api/v1/namespaces", {"metadata": {"name": name}})
        for name, value in _PRIORITY_CLASSES.items():
            body = {"metadata": {"name": name}, "value": value}
            self._seed("/apis/scheduling.k8s.io/v1/priorityclasses", body)

    def _seed(self, target: str, body: Json) -> None:
        self.handle(Request("POST", target, body=msgspec.json.encode(body)))

    def handle(self, request: Request, ask: Callable[[WebhookCall], Answer] | None = None) -> Response:
        """Return the response to a request.

        `ask` calls webhooks. Without it each call fails.
        """
        steps = self.process(request)
        try:
            call = next(steps)
            while True:
                answer = ask(call) if ask is not None else WebhookFailedError("no caller of webhooks")
                call = steps.send(answer)
        except StopIteration as finished:
            response: Response = finished.value
            return response

    def process(self, request: Request) -> Steps[Response]:
        """Handle a request step by step: yield the webhooks to call, and return the response."""
        try:
            return (yield from self._dispatch(request))
        except RefusedRequestError as refused:
            headers = {"Content-Type": "application/json"}
            if refused.retry_after:
                headers["Retry-After"] = str(refused.retry_after)
            if refused.plain:
                return Response(refused.code, refused.plain.encode(), {"Content-Type": "text/plain"})
            return Response(refused.code, msgspec.json.encode(refused.status), headers)

    def _dispatch(self, request: Request) -> Steps[Response]:
        url = urlsplit(request.target)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        if (known := self._unstored(url.path, parts, request)) is not None:
            return known
        endpoint = self._endpoint(parts)
        result = yield from self._handlers.handle(endpoint, request, query)
        if isinstance(result, Watch):
            return Response(200, watch=result)
        code, body = result
        return Response(code, body if isinstance(body, bytes) else msgspec.json.encode(body))

    def _unstored(self, path: str, parts: list[str], request: Request) -> Response | None:
        """Return the response for a path that has no stored objects, or None for others."""
        if path in _HEALTH:
            return Response(200, b"ok", {"Content-Type": "text/plain"})
        found: Json | None = None
        match parts:
            case ["version"]:
                found = discovery.VERSION
            case ["api"]:
                found = discovery.versions()
            case ["apis"]:
                found = discovery.groups(self.kinds.values())
            case ["api", version]:
                found = discovery.resources(self.kinds.values(), "", version)
            case ["apis", group, version]:
                found = discovery.resources(self.kinds.values(), group, version)
            case ["apis", group, _, plural] if (group, plural) in REVIEWS:
                if request.method != "POST":
                    raise method_not_allowed()
                return Response(201, msgspec.json.encode(reviews.answer(plural, request.body, request.user)))
            case _:
                return None
        if found is None:
            return Response(404, b"404 page not found\n", {"Content-Type": "text/plain"})
        return Response(200, msgspec.json.encode(found))

    def _endpoint(self, parts: list[str]) -> Endpoint:
        """Return the place that a path names. Raises RefusedRequestError."""
        match parts:
            case ["api", version, *rest]:
                group = ""
            case ["apis", group, version, *rest]:
                pass
            case _:
                raise no_such_path()
        namespace = ""
        if len(rest) >= 3 and rest[0] == "namespaces" and (group, version, rest[2]) in self.kinds:  # noqa: PLR2004
            namespace, rest = rest[1], rest[2:]
        kind = self.kinds.get((group, version, rest[0])) if rest else None
        if kind is None and any(
            each.custom is not None and each.group == group for each in self.kinds.values()
        ):
            raise no_such_page()
        if kind is None or len(rest) > 3 or bool(namespace) > kind.namespaced:  # noqa: PLR2004
            raise no_such_path()
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""  # noqa: PLR2004
        if subresource and subresource not in kind.subresources:
            raise no_such_path() if kind.custom is None else not_found(kind, name)
        if name and kind.namespaced and not namespace:
            raise no_such_path()
        return Endpoint(kind, namespace, name, subresource)
