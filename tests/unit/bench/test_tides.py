"""The benchmark of tides."""

import numpy as np
import pytest

from bench.tides import LEVELS, LOW, Week, report, simulate_level, within_tide, world_of_week
from tidelock.simulation.world import STEP


def test_the_tide_is_in_force_from_ten_in_the_evening_to_six() -> None:
    night = within_tide(48 * 12)

    assert night.sum() * STEP == 2 * 8 * 3600
    assert np.flatnonzero(np.diff(night.astype(int)) > 0).tolist() == [14 * 12 - 1, 38 * 12 - 1]  # from 8:00


def test_a_tide_does_more_night_work_than_its_limit_by_day(capsys: pytest.CaptureFixture[str]) -> None:
    world = world_of_week(0, days=1, nodes=2)
    low, tide = (simulate_level(world, name, 0) for name in (f"{LOW} % always", "tide"))

    assert len(tide.hourly) == 24
    assert tide.hourly[:14] == low.hourly[:14]  # until the tide begins
    assert tide.done > low.done
    assert tide.wait < low.wait
    report([Week(0, world.pods, dict.fromkeys(LEVELS, tide))])
    printed = capsys.readouterr().out
    assert all(name in printed for name in LEVELS)
