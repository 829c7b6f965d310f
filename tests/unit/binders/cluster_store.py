"""An API server that stores objects and records patches."""

from typing import Any

from builders import Json, encode
from tidelock.binders.webhooks import WEBHOOK_NAMES
from tidelock.kube.client import KubeClient, Params
from tidelock.kube.errors import AlreadyExists, ApiError, Conflict, NotFound

SECRET = "/api/v1/namespaces/system/secrets/tls"  # noqa: S105 -- its path
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/tidelock"


def webhook(name: str, client_config: Json) -> Json:
    """Return one webhook."""
    return {"name": name, "clientConfig": client_config}


class ClusterStore(KubeClient):
    """Objects by path, `patches` of all objects except the Secret, and `errors` for the next requests."""

    def __init__(self) -> None:
        self._manager = None
        self.objects: dict[str, Json] = {}
        self.patches: list[tuple[str, Json]] = []
        self.errors: list[ApiError] = []
        self.call_at()
        self._store(SECRET, {"metadata": {"name": "tls"}})

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
            if path == SECRET:
                self._fill(body)
                return b"{}"
            self.patches.append((path, body))
            if path == WEBHOOKS:
                self._merge(body)
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

    def _fill(self, body: Json) -> None:
        """Merge a patch into the Secret, which must exist."""
        if SECRET not in self.objects:
            raise NotFound("no such object", status=404)
        known = self.objects[SECRET].get("data")
        data = (known if isinstance(known, dict) else {}) | body["data"]
        present = {name: value for name, value in data.items() if value is not None}
        self._store(SECRET, {"metadata": {"name": "tls"} | body["metadata"], "data": present})

    def _merge(self, body: Json) -> None:
        """Merge a strategic patch into the webhooks, which are a list with the name as key."""
        stored = self.objects[WEBHOOKS]
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise Conflict("it was modified", status=409)
        webhooks = {each["name"]: each["clientConfig"] for each in stored["webhooks"]}
        for each in body["webhooks"]:
            known = webhooks.setdefault(each["name"], {})
            merged = known | each["clientConfig"]
            if "service" in merged:
                merged["service"] = known.get("service", {}) | merged["service"]
            webhooks[each["name"]] = merged
        self._store(
            WEBHOOKS,
            {"metadata": {"name": "tidelock"}, "webhooks": [webhook(*each) for each in webhooks.items()]},
        )

    def call_at(self, path: str = "") -> None:
        """Configure the webhooks to call the Service at a path, as any client can."""
        service = {"name": "tidelock-binders"} | ({"path": path} if path else {})
        webhooks = [webhook(name, {"service": service}) for name in WEBHOOK_NAMES]
        self._store(WEBHOOKS, {"metadata": {"name": "tidelock"}, "webhooks": webhooks})

    @property
    def paths(self) -> set[str]:
        """Return the paths that the webhooks call now."""
        webhooks = self.objects[WEBHOOKS]["webhooks"]
        return {each["clientConfig"]["service"].get("path", "") for each in webhooks}

    def _store(self, path: str, body: Json) -> None:
        known = self.objects.get(path, {"metadata": {"resourceVersion": "0"}})["metadata"]["resourceVersion"]
        if body["metadata"].get("resourceVersion", known) != known:
            raise Conflict("it was modified", status=409)
        metadata = body["metadata"] | {"resourceVersion": str(int(known) + 1)}
        self.objects[path] = body | {"metadata": metadata}
