"""Metrics and events of DynamicResources, as in kube-scheduler 1.37."""

from collections.abc import Iterable

from tidelock.framework.device_reports import DeviceReports
from tidelock.kube.events import EventRecorder
from tidelock.model.pods import Pod
from tidelock.model.resource_claims import ResourceClaim
from tidelock.scheduler.actions.binding import pod_reference
from tidelock.telemetry import Telemetry


class DeviceReporter(DeviceReports):
    """Writes the reports to the metrics, and to events of pods."""

    def __init__(self, recorder: EventRecorder, telemetry: Telemetry) -> None:
        self._recorder = recorder
        self._telemetry = telemetry

    def created(self, *, succeeded: bool) -> None:
        """Count an attempt to create the claim for a pod's extended resources."""
        labels = ("success" if succeeded else "failure", "false", "", "Pod")
        self._telemetry.claim_creates.labels(*labels).inc()

    def waits(self, pod: Pod, node_name: str) -> None:
        """Announce that a pod waits until its devices on a node are ready."""
        note = f"waiting for binding conditions for device on node {node_name}"
        self._recorder.record(pod_reference(pod), "Normal", "BindingConditionsPending", "Scheduling", note)

    def waited(self, pod: Pod, claims: Iterable[ResourceClaim], status: str, seconds: float) -> None:
        """Measure the end of the wait: once for each device, as kube-scheduler does."""
        for claim in claims:
            for device in claim.allocation.devices.results if claim.allocation is not None else ():
                labels = (pod.spec.scheduler_name, device.driver, status)
                self._telemetry.device_wait_duration.labels(*labels).observe(seconds)
                if device.binding_conditions:
                    self._telemetry.device_allocations.labels(*labels).inc()
