"""An API server that keeps its objects in a dictionary."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from builders import Json, encode
from tidelock.kube.client import KubeClient, Params
from tidelock.kube.errors import AlreadyExists, ApiError, Conflict, NotFound


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was sent."""

    method: str
    path: str
    body: Any
    content_type: str


class FakeApi(KubeClient):
    """Objects by their paths, with versions and preconditions. Failures are injected in order.

    Attributes:
        refuses: errors of requests by method, until the entry is removed.
        refuses_paths: errors of the requests for an object, by its path.
        unknown_fields: names of fields of a status that the CRD does not have, at any depth.

    """

    def __init__(self) -> None:
        self._manager = None  # a client that manages nothing names no field manager
        self.objects: dict[str, Json] = {}
        self.asked: list[Asked] = []
        self.refuses: dict[str, ApiError] = {}
        self.refuses_paths: dict[str, ApiError] = {}
        self.unknown_fields: frozenset[str] = frozenset()
        self.gate = asyncio.Event()
        self.gate.set()
        self._faults: deque[tuple[Exception, bool]] = deque()

    def fails(self, *errors: Exception) -> None:
        """Refuse the next requests."""
        self._faults.extend((error, False) for error in errors)

    def loses(self, error: ApiError) -> None:
        """Carry out the next request, but lose the response."""
        self._faults.append((error, True))

    @property
    def verbs(self) -> list[str]:
        return [asked.method for asked in self.asked]

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,  # noqa: ARG002 -- the client's signature
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 -- the client's signature
    ) -> bytes:
        self.asked.append(Asked(method, path, body, content_type))
        await self.gate.wait()
        error, carried_out = self._faults.popleft() if self._faults else (None, True)
        refused = self.refuses.get(method) or self.refuses_paths.get(_object_path(path))
        answer = self._carry_out(method, path, body) if carried_out and refused is None else {}
        error = error or refused
        if error is not None:
            raise error
        return encode(answer)

    def edit(self, path: str, patch: Json) -> Json:
        """Change an object, as another client would."""
        stored = merged(self.objects[path], patch)
        stored["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)
        self.objects[path] = stored
        return stored

    def _carry_out(self, method: str, path: str, body: Any) -> Json:
        path = _object_path(path)
        if method == "POST" and path.endswith(("/reservations", "/reservationgroups")):
            return self._create(f"{path}/{body['metadata']['name']}", body)
        if path.endswith("/eviction"):
            return self._carry_out("DELETE", path.removesuffix("/eviction"), body["deleteOptions"])
        if path not in self.objects:
            raise NotFound("no such object", status=404)
        if method == "GET":
            return self.objects[path]
        if method == "DELETE":
            self._check(path, body["preconditions"])
            return self.objects.pop(path)
        self._check(path, body["metadata"])
        return self._change(method, path, body)

    def _change(self, method: str, path: str, body: Any) -> Json:
        """Bind a pod, or replace or patch a status."""
        if method == "POST":
            told = {"annotations": body["metadata"].get("annotations", {})}
            return self.edit(path, {"spec": {"nodeName": body["target"]["name"]}, "metadata": told})
        if method == "PUT":
            return self._replace_status(path, body["status"])
        said = {"annotations": body["metadata"].get("annotations", {})}
        return self.edit(path, {"status": body.get("status", {}), "metadata": said})

    def _replace_status(self, path: str, status: Json) -> Json:
        """Replace the status, and nothing besides. An equal one makes no new version, as in the real one."""
        stored, status = self.objects[path], _pruned(status, self.unknown_fields)
        if stored.get("status") == status:
            return stored
        self.objects[path] = {**stored, "status": {}}
        return self.edit(path, {"status": status})

    def _create(self, path: str, body: Json) -> Json:
        if path in self.objects:
            raise AlreadyExists("it is there", status=409)
        given = {"uid": f"uid-{body['metadata']['name']}", "resourceVersion": "1", "generation": 1}
        self.objects[path] = body | {
            "metadata": body["metadata"] | given,
            "status": {"observedGeneration": -1},
        }
        return self.objects[path]

    def _check(self, path: str, wanted: Json) -> None:
        stored = self.objects[path]["metadata"]
        if any(wanted.get(field, stored[field]) != stored[field] for field in ("uid", "resourceVersion")):
            raise Conflict("the object has been modified", status=409)


def _object_path(path: str) -> str:
    return path.removesuffix("/status").removesuffix("/binding")


def _pruned(value: Any, unknown: frozenset[str]) -> Any:
    """Return a value without the fields of these names."""
    if isinstance(value, dict):
        return {name: _pruned(each, unknown) for name, each in value.items() if name not in unknown}
    return [_pruned(each, unknown) for each in value] if isinstance(value, list) else value


def merged(old: Json, patch: Json) -> Json:
    """Apply a JSON merge patch."""
    new = dict(old)
    for field, value in patch.items():
        if value is None:
            new.pop(field, None)
        elif isinstance(value, dict):
            new[field] = merged(new.get(field, {}), value)
        else:
            new[field] = value
    return new
