"""A Reservation on the API server, written as users and as the operator write it."""

from typing import Any

from cluster.api import Api, Manifest
from tidelock.kube.client import RESERVATIONS


class Stored:
    """A Reservation that was created in a namespace."""

    def __init__(self, api: Api, namespace: str, manifest: Manifest) -> None:
        self._api = api
        name = manifest["metadata"]["name"]
        self._path = RESERVATIONS.item(name, namespace)
        api.create(
            RESERVATIONS.collection(namespace),
            manifest | {"metadata": {"name": name, "namespace": namespace}},
        )

    def change_spec(self, **changes: Any) -> None:
        """Merge changes into the spec. None removes a field."""
        self._api.merge(self._path, {"spec": changes})

    def change_status(self, **changes: Any) -> None:
        """Merge changes into the status."""
        self._api.merge(f"{self._path}/status", {"status": changes})

    def read(self) -> Manifest:
        """Return the object as it is stored."""
        return self._api.get(self._path)
