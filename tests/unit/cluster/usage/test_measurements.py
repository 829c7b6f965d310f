from collections.abc import Iterator
from unittest.mock import patch

from builders import NOW, pod_use, usage
from tidelock.cluster.usage import measurements
from tidelock.cluster.usage.levels import NEVER
from tidelock.cluster.usage.measurements import Measurements, at_once
from tidelock.model.usage_annotations import MeasuredUses, WorkloadKey


class Counting:
    def __init__(self) -> None:
        self.slices = 0

    def remeasure(self) -> Iterator[None]:
        for _ in range(3):
            self.slices += 1
            yield


def test_all_readers_take_over_a_reading_in_slices() -> None:
    readings, reader = Measurements(), Counting()
    readings.read_by(reader)
    uses = MeasuredUses({f"uid-{number}": pod_use(1, at=NOW - number) for number in range(5)}, {})
    assert readings.at == NEVER
    with patch.object(measurements, "_SLICE", 2):
        steps = iter(readings.take(uses))
        next(steps)
        assert (readings.uses, reader.slices) == (uses, 1)
        at_once(steps)
    assert reader.slices == 3
    assert readings.at == NOW


def test_workload_history_does_not_set_the_reading_time_which_never_goes_back() -> None:
    readings = Measurements()
    history = {WorkloadKey("Job", "shop", "sums"): usage(1, at=NOW)}
    at_once(readings.take(MeasuredUses({}, history)))
    assert readings.at == NEVER
    at_once(readings.take(MeasuredUses({"uid-a": pod_use(1, at=NOW - 5)}, history)))
    at_once(readings.take(MeasuredUses({}, {})))
    assert readings.at == NOW - 5
