from dataclasses import replace
from random import Random

import pytest

from tidelock.ledger.book import Change
from tidelock.ledger.transitions import Event
from tidelock.model.meta import ObjectMeta
from tidelock.model.reservations import Phase
from tidelock.telemetry import Telemetry


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, labels)


def change(event: Event, phase: Phase, *, at: float = 10.0, due: float = 10.0) -> Change:
    return Change(ObjectMeta("lock", "shop"), event, phase, "Reason", "message", at, due)


@pytest.mark.parametrize(
    ("family", "labels", "bounds"),
    [
        ("scheduler_scheduling_attempt_duration_seconds", ("scheduled", "p"), (0.001, 0.001 * 2**14)),
        ("scheduler_pod_scheduling_sli_duration_seconds", ("1",), (0.01, 0.01 * 2**19)),
        ("scheduler_pod_scheduling_attempts", (), (1, 16)),
    ],
)
def test_buckets_are_those_of_kube_scheduler(
    family: str, labels: tuple[str, ...], bounds: tuple[float, float]
) -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret
    histograms = {
        "scheduler_scheduling_attempt_duration_seconds": telemetry.scheduling_attempt_duration,
        "scheduler_pod_scheduling_sli_duration_seconds": telemetry.pod_scheduling_sli_duration,
        "scheduler_pod_scheduling_attempts": telemetry.pod_scheduling_attempts,
    }
    histogram = histograms[family]
    (histogram.labels(*labels) if labels else histogram).observe(1)

    [metric] = [metric for metric in telemetry.registry.collect() if metric.name == family]
    limits = [float(sample.labels["le"]) for sample in metric.samples if sample.name.endswith("_bucket")]

    assert (limits[0], limits[-2]) == pytest.approx(bounds)


def test_a_lock_that_is_given_counts_once() -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret

    telemetry.changed(change(Event.ADMIT, Phase.ACTIVE))

    assert value(telemetry, "tidelock_locks_total") == 1
    assert value(telemetry, "tidelock_reservation_transitions_total", event="admit", phase="Active") == 1


@pytest.mark.parametrize(
    ("event", "phase"),
    [(Event.CLAIM, Phase.BOUND), (Event.LOSE_NODE, Phase.LOST), (Event.DISPLACE, Phase.PENDING)],
)
def test_a_release_counts_by_its_cause(event: Event, phase: Phase) -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret

    telemetry.changed(change(event, phase))

    assert value(telemetry, "tidelock_releases_total", cause=event.value) == 1


def test_expiry_lag_is_the_time_since_the_lock_was_due() -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret

    telemetry.changed(change(Event.EXPIRE, Phase.EXPIRED, at=10.25, due=10.0))

    assert value(telemetry, "tidelock_expiry_lag_seconds_sum") == pytest.approx(0.25)
    assert value(telemetry, "tidelock_releases_total", cause="expire") == 1


@pytest.mark.parametrize(("event", "policy"), [(Event.VIOLATE, "Keep"), (Event.DISPLACE, "Move")])
def test_a_violation_counts_by_what_the_lock_did(event: Event, policy: str) -> None:
    telemetry = Telemetry(lambda: 0.0, Random(1))  # noqa: S311 -- no secret
    violated = change(event, Phase.ACTIVE)
    telemetry.changed(violated)
    telemetry.changed(replace(violated, reason="Violated"))

    assert value(telemetry, "tidelock_reservation_violations_total", policy=policy) == 1
