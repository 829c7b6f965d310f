from dataclasses import replace
from random import Random

import pytest
from prometheus_client import generate_latest

from tidelock import __version__
from tidelock.framework.api import Code
from tidelock.ledger.effects import Transition
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.model.api.reservation import Phase
from tidelock.model.meta import ObjectMeta
from tidelock.telemetry import Telemetry


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, labels)


def change(event: Event, phase: Phase, *, at: float = 10.0, due: float = 10.0) -> Transition:
    return Transition(ObjectMeta("lock", "shop"), event, phase, "Reason", "message", at, due)


def test_buckets_are_the_same_as_in_kube_scheduler_to_the_last_digit() -> None:
    """Computed as powers instead of products, labels once differed from those of kube-scheduler."""
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.
    telemetry.ran("P", "Filter", Code.SUCCESS, 1.0)

    [family] = [
        each
        for each in telemetry.registry.collect()
        if each.name == "scheduler_plugin_execution_duration_seconds"
    ]
    bounds = [sample.labels["le"] for sample in family.samples if "le" in sample.labels]

    assert bounds[:4] == [
        "1e-05",
        "1.5000000000000002e-05",
        "2.2500000000000005e-05",
        "3.375000000000001e-05",
    ]
    assert bounds[-1] == "+Inf"


def test_a_gated_pod_counts_as_unschedulable() -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.

    telemetry.queued("gated", "UnscheduledPodAdd")

    labels = {"queue": "unschedulable", "event": "UnscheduledPodAdd"}
    assert value(telemetry, "scheduler_queue_incoming_pods_total", **labels) == 1


def test_a_reservation_that_becomes_active_counts_once() -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.

    telemetry.changed(change(Event.ADMIT, Phase.ACTIVE))

    assert value(telemetry, "tidelock_locks_total") == 1
    assert value(telemetry, "tidelock_reservation_transitions_total", event="admit", phase="Active") == 1


@pytest.mark.parametrize(
    ("event", "phase"),
    [(Event.CLAIM, Phase.BOUND), (Event.LOSE_NODE, Phase.LOST), (Event.DISPLACE, Phase.PENDING)],
)
def test_a_release_counts_by_its_cause(event: Event, phase: Phase) -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.

    telemetry.changed(change(event, phase))

    assert value(telemetry, "tidelock_releases_total", cause=event.value) == 1


def test_expiry_lag_is_the_time_since_the_reservation_was_due() -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.

    telemetry.changed(change(Event.EXPIRE, Phase.EXPIRED, at=10.25, due=10.0))

    assert value(telemetry, "tidelock_expiry_lag_seconds_sum") == pytest.approx(0.25)
    assert value(telemetry, "tidelock_releases_total", cause="expire") == 1


@pytest.mark.parametrize(("event", "policy"), [(Event.VIOLATE, "Keep"), (Event.DISPLACE, "Move")])
def test_a_violation_counts_by_the_policy_of_the_reservation(event: Event, policy: str) -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.
    violated = change(event, Phase.ACTIVE)
    telemetry.changed(violated)
    telemetry.changed(replace(violated, reason="Violated"))

    assert value(telemetry, "tidelock_reservation_violations_total", policy=policy) == 1


def test_rare_series_are_zero_before_their_first_event() -> None:
    """The first violation once made its series appear with 1, which no alert on an increase sees."""
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.

    assert [
        value(telemetry, "tidelock_reservation_violations_total", policy=policy)
        for policy in ("Keep", "Move")
    ] == [0, 0]
    assert value(telemetry, "tidelock_releases_total", cause="expire") == 0
    assert value(telemetry, "tidelock_reservation_activation_seconds_count", waited="false") == 0


def test_reservations_that_waited_for_capacity_are_measured_separately() -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.

    telemetry.activated(0.25, waited=False)
    telemetry.activated(60.0, waited=True)

    sums = [
        value(telemetry, "tidelock_reservation_activation_seconds_sum", waited=waited)
        for waited in ("false", "true")
    ]
    assert sums == [0.25, 60.0]


def test_a_scrape_has_process_metrics_and_version_and_no_created_series() -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret.
    telemetry.schedule_attempts.labels("scheduled", "p").inc()

    text = generate_latest(telemetry.registry).decode()

    assert "_created" not in text
    assert f'tidelock_build_info{{version="{__version__}"}} 1.0' in text
    assert (value(telemetry, "process_resident_memory_bytes") or 0) > 0
