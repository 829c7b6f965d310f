"""The default staleness of measurements against the default period of readings and the lag of Prometheus."""

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from tidelock.kube.client import NODES
from tidelock.load.annotator import Annotated, Annotator
from tidelock.load.loop import REWRITE_PART
from tidelock.load.metrics import LoadMetrics
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.usage_annotations import NodeLevel, Stat
from tidelock.simulation.measuring import SLOW_METRICS
from unit.load.patches import PatchApi

NOW = 1_800_000_000.0
LOOKBACK = 300.0
"""Seconds: an instant query of Prometheus answers with samples that are up to this old
(--query.lookback-delta)."""

SPEC = WaterLevelSpec.model_validate({"source": {"metricsServer": {}}})


async def ages(staleness: float) -> AsyncIterator[float]:
    """Yield how old the written level of a node is just before each reading, of which every second is missed.

    The level never changes, so it is only written again because of its age.
    """
    annotator = Annotator(PatchApi(), LoadMetrics(CollectorRegistry(), lambda: NOW), busy=lambda: False)
    written = -1.0
    for number in range(500):
        now = NOW + number * SPEC.refresh_seconds
        if written > 0:
            yield now - written
        if number % 2:
            continue
        level = NodeLevel(now - LOOKBACK, {"15m": {"cpu": Stat(40, 40, 40)}})
        if annotator.is_worth_a_write(NODES, "uid", level, staleness * REWRITE_PART):
            await annotator.write([Annotated(NODES, "node-a", "", "uid", level)])
            written = level.at


async def test_the_default_staleness_covers_the_default_period_and_the_lag() -> None:
    oldest = max([age async for age in ages(SPEC.staleness_seconds)])
    assert LOOKBACK < oldest <= SPEC.staleness_seconds


async def test_a_staleness_below_the_lag_leaves_no_measurement_fresh() -> None:
    assert min([age async for age in ages(180)]) > 180


@pytest.mark.parametrize("staleness", [450, 590])
async def test_a_level_is_stale_at_times_with_less_than_twice_the_lag(staleness: float) -> None:
    assert max([age async for age in ages(staleness)]) > staleness


def test_slow_metrics_of_the_simulator_have_this_lag() -> None:
    assert SLOW_METRICS.lag == LOOKBACK
