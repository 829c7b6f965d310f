from random import Random
from typing import Any

from builders import pod
from devices import DRIVER, allocated, resource_claim
from tidelock.scheduler.actions.device_reporter import DeviceReporter
from tidelock.telemetry import Telemetry


class Recorder:
    """The recorded events."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def record(self, *event: Any) -> None:
        self.events.append(event)


def test_reports_are_metrics_and_events_of_kube_scheduler() -> None:
    recorder: Any = Recorder()
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- not for secrets
    reporter = DeviceReporter(recorder, telemetry)
    waiting = pod(scheduler="devices")
    ready = allocated("d0")
    pending = allocated("d1", "d2", bindingConditions=["Ready"])
    reporter.waits(waiting, "node-a")
    claims = [resource_claim("a", status=ready), resource_claim("b", status=pending), resource_claim("c")]
    reporter.waited(waiting, claims, "timeout", 3.0)
    reporter.created(succeeded=True)
    reporter.created(succeeded=False)
    ((regarding, *event),) = recorder.events
    assert (regarding.kind, regarding.name) == ("Pod", "web-0")
    assert event == [
        "Normal",
        "BindingConditionsPending",
        "Scheduling",
        "waiting for binding conditions for device on node node-a",
    ]
    labels = {"profile": "devices", "driver": DRIVER, "status": "timeout"}
    sample = telemetry.registry.get_sample_value
    assert sample("scheduler_dra_bindingconditions_allocations_total", labels) == 2
    assert sample("scheduler_dra_bindingconditions_wait_duration_seconds_count", labels) == 3
    assert sample("scheduler_dra_bindingconditions_wait_duration_seconds_sum", labels) == 9.0
    for status in ("success", "failure"):
        owner = {"status": status, "admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}
        assert sample("dynamic_resource_allocation_resourceclaim_creates_total", owner) == 1
