"""The reports of DynamicResources about bindings, for metrics and events."""

from collections.abc import Iterable
from typing import Protocol

from tidelock.model.pods import Pod
from tidelock.model.resource_claims import ResourceClaim


class DeviceReports(Protocol):
    """Takes the reports."""

    def created(self, *, succeeded: bool) -> None:
        """Count an attempt to create the claim for a pod's extended resources."""

    def waits(self, pod: Pod, node_name: str) -> None:
        """Announce that a pod waits until its devices on a node are ready."""

    def waited(self, pod: Pod, claims: Iterable[ResourceClaim], status: str, seconds: float) -> None:
        """Measure the end of the wait.

        Args:
            pod: the pod.
            claims: its claims.
            status: the outcome: success, failure, timeout or error.
            seconds: the duration.

        """
