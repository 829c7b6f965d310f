"""An API server that only lists pods, whatever selects them."""

from typing import Any

from builders import Json, encode
from tidelock.kube.client import KubeClient, Params
from tidelock.kube.errors import ApiError


class PodsApi(KubeClient):
    """Lists `pods`, and notes the `asked` paths with their parameters. `error` refuses a request."""

    def __init__(self, *pods: Json) -> None:
        self._manager = None
        self.pods = pods
        self.asked: list[tuple[str, Params]] = []
        self.patched: list[str] = []
        self.error: ApiError | None = None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Any = None,  # noqa: ARG002 -- the client's signature
        content_type: str = "application/json",  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
    ) -> bytes:
        if self.error is not None:
            raise self.error
        if method == "PATCH":
            self.patched.append(path)
            return b"{}"
        self.asked.append((path, params or {}))
        return encode({"metadata": {"resourceVersion": "7"}, "items": list(self.pods)})
