"""An API server that accepts patches and serves lists, as measuring needs."""

import json
from collections import deque
from dataclasses import dataclass
from typing import Any

from tidelock.kube.client import KubeClient, Params
from tidelock.kube.errors import ApiError, Conflict, NotFound
from unit.scheduler.fake_api import merged


@dataclass(frozen=True)
class Patch:
    """A patch that was sent."""

    path: str
    body: Any
    kind: str
    params: dict[str, str]


class PatchApi(KubeClient):
    """Records patches, serves pages of `objects` by path, and merges `statuses`."""

    def __init__(self) -> None:
        self._manager = None  # Without a leadership there is no field manager.
        self.patches: list[Patch] = []
        self.objects: dict[str, list[Any]] = {}
        self.faults: deque[ApiError | None] = deque()
        self.statuses: dict[str, Any] = {}

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 -- the client's signature
    ) -> bytes:
        if method == "PATCH":
            self.patches.append(Patch(path, body, content_type, dict(params or {})))
        error = self.faults.popleft() if self.faults else None
        if error is not None:
            raise error
        if method == "PATCH":
            return json.dumps(self._merge(path.removesuffix("/status"), body)).encode()
        if path not in self.objects:
            raise NotFound("no such object", status=404)
        pages = self.objects[path]
        token = int((params or {}).get("continue", "0"))
        more = {"continue": str(token + 1)} if token + 1 < len(pages) else {}
        answer = pages[token]
        if isinstance(answer, list):
            answer = {"metadata": {"resourceVersion": "1"} | more, "items": answer}
        return json.dumps(answer).encode()

    def _merge(self, path: str, patch: Any) -> Any:
        """Merge a status into its object, unless another client has written the object meanwhile."""
        if path not in self.statuses:
            return {}
        stored = self.statuses[path]
        if patch["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise Conflict("the object has been modified", status=409)
        version = str(int(stored["metadata"]["resourceVersion"]) + 1)
        made = merged(stored, patch | {"metadata": {"resourceVersion": version}})
        self.statuses[path] = made
        return made
