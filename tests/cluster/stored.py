"""A Reservation on the API server, written as users and as the operator write it."""

import json
from typing import Any

from cluster.api import Manifest
from devcluster import Cluster


class Stored:
    """A Reservation that was created in a namespace."""

    def __init__(self, cluster: Cluster, namespace: str, manifest: Manifest) -> None:
        self._cluster = cluster
        self._name = manifest["metadata"]["name"]
        self._target = ("rsv", self._name, "-n", namespace)
        manifest = manifest | {"metadata": {"name": self._name, "namespace": namespace}}
        cluster.kubectl("create", "-f", "-", input=json.dumps(manifest))

    def change_spec(self, **changes: Any) -> None:
        """Merge changes into the spec. None removes a field."""
        self._patch({"spec": changes})

    def change_status(self, **changes: Any) -> None:
        """Merge changes into the status."""
        self._patch({"status": changes}, "--subresource=status")

    def read(self) -> Manifest:
        """Return the object as it is stored."""
        stored: Manifest = json.loads(self._cluster.kubectl("get", *self._target, "-o", "json"))
        return stored

    def _patch(self, patch: Manifest, *options: str) -> None:
        self._cluster.kubectl("patch", *self._target, *options, "--type=merge", "-p", json.dumps(patch))
