"""An API server that keeps a Secret, tells of pods, and notes patches."""

from typing import Any

from builders import NOW, Json, encode
from tidelock.kube.client import KubeClient, Params
from tidelock.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

SECRET = "/api/v1/namespaces/system/secrets/tls"  # noqa: S105 -- its path


class ClusterStore(KubeClient):
    """Objects by their paths; `errors` are answers to the next requests."""

    def __init__(self) -> None:
        self._manager = None
        self.objects: dict[str, Json] = {}
        self.patches: list[tuple[str, Json]] = []
        self.errors: list[ApiError] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,  # noqa: ARG002 -- the client's signature
        body: Any = None,
        content_type: str = "application/json",  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
    ) -> bytes:
        if self.errors:
            raise self.errors.pop(0)
        if method == "PATCH":
            self.patches.append((path, body))
            return b"{}"
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise AlreadyExists("there is one", status=409)
        elif path not in self.objects:
            raise NotFound("no such object", status=404)
        if method != "GET":
            self._store(path, body)
        return encode(self.objects[path])

    def _store(self, path: str, body: Json) -> None:
        known = self.objects.get(path, {"metadata": {"resourceVersion": "0"}})["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion", known) != known:
            raise Conflict("it was modified", status=409)
        metadata = body["metadata"] | {"resourceVersion": str(int(known) + 1)}
        self.objects[path] = body | {"metadata": metadata}


class HandClock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time
