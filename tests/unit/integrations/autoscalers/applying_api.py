"""An API server that knows server-side apply by one field manager."""

from collections import defaultdict
from typing import Any

from builders import Json, encode
from tidelock.kube.client import Params
from tidelock.kube.errors import Conflict, NotFound
from unit.scheduler.fake_api import Asked, FakeApi


class ApplyingApi(FakeApi):
    """Keeps account of applied annotations. All other content of an apply replaces the stored one.

    `absent` are the parts of paths of resources that the server does not have.
    """

    def __init__(self) -> None:
        super().__init__()
        self.absent: set[str] = set()
        self._owned: defaultdict[str, set[str]] = defaultdict(set)

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
        if content_type != "application/apply-patch+yaml":
            return await super().request(method, path, params=params, body=body)
        self.asked.append(Asked(method, path, body, content_type))
        await self.gate.wait()
        if any(part in path for part in self.absent):
            raise NotFound("the server could not find the requested resource", status=404)
        assert params is not None
        return encode(self._apply(path, body, force=params["force"] == "true"))

    def _apply(self, path: str, body: Json, *, force: bool) -> Json:
        new: Json = {"metadata": {"uid": f"uid-{body['metadata']['name']}", "resourceVersion": "0"}}
        stored = self.objects.get(path, new)
        self.objects[path] = stored
        self._check(path, body["metadata"])
        before = stored["metadata"].get("annotations", {})
        wanted = body["metadata"].get("annotations", {})
        if not force and any(before.get(key, value) != value for key, value in wanted.items()):
            raise Conflict("conflict with another manager", status=409)
        mine = self._owned[path]
        kept = {key: value for key, value in before.items() if key not in mine or key in wanted}
        mine.update(key for key in wanted if key not in before)
        mine &= wanted.keys()
        version = str(int(stored["metadata"]["resourceVersion"]) + 1)
        metadata = stored["metadata"] | body["metadata"] | {"annotations": kept | wanted}
        self.objects[path] = stored | body | {"metadata": metadata | {"resourceVersion": version}}
        return self.objects[path]
