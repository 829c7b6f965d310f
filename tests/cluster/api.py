"""A small client of the API server for tests, with plain JSON and fast enough for polling."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import copy
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from tidelock.kube.config import load_connection

Manifest = dict[str, Any]

_TIMEOUT = 60.0  # seconds
_BUSY = 10.0  # seconds for which an API server that is ready may be unable to judge a request
_PAGE = 200  # objects of a collection that one request deletes
_MERGE_PATCH = "application/merge-patch+json"
_APPLY_PATCH = "application/apply-patch+yaml"


class RefusedError(Exception):
    """The API server refused a request. `status` is the HTTP status code, and the text is its answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def message(self) -> str:
        """The message of the answer, for which kubectl prints "Error from server"."""
        message: str = json.loads(str(self))["message"]
        return message


class Api:
    """A client with one identity at one API server.

    Each request has a connection of its own, so restarts of the server do not matter.
    """

    def __init__(self, kubeconfig: Path) -> None:
        connection = load_connection(kubeconfig)
        self._server = urlsplit(connection.server)
        self._tls = connection.ssl_context()
        header = connection.credentials.header()
        self._headers = {"Authorization": header} if header else {}

    def acting(self, user: str) -> Self:
        """Return a client that impersonates another user."""
        other = copy(self)
        other._headers = self._headers | {"Impersonate-User": user}
        return other

    def get(self, path: str) -> Manifest:
        """Read an object or a list."""
        return self._request("GET", path)

    def headers(self, path: str) -> http.client.HTTPMessage:
        """Read an object or a list, and return the headers of the answer."""
        with closing(self._connect()) as connection:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            response.read()
            return response.headers

    def create(self, path: str, manifest: Manifest) -> Manifest:
        """Create an object in a collection. An unknown field is an error, as with kubectl."""
        return self._request("POST", _with(path, "fieldValidation=Strict"), manifest)

    def replace(self, path: str, manifest: Manifest) -> Manifest:
        """Replace the stored object, or a subresource of it."""
        return self._request("PUT", path, manifest)

    def post(self, path: str, body: Manifest) -> Manifest:
        """Post to a path as it is, such as a subresource's."""
        return self._request("POST", path, body)

    def merge(self, path: str, patch: Manifest) -> Manifest:
        """Merge a patch into an object. None removes a field."""
        return self._request("PATCH", path, patch, _MERGE_PATCH)

    def edit(self, path: str, change: Callable[[Manifest], None]) -> Manifest:
        """Change an object in place and replace the stored one, again if another program was faster."""
        while True:
            manifest = self.get(path)
            change(manifest)
            try:
                return self.replace(path, manifest)
            except RefusedError as refused:
                if refused.status != HTTPStatus.CONFLICT:
                    raise

    def forbidden(self, path: str, patch: Manifest) -> str:
        """Try a patch without storing it, and return why it is forbidden, or an empty text."""
        try:
            self.merge(f"{path}?dryRun=All", patch)
        except RefusedError as refused:
            if refused.status != HTTPStatus.FORBIDDEN:
                raise
            return str(refused)
        return ""

    def apply(self, path: str, manifest: Manifest) -> Manifest:
        """Apply a manifest as GitOps tools do: create the object, or update the existing one."""
        query = urlencode({"fieldManager": "gitops", "force": "true"})
        return self._request("PATCH", f"{path}?{query}", manifest, _APPLY_PATCH)

    def delete(self, path: str, *, grace: int = 0) -> None:
        """Delete an object with a grace period in seconds."""
        self._request("DELETE", _with(path, f"gracePeriodSeconds={grace}"))

    def delete_all(self, collection: str) -> None:
        """Delete all objects of a collection, in pages, as the API server ends a request after a minute."""
        page = _with(collection, f"gracePeriodSeconds=0&limit={_PAGE}")
        while self._request("DELETE", page)["metadata"].get("continue"):
            pass

    def watch(self, path: str, seconds: int, **parameters: str) -> Iterator[tuple[str, Manifest]]:
        """Yield (type, object) of the events of a collection, for at most this many seconds."""
        query = urlencode({"watch": "1", "timeoutSeconds": str(seconds), **parameters})
        with closing(self._connect()) as connection:
            connection.request("GET", f"{path}?{query}", headers=self._headers)
            response = connection.getresponse()
            for line in response:
                event = json.loads(line)
                yield event["type"], event["object"]

    def _request(
        self, method: str, path: str, body: Manifest | None = None, content_type: str = "application/json"
    ) -> Manifest:
        deadline = time.monotonic() + _BUSY
        while True:
            status, text = self._send(method, path, body, content_type)
            if not _is_busy(status, text) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise RefusedError(status, text)
        answer: Manifest = json.loads(text)
        return answer

    def _send(self, method: str, path: str, body: Manifest | None, content_type: str) -> tuple[int, str]:
        with closing(self._connect()) as connection:
            connection.request(
                method,
                path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": content_type} | self._headers,
            )
            response = connection.getresponse()
            return response.status, response.read().decode()

    def _connect(self) -> http.client.HTTPSConnection:
        host, port = self._server.hostname or "", self._server.port
        return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._tls)


def _is_busy(status: int, text: str) -> bool:
    """Return whether the API server can't judge a request now: a kind, or the parameters of a policy."""
    if status == http.HTTPStatus.TOO_MANY_REQUESTS:
        return "storage is (re)initializing" in text
    return status == http.HTTPStatus.UNPROCESSABLE_ENTITY and "context deadline exceeded" in text


def _with(path: str, parameter: str) -> str:
    return f"{path}{'&' if '?' in path else '?'}{parameter}"
